//! `host:port`, the one form in which addresses come in by flag and go out to clients. Must not
//! know what listens there. Next: `flags.rs`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use thiserror::Error;

/// A host (name or IP) and a port other than zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    host: String,
    port: u16,
}

/// Why a text is no [`Address`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidAddress {
    /// There is no colon before a port.
    #[error("expected host:port")]
    NoPort,
    /// The part before the port is empty or holds a blank.
    #[error("expected a host name or an IP address before the port")]
    Host,
    /// The part after the colon is not a port.
    #[error("expected a port from 1 to 65535")]
    Port,
}

impl Address {
    /// The host, without the brackets of an IPv6 address.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }
    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
    /// Whether it means every interface: right for listening, useless for a client.
    #[must_use]
    pub fn is_wildcard(&self) -> bool {
        self.host.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified())
    }
    /// The same host with another port.
    #[must_use]
    pub fn with_port(&self, port: u16) -> Self {
        Self { host: self.host.clone(), port }
    }
    /// The IPv4 address of the host when it is written as one; names are not looked up.
    #[must_use]
    pub fn ipv4(&self) -> Option<Ipv4Addr> {
        if self.host == "localhost" { Some(Ipv4Addr::LOCALHOST) } else { self.host.parse().ok() }
    }
}

impl FromStr for Address {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        let (host, port) = text.rsplit_once(':').ok_or(InvalidAddress::NoPort)?;
        let port = port.parse().map_err(|_| InvalidAddress::Port)?;
        if port == 0 {
            return Err(InvalidAddress::Port);
        }
        let bracketed = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let is_clean = |host: &str| {
            !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || "[]/@".contains(c))
        };
        match bracketed {
            Some(inner) if inner.parse::<std::net::Ipv6Addr>().is_ok() => {
                Ok(Self { host: inner.to_owned(), port })
            }
            None if is_clean(host) && !host.contains(':') => {
                Ok(Self { host: host.to_owned(), port })
            }
            _ => Err(InvalidAddress::Host),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_addresses() {
        for text in ["127.0.0.1:5050", "master-1.example:1", "[::1]:65535", "localhost:80"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for (text, reason) in [
            ("", InvalidAddress::NoPort),
            ("host", InvalidAddress::NoPort),
            (":5050", InvalidAddress::Host),
            ("::1:5050", InvalidAddress::Host),
            ("a b:1", InvalidAddress::Host),
            ("http://x:1", InvalidAddress::Host),
            ("host:", InvalidAddress::Port),
            ("host:0", InvalidAddress::Port),
            ("host:65536", InvalidAddress::Port),
        ] {
            assert_eq!(text.parse::<Address>(), Err(reason), "{text}");
        }
        assert!("0.0.0.0:1".parse::<Address>().unwrap().is_wildcard());
        assert!("[::]:1".parse::<Address>().unwrap().is_wildcard());
        assert!(!"127.0.0.1:1".parse::<Address>().unwrap().is_wildcard());
    }
}
