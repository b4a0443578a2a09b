//! Small models of the Llama family without weights, compiled for the paper's chip.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use tilewright_compile::{Compiled, Mixed, Options, compile};
use tilewright_graph::{BuildResult, Builder, Dtype as Element, Graph, TensorStore, ValueId};
use tilewright_import::llama::{Config, Rope, Scaling, graph};
use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;
pub(crate) use tilewright_testkit::tcp;

pub(crate) fn small(layers: u64, width: u64, heads: u64, kv_heads: u64) -> Graph {
    let config = Config {
        name: "small".to_string(),
        width,
        hidden: width * 11 / 4 / 8 * 8,
        layers,
        heads,
        kv_heads,
        head_width: width / heads,
        vocabulary: 512,
        context: 512,
        norm_eps: 1e-5,
        rope: Rope { theta: 10000.0, interleaved: true, scaling: Scaling::None },
        tied: true,
    };
    llama(&config)
}

/// A model of any sizes.
pub(crate) fn llama(config: &Config) -> Graph {
    let mut weight = |b: &mut Builder, role: &str| -> BuildResult<ValueId> {
        b.stored(role, Element::F32, &config.weight_dims(role).unwrap())
    };
    graph(config, &mut TensorStore::default(), &mut weight).unwrap()
}

pub(crate) fn compiled(machine: &Tcp, graph: &Graph, dtype: Dtype, pes: u64, batch: u64) -> Compiled {
    on_chips(machine, graph, dtype, (pes, 1), batch)
}

pub(crate) fn on_chips(
    machine: &Tcp,
    graph: &Graph,
    dtype: Dtype,
    (pes, chips): (u64, u64),
    batch: u64,
) -> Compiled {
    compile(machine, graph, options(dtype, (pes, chips), batch, 256)).unwrap()
}

#[allow(dead_code, reason = "not every test has options of its own")]
pub(crate) fn options(dtype: Dtype, (pes, chips): (u64, u64), batch: u64, context: u64) -> Options {
    Options { dtype, mixed: Mixed::default(), cache: Dtype::Bf16, context, pes, chips, batch }
}
