//! What the compiler and its checker take on the host for large models and graphs: processor time and memory.
//!
//! `cargo bench -p tilewright-bench --bench size`; a word after `--` selects rows by name (`llama2-7b`,
//! `llama2-70b`, `chain`, `wide`, `fan`, `residual`, `transformer`). Models are compiled without weights and
//! without a search of choices, graphs planned with the default effort. Each row is best run alone, since
//! memory is the most that the process had.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use tilewright_base::Sources;
use tilewright_bench::suite::{Case, Transformer, resnet, transformer};
use tilewright_bench::{peak_bytes, processor_seconds};
use tilewright_compile::general::plan;
use tilewright_compile::{Mixed, Options, compile};
use tilewright_graph::{
    Binary, BuildResult, Builder, Dim, Dtype as Element, Graph, TensorStore, Type, Unary, ValueId,
};
use tilewright_import::llama::{Config, Rope, Scaling, graph};
use tilewright_machine::{Tcp, builtin, load};
use tilewright_num::Dtype;

/// As in the program.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Sizes of a model of the Llama family, and the chips that it is for.
struct Known {
    name: &'static str,
    width: u64,
    hidden: u64,
    layers: u64,
    heads: u64,
    kv_heads: u64,
    chips: u64,
}

const MODELS: [Known; 2] = [
    Known { name: "llama2-7b", width: 4096, hidden: 11008, layers: 32, heads: 32, kv_heads: 32, chips: 1 },
    Known { name: "llama2-70b", width: 8192, hidden: 28672, layers: 80, heads: 64, kv_heads: 8, chips: 8 },
];

const CONTEXT: u64 = 4096;
const PES: u64 = 8;

fn tcp() -> Tcp {
    let mut sources = Sources::default();
    let id = sources.add("tcp", builtin("tcp").expect("a machine"));
    load(&mut sources, id, &|_| None).expect("a machine").machine.tcp().expect("a TCP").clone()
}

fn seconds() -> f64 {
    processor_seconds().unwrap_or(f64::NAN)
}

fn memory() -> String {
    peak_bytes().map_or_else(|| "-".to_string(), |bytes| format!("{} MB", bytes / 1_000_000))
}

fn model(machine: &Tcp, known: &Known) {
    let config = Config {
        name: known.name.to_string(),
        width: known.width,
        hidden: known.hidden,
        layers: known.layers,
        heads: known.heads,
        kv_heads: known.kv_heads,
        head_width: known.width / known.heads,
        vocabulary: 32000,
        context: CONTEXT,
        norm_eps: 1e-5,
        rope: Rope { theta: 10000.0, interleaved: false, scaling: Scaling::None },
        tied: false,
    };
    let mut weight = |b: &mut Builder, role: &str| -> BuildResult<ValueId> {
        b.stored(role, Element::F32, &config.weight_dims(role).expect("a weight"))
    };
    let graph = graph(&config, &mut TensorStore::default(), &mut weight).expect("a graph");
    let (dtype, cache) = (Dtype::I8, Dtype::Bf16);
    let options = Options {
        dtype,
        mixed: Mixed::default(),
        cache,
        context: CONTEXT,
        pes: PES,
        chips: known.chips,
        batch: 1,
    };
    let start = seconds();
    let compiled = compile(machine, &graph, options).expect("a compiled model");
    let made = seconds();
    let (mut commands, mut wrong) = (0, 0);
    for (_, report) in compiled.check(machine) {
        commands += report.commands;
        wrong += report.errors().count();
    }
    let (compiled, checked) = (made - start, seconds() - made);
    println!(
        "{:<12} {PES} PEs of {} chips: compile {compiled:.1} s, check {checked:.1} s, {commands} commands, \
         {wrong} wrong, {}",
        known.name,
        known.chips,
        memory()
    );
}

/// So many operators one after the other.
fn chain(nodes: u32) -> BuildResult<Graph> {
    let mut b = Builder::new("chain");
    let mut value = b.input("x", rows())?;
    for _ in 0..nodes {
        value = b.unary(Unary::Neg, value)?;
    }
    b.output("y", value);
    Ok(b.finish())
}

/// So many operators of which half stand side by side, and the other half adds up what they give.
fn wide(nodes: u32) -> BuildResult<Graph> {
    let mut b = Builder::new("wide");
    let input = b.input("x", rows())?;
    let beside = (0..nodes / 2).map(|at| b.with(Binary::Add, input, f64::from(at)));
    let beside = beside.collect::<BuildResult<Vec<ValueId>>>()?;
    let mut sum = input;
    for value in beside {
        sum = b.add(sum, value)?;
    }
    b.output("y", sum);
    Ok(b.finish())
}

/// Contractions of one value side by side, each with a chain behind it, and the sum of all of them.
fn fan(nodes: u32) -> BuildResult<Graph> {
    let mut b = Builder::new("fan");
    let input = b.input("x", rows())?;
    let mut sum = input;
    for at in 0..nodes / 3 {
        let weight = b.input(&format!("w{at}"), Type { dtype: Element::F32, dims: fixed([64, 64]) })?;
        let product = b.einsum("mk,kn->mn", &[input, weight])?;
        let chain = b.unary(Unary::Tanh, product)?;
        sum = b.add(sum, chain)?;
    }
    b.output("y", sum);
    Ok(b.finish())
}

fn fixed(sizes: [i64; 2]) -> Vec<Dim> {
    sizes.iter().map(|size| Dim::fixed(*size)).collect()
}

/// A network of so many operators at least, made of blocks that repeat.
fn repeated(nodes: usize, net: &dyn Fn(u32) -> BuildResult<Case>) -> BuildResult<Graph> {
    let one = net(1)?.graph.nodes.len();
    let each = net(2)?.graph.nodes.len() - one;
    let blocks = 1 + nodes.saturating_sub(one).div_ceil(each.max(1));
    Ok(net(u32::try_from(blocks).unwrap_or(u32::MAX))?.graph)
}

/// Blocks of a small transformer.
fn small_transformer(layers: u32) -> BuildResult<Case> {
    let shape =
        Transformer { layers, width: 128, heads: 4, batch: 1, tokens: 64, norm_first: true, int8: false };
    transformer("transformer", shape)
}

/// Bottlenecks of a small residual network.
fn small_resnet(blocks: u32) -> BuildResult<Case> {
    resnet("residual", 1, 32, [blocks, 1, 1, 1], false)
}

fn rows() -> Type {
    Type { dtype: Element::F32, dims: vec![Dim::fixed(8), Dim::fixed(64)] }
}

fn planned(machine: &Tcp, name: &str, graph: &Graph) {
    let start = seconds();
    let options = tilewright_compile::general::Options { pes: PES, ..Default::default() };
    let planned = plan(machine, graph, &TensorStore::default(), &options).expect("a plan");
    let (taken, kernels) = (seconds() - start, planned.kernels.kernels.len());
    println!(
        "{name:<12} {} operators: plan {taken:.1} s, {kernels} kernels, {}",
        graph.nodes.len(),
        memory()
    );
}

fn main() {
    let machine = tcp();
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let wanted = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word.as_str()));
    if wanted("chain") {
        planned(&machine, "chain", &chain(10_000).expect("a graph"));
    }
    if wanted("wide") {
        planned(&machine, "wide", &wide(10_000).expect("a graph"));
    }
    if wanted("fan") {
        planned(&machine, "fan", &fan(10_000).expect("a graph"));
    }
    if wanted("residual") {
        planned(&machine, "residual", &repeated(10_000, &small_resnet).expect("a graph"));
    }
    if wanted("transformer") {
        planned(&machine, "transformer", &repeated(10_000, &small_transformer).expect("a graph"));
    }
    MODELS.iter().filter(|known| wanted(known.name)).for_each(|known| model(&machine, known));
}
