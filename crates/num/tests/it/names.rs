//! Names, widths and rule sets by name.

use tilewright_num::{Dtype, RuleSet};

#[test]
fn canonical_names_round_trip_and_are_distinct() {
    for dtype in Dtype::ALL {
        assert_eq!(Dtype::from_name(dtype.name()), Some(dtype));
        assert_eq!(Dtype::from_name(&dtype.to_string().to_uppercase()), Some(dtype));
    }
}

#[test]
fn common_spellings_are_known() {
    for (name, dtype) in [
        ("int8", Dtype::I8),
        ("uint16", Dtype::U16),
        ("bfloat16", Dtype::Bf16),
        ("float8_e4m3", Dtype::F8E4M3),
        ("float8_e4m3fn", Dtype::F8E4M3Fn),
        ("float8_e5m2", Dtype::F8E5M2),
        ("float4_e2m1fn", Dtype::F4E2M1),
        ("tfloat32", Dtype::Tf32),
        ("fp8", Dtype::F8E4M3Fn),
    ] {
        assert_eq!(Dtype::from_name(name), Some(dtype), "{name}");
    }
    assert_eq!(Dtype::from_name("int64"), None);
    assert_eq!(Dtype::from_name(""), None);
}

#[test]
fn f8e4m3_means_what_the_chip_means() {
    assert_eq!(RuleSet::TCP.dtype("f8e4m3"), Some(Dtype::F8E4M3Fn));
    assert_eq!(RuleSet::NEURON.dtype("float8_e4m3"), Some(Dtype::F8E4M3));
    assert_eq!(RuleSet::TCP.dtype("fp8"), Some(Dtype::F8E4M3Fn));
    assert_eq!(RuleSet::NEURON.dtype("FP8"), Some(Dtype::F8E4M3));
    assert_eq!(RuleSet::NEURON.dtype("float8_e4m3fn"), Some(Dtype::F8E4M3Fn));
    assert_eq!(RuleSet::TCP.dtype("int5"), Some(Dtype::I5));
}

#[test]
fn rule_sets_are_found_by_name() {
    assert_eq!(RuleSet::by_name("tcp"), Some(&RuleSet::TCP));
    assert_eq!(RuleSet::by_name("neuron"), Some(&RuleSet::NEURON));
    assert_eq!(RuleSet::by_name("other"), None);
}

#[test]
fn sizes_count_nibbles_and_fill_the_last_byte() {
    assert_eq!(Dtype::I4.size_bytes(5), 3);
    assert_eq!(Dtype::F4E2M1.size_bytes(4), 2);
    assert_eq!(Dtype::I9.size_bytes(3), 6);
    assert_eq!(Dtype::I5.size_bytes(3), 3);
    assert_eq!(Dtype::Tf32.size_bytes(3), 12);
    assert_eq!(Dtype::Bf16.size_bytes(3), 6);
}
