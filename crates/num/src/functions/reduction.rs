//! Arguments of sine and cosine less multiples of a right angle, exactly enough for any f32 (Payne and Hanek
//! 1983).
//!
//! `a = m 2^e` with an integer m of 24 bits; `m` times 320 bits of `2 / pi` is an integer whose bits above
//! `320 - e` count right angles and whose bits below are the fraction, wrong by less than 2^-190. No f32
//! comes nearer to a multiple than about 2^-35.

use super::double::DoubleDouble;

/// `a - (4 n + quadrant) pi / 2`, at most an eighth of a turn either way.
pub(super) struct ReducedArgument {
    pub(super) quadrant: u32,
    pub(super) r: DoubleDouble,
}

/// Bits of `2 / pi` below the point, 32 a word, lowest word first.
const TWO_OVER_PI: [u32; 10] = [
    0x424D_D2E0,
    0xB724_6E3A,
    0xDEBB_C561,
    0xFE51_63AB,
    0x3C43_9041,
    0xDB62_9599,
    0xF534_DDC0,
    0xFC27_57D1,
    0x4E44_1529,
    0xA2F9_836E,
];
const BITS: u32 = 320;

/// For `a` finite and not negative.
pub(super) fn reduce(a: f32) -> ReducedArgument {
    if a < std::f32::consts::FRAC_PI_4 {
        return ReducedArgument { quadrant: 0, r: DoubleDouble::from(f64::from(a)) };
    }
    let (exponent, mantissa) = (a.to_bits() >> 23, (a.to_bits() & 0x7F_FFFF) | 0x80_0000);
    let product = times(mantissa);
    // a = mantissa 2^(exponent - 150), and exponents here are at least 126.
    let point = BITS + 150 - exponent;
    let quarter_turns = word(&product, point) & 3;
    let mut fraction = word_128(&product, point - 128);
    let mut rest = u64::from(word(&product, point - 160)) << 32 | u64::from(word(&product, point - 192));
    let over_half = fraction >> 127 == 1;
    if over_half {
        let (negated, carried) = (!rest).overflowing_add(1);
        rest = negated;
        fraction = (!fraction).wrapping_add(u128::from(carried));
    }
    let r = to_double(fraction, rest) * DoubleDouble::HALF_PI;
    let quadrant = quarter_turns + u32::from(over_half);
    ReducedArgument { quadrant, r: if over_half { -r } else { r } }
}

fn times(mantissa: u32) -> [u32; 11] {
    let mut product = [0; 11];
    let mut carry = 0_u64;
    for (digit, out) in TWO_OVER_PI.iter().zip(&mut product) {
        let sum = u64::from(*digit) * u64::from(mantissa) + carry;
        *out = low(sum);
        carry = sum >> 32;
    }
    product[10] = low(carry);
    product
}

const fn low(value: u64) -> u32 {
    (value & 0xFFFF_FFFF) as u32
}

/// 32 bits from a bit on; zeros past the end.
fn word(words: &[u32], from_bit: u32) -> u32 {
    let at = |index: u32| words.get(index as usize).copied().map_or(0, u64::from);
    let both = at(from_bit / 32) | at(from_bit / 32 + 1) << 32;
    low(both >> (from_bit % 32))
}

fn word_128(words: &[u32], from_bit: u32) -> u128 {
    (0..4).fold(0, |all, part| all | u128::from(word(words, from_bit + 32 * part)) << (32 * part))
}

/// A fraction of 192 bits as a number, its first 106 bits kept.
fn to_double(fraction: u128, rest: u64) -> DoubleDouble {
    let zeros = fraction.leading_zeros().min(63);
    let bits = if zeros == 0 { fraction } else { fraction << zeros | u128::from(rest >> (64 - zeros)) };
    let scale = 1.0 / (1_u64 << zeros) as f64;
    let part = |bits: u128, power: u32| bits as f64 / (1_u128 << power) as f64 * scale;
    DoubleDouble::from(part(bits >> 75, 53)) + DoubleDouble::from(part((bits >> 22) & ((1 << 53) - 1), 106))
}
