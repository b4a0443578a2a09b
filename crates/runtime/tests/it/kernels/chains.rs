//! Values of the layers against plain arithmetic in f64. Results in bf16 may be off by half a unit in the
//! last of their 8 bits, which is 2^-8 of the number at most, and by what f32 lost on the way; tolerances say
//! where that is more than a hair.

use tilewright_tcp_isa::program::Program;
use tilewright_tcp_lower::kernels::{KernelError, gelu, quantise, residual, rmsnorm, rope, silu, softmax};

use crate::kernels::{assert_close, run, tcp, tensors};

/// Half a unit of bf16, and room for the rounding of f32.
const BF16: f64 = 1.0 / 256.0 + 1e-5;
/// What f32 loses next to zero.
const NEAR_ZERO: f64 = 1e-7;

fn results(program: &Result<Program, KernelError>) -> std::collections::BTreeMap<String, Vec<f64>> {
    let program = program.as_ref().unwrap();
    tensors(program, &run(program))
}

#[test]
fn softmax_of_rows_over_slices() {
    for (heads, queries, keys) in [(4, 64, 256), (1, 16, 512), (16, 2, 96)] {
        let found = results(&softmax(tcp(), heads, queries, keys));
        let wanted: Vec<f64> = found["x"].chunks(keys as usize).flat_map(softmax_row).collect();
        assert_close(&found["y"], &wanted, BF16, NEAR_ZERO);
    }
}

/// Softmax of one row.
pub(crate) fn softmax_row(row: &[f64]) -> Vec<f64> {
    let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let all: f64 = row.iter().map(|x| (x - most).exp()).sum();
    row.iter().map(|x| (x - most).exp() / all).collect()
}

#[test]
fn norm_of_rows_over_all_slices() {
    for (tokens, width) in [(64, 4096), (8, 512), (16, 3 * 512)] {
        let found = results(&rmsnorm(tcp(), tokens, width));
        let wanted = found["x"].chunks(width as usize).flat_map(|row| {
            let mean = row.iter().map(|x| x * x).sum::<f64>() / width as f64;
            let root = (mean + 1e-5).sqrt();
            row.iter().zip(&found["gain"]).map(move |(x, gain)| x * gain / root)
        });
        assert_close(&found["y"], &wanted.collect::<Vec<_>>(), BF16, NEAR_ZERO);
    }
}

fn silu_of(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

#[test]
fn silu_alone_and_gated() {
    let found = results(&silu(tcp(), 256, 128));
    let alone: Vec<f64> = found["x"].iter().map(|x| silu_of(*x)).collect();
    assert_close(&found["y"], &alone, BF16, NEAR_ZERO);
    let gated: Vec<f64> = found["gate"].iter().zip(&found["up"]).map(|(a, b)| silu_of(*a) * b).collect();
    assert_close(&found["z"], &gated, BF16, NEAR_ZERO);
}

/// The error function by its series, which needs few terms below 1.
fn erf(x: f64) -> f64 {
    let mut term = x;
    let mut sum = x;
    for n in 1..60 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * std::f64::consts::FRAC_2_SQRT_PI
}

#[test]
fn gelu_by_the_error_function() {
    let found = results(&gelu(tcp(), 128, 64));
    let wanted: Vec<f64> =
        found["x"].iter().map(|x| 0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2))).collect();
    assert_close(&found["y"], &wanted, BF16, NEAR_ZERO);
}

#[test]
fn residual_sums() {
    let found = results(&residual(tcp(), 64, 8));
    let wanted: Vec<f64> = found["x"].iter().zip(&found["y"]).map(|(x, y)| x + y).collect();
    assert_close(&found["z"], &wanted, BF16, 0.0);
}

#[test]
fn rows_rotate_by_their_positions() {
    let (heads, tokens, depth) = (4, 128, 128);
    let found = results(&rope(tcp(), heads, tokens, depth));
    let half = depth as usize / 2;
    let wanted: Vec<f64> = found["x"]
        .chunks(2 * half)
        .enumerate()
        .flat_map(|(row, x)| {
            let position = (row % tokens as usize) as f64;
            let turn = move |pair: usize| position * 10_000_f64.powf(-(pair as f64) / half as f64);
            let first = (0..half).map(|i| x[i] * turn(i).cos() - x[half + i] * turn(i).sin());
            let second = (0..half).map(|i| x[i] * turn(i).sin() + x[half + i] * turn(i).cos());
            first.chain(second).collect::<Vec<_>>()
        })
        .collect();
    // Angles up to 127 are f32: 2^-18 of a turn, and differences of two products can be small.
    assert_close(&found["y"], &wanted, BF16, 4e-5);
}

#[test]
fn integers_and_back() {
    let found = results(&quantise(tcp(), 64, 32));
    // bf16 times 128 is exact; ties go away from zero, as `round` has them.
    let integers: Vec<f64> = found["x"].iter().map(|x| (x * 128.0).round().clamp(-128.0, 127.0)).collect();
    assert_eq!(found["q"], integers);
    let back: Vec<f64> = integers.iter().map(|q| q / 128.0).collect();
    assert_eq!(found["y"], back, "8 bits fit bf16");
    let sums: Vec<f64> = found["sums"].iter().map(|sum| (sum / 7000.0).clamp(-128.0, 127.0)).collect();
    // Rounded twice: to a fraction of 2^-12 of a unit first.
    assert_close(&found["r"], &sums, 0.0, 0.5 + 1e-3);
    assert!(found["r"].contains(&127.0) && found["r"].contains(&-128.0), "some are clipped");
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    for program in [
        softmax(tcp(), 3, 64, 256),
        softmax(tcp(), 4, 64, 100),
        softmax(tcp(), 4, 63, 256),
        softmax(tcp(), 4, 0, 256),
        softmax(tcp(), 0, 64, 256),
        rmsnorm(tcp(), 64, 1000),
        rmsnorm(tcp(), 7, 4096),
        rmsnorm(tcp(), 1 << 40, 1 << 40),
        silu(tcp(), 100, 128),
        gelu(tcp(), u64::MAX, 8),
        gelu(tcp(), 1 << 62, 1 << 62),
        residual(tcp(), 64, 12),
        rope(tcp(), 4, 64, 128),
        rope(tcp(), 4, 1 << 20, 128),
        rope(tcp(), u64::MAX, 128, u64::MAX - 15),
        quantise(tcp(), 64, 0),
    ] {
        assert!(program.is_err(), "{:?}", program.map(|program| program.execs.len()));
    }
}
