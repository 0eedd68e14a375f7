//! Percent-decoding: paths, query strings, and the form bodies of the unversioned endpoints,
//! whose content type nobody checks (spec §6.1). Pure. Next: `legacy.rs`.

use std::collections::BTreeMap;

/// Why a query string or form body cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidForm {
    /// A percent sign without two hex digits behind it.
    #[error("malformed % escape in '{0}'")]
    Escape(String),
    /// The decoded bytes are no text.
    #[error("'{0}' is not UTF-8 after decoding")]
    Utf8(String),
}

/// Keys and values of a query string. Of two values for a key the later one holds, as in Mesos.
pub(crate) fn parse(text: &str) -> Result<BTreeMap<String, String>, InvalidForm> {
    let mut pairs = BTreeMap::new();
    for pair in text.split(['&', ';']).filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        pairs.insert(decode(key, Plus::Blank)?, decode(value, Plus::Blank)?);
    }
    Ok(pairs)
}

/// A path segment without its escapes.
pub(crate) fn decode_path(segment: &str) -> Option<String> {
    decode(segment, Plus::Plus).ok()
}

/// What `+` means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Plus {
    Blank,
    Plus,
}

fn decode(text: &str, plus: Plus) -> Result<String, InvalidForm> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' if plus == Plus::Blank => b' ',
            b'%' => hex(rest.next())
                .zip(hex(rest.next()))
                .map(|(high, low)| high << 4 | low)
                .ok_or_else(|| InvalidForm::Escape(shorten(text)))?,
            other => other,
        });
    }
    String::from_utf8(bytes).map_err(|_| InvalidForm::Utf8(shorten(text)))
}

fn hex(digit: Option<u8>) -> Option<u8> {
    match digit? {
        digit @ b'0'..=b'9' => Some(digit - b'0'),
        digit @ b'a'..=b'f' => Some(digit - b'a' + 10),
        digit @ b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// Enough of a text to find it again, for a message.
fn shorten(text: &str) -> String {
    const CHARACTERS_MAX: usize = 60;
    if text.chars().count() <= CHARACTERS_MAX {
        return text.to_owned();
    }
    text.chars().take(CHARACTERS_MAX).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn form_bodies() {
        let pairs = parse("slaveId=a-S0&resources=%5B%7B%22name%22%3A+%22cpus%22%7D%5D&x").unwrap();
        assert_eq!(pairs["slaveId"], "a-S0");
        assert_eq!(pairs["resources"], "[{\"name\": \"cpus\"}]");
        assert_eq!(pairs["x"], "");
        assert_eq!(parse("a=1&a=2&&").unwrap()["a"], "2");
        assert_eq!(parse("a=b=c%2B").unwrap()["a"], "b=c+");
        assert_eq!(parse("").unwrap().len(), 0);
        assert_eq!(parse("a=%c3%BC").unwrap()["a"], "ü");
        assert_eq!(parse("a=%g1"), Err(InvalidForm::Escape("%g1".into())));
        assert_eq!(parse("a=1%2"), Err(InvalidForm::Escape("1%2".into())));
        assert_eq!(parse("a=%ff"), Err(InvalidForm::Utf8("%ff".into())));
    }

    #[test]
    fn a_plus_in_a_path_is_a_plus() {
        assert_eq!(decode_path("a+b%20c").as_deref(), Some("a+b c"));
        assert_eq!(decode_path("a%"), None);
    }
}
