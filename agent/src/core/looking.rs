//! Volumes that are not where they were made, or are back there. The master hears of it by a new
//! registration, which names what is unavailable. Next: `core/parting.rs`.

use resources::resource::Resource;

use super::event::{Action, Look, Pause, Unavailable, VolumeRecord};
use super::{Core, Session};

impl Core {
    /// Volumes with what they are known by.
    pub(crate) fn made_volumes(&self) -> Vec<(Resource, VolumeRecord)> {
        let made = self.volumes.iter().filter_map(|(key, record)| {
            let volume = self.total.find_volume(&key.role, &key.id)?;
            Some((volume.clone(), *record))
        });
        made.collect()
    }

    /// Takes note of what there is of volumes. One that was destroyed or made since the look is
    /// another; while a batch is in hand nothing is where it will be.
    pub(super) fn looked(&mut self, looks: Vec<Look>, actions: &mut Vec<Action>) {
        if self.hand.is_some() {
            return;
        }
        let mut has_moved = false;
        for Look { key, record, wrong } in looks {
            if self.volumes.get(&key) != Some(&record) {
                continue;
            }
            let Some(volume) = self.total.find_volume(&key.role, &key.id).cloned() else {
                continue;
            };
            let was = match wrong {
                Some(reason) => self.unavailable.insert(key, Unavailable { volume, reason }),
                None if self.unavailable.remove(&key).is_none() => continue,
                None => None,
            };
            has_moved |= was.is_none();
        }
        if has_moved && matches!(self.session, Session::Registered(_)) {
            let reason = "the master is to hear which volumes are unavailable".to_owned();
            self.close(reason, Pause::Short, actions);
        }
    }
}
