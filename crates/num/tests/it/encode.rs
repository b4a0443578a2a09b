//! Encoding: round trips over all patterns, agreement with `half`, nearest values, order.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use half::{bf16, f16};
use proptest::prelude::*;
use tilewright_num::{Dtype, MiniFloat, Overflow, Rounding, RuleSet, SubnormalCarry, convert, decode};

const NARROW_FLOATS: [Dtype; 7] =
    [Dtype::Tf32, Dtype::Bf16, Dtype::F16, Dtype::F8E4M3Fn, Dtype::F8E4M3, Dtype::F8E5M2, Dtype::F4E2M1];

const NEURON_IEEE: RuleSet = RuleSet::NEURON.with_f8_overflow(Overflow::InfOrNan);

fn rule_sets() -> [RuleSet; 3] {
    [RuleSet::TCP, RuleSet::NEURON, NEURON_IEEE]
}

fn encode(rules: &RuleSet, dtype: Dtype, value: f32) -> u32 {
    convert(rules, Dtype::F32, dtype, value.to_bits()).unwrap()
}

/// All words of a format, its padding zero.
fn words(dtype: Dtype) -> impl Iterator<Item = u32> {
    let padding_bits = MiniFloat::of(dtype).unwrap().padding_bits;
    (0..1_u32 << dtype.bits()).map(move |pattern| pattern << padding_bits)
}

#[test]
fn every_number_survives_a_round_trip_but_for_flushing_and_saturation() {
    for rules in rule_sets() {
        for dtype in NARROW_FLOATS {
            let rule = rules.float_rule(dtype).unwrap();
            for word in words(dtype) {
                let exact = f32::from_bits(rule.format.decode(word));
                let sign = exact.is_sign_negative();
                let back = encode(&rules, dtype, decode(&rules, dtype, word));
                let sign_word = u32::from(sign) << (rule.format.sign_shift() + rule.format.padding_bits);
                let magnitude = back & !sign_word;
                let expected = match exact {
                    value if value.is_nan() => continue,
                    value if value.is_subnormal() && rules.name == "tcp" => 0,
                    value if value.is_infinite() => rule.overflow_magnitude() << rule.format.padding_bits,
                    _ => word & !sign_word,
                };
                assert_eq!(magnitude, expected, "{} {dtype} {word:#x}", rules.name);
                assert_eq!(back & sign_word, sign_word, "{} {dtype} {word:#x}", rules.name);
            }
        }
    }
}

#[test]
fn nan_becomes_one_word_under_tcp_and_keeps_its_sign_under_neuron() {
    let quiet = [
        (Dtype::Tf32, 0x7FC0_0000, 0xFFC0_0000),
        (Dtype::Bf16, 0x7FC0, 0xFFC0),
        (Dtype::F16, 0x7E00, 0xFE00),
        (Dtype::F8E4M3Fn, 0x7F, 0xFF),
        (Dtype::F8E4M3, 0x7C, 0xFC),
        (Dtype::F8E5M2, 0x7E, 0xFE),
        (Dtype::F4E2M1, 0x7, 0xF),
    ];
    for (dtype, positive, negative) in quiet {
        for nan in [0x7F80_0001, 0x7FC0_0000, 0x7FFF_FFFF] {
            let (nan, minus_nan) = (f32::from_bits(nan), f32::from_bits(nan | 0x8000_0000));
            assert_eq!(encode(&RuleSet::TCP, dtype, nan), positive);
            assert_eq!(encode(&RuleSet::TCP, dtype, minus_nan), positive);
            assert_eq!(encode(&RuleSet::NEURON, dtype, nan), positive);
            assert_eq!(encode(&RuleSet::NEURON, dtype, minus_nan), negative);
        }
    }
}

#[test]
fn tcp_e4m3_edges_are_those_of_the_host_model() {
    let e4m3 = |value| encode(&RuleSet::TCP, Dtype::F8E4M3Fn, value);
    let least = 2.0_f32.powi(-9);
    assert_eq!(e4m3(least / 2.0), 0x00, "exactly 2^-10 rounds to zero");
    assert_eq!(e4m3((least / 2.0).next_up()), 0x01);
    assert_eq!(e4m3(-least * 1.5), 0x82, "a tie between 1 and 2 steps goes to the even one");
    assert_eq!(e4m3(464.0), 0x7E);
    assert_eq!(e4m3(465.0), 0x7E);
    assert_eq!(e4m3(f32::NEG_INFINITY), 0xFE);
}

#[test]
fn tcp_e5m2_edges_are_those_of_the_host_model() {
    let e5m2 = |value| encode(&RuleSet::TCP, Dtype::F8E5M2, value);
    let step = 2.0_f32.powi(-16);
    assert_eq!(e5m2(step * 0.5), 0x01, "ties go away from zero");
    assert_eq!(e5m2((step * 0.5).next_down()), 0x00);
    assert_eq!(e5m2(step * 2.5), 0x03);
    assert_eq!(e5m2(step * 3.5), 0x03, "subnormals do not carry into the least normal");
    assert_eq!(e5m2((step * 4.0).next_down()), 0x03);
    assert_eq!(e5m2(step * 4.0), 0x04);
    assert_eq!(e5m2(1.125), 0x3D, "the tie between 1 and 1.25 goes up");
    assert_eq!(e5m2(61439.0), 0x7B);
    assert_eq!(e5m2(-61440.0), 0xFC);
}

/// What the vendor's page of `range_select` says: FP32_MIN becomes -INF in FP8; a format without infinity
/// stays at its largest value.
#[test]
fn neuron_overflow_is_infinity_where_there_is_one_and_switchable() {
    for (dtype, saturated, unsaturated) in
        [(Dtype::F8E4M3Fn, 0x7E, 0x7F), (Dtype::F8E4M3, 0x77, 0x78), (Dtype::F8E5M2, 0x7B, 0x7C)]
    {
        let own = if dtype == Dtype::F8E4M3Fn { saturated } else { unsaturated };
        for value in [1.0e6, f32::MAX, f32::INFINITY] {
            assert_eq!(encode(&RuleSet::NEURON, dtype, value), own);
            assert_eq!(encode(&RuleSet::NEURON, dtype, -value), own | 0x80);
            assert_eq!(encode(&NEURON_IEEE, dtype, value), unsaturated);
            assert_eq!(
                encode(&RuleSet::NEURON.with_f8_overflow(Overflow::Saturate), dtype, value),
                saturated
            );
        }
    }
}

#[test]
fn tcp_flushes_f32_subnormals_before_rounding() {
    let largest_subnormal = f32::MIN_POSITIVE.next_down();
    assert_eq!(encode(&RuleSet::NEURON, Dtype::Bf16, largest_subnormal), 0x0080);
    assert_eq!(encode(&RuleSet::TCP, Dtype::Bf16, largest_subnormal), 0x0000);
    assert_eq!(encode(&RuleSet::TCP, Dtype::Bf16, -largest_subnormal), 0x8000);
    assert_eq!(encode(&RuleSet::TCP, Dtype::Bf16, f32::MIN_POSITIVE), 0x0080);
}

/// An f32 whose exponent lies where the format has values, or up to three below. The mantissa is cut to
/// `kept_bits`, so that ties are common.
fn value_near(format: MiniFloat, pattern: u32, kept_bits: u32) -> f32 {
    let least = (format.min_exponent() - format.mantissa_bits.cast_signed() - 3).max(-127);
    let largest = format.bias + 1;
    let exponent = least + (pattern >> 23 & 0xFF).cast_signed() % (largest - least + 1);
    let mantissa = (pattern & 0x007F_FFFF) >> (23 - kept_bits) << (23 - kept_bits);
    f32::from_bits((pattern & 0x8000_0000) | ((exponent + 127).cast_unsigned().min(254) << 23) | mantissa)
}

/// The distance from a value to that of a word, in f64.
fn distance(format: MiniFloat, value: f32, word: u32) -> f64 {
    (f64::from(f32::from_bits(format.decode(word))) - f64::from(value)).abs()
}

/// No neighbouring word lies nearer, and on a tie the right one was taken. The clamped edge of the TCP's e5m2
/// subnormals is the one exception.
fn assert_nearest(rules: &RuleSet, dtype: Dtype, value: f32) {
    let rule = rules.float_rule(dtype).unwrap();
    let format = rule.format;
    let word = encode(rules, dtype, value);
    let magnitude = (word >> format.padding_bits) & ((1 << format.sign_shift()) - 1);
    let (one_step, is_even) = (1 << format.padding_bits, magnitude & 1 == 0);
    let here = distance(format, value, word);
    if magnitude > 0 {
        let below = distance(format, value, word - one_step);
        let wins_ties = is_even || rule.rounding == Rounding::NearestAway;
        assert!(here < below || (here == below && wins_ties), "{} {dtype} {value:e}", rules.name);
    }
    let clamped = rule.subnormal_carry == SubnormalCarry::Clamp && magnitude == 3;
    if magnitude < format.max_finite() && !clamped {
        let above = distance(format, value, word + one_step);
        let wins_ties = is_even && rule.rounding == Rounding::NearestEven;
        assert!(here < above || (here == above && wins_ties), "{} {dtype} {value:e}", rules.name);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8192))]

    #[test]
    fn agrees_with_half(pattern in any::<u32>(), kept_bits in 0..=23_u32) {
        for value in [f32::from_bits(pattern), value_near(MiniFloat::F16, pattern, kept_bits)] {
            prop_assume!(!value.is_nan());
            let (ours, theirs) = (encode(&RuleSet::NEURON, Dtype::F16, value), f16::from_f32(value));
            prop_assert_eq!(ours, u32::from(theirs.to_bits()));
            let (ours, theirs) = (encode(&RuleSet::NEURON, Dtype::Bf16, value), bf16::from_f32(value));
            prop_assert_eq!(ours, u32::from(theirs.to_bits()));
        }
    }

    #[test]
    fn encodes_to_a_nearest_value(pattern in any::<u32>(), kept_bits in 0..=23_u32) {
        for rules in rule_sets() {
            for dtype in NARROW_FLOATS {
                let format = MiniFloat::of(dtype).unwrap();
                let value = value_near(format, pattern, kept_bits);
                let largest = f32::from_bits(format.decode(format.max_finite() << format.padding_bits));
                let flushed = rules.name == "tcp" && value.is_subnormal();
                if value.abs() <= largest && !flushed {
                    assert_nearest(&rules, dtype, value);
                }
            }
        }
    }

    #[test]
    fn keeps_order_and_sign(pattern in any::<[u32; 2]>(), kept_bits in 0..=23_u32) {
        for rules in rule_sets() {
            for dtype in NARROW_FLOATS {
                let format = MiniFloat::of(dtype).unwrap();
                let [a, b] = pattern.map(|pattern| value_near(format, pattern, kept_bits));
                let through = |value| decode(&rules, dtype, encode(&rules, dtype, value));
                let (low, high) = (through(a.min(b)), through(a.max(b)));
                prop_assert!(low <= high || low.is_nan() || high.is_nan());
                prop_assert!(through(a).is_nan() || through(-a).to_bits() == (-through(a)).to_bits());
            }
        }
    }
}
