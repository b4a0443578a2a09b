//! Fixed-point operations and operand selection.

use proptest::prelude::*;
use tilewright_num::{
    RuleSet, absmax_f32, absmax_i32, absmin_f32, absmin_i32, add_sat, commit_relu, f32_to_fxp, fxp_to_f32,
    mul_q31, shift_left_sat, shift_right_round, sub_sat,
};

#[test]
fn q31_product_rounds_up_at_the_half_and_saturates_once() {
    assert_eq!(mul_q31(i32::MIN, i32::MIN), i32::MAX);
    assert_eq!(mul_q31(i32::MIN, i32::MAX), -i32::MAX);
    assert_eq!(mul_q31(1 << 30, 1 << 30), 1 << 29);
    assert_eq!(mul_q31(1, 1 << 30), 1, "one half rounds up");
    assert_eq!(mul_q31(-1, 1 << 30), 0, "minus one half rounds up");
}

#[test]
fn shifts_saturate_and_round() {
    assert_eq!(shift_left_sat(1, 30), 1 << 30);
    assert_eq!(shift_left_sat(1, 31), i32::MAX);
    assert_eq!(shift_left_sat(-1, 31), i32::MIN);
    assert_eq!(shift_left_sat(-1, 32), i32::MIN);
    assert_eq!(shift_left_sat(0, u32::MAX), 0);
    assert_eq!(shift_left_sat(i32::MIN, u32::MAX), i32::MIN);
    assert_eq!([5, 6, 7, -5, -6, -7].map(|a| shift_right_round(a, 2)), [1, 2, 2, -1, -1, -2]);
    assert_eq!(shift_right_round(i32::MAX, 31), 1);
    assert_eq!(shift_right_round(i32::MIN, 32), 0);
    assert_eq!(shift_right_round(i32::MAX, u32::MAX), 0);
}

#[test]
fn fixed_and_floating_point_meet_at_the_integer_width() {
    assert_eq!(fxp_to_f32(1 << 30, 0), 0.5);
    assert_eq!(fxp_to_f32(i32::MIN, 0), -1.0);
    assert_eq!(fxp_to_f32(7, 31), 7.0);
    assert_eq!(fxp_to_f32((1 << 24) + 1, 31), 16_777_216.0, "a tie goes to even");
    assert_eq!(f32_to_fxp(0.5, 0), 1 << 30);
    assert_eq!(f32_to_fxp(1.0, 0), i32::MAX);
    assert_eq!(f32_to_fxp(-2.5, 31), -3, "a tie goes away from zero");
    assert_eq!(f32_to_fxp(f32::NEG_INFINITY, 16), i32::MIN);
    assert_eq!(f32_to_fxp(f32::from_bits(0x7FC0_0000), 0), i32::MAX);
    assert_eq!(f32_to_fxp(f32::from_bits(0xFFC0_0000), 0), i32::MIN);
}

#[test]
fn magnitudes_decide_and_ties_take_the_second() {
    assert_eq!((absmin_i32(3, -3), absmax_i32(3, -3)), (-3, -3));
    assert_eq!((absmin_i32(-2, 5), absmax_i32(-2, 5)), (-2, 5));
    assert_eq!((absmin_i32(i32::MIN, 1), absmax_i32(i32::MIN, 1)), (1, i32::MIN));
    let rules = &RuleSet::TCP;
    assert_eq!((absmin_f32(rules, 3.0, -3.0), absmax_f32(rules, 3.0, -3.0)), (-3.0, -3.0));
    assert_eq!(absmax_f32(rules, -7.0, 2.0), -7.0);
    assert_eq!(absmax_f32(rules, f32::NAN, 2.0), 2.0);
    assert!(absmin_f32(rules, 2.0, f32::NAN).is_nan());
    let tiny = f32::from_bits(1);
    assert_eq!(absmax_f32(rules, tiny, -0.0).to_bits(), (-0.0_f32).to_bits(), "flushed, so a tie of zeros");
}

#[test]
fn commit_relu_clears_every_sign_but_that_of_nan() {
    for rules in [&RuleSet::TCP, &RuleSet::NEURON] {
        for negative in [-0.0, -1.0, f32::NEG_INFINITY, f32::from_bits(0x8000_0001)] {
            assert_eq!(commit_relu(rules, negative).to_bits(), 0);
        }
        assert_eq!(commit_relu(rules, f32::from_bits(0xFF80_0001)).to_bits(), 0x7FC0_0000);
        assert_eq!(commit_relu(rules, 2.5), 2.5);
    }
}

proptest! {
    #[test]
    fn sums_and_shifts_are_the_clamped_exact_ones(a in any::<i32>(), b in any::<i32>(), shift in 0..32_u32) {
        let clamp = |exact: i64| i32::try_from(exact.clamp(i64::from(i32::MIN), i64::from(i32::MAX)))
            .unwrap();
        let (wide_a, wide_b) = (i64::from(a), i64::from(b));
        prop_assert_eq!(add_sat(a, b), clamp(wide_a + wide_b));
        prop_assert_eq!(sub_sat(a, b), clamp(wide_a - wide_b));
        prop_assert_eq!(shift_left_sat(a, shift), clamp(wide_a << shift));
        let half_up = (f64::from(a) / f64::from(shift).exp2() + 0.5).floor();
        prop_assert_eq!(f64::from(shift_right_round(a, shift)), half_up);
        let product = (f64::from(a) / 2.0_f64.powi(31)) * f64::from(b);
        prop_assert!((f64::from(mul_q31(a, b)) - product).abs() <= 0.500_001);
    }

    #[test]
    fn fixed_point_of_24_bits_survives_f32(a in -(1_i32 << 24)..=(1_i32 << 24), int_width in 0..32_u32) {
        prop_assert_eq!(f32_to_fxp(fxp_to_f32(a, int_width), int_width), a);
    }
}
