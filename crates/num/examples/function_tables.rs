//! Writes inputs and results of every function as little-endian u32 files, for comparison with an independent
//! library.
//!
//! `cargo run --release -p tilewright-num --example function_tables -- DIRECTORY`

#![expect(clippy::disallowed_methods, reason = "the example writes files")]

use std::error::Error;
use std::path::PathBuf;

use tilewright_num::{Function, RuleSet};

/// Words of each sign and exponent.
const PER_EXPONENT: u32 = 160;
/// Words between -32 and 32.
const NEAR_ZERO: u32 = 40_000;

/// A sequence that fills its range evenly: multiples of the golden ratio.
fn spread(index: u32) -> u32 {
    index.wrapping_mul(0x9E37_79B9)
}

fn inputs() -> Vec<u32> {
    let exponents = (0..512_u32).flat_map(|high| {
        (0..PER_EXPONENT).map(move |index| (high << 23) | (spread(high * PER_EXPONENT + index) >> 9))
    });
    let near = (0..NEAR_ZERO).map(|index| {
        let unit = f64::from(spread(index)) / f64::from(u32::MAX) - 0.5;
        #[expect(clippy::cast_possible_truncation, reason = "any f32 will do")]
        let value = (64.0 * unit) as f32;
        value.to_bits()
    });
    exponents.chain(near).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let directory = PathBuf::from(std::env::args_os().nth(1).ok_or("which directory?")?);
    let write = |name: String, words: &[u32]| {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        std::fs::write(directory.join(format!("{name}.u32")), bytes)
    };
    let inputs = inputs();
    write("inputs".into(), &inputs)?;
    for function in Function::ALL {
        for rules in [&RuleSet::TCP, &RuleSet::NEURON] {
            let mut words = inputs.clone();
            function.apply_slice(rules, &mut words);
            write(format!("{function:?}_{}", rules.name).to_lowercase(), &words)?;
        }
        let long: Vec<u32> =
            inputs.iter().map(|word| function.precise_nearest(f32::from_bits(*word)).to_bits()).collect();
        write(format!("{function:?}_long").to_lowercase(), &long)?;
    }
    Ok(())
}
