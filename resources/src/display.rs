//! Text of resources, one line each, in Mesos' form:
//! `disk(reservations: [(DYNAMIC,ads,ops)])[MOUNT:/m1,v1:data]:512`. Logs, error answers and
//! tables use it. Nothing parses it back. Next: `form.rs`.

use std::fmt;

use crate::resource::{
    Disk, DiskSource, DiskSourceKind, Label, Labels, Reservation, ReservationKind, Resource,
};

/// The sign of a revocable resource.
const REVOCABLE: &str = "{REV}";
/// The sign of a shared volume.
const SHARED: &str = "<SHARED>";

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if let Some(role) = &self.allocation_role {
            write!(f, "(allocated: {role})")?;
        }
        if !self.reservations.is_empty() {
            f.write_str("(reservations: [")?;
            separated(f, ",", &self.reservations)?;
            f.write_str("])")?;
        }
        if let Some(disk) = &self.disk {
            write!(f, "[{disk}]")?;
        }
        if self.revocable {
            f.write_str(REVOCABLE)?;
        }
        if self.shared {
            f.write_str(SHARED)?;
        }
        write!(f, ":{}", self.value)
    }
}

impl fmt::Display for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({},{}", self.kind, self.role)?;
        if let Some(principal) = &self.principal {
            write!(f, ",{principal}")?;
        }
        if !self.labels.is_empty() {
            write!(f, ",{}", self.labels)?;
        }
        f.write_str(")")
    }
}

impl fmt::Display for ReservationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Static => "STATIC",
            Self::Dynamic => "DYNAMIC",
        })
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        separated(f, ", ", self.as_slice())?;
        f.write_str("}")
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key)?;
        self.value.as_ref().map_or(Ok(()), |value| write!(f, ": {value}"))
    }
}

impl fmt::Display for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(source) = &self.source {
            write!(f, "{source}")?;
        }
        if let Some(persistence) = &self.persistence {
            let comma = if self.source.is_some() { "," } else { "" };
            write!(f, "{comma}{}", persistence.id)?;
        }
        self.volume.as_ref().map_or(Ok(()), |mount| write!(f, ":{}", mount.container_path))
    }
}

impl fmt::Display for DiskSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if self.id.is_some() || self.profile.is_some() {
            let [vendor, id, profile] =
                [&self.vendor, &self.id, &self.profile].map(|text| text.as_deref().unwrap_or(""));
            write!(f, "({vendor},{id},{profile})")?;
        }
        self.root.as_ref().map_or(Ok(()), |root| write!(f, ":{root}"))
    }
}

impl fmt::Display for DiskSourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Path => "PATH",
            Self::Mount => "MOUNT",
            Self::Block => "BLOCK",
            Self::Raw => "RAW",
        })
    }
}

fn separated<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    separator: &str,
    items: &[T],
) -> fmt::Result {
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            f.write_str(separator)?;
        }
        item.fmt(f)?;
    }
    Ok(())
}
