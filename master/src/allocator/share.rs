//! The dominant share of a node of the role tree as an exact fraction. Must not know of trees.
//! Next: `drf.rs`.

use std::cmp::Ordering;

/// A weight of one, in millionths (decisions, part E).
pub(super) const WEIGHT_ONE: u64 = 1_000_000;

/// `part / (whole × weight)`. Never divided: two are compared by cross-multiplication.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    pub(super) part: u64,
    pub(super) whole: u64,
    pub(super) weight: u64,
}

impl Share {
    pub(super) const NOTHING: Self = Self { part: 0, whole: 1, weight: WEIGHT_ONE };

    /// The larger of two fractions of the same weight.
    pub(super) fn max(self, other: Self) -> Self {
        if self.compare(&other) == Ordering::Less { other } else { self }
    }

    pub(super) fn compare(&self, other: &Self) -> Ordering {
        if self.whole == other.whole && self.weight == other.weight {
            return self.part.cmp(&other.part);
        }
        let left = product(self.part, other.whole, other.weight);
        let right = product(other.part, self.whole, self.weight);
        left.cmp(&right)
    }
}

/// `a × b × c` in 192 bits, high part first: the exact product needs more than a `u128`.
fn product(a: u64, b: u64, c: u64) -> (u128, u128) {
    const LOW: u128 = u64::MAX as u128;
    let (ab, c) = (u128::from(a) * u128::from(b), u128::from(c));
    let low = (ab & LOW) * c;
    ((ab >> 64) * c + (low >> 64), low & LOW)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_compare_exactly() {
        #[track_caller]
        fn check(left: (u64, u64, u64), right: (u64, u64, u64), expected: Ordering) {
            let share = |(part, whole, weight)| Share { part, whole, weight };
            assert_eq!(share(left).compare(&share(right)), expected);
            assert_eq!(share(right).compare(&share(left)), expected.reverse());
        }
        check((1, 3, WEIGHT_ONE), (333_333, 999_999, WEIGHT_ONE), Ordering::Equal);
        check((1, 3, WEIGHT_ONE), (333_333, 1_000_000, WEIGHT_ONE), Ordering::Greater);
        check((1, 3, 2 * WEIGHT_ONE), (1, 6, WEIGHT_ONE), Ordering::Equal);
        check((0, 1, 1), (0, u64::MAX, u64::MAX), Ordering::Equal);
        let top = u64::MAX;
        check((top, top, top), (top - 1, top, top - 1), Ordering::Equal);
        check((top, top, top), (top - 1, top, top - 2), Ordering::Less);
        check((top, top - 1, top), (top - 1, top - 2, top), Ordering::Less);
        check((top, top, 1), (top, top, top), Ordering::Greater);
    }
}
