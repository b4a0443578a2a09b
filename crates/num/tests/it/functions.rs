//! Functions of f32: special values, the two evaluations against each other, slices against single values.

use proptest::prelude::*;
use tilewright_num::{Function, RuleSet, div_f32, fma_f32, max_f32, min_f32, sub_f32};

const NAN_WORD: u32 = 0x7FC0_0000;
const RULES: [&RuleSet; 2] = [&RuleSet::TCP, &RuleSet::NEURON];

/// Words of every sign and exponent.
fn words() -> impl Iterator<Item = f32> {
    (0..512_u32).flat_map(|high| {
        (0..40).map(move |index: u32| {
            let spread = (high * 40 + index).wrapping_mul(0x9E37_79B9) >> 9;
            f32::from_bits(high << 23 | spread)
        })
    })
}

#[test]
fn special_values() {
    use Function::{Cos, Erf, Exp, ExpNeg, Log, Sigmoid, Sin, Sqrt, Tanh};
    const INF: f32 = f32::INFINITY;
    let cases = [
        (Sqrt, [0.0, -0.0, INF, f32::NAN]),
        (Tanh, [0.0, -0.0, 1.0, -1.0]),
        (Sigmoid, [0.5, 0.5, 1.0, 0.0]),
        (Erf, [0.0, -0.0, 1.0, -1.0]),
        (Log, [-INF, -INF, INF, f32::NAN]),
        (Sin, [0.0, -0.0, f32::NAN, f32::NAN]),
        (Cos, [1.0, 1.0, f32::NAN, f32::NAN]),
        (Exp, [1.0, 1.0, INF, 0.0]),
        (ExpNeg, [1.0, 1.0, 0.0, INF]),
    ];
    assert_eq!(cases.len(), Function::ALL.len());
    for (function, expected) in cases {
        for rules in RULES {
            for (a, expected) in [0.0, -0.0, INF, -INF].into_iter().zip(expected) {
                let expected = if expected.is_nan() { NAN_WORD } else { expected.to_bits() };
                assert_eq!(function.apply(rules, a).to_bits(), expected, "{function:?}({a})");
            }
            let nan = function.apply(rules, f32::from_bits(0xFF80_0001));
            assert_eq!(nan.to_bits(), NAN_WORD, "{function:?} of NaN");
        }
    }
}

#[test]
fn known_values() {
    let rules = &RuleSet::TCP;
    let known = [
        (Function::Exp, 1.0, std::f32::consts::E),
        (Function::Log, 10.0, std::f32::consts::LN_10),
        (Function::Sin, 1e38, 0.989_164_5),
        (Function::Cos, f32::MAX, 0.853_021),
        (Function::Erf, 1.0, 0.842_700_8),
        (Function::Tanh, 0.5, 0.462_117_16),
        (Function::Sigmoid, -4.0, 0.017_986_21),
        (Function::Sqrt, 2.0, std::f32::consts::SQRT_2),
    ];
    for (function, a, expected) in known {
        assert_eq!(function.apply(rules, a), expected, "{function:?}({a})");
    }
    assert_eq!(Function::Exp.apply(rules, 88.722_84), f32::INFINITY);
    assert_eq!(Function::Exp.apply(rules, -87.4).to_bits(), 0, "a subnormal result is flushed");
    assert_eq!(Function::Exp.apply(&RuleSet::NEURON, -103.9).to_bits(), 1);
    let tiny = f32::from_bits(0x8000_0123);
    assert_eq!(Function::Sin.apply(rules, tiny).to_bits(), 0x8000_0000);
    assert_eq!(Function::Sin.apply(&RuleSet::NEURON, tiny), tiny);
    assert_eq!(Function::Log.apply(rules, -tiny), f32::NEG_INFINITY);
    assert!(Function::Log.apply(&RuleSet::NEURON, -tiny) < -96.0);
}

#[test]
fn slices_give_what_single_values_give_and_both_what_the_long_evaluation_gives() {
    let inputs: Vec<u32> = words().map(f32::to_bits).collect();
    for function in Function::ALL {
        for rules in RULES {
            let mut patterns = inputs.clone();
            function.apply_slice(rules, &mut patterns);
            for (input, pattern) in inputs.iter().zip(patterns) {
                let single = function.apply(rules, f32::from_bits(*input)).to_bits();
                assert_eq!(pattern, single, "{function:?} of {input:08x}");
            }
        }
        for word in words().filter(|word| !word.is_nan()) {
            let (short, long) = (function.nearest(word), function.precise_nearest(word));
            let same = short.to_bits() == long.to_bits() || short.is_nan() && long.is_nan();
            assert!(same, "{function:?}({word:e}): {short:e} and {long:e}");
        }
    }
}

#[test]
fn the_short_evaluation_is_as_good_as_it_claims() {
    let claimed = 2.0_f64.powi(-48);
    for function in Function::ALL.into_iter().filter(|function| *function != Function::Sqrt) {
        let errors = words().filter_map(|word| function.fast_error(word).map(|error| (word, error)));
        // Beyond these, results round to zero, one or infinity whatever the error.
        let limit = match function {
            Function::Erf => 4.0,
            Function::Log | Function::Sin | Function::Cos => f32::INFINITY,
            _ => 80.0,
        };
        let (at, worst) = errors
            .filter(|(word, _)| word.abs() < limit)
            .fold((0.0, 0.0), |worst, one| if one.1 > worst.1 { one } else { worst });
        assert!(worst < claimed, "{function:?}({at:e}): 2^{}", worst.log2());
        assert!(worst > 0.0);
    }
}

#[test]
fn maximum_and_minimum_order_zeros_and_avoid_nan() {
    let rules = &RuleSet::TCP;
    for (a, b) in [(0.0, -0.0), (-0.0, 0.0)] {
        assert_eq!(max_f32(rules, a, b).to_bits(), 0);
        assert_eq!(min_f32(rules, a, b).to_bits(), 0x8000_0000);
    }
    for (a, b) in [(f32::NAN, 3.0), (3.0, f32::NAN)] {
        assert_eq!((max_f32(rules, a, b), min_f32(rules, a, b)), (3.0, 3.0));
    }
    assert_eq!(max_f32(rules, -f32::NAN, f32::NAN).to_bits(), NAN_WORD);
}

#[test]
fn fused_multiply_add_rounds_once() {
    let rules = &RuleSet::TCP;
    let a = 1.0 + f32::EPSILON;
    // a * a = 1 + 2e + e^2, which a product alone rounds to 1 + 2e.
    assert_eq!(fma_f32(rules, a, a, -(1.0 + 2.0 * f32::EPSILON)), f32::EPSILON * f32::EPSILON);
    // Just above the middle of two f32, by less than f64 keeps.
    let middle = fma_f32(rules, 1.0 + f32::EPSILON, 1.0, f32::EPSILON / 2.0);
    assert_eq!(middle, 1.0 + 2.0 * f32::EPSILON, "a tie goes to even");
    let tiny = 2.0_f32.powi(-100);
    assert_eq!(fma_f32(rules, tiny, 1.0, 1.0 + f32::EPSILON), 1.0 + f32::EPSILON);
    assert_eq!(fma_f32(rules, f32::INFINITY, 0.0, 1.0).to_bits(), NAN_WORD);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]
    #[test]
    fn arithmetic_is_ieee_with_flushes(a: u32, b: u32, c: u32) {
        let [x, y, z] = [a, b, c].map(|word| f32::from_bits(RuleSet::TCP.settle_f32(word)));
        let settled = |value: f32| {
            if value.is_nan() { NAN_WORD } else { RuleSet::TCP.settle_f32(value.to_bits()) }
        };
        let [a, b, c] = [a, b, c].map(f32::from_bits);
        prop_assert_eq!(sub_f32(&RuleSet::TCP, a, b).to_bits(), settled(x - y));
        prop_assert_eq!(div_f32(&RuleSet::TCP, a, b).to_bits(), settled(x / y));
        prop_assert_eq!(fma_f32(&RuleSet::TCP, a, b, c).to_bits(), settled(x.mul_add(y, z)));
    }

    #[test]
    fn fused_sums_of_like_size_are_ieee(
        a in -2.0_f32..2.0,
        b in -2.0_f32..2.0,
        c in -4.0_f32..4.0,
        shift in 0..60_i32,
    ) {
        let c = c * 2.0_f32.powi(-shift);
        let expected = RuleSet::TCP.settle_f32(a.mul_add(b, c).to_bits());
        prop_assert_eq!(fma_f32(&RuleSet::TCP, a, b, c).to_bits(), expected);
    }
}
