//! Formats of block-scaled (MX) operands: four small floats in a word, and the exponents that scale them (OCP
//! Microscaling formats 1.0; NKI Trainium3 architecture guide). Only the MX instructions look into such
//! words; everything else moves them whole.

use tilewright_num::{Dtype, RuleSet, decode_slice, encode_slice};

/// Microscaling (MX) format: the element or scale type of a packed word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MxFormat {
    /// Four e4m3fn in 32 bits.
    F8E4M3FnX4,
    /// Four e5m2 in 32 bits.
    F8E5M2X4,
    /// Four e2m1 in 16 bits.
    F4E2M1X4,
    /// A power of two: its exponent plus 127, and 255 for NaN.
    F8E8M0,
}

/// Elements of a word.
pub const LANES: usize = 4;

impl MxFormat {
    /// Every format.
    pub const ALL: [MxFormat; 4] =
        [MxFormat::F8E4M3FnX4, MxFormat::F8E5M2X4, MxFormat::F4E2M1X4, MxFormat::F8E8M0];

    /// Its name in kernels.
    pub const fn name(self) -> &'static str {
        match self {
            MxFormat::F8E4M3FnX4 => "float8_e4m3fn_x4",
            MxFormat::F8E5M2X4 => "float8_e5m2_x4",
            MxFormat::F4E2M1X4 => "float4_e2m1fn_x4",
            MxFormat::F8E8M0 => "float8_e8m0fnu",
        }
    }

    /// The integer type of its words.
    pub const fn word(self) -> Dtype {
        match self {
            MxFormat::F8E4M3FnX4 | MxFormat::F8E5M2X4 => Dtype::U32,
            MxFormat::F4E2M1X4 => Dtype::U16,
            MxFormat::F8E8M0 => Dtype::U8,
        }
    }

    /// The type of the elements of a word; none for scales.
    pub const fn element(self) -> Option<Dtype> {
        match self {
            MxFormat::F8E4M3FnX4 => Some(Dtype::F8E4M3Fn),
            MxFormat::F8E5M2X4 => Some(Dtype::F8E5M2),
            MxFormat::F4E2M1X4 => Some(Dtype::F4E2M1),
            MxFormat::F8E8M0 => None,
        }
    }

    /// The exponent of its largest finite element.
    pub const fn max_exponent(self) -> i32 {
        match self {
            MxFormat::F8E4M3FnX4 => 8,
            MxFormat::F8E5M2X4 => 15,
            MxFormat::F4E2M1X4 => 2,
            MxFormat::F8E8M0 => 127,
        }
    }

    /// The elements of words, four of each.
    pub fn decode(self, rules: &RuleSet, words: &[u32]) -> Vec<f32> {
        let Some(element) = self.element() else { return words.iter().map(|&word| scale(word)).collect() };
        let mut values = vec![0.0; words.len() * LANES];
        decode_slice(rules, element, &self.bytes(words), &mut values);
        values
    }

    /// Words of elements, four in each, rounded to nearest; too large ones become the largest finite.
    pub fn encode(self, rules: &RuleSet, values: &[f32]) -> Vec<u32> {
        let Some(element) = self.element() else { return Vec::new() };
        let most = self.largest();
        let held: Vec<f32> = values
            .iter()
            .map(|value| if value.is_nan() { *value } else { value.clamp(-most, most) })
            .collect();
        let mut bytes = vec![0; element.size_bytes(held.len())];
        // Only i5 and i9 can refuse a value.
        let _ = encode_slice(rules, element, &held, &mut bytes);
        let size = self.word().size_bytes(1);
        bytes
            .chunks_exact(size)
            .map(|word| word.iter().rev().fold(0, |all, &byte| all << 8 | u32::from(byte)))
            .collect()
    }

    /// The largest finite element.
    const fn largest(self) -> f32 {
        match self {
            MxFormat::F8E4M3FnX4 => 448.0,
            MxFormat::F8E5M2X4 => 57_344.0,
            MxFormat::F4E2M1X4 | MxFormat::F8E8M0 => 6.0,
        }
    }

    fn bytes(self, words: &[u32]) -> Vec<u8> {
        let size = self.word().size_bytes(1);
        words.iter().flat_map(|word| word.to_le_bytes().into_iter().take(size)).collect()
    }
}

/// The power of two that a stored exponent stands for.
pub fn scale(exponent: u32) -> f32 {
    match exponent {
        0 => f32::from_bits(1 << 22),
        1..=254 => f32::from_bits(exponent << 23),
        _ => f32::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_their_elements_in_order() {
        let rules = RuleSet::NEURON;
        for format in [MxFormat::F8E4M3FnX4, MxFormat::F8E5M2X4, MxFormat::F4E2M1X4] {
            let values = [0.5, -1.0, 6.0, 3.0, 0.0, 1.5, -4.0, 2.0];
            let words = format.encode(&rules, &values);
            assert_eq!(words.len(), 2);
            assert_eq!(format.decode(&rules, &words), values, "{}", format.name());
        }
    }

    #[test]
    fn scales_are_powers_of_two() {
        assert_eq!((scale(127), scale(130), scale(126)), (1.0, 8.0, 0.5));
        assert_eq!(scale(0), 2.0_f32.powi(-127));
        assert!(scale(255).is_nan());
    }

    #[test]
    fn what_is_too_large_becomes_the_largest() {
        let rules = RuleSet::NEURON;
        let words = MxFormat::F8E4M3FnX4.encode(&rules, &[1e9, -1e9, 448.0, 500.0]);
        assert_eq!(MxFormat::F8E4M3FnX4.decode(&rules, &words), [448.0, -448.0, 448.0, 448.0]);
    }
}
