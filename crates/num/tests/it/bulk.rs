//! Slices give what single elements give, bit for bit.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use proptest::prelude::*;
use tilewright_num::{
    Dtype, MiniFloat, Overflow, Rounding, RuleSet, SubnormalCarry, Subnormals, convert, decode, decode_slice,
    encode_slice, load, pack_ints, store, unpack_ints,
};

const NARROW_FLOATS: [Dtype; 7] =
    [Dtype::Tf32, Dtype::Bf16, Dtype::F16, Dtype::F8E4M3Fn, Dtype::F8E4M3, Dtype::F8E5M2, Dtype::F4E2M1];

/// The two named rule sets, and every combination of the switches on every narrow format.
fn rule_sets() -> Vec<RuleSet> {
    let mut all = vec![RuleSet::TCP, RuleSet::NEURON];
    for base in [RuleSet::TCP, RuleSet::NEURON] {
        for rounding in [Rounding::NearestEven, Rounding::NearestAway] {
            for overflow in [Overflow::Saturate, Overflow::InfOrNan] {
                for carry in [SubnormalCarry::ToNormal, SubnormalCarry::Clamp] {
                    all.push(switched(base, rounding, overflow, carry));
                }
            }
        }
    }
    all
}

fn switched(base: RuleSet, rounding: Rounding, overflow: Overflow, carry: SubnormalCarry) -> RuleSet {
    let mut rules = base;
    for rule in [
        &mut rules.tf32,
        &mut rules.bf16,
        &mut rules.f16,
        &mut rules.f8e4m3fn,
        &mut rules.f8e4m3,
        &mut rules.f8e5m2,
        &mut rules.f4e2m1,
    ] {
        (rule.rounding, rule.overflow, rule.subnormal_carry) = (rounding, overflow, carry);
    }
    rules
}

fn assert_encodes_like_scalar(rules: &RuleSet, dtype: Dtype, values: &[f32]) {
    let mut bytes = vec![0; dtype.size_bytes(values.len())];
    encode_slice(rules, dtype, values, &mut bytes).unwrap();
    for (index, value) in values.iter().enumerate() {
        let expected = convert(rules, Dtype::F32, dtype, value.to_bits()).unwrap();
        let actual = load(dtype, &bytes, index);
        assert_eq!(actual, expected, "{rules:?} {dtype} {:#010x}", value.to_bits());
    }
}

#[test]
fn decodes_every_pattern_like_scalar() {
    for rules in [RuleSet::TCP, RuleSet::NEURON] {
        for dtype in Dtype::ALL.into_iter().filter(|dtype| dtype.bits() <= 19) {
            let padding_bits = MiniFloat::of(dtype).map_or(0, |format| format.padding_bits);
            let words: Vec<u32> = (0..1_u32 << dtype.bits()).map(|pattern| pattern << padding_bits).collect();
            let mut bytes = vec![0; dtype.size_bytes(words.len())];
            for (index, &word) in words.iter().enumerate() {
                store(dtype, &mut bytes, index, word);
                assert_eq!(load(dtype, &bytes, index), word, "{dtype}");
            }
            let mut out = vec![0.0; words.len()];
            decode_slice(&rules, dtype, &bytes, &mut out);
            for (value, &word) in out.iter().zip(&words) {
                assert_eq!(value.to_bits(), decode(&rules, dtype, word).to_bits(), "{dtype} {word:#x}");
            }
        }
    }
}

#[test]
fn decodes_a_sample_of_32_bit_words_like_scalar() {
    let words: Vec<u32> = (0..=u32::MAX).step_by(4099).collect();
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut out = vec![0.0; words.len()];
    for rules in [RuleSet::TCP, RuleSet::NEURON] {
        for dtype in [Dtype::F32, Dtype::Tf32, Dtype::I32, Dtype::U32] {
            decode_slice(&rules, dtype, &bytes, &mut out);
            for (value, &word) in out.iter().zip(&words) {
                assert_eq!(value.to_bits(), decode(&rules, dtype, word).to_bits(), "{dtype} {word:#x}");
            }
        }
    }
}

/// Sign, exponent and the upper mantissa bits in all combinations, with low bits that make, break or nearly
/// make ties.
#[test]
fn encodes_a_dense_sample_like_scalar() {
    let lows = [0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF];
    let values: Vec<f32> =
        (0..1_u32 << 16).flat_map(|high| lows.map(|low| f32::from_bits(high << 16 | low))).collect();
    for rules in rule_sets() {
        for dtype in NARROW_FLOATS {
            assert_encodes_like_scalar(&rules, dtype, &values);
        }
    }
}

#[test]
fn encodes_a_sample_of_all_f32_like_scalar() {
    // An odd stride visits every residue; 2^32 / 4099 is about a million inputs.
    let values: Vec<f32> = (0..=u32::MAX).step_by(4099).map(f32::from_bits).collect();
    for rules in [RuleSet::TCP, RuleSet::NEURON] {
        for dtype in NARROW_FLOATS {
            assert_encodes_like_scalar(&rules, dtype, &values);
        }
    }
}

#[test]
fn f32_to_f32_settles() {
    let values = [f32::from_bits(0x8000_0001), f32::from_bits(0xFF80_0001), -2.5, f32::INFINITY];
    let mut bytes = [0; 16];
    for rules in [RuleSet::TCP, RuleSet::NEURON] {
        encode_slice(&rules, Dtype::F32, &values, &mut bytes).unwrap();
        let mut back = [0.0; 4];
        decode_slice(&rules, Dtype::F32, &bytes, &mut back);
        for (index, (value, back)) in values.iter().zip(back).enumerate() {
            assert_eq!(load(Dtype::F32, &bytes, index), rules.settle_f32(value.to_bits()));
            assert_eq!(back.to_bits(), rules.settle_f32(value.to_bits()));
        }
        assert_eq!(bytes[0] == 0, rules.f32_subnormals == Subnormals::Flush);
    }
}

#[test]
fn an_odd_number_of_nibbles_leaves_the_last_high_one_zero() {
    let mut bytes = [0xFF; 2];
    encode_slice(&RuleSet::TCP, Dtype::F4E2M1, &[0.5, -6.0, 3.0], &mut bytes).unwrap();
    assert_eq!(bytes, [0xF1, 0x05]);
    pack_ints(&RuleSet::TCP, Dtype::I4, &[-8, 7, -1], &mut bytes).unwrap();
    assert_eq!(bytes, [0x78, 0x0F]);
    let mut ints = [0; 3];
    unpack_ints(Dtype::I4, &bytes, &mut ints).unwrap();
    assert_eq!(ints, [-8, 7, -1]);
}

proptest! {
    #[test]
    fn ints_pack_and_unpack_like_scalar(
        values in prop::collection::vec(any::<i32>(), 0..70),
        wrap in any::<bool>(),
    ) {
        let rules = if wrap { RuleSet::TCP } else { RuleSet::NEURON };
        for dtype in [Dtype::I4, Dtype::I8, Dtype::I16, Dtype::I32, Dtype::U8, Dtype::U16] {
            let mut bytes = vec![0xA5; dtype.size_bytes(values.len())];
            pack_ints(&rules, dtype, &values, &mut bytes).unwrap();
            let mut back = vec![0; values.len()];
            unpack_ints(dtype, &bytes, &mut back).unwrap();
            for (index, &value) in values.iter().enumerate() {
                let pattern = convert(&rules, Dtype::I32, dtype, value.cast_unsigned()).unwrap();
                prop_assert_eq!(load(dtype, &bytes, index), pattern);
                prop_assert_eq!(i64::from(back[index]), tilewright_num::int_value(dtype, pattern));
            }
        }
    }

    #[test]
    fn floats_to_ints_in_bulk_like_scalar(values in prop::collection::vec(-1.0e5_f32..1.0e5, 0..40)) {
        for rules in [RuleSet::TCP, RuleSet::NEURON] {
            for dtype in [Dtype::I4, Dtype::I8, Dtype::I16, Dtype::I32, Dtype::U8, Dtype::U16, Dtype::U32] {
                assert_encodes_like_scalar(&rules, dtype, &values);
            }
        }
    }
}
