//! Walks over all 2^32 words and prints, for every function, how many the f64 evaluation leaves open and how
//! near the nearest of them comes to the middle of two f32 neighbours. Names of functions choose some.
//!
//! `cargo run --release -p tilewright-num --example function_margins`

#![expect(clippy::print_stdout, reason = "printing is what it does")]

use tilewright_num::Function;

fn main() {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let chosen = |function: &Function| names.is_empty() || names.contains(&format!("{function:?}"));
    for function in Function::ALL.into_iter().filter(chosen) {
        let (mut open, mut least, mut at) = (0_u64, 1.0_f64, 0);
        for word in 0..=u32::MAX {
            if let Some(margin) = function.margin(f32::from_bits(word)) {
                open += 1;
                if margin < least {
                    (least, at) = (margin, word);
                }
            }
        }
        println!("{function:?}: {open} open, nearest 2^{:.1} at {at:08x}", least.log2());
    }
}
