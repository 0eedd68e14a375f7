//! Values of resources: fixed-point scalars, ranges, sets (spec §1.3).
//! Must not know what a value is an amount of. Next: `resource.rs`.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

/// An amount in thousandths. All arithmetic is exact; `f64` exists only at the edges.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Scalar(i64);

impl Scalar {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// The most that a number of the wire or of a text may say: 2^53 thousandths, up to which a
    /// double counts one by one (R05).
    pub const MAX: Self = Self(1 << 53);

    /// An amount of `milli` thousandths.
    #[must_use]
    pub const fn from_milli(milli: i64) -> Self {
        Self(milli)
    }
    /// The amount in thousandths.
    #[must_use]
    pub const fn milli(self) -> i64 {
        self.0
    }
    /// Rounds to the nearest thousandth, half away from zero (decisions A11). `None` for NaN,
    /// the infinities and what is further from nothing than [`Self::MAX`].
    #[expect(
        clippy::float_arithmetic,
        clippy::cast_possible_truncation,
        reason = "the one place where a number of the wire becomes fixed point; range checked"
    )]
    #[must_use]
    pub fn from_f64(value: f64) -> Option<Self> {
        let milli = (value * 1000.0).round();
        (milli.abs() <= Self::MAX.0 as f64).then_some(Self(milli as i64))
    }
    /// The nearest double: what the wire carries.
    #[expect(
        clippy::float_arithmetic,
        reason = "the one place where fixed point becomes a number of the wire"
    )]
    #[must_use]
    pub fn to_f64(self) -> f64 {
        self.0 as f64 / 1000.0
    }
    /// The sum, `None` when it does not fit.
    #[must_use]
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }
    /// The difference, `None` when it does not fit.
    #[must_use]
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        self.0.checked_sub(other.0).map(Self)
    }
    /// The sum, or the nearest amount that fits.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
    /// The difference, or the nearest amount that fits.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
    /// Whether it is more than nothing.
    #[must_use]
    pub const fn is_positive(self) -> bool {
        self.0 > 0
    }
    /// Whether it has no fraction, as `gpus` must.
    #[must_use]
    pub const fn is_whole(self) -> bool {
        self.0 % 1000 == 0
    }
}

/// Shortest decimal: `3`, `0.5`, `3.457`.
impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milli = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        write!(f, "{}", milli / 1000)?;
        if milli.is_multiple_of(1000) {
            return Ok(());
        }
        let fraction = format!("{:03}", milli % 1000);
        write!(f, ".{}", fraction.trim_end_matches('0'))
    }
}

/// An inclusive interval, `begin ≤ end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Range {
    /// First number.
    pub begin: u64,
    /// Last number.
    pub end: u64,
}

/// Disjoint, coalesced intervals in ascending order.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "Vec<Range>", into = "Vec<Range>")]
pub struct Ranges(Vec<Range>);

impl Ranges {
    /// Sorts, and joins what overlaps or touches. Inverted intervals hold no number and vanish.
    #[must_use]
    pub fn from_unsorted(mut ranges: Vec<Range>) -> Self {
        ranges.retain(|range| range.begin <= range.end);
        ranges.sort_unstable();
        let mut joined: Vec<Range> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match joined.last_mut() {
                // Saturating: the interval that ends at 2^64−1 has no next number.
                Some(last) if range.begin <= last.end.saturating_add(1) => {
                    last.end = last.end.max(range.end);
                }
                _ => joined.push(range),
            }
        }
        Self(joined)
    }
    /// The intervals.
    #[must_use]
    pub fn as_slice(&self) -> &[Range] {
        &self.0
    }
    /// Whether it holds no number.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// How many numbers it holds; `u64::MAX` when there are more.
    #[must_use]
    pub fn count(&self) -> u64 {
        let sizes = self.0.iter().map(|range| (range.end - range.begin).saturating_add(1));
        sizes.fold(0, u64::saturating_add)
    }
    /// Whether every number of `other` is in it.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        other.0.iter().all(|wanted| {
            let after = self.0.partition_point(|range| range.begin <= wanted.begin);
            after.checked_sub(1).is_some_and(|at| wanted.end <= self.0[at].end)
        })
    }
    /// All numbers of both.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self::from_unsorted(self.0.iter().chain(&other.0).copied().collect())
    }
    /// The numbers that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut left = Vec::with_capacity(self.0.len());
        let mut cuts = other.0.iter().peekable();
        for range in &self.0 {
            let mut begin = Some(range.begin);
            while let (Some(first), Some(cut)) = (begin, cuts.peek()) {
                if cut.end < first {
                    cuts.next();
                    continue;
                }
                if cut.begin > range.end {
                    break;
                }
                if cut.begin > first {
                    left.push(Range { begin: first, end: cut.begin - 1 });
                }
                begin = cut.end.checked_add(1).filter(|next| *next <= range.end);
            }
            if let Some(begin) = begin {
                left.push(Range { begin, end: range.end });
            }
        }
        Self(left)
    }
}

impl From<Vec<Range>> for Ranges {
    fn from(ranges: Vec<Range>) -> Self {
        Self::from_unsorted(ranges)
    }
}

impl From<Ranges> for Vec<Range> {
    fn from(ranges: Ranges) -> Self {
        ranges.0
    }
}

/// `[100-200, 300-500]`.
impl fmt::Display for Ranges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (at, range) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{}-{}", range.begin, range.end)?;
        }
        f.write_str("]")
    }
}

/// A set of items.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ItemSet(pub BTreeSet<String>);

/// `{sda, sdb}`.
impl fmt::Display for ItemSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (at, item) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{item}")?;
        }
        f.write_str("}")
    }
}

/// The value of one resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Value {
    /// An amount.
    Scalar(Scalar),
    /// Numbers such as ports.
    Ranges(Ranges),
    /// Named items.
    Set(ItemSet),
}

/// Kinds of value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ValueKind {
    /// An amount.
    Scalar,
    /// Intervals.
    Ranges,
    /// Items.
    Set,
}

impl fmt::Display for ValueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scalar => "SCALAR",
            Self::Ranges => "RANGES",
            Self::Set => "SET",
        })
    }
}

impl Value {
    /// Which kind it is.
    #[must_use]
    pub const fn kind(&self) -> ValueKind {
        match self {
            Self::Scalar(_) => ValueKind::Scalar,
            Self::Ranges(_) => ValueKind::Ranges,
            Self::Set(_) => ValueKind::Set,
        }
    }
    /// Whether it holds nothing. Negative amounts count as nothing (spec §1.3).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Scalar(scalar) => !scalar.is_positive(),
            Self::Ranges(ranges) => ranges.is_empty(),
            Self::Set(set) => set.0.is_empty(),
        }
    }
    /// Whether it is an amount below zero.
    #[must_use]
    pub fn is_negative(&self) -> bool {
        matches!(self, Self::Scalar(scalar) if *scalar < Scalar::ZERO)
    }
    /// The amount, when it is one.
    #[must_use]
    pub const fn as_scalar(&self) -> Option<Scalar> {
        match self {
            Self::Scalar(scalar) => Some(*scalar),
            Self::Ranges(_) | Self::Set(_) => None,
        }
    }
    /// How much it is as a number: the amount, the count of numbers, the count of items.
    #[must_use]
    pub fn quantity(&self) -> Scalar {
        let count = match self {
            Self::Scalar(scalar) => return *scalar,
            Self::Ranges(ranges) => ranges.count(),
            Self::Set(set) => u64::try_from(set.0.len()).unwrap_or(u64::MAX),
        };
        Scalar::from_milli(i64::try_from(count).unwrap_or(i64::MAX).saturating_mul(1000))
    }
    /// The sum; amounts saturate. A value of another kind adds nothing: callers compare
    /// the kinds first.
    #[must_use]
    pub fn add(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Scalar(left), Self::Scalar(right)) => Self::Scalar(left.saturating_add(*right)),
            (Self::Ranges(left), Self::Ranges(right)) => Self::Ranges(left.union(right)),
            (Self::Set(left), Self::Set(right)) => Self::Set(ItemSet(&left.0 | &right.0)),
            (Self::Scalar(_) | Self::Ranges(_) | Self::Set(_), _) => self.clone(),
        }
    }
    /// What is left without `other`, possibly negative. A value of another kind takes nothing.
    #[must_use]
    pub fn subtract(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Scalar(left), Self::Scalar(right)) => Self::Scalar(left.saturating_sub(*right)),
            (Self::Ranges(left), Self::Ranges(right)) => Self::Ranges(left.difference(right)),
            (Self::Set(left), Self::Set(right)) => Self::Set(ItemSet(&left.0 - &right.0)),
            (Self::Scalar(_) | Self::Ranges(_) | Self::Set(_), _) => self.clone(),
        }
    }
    /// Whether `other` is a part of it.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Scalar(left), Self::Scalar(right)) => left >= right,
            (Self::Ranges(left), Self::Ranges(right)) => left.contains(right),
            (Self::Set(left), Self::Set(right)) => left.0.is_superset(&right.0),
            (Self::Scalar(_) | Self::Ranges(_) | Self::Set(_), _) => false,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scalar(scalar) => scalar.fmt(f),
            Self::Ranges(ranges) => ranges.fmt(f),
            Self::Set(set) => set.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(pairs: &[(u64, u64)]) -> Ranges {
        let list = pairs.iter().map(|&(begin, end)| Range { begin, end });
        Ranges::from_unsorted(list.collect())
    }

    #[test]
    fn scalars_round_half_away_from_zero() {
        #[track_caller]
        fn check(value: f64, expected: Option<&str>) {
            assert_eq!(Scalar::from_f64(value).map(|s| s.to_string()).as_deref(), expected);
        }
        check(2.5015, Some("2.502"));
        check(-2.5015, Some("-2.502"));
        check(0.0004, Some("0"));
        check(0.0005, Some("0.001"));
        check(3.4565, Some("3.457"));
        check(2_000_003.0, Some("2000003"));
        check(0.1 + 0.2, Some("0.3"));
        check(f64::NAN, None);
        check(f64::INFINITY, None);
        check(9_007_199_254_740.99, Some("9007199254740.99"));
        check(9_007_199_254_740.992, Some("9007199254740.992"));
        check(-9_007_199_254_740.992, Some("-9007199254740.992"));
        check(9_007_199_254_740.994, None);
        check(9e15, None);
    }

    #[test]
    fn ranges_saturate_at_the_top() {
        let top = ranges(&[(u64::MAX, u64::MAX), (0, u64::MAX - 1)]);
        assert_eq!(top.as_slice(), [Range { begin: 0, end: u64::MAX }]);
        assert_eq!(top.count(), u64::MAX);
        assert!(top.difference(&top).is_empty());
        assert_eq!(top.difference(&ranges(&[(5, u64::MAX)])), ranges(&[(0, 4)]));
    }

    #[test]
    fn ranges_difference() {
        #[track_caller]
        fn check(left: &[(u64, u64)], right: &[(u64, u64)], expected: &[(u64, u64)]) {
            assert_eq!(ranges(left).difference(&ranges(right)), ranges(expected));
        }
        check(&[(13, 18)], &[(15, 16)], &[(13, 14), (17, 18)]);
        check(&[(1, 4), (8, 9)], &[(3, 8)], &[(1, 2), (9, 9)]);
        check(&[(1, 10)], &[(2, 3), (5, 6), (9, 20)], &[(1, 1), (4, 4), (7, 8)]);
        check(&[(1, 2)], &[], &[(1, 2)]);
    }
}
