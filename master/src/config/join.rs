//! `--join URL`: the cluster that a new master asks to take it in. Must not know how it is asked.
//! Next: `flags.rs`.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::address::{Address, InvalidAddress};

/// A cluster by one of its masters, and who asks.
#[derive(Clone, PartialEq, Eq)]
pub struct Join {
    /// Public address of any master of the cluster.
    pub address: Address,
    /// Name and secret, when the cluster asks for them.
    pub credential: Option<(String, String)>,
}

/// Why a text is no [`Join`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidJoin {
    /// The address of a master does not parse.
    #[error("expected [http://][principal:secret@]host:port, {0}")]
    Address(InvalidAddress),
    /// What stands before the address is not `principal:secret`.
    #[error("expected principal:secret before the '@'")]
    Credential,
    /// Another scheme, or a path.
    #[error("expected http://host:port without a path")]
    Url,
}

impl FromStr for Join {
    type Err = InvalidJoin;

    fn from_str(text: &str) -> Result<Self, InvalidJoin> {
        let rest = text.strip_prefix("http://").unwrap_or(text);
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.contains('/') {
            return Err(InvalidJoin::Url);
        }
        let (credential, address) = match rest.rsplit_once('@') {
            None => (None, rest),
            Some((credential, address)) => {
                let (principal, secret) =
                    credential.split_once(':').ok_or(InvalidJoin::Credential)?;
                if principal.is_empty() {
                    return Err(InvalidJoin::Credential);
                }
                (Some((principal.to_owned(), secret.to_owned())), address)
            }
        };
        let address = address.parse().map_err(InvalidJoin::Address)?;
        Ok(Self { address, credential })
    }
}

impl fmt::Display for Join {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}", self.address)
    }
}

/// A secret must not reach a log.
impl fmt::Debug for Join {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credential(principal: &str, secret: &str) -> Option<(String, String)> {
        Some((principal.to_owned(), secret.to_owned()))
    }

    #[test]
    fn clusters_and_who_asks() {
        for (text, address, asks) in [
            ("http://10.0.0.1:5050", "10.0.0.1:5050", None),
            ("m1.example:5050/", "m1.example:5050", None),
            ("http://ops:s3:c@m1:5050", "m1:5050", credential("ops", "s3:c")),
        ] {
            let join: Join = text.parse().unwrap();
            assert_eq!((join.address.to_string().as_str(), &join.credential), (address, &asks));
            assert_eq!(format!("{join:?}"), format!("http://{address}"));
        }
    }

    #[test]
    fn texts_that_are_none() {
        for (text, expected) in [
            ("", InvalidJoin::Address(InvalidAddress::NoPort)),
            ("m1", InvalidJoin::Address(InvalidAddress::NoPort)),
            ("https://m1:5050", InvalidJoin::Url),
            ("http://m1:5050/master", InvalidJoin::Url),
            ("ops@m1:5050", InvalidJoin::Credential),
            (":x@m1:5050", InvalidJoin::Credential),
        ] {
            assert_eq!(text.parse::<Join>(), Err(expected), "{text}");
        }
    }
}
