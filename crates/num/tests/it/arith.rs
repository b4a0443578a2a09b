//! f32 arithmetic under a rule set and the order of sums.

use proptest::prelude::*;
use tilewright_num::{RuleSet, add_f32, mul_f32, tree_add, tree_sum};

const NAN_WORD: u32 = 0x7FC0_0000;

#[test]
fn tcp_flushes_operands_and_results() {
    let (tcp, neuron) = (&RuleSet::TCP, &RuleSet::NEURON);
    let tiny = f32::from_bits(0x8000_0001);
    assert_eq!(add_f32(tcp, tiny, -0.0).to_bits(), 0x8000_0000);
    assert_eq!(add_f32(neuron, tiny, -0.0).to_bits(), 0x8000_0001);
    let least = f32::MIN_POSITIVE;
    assert_eq!(mul_f32(tcp, -least, 0.5).to_bits(), 0x8000_0000, "a subnormal result");
    assert_eq!(mul_f32(neuron, -least, 0.5), -least / 2.0);
    assert_eq!(mul_f32(tcp, tiny, f32::INFINITY).to_bits(), NAN_WORD, "zero times infinity");
    assert_eq!(add_f32(tcp, least * 1.5, -least).to_bits(), 0);
}

#[test]
fn nan_of_arithmetic_is_one_word() {
    for rules in [&RuleSet::TCP, &RuleSet::NEURON] {
        assert_eq!(add_f32(rules, f32::INFINITY, f32::NEG_INFINITY).to_bits(), NAN_WORD);
        assert_eq!(mul_f32(rules, f32::from_bits(0xFF81_2345), 1.0).to_bits(), NAN_WORD);
    }
}

#[test]
fn tree_adds_neighbours_level_by_level() {
    let big = 16_777_216.0; // 2^24: adding 1 is lost, adding 2 is not.
    let rules = &RuleSet::TCP;
    assert_eq!(tree_add(rules, &mut [big, 1.0, 1.0, 0.0]), big);
    assert_eq!(tree_add(rules, &mut [big, 0.0, 1.0, 1.0]), big + 2.0);
    assert_eq!(tree_add(rules, &mut [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]), 28.0);
    assert_eq!(tree_add(rules, &mut []), 0.0);
    assert_eq!(tree_add(rules, &mut [-0.0]).to_bits(), 0x8000_0000);
    assert_eq!(tree_add(rules, &mut [-0.0, -0.0, -0.0]).to_bits(), 0, "the inactive column adds +0");
}

#[test]
fn packets_accumulate_in_time_order() {
    let big = 16_777_216.0;
    let rules = &RuleSet::TCP;
    assert_eq!(tree_sum(rules, big, &[1.0, 0.0, 1.0, 0.0], 2), big, "each packet alone is lost");
    assert_eq!(tree_sum(rules, big, &[1.0, 1.0, 1.0, 1.0], 2), big + 4.0);
    assert_eq!(tree_sum(rules, 0.5, &[1.0, 2.0, 4.0], 2), 7.5);
    assert_eq!(tree_sum(rules, 0.5, &[], 4), 0.5);
}

/// The tree written as recursion over halves, for powers of two.
fn recursive_tree(rules: &RuleSet, values: &[f32]) -> f32 {
    match values {
        [value] => *value,
        _ => {
            let (low, high) = values.split_at(values.len() / 2);
            add_f32(rules, recursive_tree(rules, low), recursive_tree(rules, high))
        }
    }
}

proptest! {
    #[test]
    fn tree_equals_its_recursive_form(values in prop::collection::vec(-1.0e6_f32..1.0e6, 64)) {
        for rules in [&RuleSet::TCP, &RuleSet::NEURON] {
            let expected = recursive_tree(rules, &values);
            prop_assert_eq!(tree_add(rules, &mut values.clone()).to_bits(), expected.to_bits());
        }
    }

    #[test]
    fn neuron_is_plain_ieee_away_from_nan(a in any::<f32>(), b in any::<f32>()) {
        let rules = &RuleSet::NEURON;
        prop_assume!(!(a + b).is_nan() && !(a * b).is_nan());
        prop_assert_eq!(add_f32(rules, a, b).to_bits(), (a + b).to_bits());
        prop_assert_eq!(mul_f32(rules, a, b).to_bits(), (a * b).to_bits());
    }
}
