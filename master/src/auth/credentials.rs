//! Mesos' credential file, `{"credentials":[{"principal":"p","secret":"s"}]}`. Secrets are kept
//! as digests, so that neither a debug print nor the time of a comparison tells about them.
//! Next: `authn.rs`.

use std::collections::BTreeMap;
use std::fmt;

use resources::id::Principal;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use thiserror::Error;

/// Known principals with the digests of their secrets.
#[derive(Clone, Default)]
pub struct Credentials(BTreeMap<Principal, [u8; 32]>);

/// Why a text is no credential file.
#[derive(Debug, Error)]
pub enum InvalidCredentials {
    /// Not JSON, or not of this shape.
    #[error("expected {{\"credentials\":[{{\"principal\":\"…\",\"secret\":\"…\"}}]}}, {0}")]
    Shape(#[source] serde_json::Error),
    /// A principal is the empty string.
    #[error("expected a principal that is not empty in entry {0}")]
    EmptyPrincipal(usize),
}

#[derive(Deserialize)]
struct File {
    credentials: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    principal: String,
    secret: String,
}

impl Credentials {
    /// Reads Mesos' JSON form. Of two entries for a principal the later one holds, as in Mesos.
    ///
    /// # Errors
    /// Says where the text is not of that form; never quotes a secret.
    pub fn parse(text: &str) -> Result<Self, InvalidCredentials> {
        let file: File = serde_json::from_str(text).map_err(InvalidCredentials::Shape)?;
        let mut known = BTreeMap::new();
        for (at, entry) in file.credentials.into_iter().enumerate() {
            if entry.principal.is_empty() {
                return Err(InvalidCredentials::EmptyPrincipal(at));
            }
            known.insert(Principal::new(entry.principal), digest(&entry.secret));
        }
        Ok(Self(known))
    }

    /// Whether nobody is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The principal if the secret is its own. Takes the same time for a wrong secret as for an
    /// unknown principal.
    #[must_use]
    pub fn check(&self, principal: &str, secret: &str) -> Option<Principal> {
        let principal = Principal::new(principal);
        let presented = digest(secret);
        let stored = self.0.get(&principal);
        let is_equal: bool = presented.ct_eq(stored.unwrap_or(&[0; 32])).into();
        (is_equal && stored.is_some()).then_some(principal)
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

fn digest(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}
