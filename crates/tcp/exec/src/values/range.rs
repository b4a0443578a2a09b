//! When the flush of subnormal results cannot matter, and a product needs no rounding of its own.
//!
//! bf16 and both 8-bit floats have at most 8 significant bits, so a value of exponent e is a multiple of
//! 2^(e - 7). Let every product be a multiple of q = 2^-126, the least normal f32, and finite. Then:
//!
//! - A product is zero or normal, and has at most 16 significant bits: it is exact, and a fused multiply-add
//!   rounds as a multiplication followed by an addition.
//! - A sum of multiples of q is a multiple of q. Where it has to be rounded, the spacing of f32 there is a
//!   larger power of two than q, so the rounded sum is a multiple of q too. A nonzero multiple of q is no
//!   subnormal: nothing is ever flushed.
//!
//! Infinities and NaN in operands change neither point: what they reach is infinite or NaN on both ways. An
//! accumulator must be a multiple of q as well: zero, or at least 2^-103, whose last bit is worth 2^-126.

/// Exponents of the finite nonzero values of some rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FloatRange {
    least_exponent: i32,
    largest_exponent: i32,
}

const MAGNITUDE: u32 = 0x7FFF_FFFF;
const INFINITY: u32 = 0x7F80_0000;
/// Pattern of 2^-126.
const LEAST_NORMAL: u32 = 1 << 23;
/// Pattern of 2^-103.
const LEAST_ACCUMULATOR: u32 = (127 - 103) << 23;

impl FloatRange {
    /// The range of decoded operands; all zeros give one that restricts nothing.
    pub(super) fn of(values: &[f32]) -> Self {
        let (mut least, mut largest) = (INFINITY, 0);
        for value in values {
            let magnitude = value.to_bits() & MAGNITUDE;
            least = least.min(if magnitude == 0 { INFINITY } else { magnitude });
            largest = largest.max(if magnitude < INFINITY { magnitude } else { 0 });
        }
        Self { least_exponent: exponent(least), largest_exponent: exponent(largest) }
    }

    /// The range of operands of bf16 as they lie in memory; `None` if one is subnormal, infinite or NaN.
    #[inline(always)]
    pub(super) fn of_bf16(bytes: &[u8]) -> Option<Self> {
        let (mut least, mut largest) = (u16::MAX, 0);
        for word in bytes.as_chunks::<2>().0 {
            let magnitude = u16::from_le_bytes(*word) & 0x7FFF;
            // Zero wraps to the top.
            least = least.min(magnitude.wrapping_sub(1));
            largest = largest.max(magnitude);
        }
        let [least, largest] = [least.saturating_add(1), largest].map(|half| u32::from(half) << 16);
        let plain = largest < INFINITY && least >= LEAST_NORMAL;
        let least = least.min(INFINITY);
        plain.then(|| Self { least_exponent: exponent(least), largest_exponent: exponent(largest) })
    }

    /// Whether all products of the two are multiples of 2^-126 and below 2^128.
    pub(super) fn exact_products(self, other: Self) -> bool {
        let least = self.least_exponent + other.least_exponent - 14;
        let largest = self.largest_exponent + other.largest_exponent + 2;
        least >= -126 && largest <= 128
    }
}

/// Whether sums may start from these without a flush.
pub(super) fn exact_accumulators(accumulators: &[f32]) -> bool {
    accumulators.iter().fold(true, |exact, value| {
        let magnitude = value.to_bits() & MAGNITUDE;
        exact & ((magnitude == 0) | (magnitude >= LEAST_ACCUMULATOR))
    })
}

fn exponent(magnitude: u32) -> i32 {
    (magnitude >> 23).cast_signed() - 127
}
