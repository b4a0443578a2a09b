//! Costs and sizes of candidates, some of which are more than can be counted.
//!
//! Candidates are asked about before anybody knows whether they fit, so that products of their loop sizes,
//! and costs of bad ones, may exceed every number. Such a size is above every limit of a machine, and such a
//! cost is worse than any other: it is [`INFINITE`], and a candidate that has it is refused, never kept.

/// More than can be counted.
pub const INFINITE: u64 = u64::MAX;

/// Arithmetic that stops at [`INFINITE`].
pub trait CostMath: Sized {
    /// The sum, or [`INFINITE`].
    #[must_use]
    fn plus_cost(self, other: Self) -> Self;
    /// The product, or [`INFINITE`].
    #[must_use]
    fn times_cost(self, other: Self) -> Self;
}

impl CostMath for u64 {
    #[inline]
    fn plus_cost(self, other: u64) -> u64 {
        self.saturating_add(other)
    }

    #[inline]
    fn times_cost(self, other: u64) -> u64 {
        self.saturating_mul(other)
    }
}
