//! Many elements from one type to another, each as `tilewright_num::convert` does it (cast engine, fetch
//! adapter, commit unit).

use tilewright_num::{
    Dtype, RuleSet, convert, decode_slice, encode_slice, load, pack_ints, store, unpack_ints,
};

use super::fault::ExecProblem;

/// Converts contiguous elements of one type to another.
pub(super) fn convert_slice(
    rules: &RuleSet,
    from: Dtype,
    to: Dtype,
    elements: usize,
    bytes: &[u8],
) -> Result<Vec<u8>, ExecProblem> {
    let bytes = bytes.get(..from.size_bytes(elements)).ok_or(ExecProblem::Dtype(from))?;
    if from == to {
        return Ok(bytes.to_vec());
    }
    let mut out = vec![0; to.size_bytes(elements)];
    match (from, to) {
        // Their 32 bits are no value of i32.
        (Dtype::U32, _) | (_, Dtype::U32) => {
            for at in 0..elements {
                store(to, &mut out, at, convert(rules, from, to, load(from, bytes, at))?);
            }
        }
        _ if !from.is_float() && !to.is_float() => {
            let mut values = vec![0; elements];
            unpack_ints(from, bytes, &mut values)?;
            pack_ints(rules, to, &values, &mut out)?;
        }
        (Dtype::Bf16, Dtype::F32) => {
            let word = |half: &[u8; 2]| rules.settle_f32(u32::from(u16::from_le_bytes(*half)) << 16);
            words_to_bytes(bytes.as_chunks().0.iter().map(word), &mut out);
        }
        // The first step of every conversion to f32 is the only one.
        (_, Dtype::F32) => {
            let mut values = vec![0.0; elements];
            decode_slice(rules, from, bytes, &mut values);
            words_to_bytes(values.iter().map(|value| value.to_bits()), &mut out);
        }
        (Dtype::F32, _) => {
            let values: Vec<f32> = bytes.as_chunks().0.iter().map(|word| f32::from_le_bytes(*word)).collect();
            encode_slice(rules, to, &values, &mut out)?;
        }
        _ => {
            let mut values = vec![0.0; elements];
            decode_slice(rules, from, bytes, &mut values);
            encode_slice(rules, to, &values, &mut out)?;
        }
    }
    Ok(out)
}

/// Words as elements of a narrower type: i32 for an integer type, f32 for a float.
pub(super) fn narrow_words(rules: &RuleSet, to: Dtype, words: &[u32]) -> Result<Vec<u8>, ExecProblem> {
    let mut out = vec![0; to.size_bytes(words.len())];
    if to.is_float() {
        let values: Vec<f32> = words.iter().map(|word| f32::from_bits(*word)).collect();
        encode_slice(rules, to, &values, &mut out)?;
    } else {
        let values: Vec<i32> = words.iter().map(|word| word.cast_signed()).collect();
        pack_ints(rules, to, &values, &mut out)?;
    }
    Ok(out)
}

/// Words, first byte lowest.
pub(super) fn words_to_bytes(words: impl Iterator<Item = u32>, bytes: &mut [u8]) {
    for (place, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
        *place = word.to_le_bytes();
    }
}
