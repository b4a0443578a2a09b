//! Slices of packed integers to i32 and back.

#![expect(clippy::cast_possible_truncation, reason = "values are narrowed to the type before the cast")]

use super::assert_sizes;
use crate::int::{int_pattern, int_value, narrow_int};
use crate::{Dtype, IntNarrowing, NumError, RuleSet, load, store};

/// Reads `out.len()` integers. A u32 is given as its 32 bits.
///
/// # Errors
/// If `dtype` is a float.
///
/// # Panics
/// If `bytes` has not the size of `out.len()` elements.
pub fn unpack_ints(dtype: Dtype, bytes: &[u8], out: &mut [i32]) -> Result<(), NumError> {
    assert_sizes(dtype, out.len(), bytes.len());
    match dtype {
        Dtype::I4 => unpack_nibbles(bytes, out),
        Dtype::I8 | Dtype::I5 => {
            for (value, byte) in out.iter_mut().zip(bytes) {
                *value = i32::from(byte.cast_signed());
            }
        }
        Dtype::I16 | Dtype::I9 => {
            for (value, word) in out.iter_mut().zip(bytes.as_chunks().0) {
                *value = i32::from(i16::from_le_bytes(*word));
            }
        }
        Dtype::I32 | Dtype::U32 => {
            for (value, word) in out.iter_mut().zip(bytes.as_chunks().0) {
                *value = i32::from_le_bytes(*word);
            }
        }
        Dtype::U8 | Dtype::U16 => {
            for (index, value) in out.iter_mut().enumerate() {
                *value = int_value(dtype, load(dtype, bytes, index)) as i32;
            }
        }
        _ => return Err(NumError::NotInteger { dtype }),
    }
    Ok(())
}

fn unpack_nibbles(bytes: &[u8], out: &mut [i32]) {
    let (pairs, last) = out.as_chunks_mut::<2>();
    for (pair, &byte) in pairs.iter_mut().zip(bytes) {
        *pair = [low_nibble(byte), i32::from(byte.cast_signed() >> 4)];
    }
    if let ([value], Some(&byte)) = (last, bytes.last()) {
        *value = low_nibble(byte);
    }
}

fn low_nibble(byte: u8) -> i32 {
    i32::from((byte << 4).cast_signed() >> 4)
}

/// Writes integers, narrowed as the rule set says. A u32 takes the 32 bits as they are.
///
/// # Errors
/// If `dtype` is a float, or under wrapping rules a value lies outside i5 or i9; elements before it are
/// written.
///
/// # Panics
/// If `bytes` has not the size of `values.len()` elements.
pub fn pack_ints(rules: &RuleSet, dtype: Dtype, values: &[i32], bytes: &mut [u8]) -> Result<(), NumError> {
    assert_sizes(dtype, values.len(), bytes.len());
    match (dtype, rules.int_narrowing) {
        (Dtype::I32 | Dtype::U32, _) => {
            for (word, value) in bytes.as_chunks_mut().0.iter_mut().zip(values) {
                *word = value.to_le_bytes();
            }
        }
        (Dtype::I8, IntNarrowing::Wrap) => {
            for (byte, value) in bytes.iter_mut().zip(values) {
                *byte = (*value as i8).cast_unsigned();
            }
        }
        (Dtype::I8, IntNarrowing::Saturate) => {
            for (byte, value) in bytes.iter_mut().zip(values) {
                *byte = ((*value).clamp(-128, 127) as i8).cast_unsigned();
            }
        }
        (Dtype::I4, _) => pack_nibbles(rules.int_narrowing, values, bytes),
        _ => return pack_each(rules, dtype, values, bytes),
    }
    Ok(())
}

fn pack_nibbles(narrowing: IntNarrowing, values: &[i32], bytes: &mut [u8]) {
    let nibble = |value: i32| match narrowing {
        IntNarrowing::Wrap => value.cast_unsigned() as u8 & 0xF,
        IntNarrowing::Saturate => value.clamp(-8, 7).cast_unsigned() as u8 & 0xF,
    };
    let (pairs, last) = values.as_chunks::<2>();
    for (byte, &[low, high]) in bytes.iter_mut().zip(pairs) {
        *byte = nibble(low) | (nibble(high) << 4);
    }
    if let (&[value], Some(byte)) = (last, bytes.last_mut()) {
        *byte = nibble(value);
    }
}

fn pack_each(rules: &RuleSet, dtype: Dtype, values: &[i32], bytes: &mut [u8]) -> Result<(), NumError> {
    for (index, &value) in values.iter().enumerate() {
        let narrowed = narrow_int(rules, dtype, i64::from(value))?;
        store(dtype, bytes, index, int_pattern(dtype, narrowed));
    }
    Ok(())
}
