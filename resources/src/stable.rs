//! Names that outlive a restart, a failover and a new version: of a reservation and of a volume
//! on an agent. A reservation has no id on the wire; what Mesos merges is one reservation, so
//! its name is a hash of the agent and the reservation stack, and amounts add up under it
//! (`Resources::by_reservation`).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::brief;
use crate::digest::fnv;
use crate::encode::Encoder;
use crate::id::{AgentId, InvalidId, VolumeId};
use crate::resource::{Reservation, Resource};
use crate::role::{InvalidRole, Role};

/// What the text of every reservation id begins with.
const PREFIX: &str = "rsv-";
/// Digits of a reservation id: of 10^9 reservations no two share 96 bits by chance.
const DIGITS: usize = 24;
/// The layout that is hashed; another one would be another number.
const LAYOUT: u8 = 1;

/// Name of a reservation on an agent: `rsv-` and 24 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ReservationId(String);

/// Why a text is no name of a reservation.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{}' is no reservation id such as {PREFIX}0123456789abcdef01234567", brief::text(.0))]
pub struct InvalidReservationId(pub String);

impl ReservationId {
    /// Checks the form: whether such a reservation exists is for the state.
    ///
    /// # Errors
    /// On any other text.
    pub fn parse(text: impl Into<String>) -> Result<Self, InvalidReservationId> {
        let text: String = text.into();
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let digits = text.strip_prefix(PREFIX);
        if digits.is_some_and(|hex| hex.len() == DIGITS && hex.bytes().all(is_digit)) {
            return Ok(Self(text));
        }
        Err(InvalidReservationId(text))
    }
    /// The text of the id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The name of the reservation that this stack is on this agent: the same for every resource
/// under it, whatever its name and amount. Labels have no order. An empty stack is what nobody
/// reserved, and has a name too.
#[must_use]
pub fn reservation_id(agent_id: &AgentId, stack: &[Reservation]) -> ReservationId {
    let mut encoder = Encoder::new();
    encoder.byte(LAYOUT);
    encoder.text(agent_id.as_str());
    encoder.reservations(stack);
    let hash = fnv(encoder.finish());
    // The upper bits of this hash depend on few of the bytes: they are folded in, not cut off.
    let short = (hash ^ (hash >> 96)) & ((1 << 96) - 1);
    ReservationId(format!("{PREFIX}{short:0DIGITS$x}"))
}

impl fmt::Display for ReservationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ReservationId {
    type Err = InvalidReservationId;
    fn from_str(text: &str) -> Result<Self, InvalidReservationId> {
        Self::parse(text)
    }
}

impl TryFrom<String> for ReservationId {
    type Error = InvalidReservationId;
    fn try_from(text: String) -> Result<Self, InvalidReservationId> {
        Self::parse(text)
    }
}

impl From<ReservationId> for String {
    fn from(id: ReservationId) -> String {
        id.0
    }
}

/// Name of a volume: an id is unique per reservation role on each agent. As text
/// `<agent>/<role>/<id>`; neither the agent nor the id holds a `/`, the role may.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct VolumeKey {
    /// Where it is.
    pub agent_id: AgentId,
    /// Whose it is: the role of the top reservation.
    pub role: Role,
    /// Its own id.
    pub volume_id: VolumeId,
}

/// Why a text is no name of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidVolumeKey {
    /// Not three parts.
    #[error("'{}' is no volume such as <agent>/<role>/<id>", brief::text(.0))]
    Parts(String),
    /// The agent or the volume has no valid id.
    #[error(transparent)]
    Id(#[from] InvalidId),
    /// The role is none.
    #[error(transparent)]
    Role(#[from] InvalidRole),
}

impl VolumeKey {
    /// The name of this resource, when it is a volume.
    #[must_use]
    pub fn of(agent_id: &AgentId, volume: &Resource) -> Option<Self> {
        let (role, volume_id) = volume.reservation_role().zip(volume.volume_id())?;
        Some(Self { agent_id: agent_id.clone(), role: role.clone(), volume_id: volume_id.clone() })
    }
}

impl fmt::Display for VolumeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.agent_id, self.role, self.volume_id)
    }
}

impl FromStr for VolumeKey {
    type Err = InvalidVolumeKey;
    fn from_str(text: &str) -> Result<Self, InvalidVolumeKey> {
        let parts = text.split_once('/').and_then(|(agent_id, rest)| {
            let (role, volume_id) = rest.rsplit_once('/')?;
            Some((agent_id, role, volume_id))
        });
        let (agent_id, role, volume_id) =
            parts.ok_or_else(|| InvalidVolumeKey::Parts(text.to_owned()))?;
        Ok(Self { agent_id: agent_id.parse()?, role: role.parse()?, volume_id: volume_id.parse()? })
    }
}

impl TryFrom<String> for VolumeKey {
    type Error = InvalidVolumeKey;
    fn try_from(text: String) -> Result<Self, InvalidVolumeKey> {
        text.parse()
    }
}

impl From<VolumeKey> for String {
    fn from(key: VolumeKey) -> String {
        key.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Principal;
    use crate::resource::{Label, ReservationKind};

    fn reservation(kind: ReservationKind, role: &str, labels: &[(&str, &str)]) -> Reservation {
        let label = |&(key, value): &(&str, &str)| Label {
            key: key.to_owned(),
            value: Some(value.to_owned()),
        };
        Reservation {
            kind,
            role: Role::parse(role).unwrap(),
            principal: (kind == ReservationKind::Dynamic).then(|| Principal::new("ops")),
            labels: labels.iter().map(label).collect::<Vec<_>>().into(),
        }
    }

    /// Names that users have written down: none of these may ever change.
    #[test]
    fn names_of_reservations_are_for_ever() {
        #[track_caller]
        fn check(agent: &str, stack: &[Reservation], expected: &str) {
            let id = reservation_id(&AgentId::parse(agent).unwrap(), stack);
            assert_eq!(id.as_str(), expected);
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        use ReservationKind::{Dynamic, Static};
        let ads = reservation(Dynamic, "ads", &[]);
        check("c-S1", &[], "rsv-904ff78c0ec06d0c8bf3cb48");
        check("c-S1", std::slice::from_ref(&ads), "rsv-db100035a12bd335b6de9cdd");
        check("c-S2", &[ads], "rsv-aa9ea49426228280eabbc387");
        let eng = reservation(Static, "eng", &[]);
        let labels = [("rack", "r1"), ("job", "j")];
        let web = reservation(Dynamic, "eng/web", &labels);
        check("c-S1", &[eng.clone(), web.clone()], "rsv-c3fd54116fccea86cf8a7d06");
        let swapped = reservation(Dynamic, "eng/web", &[labels[1], labels[0]]);
        check("c-S1", &[eng, swapped], "rsv-c3fd54116fccea86cf8a7d06");
    }

    #[test]
    fn names_of_volumes_read_back() {
        for text in ["c-S1/ads/v1", "c-S1/eng/db/eu/v 1", "c-S0/*/v"] {
            let key: VolumeKey = text.parse().unwrap();
            assert_eq!(key.to_string(), text);
            let json = serde_json::to_string(&key).unwrap();
            assert_eq!(serde_json::from_str::<VolumeKey>(&json).unwrap(), key);
        }
        for text in ["", "c-S1", "c-S1/v1", "c-S1//v1", "/ads/v1", "c-S1/ads/", "c-S1/ads/.."] {
            assert!(text.parse::<VolumeKey>().is_err(), "{text}");
        }
        for text in
            ["", "rsv-", "rsv-0123", "RSV-0123456789abcdef01234567", "rsv-0123456789ABCDEF01234567"]
        {
            assert!(text.parse::<ReservationId>().is_err(), "{text}");
        }
    }
}
