//! Weights must be numbers: a checkpoint with NaN or an infinity in it would give tokens, and none that mean
//! anything.

use tilewright_graph::{Dtype, StoredTensor};

use crate::error::{ImportError, ImportResult};

/// Refuses a tensor of floats with an element that is no finite number.
pub(crate) fn check(file: &str, tensor: &str, stored: &StoredTensor) -> ImportResult<()> {
    let bytes = stored.bytes();
    let (exponent, mantissa) = match stored.dtype {
        Dtype::F16 => (0x7C00, 0x03FF),
        _ => (0x7F80, 0x007F),
    };
    let short = |at: usize, word: u16| (word & exponent == exponent).then_some((at, word & mantissa != 0));
    let found = match stored.dtype {
        Dtype::F32 => bytes.as_chunks::<4>().0.iter().enumerate().find_map(|(at, word)| {
            let number = f32::from_le_bytes(*word);
            (!number.is_finite()).then_some((at, number.is_nan()))
        }),
        Dtype::F16 | Dtype::Bf16 => {
            let mut words = bytes.as_chunks::<2>().0.iter().enumerate();
            words.find_map(|(at, word)| short(at, u16::from_le_bytes(*word)))
        }
        _ => None,
    };
    let Some((at, nan)) = found else { return Ok(()) };
    let what = format!("element {at} is {}", if nan { "NaN" } else { "infinite" });
    Err(ImportError::about(file, format!("tensor `{tensor}`"), what)
        .allowed("finite numbers")
        .instead("the checkpoint that this one was made from, or one from before its training diverged"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bits with what is said of them, for each type of floats.
    #[test]
    fn nan_and_infinities_are_found_in_every_type() {
        let cases: [(Dtype, u32, Option<&str>); 9] = [
            (Dtype::F32, 0x7FC0_0000, Some("NaN")),
            (Dtype::F32, 0xFF80_0000, Some("infinite")),
            (Dtype::F32, 0x7F7F_FFFF, None),
            (Dtype::F16, 0x7E00, Some("NaN")),
            (Dtype::F16, 0x7C00, Some("infinite")),
            (Dtype::F16, 0x7BFF, None),
            (Dtype::Bf16, 0xFFC0, Some("NaN")),
            (Dtype::Bf16, 0x7F80, Some("infinite")),
            (Dtype::Bf16, 0x7C00, None),
        ];
        for (dtype, bits, said) in cases {
            let width = if dtype == Dtype::F32 { 4 } else { 2 };
            let bytes = [vec![0; 2 * width], bits.to_le_bytes()[..width].to_vec()].concat();
            let stored = StoredTensor::owned(dtype, &[3], bytes).unwrap();
            let found = check("f", "w", &stored).map_err(|error| error.to_string());
            match said {
                None => assert_eq!(found, Ok(())),
                Some(word) => {
                    let text = found.unwrap_err();
                    assert!(text.starts_with(&format!("f: tensor `w`: element 2 is {word}\n")), "{text}");
                }
            }
        }
    }
}
