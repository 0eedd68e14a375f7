//! Short forms for messages: whatever a caller sends, an answer quotes little of it, and no
//! control character. Logs and errors use it; stored values are never cut. Public, so that the
//! edges quote in the same way.

use std::fmt::{self, Write};

use crate::resource::Resource;

/// A text with more characters is cut in messages.
const TEXT_CHARS_MAX: usize = 64;
/// The text of a resource with more characters is cut in messages.
const RESOURCE_CHARS_MAX: usize = 400;

/// A text that came from outside: an id, a role, a path.
pub fn text(text: &str) -> impl fmt::Display {
    let bytes = (text.chars().count() > TEXT_CHARS_MAX).then_some(text.len());
    Brief { what: text, chars_max: TEXT_CHARS_MAX, bytes }
}

/// A resource: its labels alone may have 256 KiB.
pub fn resource(resource: &Resource) -> impl fmt::Display {
    Brief { what: resource, chars_max: RESOURCE_CHARS_MAX, bytes: None }
}

/// A number of the wire: `1e300` instead of 301 digits.
pub fn number(number: f64) -> impl fmt::Display {
    Number(number)
}

struct Brief<T> {
    what: T,
    chars_max: usize,
    /// How long all of it is, when it is known that it will be cut.
    bytes: Option<usize>,
}

impl<T: fmt::Display> fmt::Display for Brief<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cutter = Cutter { inner: f, left: self.chars_max, is_cut: false };
        write!(cutter, "{}", self.what)?;
        if cutter.is_cut {
            f.write_str("…")?;
        }
        self.bytes.map_or(Ok(()), |bytes| write!(f, " ({bytes} bytes)"))
    }
}

/// Passes on so many characters, and swallows the rest.
struct Cutter<'a, 'b> {
    inner: &'a mut fmt::Formatter<'b>,
    left: usize,
    is_cut: bool,
}

impl fmt::Write for Cutter<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            if self.left == 0 {
                self.is_cut = true;
                return Ok(());
            }
            self.left -= 1;
            if character.is_control() {
                write!(self.inner, "{}", character.escape_debug())?;
            } else {
                self.inner.write_char(character)?;
            }
        }
        Ok(())
    }
}

struct Number(f64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.0.abs();
        if size == 0.0 || !size.is_finite() || (1e-4..1e15).contains(&size) {
            return write!(f, "{}", self.0);
        }
        write!(f, "{:e}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{Scalar, Value};

    #[test]
    fn numbers() {
        #[track_caller]
        fn check(value: f64, expected: &str) {
            assert_eq!(number(value).to_string(), expected);
        }
        check(1e300, "1e300");
        check(-1e300, "-1e300");
        check(5e-324, "5e-324");
        check(0.0004, "0.0004");
        check(-2.5, "-2.5");
        check(0.0, "0");
        check(f64::NAN, "NaN");
        check(f64::NEG_INFINITY, "-inf");
    }

    #[test]
    fn texts() {
        assert_eq!(text("eng/web").to_string(), "eng/web");
        assert_eq!(text("a\0b\n").to_string(), "a\\0b\\n");
        let long = "é".repeat(200);
        assert_eq!(text(&long).to_string(), format!("{}… (400 bytes)", "é".repeat(64)));
    }

    #[test]
    fn resources() {
        let amount = Value::Scalar(Scalar::from_milli(1500));
        assert_eq!(resource(&Resource::plain("cpus", amount.clone())).to_string(), "cpus:1.5");
        let long = resource(&Resource::plain("x".repeat(9_999), amount)).to_string();
        assert_eq!(long, format!("{}…", "x".repeat(400)));
    }
}
