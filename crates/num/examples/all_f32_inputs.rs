//! Bulk encoding against scalar encoding over all 2^32 inputs, which takes longer than a test should.
//!
//! `cargo run --release -p tilewright-num --example all_f32_inputs -- tcp`

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use tilewright_num::{Dtype, RuleSet, encode, encode_slice, load};

const NARROW_FLOATS: [Dtype; 6] =
    [Dtype::Bf16, Dtype::F16, Dtype::F8E4M3Fn, Dtype::F8E4M3, Dtype::F8E5M2, Dtype::F4E2M1];

fn main() {
    let name = std::env::args().nth(1).unwrap_or_else(|| "tcp".to_string());
    let rules = RuleSet::by_name(&name).expect("tcp or neuron");
    for block in 0..1_u32 << 16 {
        let values: Vec<f32> = (0..1_u32 << 16).map(|low| f32::from_bits(block << 16 | low)).collect();
        for dtype in NARROW_FLOATS {
            compare(rules, dtype, &values);
        }
        if block.is_multiple_of(1 << 10) {
            println!("{} of 64 parts agree", block >> 10);
        }
    }
    println!("bulk and scalar agree on all 2^32 inputs under {name}");
}

fn compare(rules: &RuleSet, dtype: Dtype, values: &[f32]) {
    let rule = rules.float_rule(dtype).expect("a float type has a rule");
    let mut bytes = vec![0; dtype.size_bytes(values.len())];
    encode_slice(rules, dtype, values, &mut bytes).expect("a float type is encoded");
    for (index, value) in values.iter().enumerate() {
        let (bulk, scalar) = (load(dtype, &bytes, index), encode(rules, rule, value.to_bits()));
        assert_eq!(bulk, scalar, "{dtype} of {:#010x}", value.to_bits());
    }
}
