//! Who is asking and what they may do: credentials, Basic authentication and the realms of spec
//! §9.1, access control lists of §9.2. Must not know any endpoint. Reading order:
//! `credentials.rs`, `authn.rs`, `action.rs`, `acls.rs`, `authz.rs`, `viewer.rs`.

mod acls;
mod action;
mod authn;
mod authz;
mod credentials;
mod viewer;

pub use acls::{Acls, InvalidAcls};
pub use action::{Action, ObjectKind};
pub use authn::{Authenticator, Realm, Required, Unauthenticated};
pub use authz::{Authorizer, Forbidden};
pub use credentials::{Credentials, InvalidCredentials};
pub use viewer::Viewer;
