//! A head group end to end, stage by stage and as a whole.

use std::collections::BTreeMap;

use tilewright_tcp_lower::kernels::{AttentionHeads, attention};

use crate::kernels::chains::softmax_row;
use crate::kernels::{run, tcp, tensors};

struct Run {
    asked: AttentionHeads,
    found: BTreeMap<String, Vec<f64>>,
}

fn ran(asked: AttentionHeads) -> Run {
    let program = attention(tcp(), &asked).unwrap();
    let found = tensors(&program, &run(&program));
    Run { asked, found }
}

/// `rows x depth` times `columns x depth`, head by head.
fn products(a: &[f64], b: &[f64], length: usize, depth: usize) -> Vec<f64> {
    let heads = a.chunks(length * depth).zip(b.chunks(length * depth));
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    heads.flat_map(|(a, b)| a.chunks(depth).flat_map(|x| b.chunks(depth).map(move |y| dot(x, y)))).collect()
}

/// `rows x keys` times `keys x depth`, head by head.
fn weighted(weights: &[f64], values: &[f64], length: usize, depth: usize) -> Vec<f64> {
    let mut sums = Vec::with_capacity(weights.len() / length * depth);
    for (row, weights) in weights.chunks(length).enumerate() {
        let values = &values[row / length * length * depth..][..length * depth];
        let mut sum = vec![0.0; depth];
        for (weight, value) in weights.iter().zip(values.chunks(depth)) {
            sum.iter_mut().zip(value).for_each(|(sum, value)| *sum += weight * value);
        }
        sums.extend(sum);
    }
    sums
}

fn compare(run: &Run) {
    let Run { asked, found } = run;
    let (length, depth) = (asked.length as usize, asked.depth as usize);
    let scale = f64::from(asked.scale);
    let scores: Vec<f64> =
        products(&found["q"], &found["k"], length, depth).into_iter().map(|sum| sum * scale).collect();
    assert!(found["scores"] == scores, "sums below 2^24 times a power of two are exact");
    let probabilities: Vec<f64> = scores.chunks(length).flat_map(softmax_row).collect();
    for (weight, exact) in found["weights"].iter().zip(&probabilities) {
        assert!((weight - exact * 127.0).abs() <= 0.5 + 1e-3, "{weight} for {}", exact * 127.0);
    }
    // What the integers say, rounded to 2^-6 of a unit and then to whole ones.
    let sums = weighted(&found["weights"], &found["v"], length, depth);
    for (out, sum) in found["out"].iter().zip(&sums) {
        let exact = (sum / 127.0).clamp(-128.0, 127.0);
        assert!((out - exact).abs() <= 0.5 + 1.0 / 64.0, "{out} for {exact}");
    }
    // As a whole: weights are off by at most 1/254 each, evenly, values have a root mean square of 74.
    let exact = weighted(&probabilities, &found["v"], length, depth);
    let square: f64 = exact.iter().zip(&found["out"]).map(|(exact, out)| (exact - out).powi(2)).sum();
    let error = (square / exact.len() as f64).sqrt();
    let allowed = 74.0 / 127.0 * (length as f64 / 12.0).sqrt() + 0.3;
    assert!(error < allowed, "root mean square {error}, allowed {allowed}");
    let size = (exact.iter().map(|x| x * x).sum::<f64>() / exact.len() as f64).sqrt();
    assert!(error < size / 4.0, "root mean square {error} of {size}");
}

#[test]
fn the_paper_s_head_group() {
    compare(&ran(AttentionHeads::default()));
}

#[test]
fn other_lengths_and_depths() {
    compare(&ran(AttentionHeads {
        length: 128,
        depth: 64,
        scale: 1.0 / 8192.0,
        ..AttentionHeads::default()
    }));
    compare(&ran(AttentionHeads { heads: 8, depth: 64, scale: 1.0 / 8192.0, ..AttentionHeads::default() }));
}

#[test]
fn more_keys_than_a_flit_holds() {
    compare(&ran(AttentionHeads { heads: 16, length: 256, depth: 64, scale: 1.0 / 8192.0 }));
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    let fits = |heads, length, depth| {
        attention(tcp(), &AttentionHeads { heads, length, depth, ..AttentionHeads::default() }).is_ok()
    };
    assert!(fits(4, 1024, 128));
    assert!(!fits(3, 256, 128), "heads share 64 slices");
    assert!(!fits(4, 200, 128));
    assert!(!fits(4, 384, 128), "24 keys a slice are no power of two");
    assert!(!fits(4, 2048, 128), "128 keys a slice are two packets");
    assert!(!fits(4, 256, 96));
    assert!(!fits(0, 256, 128));
    assert!(!fits(4, u64::MAX, 128));
    assert!(!fits(4, 256, 1 << 40));
}
