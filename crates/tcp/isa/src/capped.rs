//! Counts of images that nobody has verified yet: registers may hold anything, so products of their sizes may
//! not fit 64 bits. Such counts stop at [`TOO_MANY`], on purpose and by name: verification refuses loops
//! whose iterations it cannot count, closed forms give a time that no run reaches, and the simulator ends a
//! run that takes so long. Distances, which have a sign, stop at the ends of their range: no memory is as
//! large.

/// A count that stands for itself and all larger ones.
pub const TOO_MANY: u64 = u64::MAX;

/// Arithmetic that ends at the largest value of a sign instead of wrapping around.
pub trait Capped: Sized {
    /// The sum, or the largest value of its sign.
    #[must_use]
    fn capped_add(self, other: Self) -> Self;
    /// The product, or the largest value of its sign.
    #[must_use]
    fn capped_mul(self, other: Self) -> Self;
}

macro_rules! capped {
    ($($integer:ty),*) => {$(
        impl Capped for $integer {
            #[inline]
            fn capped_add(self, other: Self) -> Self {
                self.saturating_add(other)
            }

            #[inline]
            fn capped_mul(self, other: Self) -> Self {
                self.saturating_mul(other)
            }
        }
    )*};
}

capped!(u64, usize, u128, i64, i128);

/// A wide count in 64 bits, or [`TOO_MANY`].
pub fn capped(count: u128) -> u64 {
    u64::try_from(count).unwrap_or(TOO_MANY)
}
