//! Scalar number formats of tensor accelerators, bit for bit.
//!
//! A format says which bits mean which value; a rule set says what a chip does where the format leaves a
//! choice. [`convert`] takes one element from any type to any other under a rule set, [`decode_slice`] and
//! [`encode_slice`] take many with the same result.
//!
//! ```
//! use tilewright_num::{Dtype, RuleSet, convert};
//!
//! let one_thousand = 1000.0_f32.to_bits();
//! // The TCP saturates its 8-bit float at 448, and its e5m2 rounds 1000 to 1024.
//! assert_eq!(convert(&RuleSet::TCP, Dtype::F32, Dtype::F8E4M3Fn, one_thousand), Ok(0x7E));
//! assert_eq!(convert(&RuleSet::TCP, Dtype::F32, Dtype::F8E5M2, one_thousand), Ok(0x64));
//! ```
//!
//! # Formats
//!
//! | type | sign, exponent, mantissa bits | bias | largest | least subnormal | infinity | NaN |
//! |---|---|---|---|---|---|---|
//! | f32 | 1, 8, 23 | 127 | 3.40e38 | 2^-149 | yes | 0x7FC00000 |
//! | tf32 | 1, 8, 10 (then 13 unused bits) | 127 | 3.40e38 | 2^-136 | yes | 0x7FC00000 |
//! | bf16 | 1, 8, 7 | 127 | 3.39e38 | 2^-133 | yes | 0x7FC0 |
//! | f16 | 1, 5, 10 | 15 | 65504 | 2^-24 | yes | 0x7E00 |
//! | f8e4m3fn | 1, 4, 3 | 7 | 448 | 2^-9 | no | 0x7F, 0xFF only |
//! | f8e4m3 | 1, 4, 3 | 7 | 240 | 2^-9 | yes | 0x7C |
//! | f8e5m2 | 1, 5, 2 | 15 | 57344 | 2^-16 | yes | 0x7E |
//! | f4e2m1 | 1, 2, 1 | 1 | 6 | 0.5 | no | no |
//! | i4, i5, i8, i9, i16, i32 | two's complement | | | | | |
//! | u8, u16, u32 | unsigned | | | | | |
//!
//! The NaN column is the quiet word written; any other NaN pattern of the format is read as NaN too. i4 and
//! f4e2m1 lie two to a byte, the low nibble first. i5 and i9 exist on the way to a contraction only.
//!
//! # Rule sets
//!
//! | | `tcp` | `neuron` |
//! |---|---|---|
//! | subnormal f32 and bf16 | flushed to a zero of the same sign, read or written | kept (A) |
//! | NaN written | one word, sign clear | quiet, sign of the source (A) |
//! | f32 to bf16 | nearest even, infinity beyond the range | the same (A) |
//! | f32 to f16, tf32 | not on the chip; nearest even, infinity (A) | nearest even, infinity (A) |
//! | f32 to f8e4m3fn | nearest even, saturates at 448, infinity too | the same (A), switchable |
//! | f32 to f8e4m3 | not on the chip; nearest even, infinity (A) | nearest even, infinity beyond 240, switchable |
//! | f32 to f8e5m2 | nearest, ties away from zero; infinity beyond; see below | nearest even, infinity beyond 57344, switchable |
//! | f32 to f4e2m1 | not on the chip; nearest even, saturates, NaN to 6 (A) | the same (A) |
//! | integer to narrower integer | wraps; outside i5 or i9 an error | saturates (A) |
//! | f32 to integer | to i32 with ties away from zero, clamped, NaN to MAX or MIN by sign; then wraps | nearest even, saturates, NaN to 0 (A) |
//! | integer to float | nearest f32 to even, then that float's rule | the same (A) |
//! | f32 sum, product | nearest even, flushed, NaN 0x7FC00000 | nearest even, NaN 0x7FC00000 (A) |
//! | `f8e4m3` as a name | f8e4m3fn | f8e4m3 |
//!
//! (A) marks assumptions; the rest of `tcp` is the vendor's public host model. Infinity in 8-bit floats of
//! `neuron` is what the page of `nki.isa.range_select` says of casts from FP32; `quantize_mx` saturates by
//! itself.
//!
//! f32 to f8e5m2 on the TCP, exactly: NaN gives 0x7E. A magnitude of at least 2^-14 keeps two mantissa bits
//! and rounds up when the next bit is set, whatever follows; from 61440 on the result is infinity. A smaller
//! magnitude is counted in steps of 2^-16, ties away from zero, and the count stops at 3: from 3.5 steps up
//! to 2^-14 the result stays 3 * 2^-16 where IEEE 754 would give 2^-14.
//!
//! Further assumptions: the low 13 bits of a tf32 word are ignored when read and zero when written; a
//! conversion between equal types is a move; the rounding right shift of the vector engine takes ties towards
//! plus infinity; a saturating left shift saturates for every shift; an f32 result counts as subnormal after
//! rounding; with NaN, absmin and absmax give the second operand; maximum and minimum of floats let NaN give
//! way and put minus zero below plus zero; a fused multiply-add rounds once; functions such as `exp` are the
//! f32 nearest to the real function ([`Function`] says what is known about that).

mod arith;
mod bulk;
mod convert;
mod dtype;
mod encode;
mod error;
mod functions;
mod fxp;
mod int;
mod minifloat;
mod rules;
mod select;
mod storage;
mod widest;

pub use arith::{add_f32, div_f32, fma_f32, mul_f32, sub_f32, tree_add, tree_sum};
pub use bulk::{decode_slice, encode_slice, pack_ints, unpack_ints};
pub use convert::{convert, decode};
pub use dtype::Dtype;
pub use encode::encode;
pub use error::NumError;
pub use functions::Function;
pub use fxp::{add_sat, f32_to_fxp, fxp_to_f32, mul_q31, shift_left_sat, shift_right_round, sub_sat};
pub use int::{int_pattern, int_value, narrow_int, subtract_zero_point};
pub use minifloat::{MiniFloat, TopPatterns};
pub use rules::{
    FloatRule, FloatToInt, IntNarrowing, NanRule, Overflow, Rounding, RuleSet, SubnormalCarry, Subnormals,
};
pub use select::{absmax_f32, absmax_i32, absmin_f32, absmin_i32, commit_relu, max_f32, min_f32};
pub use storage::{load, store};
