//! Integers: ranges, narrowing, zero points, conversions from and to floats.

use proptest::prelude::*;
use tilewright_num::{Dtype, NumError, RuleSet, convert, int_pattern, int_value, subtract_zero_point};

const INTS: [Dtype; 9] =
    [Dtype::I4, Dtype::I5, Dtype::I8, Dtype::I9, Dtype::I16, Dtype::I32, Dtype::U8, Dtype::U16, Dtype::U32];

#[test]
fn patterns_and_values_correspond_over_the_whole_range() {
    for dtype in INTS {
        let (least, largest) = dtype.int_range().unwrap();
        let step = if dtype.bits() == 32 { 65_521 } else { 1 };
        for value in (least..=largest).step_by(step).chain([least, -1, 0, largest]) {
            if value >= least {
                assert_eq!(int_value(dtype, int_pattern(dtype, value)), value, "{dtype}");
            }
        }
    }
    assert_eq!(Dtype::I4.int_range(), Some((-8, 7)));
    assert_eq!(Dtype::I9.int_range(), Some((-256, 255)));
    assert_eq!(Dtype::U32.int_range(), Some((0, 4_294_967_295)));
}

#[test]
fn tcp_wraps_where_neuron_saturates() {
    let cases = [
        (Dtype::I16, 40_000, -25_536, 32_767),
        (Dtype::I8, 200, -56, 127),
        (Dtype::I8, -129, 127, -128),
        (Dtype::I4, 8, -8, 7),
        (Dtype::I4, -9, 7, -8),
        (Dtype::U8, -1, 255, 0),
    ];
    for (to, value, wrapped, saturated) in cases {
        let narrow = |rules| convert(rules, Dtype::I32, to, i32::cast_unsigned(value)).unwrap();
        assert_eq!(int_value(to, narrow(&RuleSet::TCP)), wrapped);
        assert_eq!(int_value(to, narrow(&RuleSet::NEURON)), saturated);
    }
}

#[test]
fn tcp_refuses_what_i5_and_i9_cannot_hold() {
    let to = |dtype, value: i32| convert(&RuleSet::TCP, Dtype::I32, dtype, value.cast_unsigned());
    assert_eq!(to(Dtype::I5, -16), Ok(0x10));
    assert_eq!(to(Dtype::I5, 16), Err(NumError::OutOfRange { value: 16, dtype: Dtype::I5 }));
    assert_eq!(to(Dtype::I9, 255), Ok(0xFF));
    assert_eq!(to(Dtype::I9, -257), Err(NumError::OutOfRange { value: -257, dtype: Dtype::I9 }));
}

#[test]
fn zero_points_in_range_always_fit_and_others_are_refused() {
    for (from, to) in [(Dtype::I4, Dtype::I5), (Dtype::I8, Dtype::I9)] {
        let (least, largest) = from.int_range().unwrap();
        let (least, largest) = (i32::try_from(least).unwrap(), i32::try_from(largest).unwrap());
        for value in least..=largest {
            for zero_point in least..=largest {
                assert_eq!(subtract_zero_point(from, to, value, zero_point), Ok(value - zero_point));
            }
        }
        for zero_point in [least - 1, largest + 1] {
            let refused = NumError::ZeroPointOutOfRange { zero_point, from };
            assert_eq!(subtract_zero_point(from, to, 0, zero_point), Err(refused));
        }
    }
    let refused = NumError::OutOfRange { value: 300, dtype: Dtype::I9 };
    assert_eq!(subtract_zero_point(Dtype::I16, Dtype::I9, 400, 100), Err(refused));
    let refused = NumError::NoZeroPoint { from: Dtype::I8, to: Dtype::I5 };
    assert_eq!(subtract_zero_point(Dtype::I8, Dtype::I5, 0, 0), Err(refused));
}

#[test]
fn errors_name_both_numbers_and_the_way_out() {
    let error = NumError::ZeroPointOutOfRange { zero_point: 9, from: Dtype::I4 };
    assert_eq!(
        error.to_string(),
        "zero point 9 lies outside its source type i4, which holds -8..=7; choose a zero point in that range"
    );
    let error = NumError::OutOfRange { value: 16, dtype: Dtype::I5 };
    assert_eq!(
        error.to_string(),
        "16 does not fit i5, which holds -16..=15; scale or clamp it first, or choose a wider type"
    );
}

#[test]
fn floats_round_to_integers_as_each_rule_set_says() {
    let to = |rules, dtype, value: f32| {
        int_value(dtype, convert(rules, Dtype::F32, dtype, value.to_bits()).unwrap())
    };
    let (tcp, neuron) = (&RuleSet::TCP, &RuleSet::NEURON);
    assert_eq!((to(tcp, Dtype::I32, 2.5), to(neuron, Dtype::I32, 2.5)), (3, 2));
    assert_eq!((to(tcp, Dtype::I32, -0.5), to(neuron, Dtype::I32, -0.5)), (-1, 0));
    assert_eq!((to(tcp, Dtype::I8, 300.0), to(neuron, Dtype::I8, 300.0)), (44, 127));
    assert_eq!(
        (to(tcp, Dtype::I32, 1.0e10), to(neuron, Dtype::I32, -1.0e10)),
        (2_147_483_647, -2_147_483_648)
    );
    assert_eq!(to(neuron, Dtype::U32, 4.0e9), 4_000_000_000);
    assert_eq!((to(tcp, Dtype::I32, f32::NAN), to(neuron, Dtype::I32, f32::NAN)), (2_147_483_647, 0));
    assert_eq!(to(tcp, Dtype::I32, f32::from_bits(0xFFC0_0000)), -2_147_483_648);
}

proptest! {
    #[test]
    fn integers_below_24_bits_survive_f32(value in -(1_i32 << 24)..=(1_i32 << 24)) {
        for rules in [&RuleSet::TCP, &RuleSet::NEURON] {
            let float = convert(rules, Dtype::I32, Dtype::F32, value.cast_unsigned()).unwrap();
            prop_assert_eq!(convert(rules, Dtype::F32, Dtype::I32, float), Ok(value.cast_unsigned()));
        }
    }

    #[test]
    fn large_integers_become_the_nearest_f32(value in any::<i32>()) {
        let float = convert(&RuleSet::NEURON, Dtype::I32, Dtype::F32, value.cast_unsigned()).unwrap();
        prop_assert_eq!(f32::from_bits(float), value as f32);
    }
}
