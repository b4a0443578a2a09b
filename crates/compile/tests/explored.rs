//! How far the templates are from the best that the explorer finds for the same contractions, on models that people know.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use support::{llama, options, tcp};
use tilewright_compile::lowered::explored::Explored;
use tilewright_compile::lowered::lowered;
use tilewright_compile::{Choices, compile_chosen};
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

/// All contractions of a program.
fn explored(config: &Config, dtype: Dtype, pes: u64, program: &str, choices: &str) -> Vec<Explored> {
    let machine = tcp();
    let options = options(dtype, (pes, 1), 1, config.context);
    let kernels = tilewright_compile::cluster::cluster(&llama(config)).unwrap();
    let choices: Choices = choices.parse().unwrap();
    let compiled = compile_chosen(&machine, &kernels, options, &choices).unwrap();
    let outline = compiled.outlines.iter().find(|outline| outline.name == program).unwrap();
    let lowered = lowered(&machine, &compiled, outline);
    let lowered = lowered.explored(&machine, &compiled, outline, &|_| true);
    lowered.kernels.into_iter().flat_map(|kernel| kernel.explored).collect()
}

#[test]
fn print_all() {
    for (name, config, pes, choices) in [
        ("stories15M", block(288, 768, 6, 256), 1, ""),
        ("llama2-7b", block(4096, 11008, 32, 2048), 8, ""),
    ] {
        for dtype in [Dtype::Bf16, Dtype::I8] {
            for program in ["prefill", "decode"] {
                for one in explored(&config, dtype, pes, program, choices) {
                    println!("{name} {program} {one}");
                }
            }
        }
    }
}
