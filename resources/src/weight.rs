//! Weights of roles: how much more of the cluster a role is due than its neighbours (spec §8.2).
//! Kept in millionths and printed as given (decisions, part E). Must not know of shares.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::brief;

/// The most millionths that a weight can have: 2^53, up to which a double counts one by one.
const MILLIONTHS_MAX: u64 = 1 << 53;

/// A weight: more than nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Weight {
    millionths: u64,
    /// What was given, as the shortest decimal.
    given: String,
}

/// Why something is no weight.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidWeight {
    /// Not a number at all.
    #[error("weight '{}' is no number", brief::text(.0))]
    NotANumber(String),
    /// Zero, negative, no number, or too large.
    #[error("weight {0} must be at least 0.000001 and at most 9007199254.740992")]
    OutOfRange(String),
}

impl Weight {
    /// Rounds to the nearest millionth.
    ///
    /// # Errors
    /// For NaN, what is beyond the range, and what rounds to nothing.
    #[expect(
        clippy::float_arithmetic,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "the one place where a number of the wire becomes millionths; range checked"
    )]
    pub fn from_f64(value: f64) -> Result<Self, InvalidWeight> {
        let millionths = (value * 1_000_000.0).round();
        if (1.0..=MILLIONTHS_MAX as f64).contains(&millionths) {
            return Ok(Self { millionths: millionths as u64, given: value.to_string() });
        }
        Err(InvalidWeight::OutOfRange(brief::number(value).to_string()))
    }
    /// The weight in millionths.
    #[must_use]
    pub const fn millionths(&self) -> u64 {
        self.millionths
    }
    /// The number that was given.
    #[must_use]
    pub fn to_f64(&self) -> f64 {
        self.given.parse().unwrap_or_default()
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.given)
    }
}

impl FromStr for Weight {
    type Err = InvalidWeight;
    fn from_str(text: &str) -> Result<Self, InvalidWeight> {
        let value = text.parse().map_err(|_| InvalidWeight::NotANumber(text.to_owned()))?;
        Self::from_f64(value)
    }
}

impl TryFrom<String> for Weight {
    type Error = InvalidWeight;
    fn try_from(text: String) -> Result<Self, InvalidWeight> {
        text.parse()
    }
}

impl From<Weight> for String {
    fn from(weight: Weight) -> Self {
        weight.given
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn millionths_and_what_was_given() {
        #[track_caller]
        fn check(text: &str, expected: Option<(u64, &str)>) {
            let weight = text.parse::<Weight>().ok();
            let found = weight.as_ref().map(|weight| (weight.millionths(), weight.to_string()));
            assert_eq!(found, expected.map(|(millionths, text)| (millionths, text.to_owned())));
        }
        check("1", Some((1_000_000, "1")));
        check("2.50", Some((2_500_000, "2.5")));
        check("0.0000015", Some((2, "0.0000015")));
        check("9007199254.740992", Some((1 << 53, "9007199254.740992")));
        for none in ["0", "-2", "0.0000004", "NaN", "inf", "1e300", "two", ""] {
            check(none, None);
        }
        assert_eq!("3.2".parse::<Weight>().unwrap().to_f64().to_string(), "3.2");
    }
}
