//! Writes conversion tables as little-endian binary files, for comparison with another implementation.
//!
//! Usage: `conversion_tables DIR`. The files, by name:
//!
//! * `decode_RULES_TYPE.u32`: the f32 pattern of every pattern of TYPE.
//! * `inputs_TYPE.u32`: the value of every pattern of TYPE (bf16, f16) as an f32 pattern.
//! * `encode_RULES_TYPE_from_SOURCE.u32`: what each of those becomes in an 8-bit or 4-bit TYPE.
//! * `edges_TYPE.u32`: for every pattern of TYPE (bf16, f16, tf32) its value, the midpoint to the next, and
//!   the f32 below and above that midpoint; infinity and NaN stand four times.
//! * `edges_RULES_TYPE.u32`: what each of those becomes in TYPE.
//!
//! RULES are the named rule sets and `neuron-ieee`, which is `neuron` without saturation of 8-bit floats.

#![expect(
    clippy::disallowed_methods,
    reason = "an example is a command line: it writes the files it is asked for"
)]

use std::error::Error;
use std::path::Path;
use std::{env, fs};

use tilewright_num::{
    Dtype, MiniFloat, NumError, Overflow, RuleSet, TopPatterns, decode_slice, encode_slice, load, store,
};

const SMALL: [Dtype; 4] = [Dtype::F8E4M3Fn, Dtype::F8E4M3, Dtype::F8E5M2, Dtype::F4E2M1];
const WIDE: [(Dtype, MiniFloat); 3] =
    [(Dtype::Bf16, MiniFloat::BF16), (Dtype::F16, MiniFloat::F16), (Dtype::Tf32, MiniFloat::TF32)];

fn main() -> Result<(), Box<dyn Error>> {
    let directory = env::args_os().nth(1).ok_or("usage: conversion_tables DIR")?;
    let directory = Path::new(&directory);
    let ieee = RuleSet { name: "neuron-ieee", ..RuleSet::NEURON.with_f8_overflow(Overflow::InfOrNan) };
    write_inputs(directory)?;
    for rules in [RuleSet::TCP, RuleSet::NEURON, ieee] {
        write_decodings(directory, &rules)?;
        write_encodings(directory, &rules)?;
        write_edges(directory, &rules)?;
    }
    Ok(())
}

fn write_inputs(directory: &Path) -> Result<(), Box<dyn Error>> {
    write(directory, "inputs_bf16", &bf16_inputs())?;
    write(directory, "inputs_f16", &f16_inputs())?;
    for (dtype, format) in WIDE {
        write(directory, &format!("edges_{dtype}"), &edges(format))?;
    }
    Ok(())
}

fn write_decodings(directory: &Path, rules: &RuleSet) -> Result<(), Box<dyn Error>> {
    for dtype in SMALL.into_iter().chain([Dtype::Bf16, Dtype::F16]) {
        let count = 1_u32 << dtype.bits();
        let mut bytes = vec![0; dtype.size_bytes(count as usize)];
        for pattern in 0..count {
            store(dtype, &mut bytes, pattern as usize, pattern);
        }
        let mut values = vec![0.0; count as usize];
        decode_slice(rules, dtype, &bytes, &mut values);
        let patterns: Vec<u32> = values.into_iter().map(f32::to_bits).collect();
        write(directory, &format!("decode_{}_{dtype}", rules.name), &patterns)?;
    }
    Ok(())
}

fn write_encodings(directory: &Path, rules: &RuleSet) -> Result<(), Box<dyn Error>> {
    for (source, inputs) in [("bf16", bf16_inputs()), ("f16", f16_inputs())] {
        for dtype in SMALL {
            let words = encoded(rules, dtype, &inputs)?;
            write(directory, &format!("encode_{}_{dtype}_from_{source}", rules.name), &words)?;
        }
    }
    Ok(())
}

fn write_edges(directory: &Path, rules: &RuleSet) -> Result<(), Box<dyn Error>> {
    for (dtype, format) in WIDE {
        let words = encoded(rules, dtype, &edges(format))?;
        write(directory, &format!("edges_{}_{dtype}", rules.name), &words)?;
    }
    Ok(())
}

/// Patterns as they stand, so that NaN payloads and signalling NaNs are among them.
fn bf16_inputs() -> Vec<u32> {
    (0..=0xFFFF_u32).map(|pattern| pattern << 16).collect()
}

fn f16_inputs() -> Vec<u32> {
    (0..=0xFFFF_u32).map(|pattern| MiniFloat::F16.decode(pattern)).collect()
}

fn edges(format: MiniFloat) -> Vec<u32> {
    (0..2_u32 << format.sign_shift()).flat_map(|pattern| edges_above(format, pattern)).collect()
}

/// The value, the midpoint to the value of next larger magnitude, and that midpoint's f32 neighbours.
fn edges_above(format: MiniFloat, pattern: u32) -> [u32; 4] {
    let magnitude = pattern & ((1 << format.sign_shift()) - 1);
    let sign = (pattern >> format.sign_shift()) << 31;
    let value = format.decode(pattern << format.padding_bits);
    if magnitude > format.max_finite() {
        return [value; 4];
    }
    // Read as though the format went on, so that the largest value has a next one.
    let unbounded = MiniFloat { top_patterns: TopPatterns::Finite, ..format };
    let next = unbounded.decode((magnitude + 1) << format.padding_bits);
    let midpoint = match value & !sign {
        0 => (f32::from_bits(next) / 2.0).to_bits(),
        // Neighbours lie in one binade, where patterns and values grow together.
        below => below + (next - below) / 2,
    };
    [value, sign | midpoint, sign | (midpoint - 1), sign | (midpoint + 1)]
}

fn encoded(rules: &RuleSet, dtype: Dtype, inputs: &[u32]) -> Result<Vec<u32>, NumError> {
    let values: Vec<f32> = inputs.iter().copied().map(f32::from_bits).collect();
    let mut bytes = vec![0; dtype.size_bytes(values.len())];
    encode_slice(rules, dtype, &values, &mut bytes)?;
    Ok((0..values.len()).map(|index| load(dtype, &bytes, index)).collect())
}

fn write(directory: &Path, name: &str, words: &[u32]) -> Result<(), Box<dyn Error>> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    Ok(fs::write(directory.join(format!("{name}.u32")), bytes)?)
}
