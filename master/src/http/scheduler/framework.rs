//! What a framework says of itself when it subscribes or changes: the rules of spec §4.2 and
//! who may have which role. Whether the id is known and whose it is the leader knows.
//! Next: `subscribe.rs`.

use prost::Message as _;
use proto::convert;
use proto::mesos::v1;
use proto::mesos::v1::scheduler::OfferConstraints;
use resources::framework_rules::{self, InvalidFramework};
use resources::id::Principal;

use super::super::App;
use crate::leader::constraints::offer_constraints;
use crate::state::command::Subscription;

/// What SUBSCRIBE and UPDATE_FRAMEWORK carry alike.
pub(super) struct Described {
    pub(super) info: v1::FrameworkInfo,
    pub(super) suppressed_roles: Vec<String>,
    pub(super) offer_constraints: Option<OfferConstraints>,
}

/// Whether what the framework leaves unset is taken from its authentication.
pub(super) enum Fill<'a> {
    Principal(Option<&'a Principal>),
    Nothing,
}

/// The subscription of the domain, or the first rule that is broken, as a sentence.
pub(super) fn subscription(
    app: &App,
    described: Described,
    fill: &Fill<'_>,
) -> Result<Subscription, String> {
    let authenticated = match fill {
        Fill::Principal(principal) => *principal,
        Fill::Nothing => None,
    };
    let text = |error: InvalidFramework| error.to_string();
    let info = convert::framework::from_wire(described.info, authenticated).map_err(text)?;
    let suppressed =
        framework_rules::suppressed(&described.suppressed_roles, &info.roles).map_err(text)?;
    let constraints = match described.offer_constraints {
        None => Vec::new(),
        Some(constraints) => {
            for role in constraints.role_constraints.keys() {
                framework_rules::own_role(role, &info.roles, InvalidFramework::ConstrainedRole)
                    .map_err(text)?;
            }
            constraints.encode_to_vec()
        }
    };
    let constraints = constraints.into();
    offer_constraints(&constraints)?;
    framework_rules::whitelisted(&info.roles, app.config.whitelist.as_ref()).map_err(text)?;
    if !app.config.admits_root && info.user == "root" {
        return Err(InvalidFramework::Root.to_string());
    }
    Ok(Subscription { info, suppressed, constraints })
}

/// Whether the framework may have its roles.
pub(super) fn permitted(
    app: &App,
    subscription: &Subscription,
) -> Result<(), crate::auth::Forbidden> {
    let info = &subscription.info;
    app.config.authorizer.framework(info.principal.as_ref(), &info.roles)
}
