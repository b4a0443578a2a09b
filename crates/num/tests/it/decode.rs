//! Decoding, over all patterns of all formats of at most 16 bits.

use half::{bf16, f16};
use tilewright_num::{Dtype, MiniFloat, RuleSet, TopPatterns, decode};

const SMALL_FLOATS: [Dtype; 6] =
    [Dtype::F8E4M3Fn, Dtype::F8E4M3, Dtype::F8E5M2, Dtype::F4E2M1, Dtype::Bf16, Dtype::F16];

/// The textbook formula, in f64, which holds every value here exactly.
fn value_by_formula(format: MiniFloat, pattern: u32) -> f64 {
    let fraction = pattern & ((1 << format.mantissa_bits) - 1);
    let field = (pattern >> format.mantissa_bits) & ((1 << format.exponent_bits) - 1);
    let sign = if pattern >> format.sign_shift() == 1 { -1.0 } else { 1.0 };
    let top = (1 << format.exponent_bits) - 1;
    let all_ones = (1 << format.mantissa_bits) - 1;
    match format.top_patterns {
        TopPatterns::InfAndNan if field == top && fraction == 0 => return sign * f64::INFINITY,
        TopPatterns::InfAndNan if field == top => return f64::NAN,
        TopPatterns::NanOnly if field == top && fraction == all_ones => return f64::NAN,
        _ => {}
    }
    let scaled = f64::from(fraction) / f64::from(1 << format.mantissa_bits);
    let power = |exponent: i32| 2.0_f64.powi(exponent);
    if field == 0 {
        sign * scaled * power(1 - format.bias)
    } else {
        sign * (1.0 + scaled) * power(field.cast_signed() - format.bias)
    }
}

#[test]
fn every_pattern_has_the_value_of_the_formula() {
    for dtype in SMALL_FLOATS {
        let format = MiniFloat::of(dtype).unwrap();
        for pattern in 0..1_u32 << dtype.bits() {
            let expected = value_by_formula(format, pattern);
            let actual = f64::from(f32::from_bits(format.decode(pattern)));
            assert!(
                actual.to_bits() == expected.to_bits() || (actual.is_nan() && expected.is_nan()),
                "{dtype} {pattern:#x}: {actual} is not {expected}"
            );
        }
    }
}

#[test]
fn largest_values_and_nan_words_are_those_of_the_tables() {
    let largest = |dtype| {
        let format = MiniFloat::of(dtype).unwrap();
        f32::from_bits(format.decode(format.max_finite()))
    };
    assert_eq!(largest(Dtype::F8E4M3Fn), 448.0);
    assert_eq!(largest(Dtype::F8E4M3), 240.0);
    assert_eq!(largest(Dtype::F8E5M2), 57344.0);
    assert_eq!(largest(Dtype::F4E2M1), 6.0);
    assert_eq!(largest(Dtype::F16), 65504.0);
    assert_eq!(MiniFloat::F8E4M3FN.quiet_nan(), Some(0x7F));
    assert_eq!(MiniFloat::F8E4M3.quiet_nan(), Some(0x7C));
    assert_eq!(MiniFloat::F8E5M2.quiet_nan(), Some(0x7E));
    assert_eq!(MiniFloat::BF16.quiet_nan(), Some(0x7FC0));
    assert_eq!(MiniFloat::F32.quiet_nan(), Some(0x7FC0_0000));
    assert_eq!(MiniFloat::F4E2M1.quiet_nan(), None);
}

#[test]
fn f4_has_the_sixteen_published_values() {
    let expected = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    for (pattern, value) in (0_u32..).zip(expected) {
        assert_eq!(decode(&RuleSet::TCP, Dtype::F4E2M1, pattern).to_bits(), f32::to_bits(value));
        assert_eq!(decode(&RuleSet::TCP, Dtype::F4E2M1, pattern + 8).to_bits(), f32::to_bits(-value));
    }
}

#[test]
fn bf16_and_f16_agree_with_half_on_all_patterns() {
    for bits in 0..=u16::MAX {
        let ours = decode(&RuleSet::NEURON, Dtype::F16, u32::from(bits));
        let theirs = f16::from_bits(bits).to_f32();
        assert!(ours.to_bits() == theirs.to_bits() || (ours.is_nan() && theirs.is_nan()), "f16 {bits:#x}");
        let ours = decode(&RuleSet::NEURON, Dtype::Bf16, u32::from(bits));
        let theirs = bf16::from_bits(bits).to_f32();
        assert!(ours.to_bits() == theirs.to_bits() || (ours.is_nan() && theirs.is_nan()), "bf16 {bits:#x}");
    }
}

#[test]
fn tcp_flushes_exactly_the_bf16_subnormals() {
    for bits in 0..=u16::MAX {
        let plain = decode(&RuleSet::NEURON, Dtype::Bf16, u32::from(bits));
        let tcp = decode(&RuleSet::TCP, Dtype::Bf16, u32::from(bits));
        let expected = match plain {
            value if value.is_nan() => 0x7FC0_0000,
            value if value.is_subnormal() => value.to_bits() & 0x8000_0000,
            value => value.to_bits(),
        };
        assert_eq!(tcp.to_bits(), expected, "{bits:#x}");
    }
}

#[test]
fn nan_keeps_its_sign_only_under_neuron() {
    for (dtype, negative_nan) in [(Dtype::F8E4M3Fn, 0xFF), (Dtype::F8E5M2, 0xFD), (Dtype::F32, 0xFF80_0001)] {
        assert_eq!(decode(&RuleSet::TCP, dtype, negative_nan).to_bits(), 0x7FC0_0000);
        assert_eq!(decode(&RuleSet::NEURON, dtype, negative_nan).to_bits(), 0xFFC0_0000);
    }
}

#[test]
fn tf32_ignores_its_low_bits() {
    for word in [0x3F80_0000_u32, 0x3FFF_E000, 0x0000_2000, 0xFF7F_E000] {
        for low in [0, 1, 0x1FFF] {
            assert_eq!(decode(&RuleSet::NEURON, Dtype::Tf32, word | low).to_bits(), word);
        }
    }
}
