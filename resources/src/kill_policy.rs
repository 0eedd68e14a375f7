//! How long a task may take to end by itself, as its framework said: the one thing in a
//! `mesos.v1.TaskInfo` that whoever hands it on has to know. Next: `operation.rs`.

use std::time::Duration;

use crate::opaque::Opaque;

/// `TaskInfo.kill_policy.grace_period.nanoseconds`.
const PATH: [u64; 3] = [12, 1, 1];

/// The grace period of a task's own kill policy. None when there is none, or when these bytes
/// are no such message.
#[must_use]
pub fn grace_period(info: &Opaque) -> Option<Duration> {
    let [policy, grace, nanoseconds] = PATH;
    let policy = last(info.as_bytes(), policy)?.message()?;
    let grace = last(policy, grace)?.message()?;
    let nanoseconds = last(grace, nanoseconds)?.number()?;
    // Negative ones are large here, and mean at once.
    Some(i64::try_from(nanoseconds).map_or(Duration::ZERO, |_| Duration::from_nanos(nanoseconds)))
}

/// The value of a field.
#[derive(Clone, Copy)]
enum Field<'a> {
    Number(u64),
    Message(&'a [u8]),
    Other,
}

impl<'a> Field<'a> {
    const fn number(self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(number),
            Self::Message(_) | Self::Other => None,
        }
    }
    const fn message(self) -> Option<&'a [u8]> {
        match self {
            Self::Message(bytes) => Some(bytes),
            Self::Number(_) | Self::Other => None,
        }
    }
}

/// The field of this number that counts: the last one.
fn last(mut bytes: &[u8], wanted: u64) -> Option<Field<'_>> {
    let mut found = None;
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let field = match tag & 7 {
            0 => Field::Number(varint(&mut bytes)?),
            1 => Field::Other.after(&mut bytes, 8)?,
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).ok()?;
                let (message, rest) = bytes.split_at_checked(length)?;
                bytes = rest;
                Field::Message(message)
            }
            5 => Field::Other.after(&mut bytes, 4)?,
            _ => return None,
        };
        if tag >> 3 == wanted {
            found = Some(field);
        }
    }
    found
}

impl Field<'_> {
    fn after(self, bytes: &mut &[u8], length: usize) -> Option<Self> {
        *bytes = bytes.split_at_checked(length)?.1;
        Some(self)
    }
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grace(bytes: &[u8]) -> Option<Duration> {
        grace_period(&bytes.to_vec().into())
    }

    #[test]
    fn the_grace_period_is_found_among_other_fields() {
        // name "t", kill_policy { grace_period { nanoseconds: 5000000000 } }, a fixed64.
        let five = [0x08, 0x80, 0xe4, 0x97, 0xd0, 0x12];
        let mut bytes = vec![0x0a, 1, b't', 0x62, 8, 0x0a, 6];
        bytes.extend(five);
        bytes.extend([0x79, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(grace(&bytes), Some(Duration::from_secs(5)));
        // The last one counts.
        bytes.extend([0x62, 4, 0x0a, 2, 0x08, 7]);
        assert_eq!(grace(&bytes), Some(Duration::from_nanos(7)));
    }

    #[test]
    fn a_negative_one_is_none_left() {
        let minus_one = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        let mut bytes = vec![0x62, 13, 0x0a, 11, 0x08];
        bytes.extend(minus_one);
        assert_eq!(grace(&bytes), Some(Duration::ZERO));
    }

    #[test]
    fn what_is_no_such_message_has_none() {
        for bytes in [
            &b""[..],
            b"wire",
            &[0x62],
            &[0x62, 9, 0x0a],
            &[0x62, 0],
            &[0x60, 1],
            &[0xff; 11],
            &[0x62, 3, 0x0d, 1, 2],
        ] {
            assert_eq!(grace(bytes), None, "{bytes:?}");
        }
    }
}
