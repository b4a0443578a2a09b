//! f8e4m3: a sign, four bits of exponent with a bias of 7, three of mantissa. There are numbers below the
//! least normal one, no infinities, and one NaN of each sign; the largest is 448.

/// The largest number.
pub const MOST: f32 = 448.0;
/// Exponent of the least normal number.
const LEAST_EXPONENT: i32 = -6;
const MANTISSA_BITS: i32 = 3;

/// The nearest f8e4m3, ties to even; what is larger than the largest becomes that, NaN stays NaN.
pub fn rounded(x: f32) -> f32 {
    if x.is_nan() {
        return f32::NAN;
    }
    let size = x.abs().min(MOST);
    let exponent = libm::ilogbf(size).max(LEAST_EXPONENT);
    let unit = libm::scalbnf(1.0, exponent - MANTISSA_BITS);
    ((size / unit).round_ties_even() * unit).copysign(x)
}

/// The number that a byte is.
pub fn decoded(byte: u8) -> f32 {
    let (exponent, mantissa) = (i32::from(byte >> 3 & 15), f32::from(byte & 7));
    let size = match (exponent, byte & 7) {
        (15, 7) => f32::NAN,
        (0, _) => libm::scalbnf(mantissa, LEAST_EXPONENT - MANTISSA_BITS),
        _ => libm::scalbnf(mantissa + 8.0, exponent - 7 - MANTISSA_BITS),
    };
    if byte & 128 == 0 { size } else { -size }
}
