//! Who the members are, by flag: the initial ones of a new cluster, or the cluster to be added
//! to. Must not know how a member is reached. Next: `dormant.rs`.

use resources::id::MasterId;

use super::{Address, ConfigError, Flags, InvalidAddress, Join, Peers};

impl Flags {
    /// The initial members with this master among them, or the cluster to join.
    pub(super) fn members(&self, id: MasterId) -> Result<(Peers, Option<Join>), ConfigError> {
        match (&self.peers, &self.join) {
            (None, None) => Err(ConfigError::NoPeers),
            (Some(_), Some(_)) => Err(ConfigError::PeersAndJoin),
            (None, Some(join)) => {
                Ok((Peers::new(), Some(join.parse().map_err(ConfigError::Join)?)))
            }
            (Some(text), None) => {
                let peers = peers(text)?;
                if peers.contains_key(&id) {
                    return Ok((peers, None));
                }
                let found: Vec<String> = peers.keys().map(ToString::to_string).collect();
                Err(ConfigError::OwnId { id, found: found.join(", ") })
            }
        }
    }
}

fn peers(text: &str) -> Result<Peers, ConfigError> {
    let mut peers = Peers::new();
    for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let fail = |reason: String| ConfigError::Peer { entry: entry.to_owned(), reason };
        let (id, at) = entry.split_once('=').ok_or_else(|| fail("found no '='".to_owned()))?;
        let id = match id.trim().parse::<u64>() {
            Ok(id) if id > 0 => MasterId(id),
            _ => return Err(fail("the id is a whole number from 1".to_owned())),
        };
        let at: Address = at.trim().parse().map_err(|e: InvalidAddress| fail(e.to_string()))?;
        if at.is_wildcard() {
            return Err(fail("the address must be one that the peers can reach".to_owned()));
        }
        if peers.insert(id, at).is_some() {
            return Err(fail(format!("the id {id} stands there twice")));
        }
    }
    if peers.is_empty() { Err(ConfigError::NoPeers) } else { Ok(peers) }
}
