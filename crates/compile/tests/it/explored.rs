//! How far the templates are from the best that the explorer finds for the same contractions, on models that
//! people know. Bounds are what runs measured, rounded up; what exceeds a few per cent has its cause beside
//! it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::support;

use support::{llama, tcp};
use tilewright_compile::cluster::cluster;
use tilewright_compile::lowered::{LoweredKernel, lowered};
use tilewright_compile::{Choices, Named, Options, compile_chosen};
use tilewright_import::llama::{Config, Rope, Scaling};
use tilewright_num::Dtype;

/// One block of a model: all are alike.
fn block(width: u64, hidden: u64, heads: u64, context: u64) -> Config {
    Config {
        name: "block".to_string(),
        width,
        hidden,
        layers: 1,
        heads,
        kv_heads: heads,
        head_width: width / heads,
        vocabulary: 32_000,
        context,
        norm_eps: 1e-5,
        rope: Rope { theta: 10000.0, interleaved: true, scaling: Scaling::None },
        tied: false,
    }
}

fn llama2_7b() -> Config {
    block(4096, 11008, 32, 2048)
}

fn stories15m() -> Config {
    block(288, 768, 6, 256)
}

/// The kernels of a program, with what the explorer finds.
fn explored(config: &Config, dtype: &str, pes: u64, program: &str, bands: u64) -> Vec<LoweredKernel> {
    let machine = tcp();
    let Named { dtype, mixed, .. } = Named::find(dtype).unwrap();
    let (cache, context) = (Dtype::Bf16, config.context);
    let options = Options { dtype, mixed, cache, context, pes, chips: 1, batch: 1 };
    let kernels = cluster(&llama(config)).unwrap();
    let choices = Choices { bands, ..Choices::default() };
    let compiled = compile_chosen(&machine, &kernels, options, &choices).unwrap();
    let outline = compiled.outlines.iter().find(|outline| outline.name == program).unwrap();
    let lowered = lowered(&machine, &compiled, outline);
    lowered.explored(&machine, &compiled, outline, &|_| true).kernels
}

/// The most per cent that a contraction takes above the best, by name.
fn most_above(kernels: &[LoweredKernel], name: &str) -> f64 {
    let all = kernels.iter().flat_map(|kernel| &kernel.explored).filter(|one| one.name == name);
    all.map(|one| one.above_percent().unwrap()).reduce(f64::max).unwrap()
}

/// Every contraction is one of these, and takes at most so many per cent above the best.
fn within(kernels: &[LoweredKernel], bounds: &[(&str, f64)]) {
    let known = |name: &str| bounds.iter().any(|(bound, _)| *bound == name);
    let all = kernels.iter().flat_map(|kernel| &kernel.explored);
    assert!(all.clone().all(|one| known(one.name)));
    for (name, bound) in bounds {
        let above = most_above(kernels, name);
        let told: Vec<String> = all.clone().map(ToString::to_string).collect();
        assert!(above <= *bound, "{name}: {above:.1} % above the best, allowed {bound}\n{}", told.join("\n"));
    }
}

#[test]
fn prompts_of_a_wide_model_are_at_the_best() {
    // Weights of values are loaded, because they are made on the slices that need them: the best would load
    // values.
    let attention = [("maxima", 3.0), ("chances", 1.0), ("values", 17.0)];
    let bf16 = [("project", 1.0), ("combine", 7.0), ("logits", 36.0)];
    within(&explored(&llama2_7b(), "bf16", 8, "prefill", 1), &[&bf16[..], &attention].concat());
    // Eight-bit weights that meet floats are widened on their way into the register files.
    let int8 = [("project", 6.0), ("combine", 12.0), ("logits", 36.0)];
    within(&explored(&llama2_7b(), "int8", 8, "prefill", 1), &[&int8[..], &attention].concat());
}

#[test]
fn single_rows_wait_for_weights_and_not_for_the_tensor_unit() {
    // The best would hold the row and let weights pass: they go through the register files here.
    let attention = [("scores", 6.0), ("values", 6.0)];
    let bf16 = [("project", 36.0), ("combine", 31.0), ("logits", 36.0)];
    let decode = explored(&llama2_7b(), "bf16", 8, "decode", 1);
    within(&decode, &[&bf16[..], &attention].concat());
    let int8 = [("project", 35.0), ("combine", 128.0), ("logits", 35.0)];
    let short = explored(&llama2_7b(), "int8", 8, "decode", 1);
    within(&short, &[&int8[..], &attention].concat());
    let narrow = explored(&stories15m(), "bf16", 1, "decode", 1);
    for kernel in decode.iter().chain(&short).chain(&narrow).filter(|kernel| kernel.fill.is_some()) {
        let cycles: u64 = kernel.explored.iter().map(|one| one.cycles).sum();
        let brought = kernel.segment.cycles.dma;
        assert!(cycles < brought, "{}: {cycles} cycles, weights come in {brought}", kernel.name);
    }
}

#[test]
fn bands_bring_a_narrow_model_nearer_to_the_best() {
    // With one band, 8 of 288 columns a slice, partial sums of all results leave every slice. With more,
    // weights still go through the register files of every band, and 36 of 64 slices have columns.
    for (bands, project, combine) in [(1, 575.0, 218.0), (2, 251.0, 79.0), (4, 117.0, 97.0)] {
        let kernels = explored(&stories15m(), "bf16", 1, "prefill", bands);
        let above = (most_above(&kernels, "project"), most_above(&kernels, "combine"));
        assert!(above.0 <= project && above.1 <= combine, "{bands} bands: {above:?} % above the best");
    }
}
