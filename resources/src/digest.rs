//! A hash of a set of resources that master and agent compare at registration. Both compute
//! it from the same text, so an unequal hash means unequal sets. No defence against forgers.
//! `stable.rs` makes names of the same hash.

use std::fmt::{self, Write};

use crate::collection::Resources;
use crate::resource::{Resource, VolumeMode};

const OFFSET_BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

impl Resources {
    /// FNV-1a (128 bits) over the sorted texts of its entries, one a line.
    #[must_use]
    pub fn digest(&self) -> u128 {
        let mut lines: Vec<String> =
            self.entries().map(|(resource, count)| line(resource, count)).collect();
        lines.sort_unstable();
        fnv(lines.iter().flat_map(|line| line.bytes()))
    }
}

/// FNV-1a with 128 bits.
pub(crate) fn fnv(bytes: impl IntoIterator<Item = u8>) -> u128 {
    let step = |hash: u128, byte: u8| (hash ^ u128::from(byte)).wrapping_mul(PRIME);
    bytes.into_iter().fold(OFFSET_BASIS, step)
}

/// The text of the resource, with what that leaves out.
fn line(resource: &Resource, count: u64) -> String {
    let mut line = String::new();
    write_line(&mut line, resource, count).expect("a String takes every write");
    line
}

fn write_line(line: &mut String, resource: &Resource, count: u64) -> fmt::Result {
    write!(line, "{resource}<{count}>")?;
    if let Some(provider) = &resource.provider_id {
        write!(line, " provider={provider}")?;
    }
    let disk = resource.disk.as_ref();
    if let Some(principal) = disk.and_then(|d| d.persistence.as_ref()?.principal.as_ref()) {
        write!(line, " creator={principal}")?;
    }
    if disk.and_then(|d| d.volume.as_ref()).is_some_and(|mount| mount.mode == VolumeMode::Ro) {
        line.push_str(" ro");
    }
    if let Some(source) = resource.disk_source().filter(|s| !s.metadata.is_empty()) {
        write!(line, " metadata={}", source.metadata)?;
    }
    line.push('\n');
    Ok(())
}
