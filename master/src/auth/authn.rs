//! Basic authentication (spec §9.1). Where it is off the header is ignored and there is no
//! principal. Must not know any route. Next: `../http/route.rs`, which names the realms.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use resources::id::Principal;
use thiserror::Error;

use super::Credentials;

/// The protection space that an endpoint belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Realm {
    /// Reads.
    Readonly,
    /// Mutating endpoints and `/api/v1`.
    Readwrite,
    /// `/api/v1/scheduler`.
    Scheduler,
}

impl Realm {
    /// Its name in `WWW-Authenticate`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Readonly => "mesos-master-readonly",
            Self::Readwrite => "mesos-master-readwrite",
            Self::Scheduler => "mesos-master-scheduler",
        }
    }
}

/// Where credentials are asked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Required {
    /// On read-only endpoints.
    pub readonly: bool,
    /// On mutating endpoints.
    pub readwrite: bool,
    /// On the scheduler API.
    pub frameworks: bool,
    /// At the registration of agents.
    pub agents: bool,
}

impl Required {
    /// The flag that asked for the first of them; `all` when `--authenticate-http` did.
    pub(crate) fn first_flag(self, all: bool) -> Option<&'static str> {
        [
            (all, "authenticate-http"),
            (self.readonly, "authenticate-http-readonly"),
            (self.readwrite, "authenticate-http-readwrite"),
            (self.frameworks, "authenticate-http-frameworks"),
            (self.agents, "authenticate-agents"),
        ]
        .into_iter()
        .find_map(|(on, flag)| on.then_some(flag))
    }
}

/// The asker did not prove who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("missing or wrong credentials")]
pub struct Unauthenticated;

/// Decides who is asking.
#[derive(Debug, Clone, Default)]
pub struct Authenticator {
    credentials: Credentials,
    required: Required,
}

impl Authenticator {
    /// An authenticator over these credentials.
    #[must_use]
    pub fn new(credentials: Credentials, required: Required) -> Self {
        Self { credentials, required }
    }

    /// The principal of an HTTP request, none where authentication is off.
    ///
    /// # Errors
    /// When the realm asks for credentials and the header does not hold right ones.
    pub fn http(
        &self,
        realm: Realm,
        authorization: Option<&str>,
    ) -> Result<Option<Principal>, Unauthenticated> {
        let required = match realm {
            Realm::Readonly => self.required.readonly,
            Realm::Readwrite => self.required.readwrite,
            Realm::Scheduler => self.required.frameworks,
        };
        if required { self.check(authorization).map(Some) } else { Ok(None) }
    }

    /// The principal of an agent's session. An agent that presents a credential is
    /// authenticated whenever credentials are known; one that presents none is refused only
    /// where that is asked for.
    ///
    /// # Errors
    /// When the credential is wrong, or missing where it is asked for.
    pub fn agent(&self, authorization: Option<&str>) -> Result<Option<Principal>, Unauthenticated> {
        if self.credentials.is_empty() || authorization.is_none() {
            return if self.required.agents { Err(Unauthenticated) } else { Ok(None) };
        }
        self.check(authorization).map(Some)
    }

    fn check(&self, authorization: Option<&str>) -> Result<Principal, Unauthenticated> {
        let (principal, secret) = authorization.and_then(basic).ok_or(Unauthenticated)?;
        self.credentials.check(&principal, &secret).ok_or(Unauthenticated)
    }
}

/// Principal and secret of a Basic header. The text is split at its first colon, so that a
/// secret may hold one (RFC 7617; Mesos refuses it).
fn basic(header: &str) -> Option<(String, String)> {
    let (scheme, encoded) = header.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let text = String::from_utf8(BASE64_STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (principal, secret) = text.split_once(':')?;
    Some((principal.to_owned(), secret.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"{"credentials":[{"principal":"ops","secret":"a:b"},
        {"principal":"svc","secret":""}]}"#;

    fn header(text: &str) -> String {
        format!("Basic {}", BASE64_STANDARD.encode(text))
    }

    fn authenticator(required: bool) -> Authenticator {
        let required = Required {
            readonly: false,
            readwrite: required,
            frameworks: required,
            agents: required,
        };
        Authenticator::new(Credentials::parse(FILE).unwrap(), required)
    }

    #[test]
    fn basic_credentials() {
        let strict = authenticator(true);
        let ask = |header: Option<&str>| strict.http(Realm::Readwrite, header);
        let ops = Some(Principal::new("ops"));
        assert_eq!(ask(Some(&header("ops:a:b"))), Ok(ops.clone()));
        assert_eq!(ask(Some(&header("ops:a:b").replace("Basic", "basic"))), Ok(ops));
        assert_eq!(ask(Some(&header("svc:"))), Ok(Some(Principal::new("svc"))));
        for wrong in ["ops:a", "ops:", "ops", ":a:b", "", "nobody:a:b", "ops:a:b "] {
            assert_eq!(ask(Some(&header(wrong))), Err(Unauthenticated), "{wrong}");
        }
        for wrong in ["", "Basic", "Basic %%%", "Bearer b3BzOmE6Yg=="] {
            assert_eq!(ask(Some(wrong)), Err(Unauthenticated), "{wrong}");
        }
        assert_eq!(ask(None), Err(Unauthenticated));
        assert_eq!(strict.http(Realm::Readonly, Some("Basic nonsense")), Ok(None));
    }

    #[test]
    fn agents_present_credentials_or_not() {
        let right = header("svc:");
        let svc = Ok(Some(Principal::new("svc")));
        assert_eq!(authenticator(false).agent(None), Ok(None));
        assert_eq!(authenticator(false).agent(Some(&right)), svc);
        assert_eq!(authenticator(false).agent(Some(&header("svc:x"))), Err(Unauthenticated));
        assert_eq!(authenticator(true).agent(None), Err(Unauthenticated));
        assert_eq!(authenticator(true).agent(Some(&right)), svc);
        assert_eq!(Authenticator::default().agent(Some(&right)), Ok(None));
    }

    #[test]
    fn credential_files() {
        for wrong in ["", "ops s", "{}", r#"{"credentials":{}}"#, r#"{"credentials":[{}]}"#] {
            assert!(Credentials::parse(wrong).is_err(), "{wrong}");
        }
        assert!(Credentials::parse(r#"{"credentials":[{"principal":"","secret":"x"}]}"#).is_err());
        let shown = format!("{:?}", Credentials::parse(FILE).unwrap());
        assert!(shown.contains("ops") && !shown.contains("a:b"), "{shown}");
    }
}
