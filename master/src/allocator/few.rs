//! A map for the few frameworks that have something of one agent: a sorted list, one block of
//! memory. Must not know what it holds. Next: `agent.rs`.

use super::drf::NodeId;

/// Values per framework and role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Few<T>(Vec<(NodeId, T)>);

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Few<T> {
    pub(super) fn get(&self, client: NodeId) -> Option<&T> {
        let at = self.find(client).ok()?;
        Some(&self.0[at].1)
    }
    pub(super) fn get_mut(&mut self, client: NodeId) -> Option<&mut T> {
        let at = self.find(client).ok()?;
        Some(&mut self.0[at].1)
    }
    /// The value, `value` when there was none; says whether there was none.
    pub(super) fn get_or_insert(&mut self, client: NodeId, value: T) -> (&mut T, bool) {
        match self.find(client) {
            Ok(at) => (&mut self.0[at].1, false),
            Err(at) => {
                self.0.insert(at, (client, value));
                (&mut self.0[at].1, true)
            }
        }
    }
    pub(super) fn remove(&mut self, client: NodeId) {
        if let Ok(at) = self.find(client) {
            self.0.remove(at);
        }
    }
    pub(super) fn iter(&self) -> impl Iterator<Item = (NodeId, &T)> {
        self.0.iter().map(|(client, value)| (*client, value))
    }
    fn find(&self, client: NodeId) -> Result<usize, usize> {
        self.0.binary_search_by_key(&client, |(client, _)| *client)
    }
}
