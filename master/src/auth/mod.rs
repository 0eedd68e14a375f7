//! Who is asking: credentials, Basic authentication and the realms of spec §9.1. Must not know
//! what the asker may do. Reading order: `credentials.rs`, `authn.rs`.

mod authn;
mod credentials;

pub use authn::{Authenticator, Realm, Required, Unauthenticated};
pub use credentials::{Credentials, InvalidCredentials};
