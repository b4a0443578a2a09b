//! How the compiled program lays a block out: weights in fills with the next on its way, what padding they
//! have, scores in data memory.
//!
//! All of it is read off the plan and the program that were simulated.

use std::collections::BTreeSet;

use serde::Serialize;
use tilewright_base::invariant::OrBroken;
use tilewright_compile::Compiled;
use tilewright_compile::kernel::{Kernel, WeightMatrix};
use tilewright_compile::tcp::plan::{Packed, weights_of};
use tilewright_machine::Tcp;
use tilewright_report::columns::{Align, table};
use tilewright_tcp_isa::footprint::{MemoryKind, of_exec};
use tilewright_tcp_isa::program::event::PeId;
use tilewright_tcp_isa::program::transfer::MemoryInstance;

use crate::block::{BlockOperator, WEIGHTS};
use crate::measure::kind_of;
use crate::sizes::size;

/// The weights of an operator.
#[derive(Clone, Debug, Serialize)]
pub struct WeightLayout {
    /// What it is called.
    pub operator: &'static str,
    /// Tiles that come one after the other.
    pub fills: usize,
    /// Bytes of a tile on a slice, at most.
    pub fill_bytes_per_slice: u64,
    /// Bytes in the model.
    pub model_bytes: u64,
    /// Bytes in HBM, for all PEs.
    pub stored_bytes: u64,
    /// Part of the stored bytes that is padding.
    pub padding_percent: f64,
}

/// Another width that feed-forward weights could be padded to.
#[derive(Clone, Debug, Serialize)]
pub struct PaddedWidth {
    /// Why this one.
    pub what: String,
    /// The width.
    pub width: u64,
    /// Bytes of gate, up and down in a layer.
    pub layer_bytes: u64,
    /// What they take from HBM at its peak.
    pub us_at_peak: f64,
}

/// The inner width of the feed-forward network.
#[derive(Clone, Debug, Serialize)]
pub struct InnerWidth {
    /// Of the model.
    pub width: u64,
    /// Of one PE.
    pub of_pe: u64,
    /// What one PE contracts: whole packets.
    pub contracted_of_pe: u64,
    /// Elements of a packet.
    pub packet_elements: u64,
    /// Widths that it could be padded to.
    pub widths: Vec<PaddedWidth>,
}

/// How a decoder block is laid out.
#[derive(Clone, Debug, Serialize)]
pub struct BlockLayout {
    /// Buffers in data memory that weights come to in turns: one in use, the others on their way.
    pub slots: usize,
    /// The weights of each operator.
    pub weights: Vec<WeightLayout>,
    /// The inner width, if the block has a feed-forward network.
    pub inner: Option<InnerWidth>,
}

/// The layout of a block's operators.
pub(crate) fn layout(machine: &Tcp, compiled: &Compiled, operators: &[BlockOperator]) -> BlockLayout {
    let weights = operators.iter().filter_map(|operator| {
        let packed = compiled.plan.packed(operator.kernel)?;
        let kernel = compiled.kernels.kernels.get(operator.kernel)?;
        Some(of_weights(compiled, operator.label, packed, &weights_of(kernel)?))
    });
    let inner = operators.iter().rev().find_map(|operator| inner(machine, compiled, operator.kernel));
    BlockLayout { slots: slots(compiled), weights: weights.collect(), inner }
}

fn model_bytes(compiled: &Compiled, weights: &[WeightMatrix]) -> u64 {
    let elements: u64 = weights.iter().map(|weight| weight.rows.size * weight.columns.size).sum();
    elements * u64::from(compiled.plan.options.dtype.storage_bits()) / 8
}

fn of_weights(
    compiled: &Compiled,
    label: &'static str,
    packed: &Packed,
    weights: &[WeightMatrix],
) -> WeightLayout {
    let stored: u64 = packed.fills.iter().map(|fill| fill.slice_bytes * packed.slices).sum();
    let stored_bytes = stored * compiled.plan.options.all_pes();
    let model_bytes = model_bytes(compiled, weights);
    WeightLayout {
        operator: label,
        fills: packed.fills.len(),
        fill_bytes_per_slice: packed.fills.iter().map(|fill| fill.slice_bytes).max().unwrap_or(0),
        model_bytes,
        stored_bytes,
        padding_percent: (size(stored_bytes) / size(model_bytes.max(1)) - 1.0) * 100.0,
    }
}

/// Places of the first slice that fills begin at.
fn slots(compiled: &Compiled) -> usize {
    let starts: BTreeSet<u64> =
        compiled.plan.packed.iter().flat_map(|packed| packed.fills.iter().map(|fill| fill.at)).collect();
    let transfers = compiled.prefill.transfers.iter().filter(|transfer| kind_of(&transfer.name) == WEIGHTS);
    let places = transfers.filter_map(|transfer| {
        let (from, to) = (transfer.source.locate()?, transfer.target.locate()?);
        let first = from.medium == MemoryInstance::Hbm && starts.contains(&from.offset);
        (first && to.medium == (MemoryInstance::Dm { slice: 0 })).then_some(to.offset)
    });
    places.collect::<BTreeSet<u64>>().len()
}

/// The width that the last combination of a block contracts.
fn inner(machine: &Tcp, compiled: &Compiled, kernel: usize) -> Option<InnerWidth> {
    let Some(Kernel::Combine { weight, .. }) = compiled.kernels.kernels.get(kernel) else { return None };
    let packed = compiled.plan.packed(kernel)?;
    let (width, pes) = (weight.columns.size, compiled.plan.options.all_pes());
    let bits = u64::from(compiled.plan.options.dtype.storage_bits());
    let of_width = |what: &str, width: u64| {
        // Gate, up and down.
        let layer_bytes = 3 * weight.rows.size * width * bits / 8;
        let us_at_peak =
            size(layer_bytes) / (machine.hbm_bytes_per_s() * size(compiled.plan.options.chips)) * 1e6;
        PaddedWidth { what: what.to_string(), width, layer_bytes, us_at_peak }
    };
    let third = width.div_ceil(3);
    Some(InnerWidth {
        width,
        of_pe: weight.columns.stored(),
        contracted_of_pe: packed.row,
        packet_elements: packed.packets.elements,
        widths: vec![
            of_width("no padding", width),
            of_width("whole packets of a PE, as compiled", packed.row * pes),
            of_width("thirds in whole words of a PE", third.next_multiple_of(8 * pes) * 3),
            of_width("thirds that are powers of two", third.next_power_of_two() * 3),
        ],
    })
}

/// Bytes of scores and of their exponentials that a slice holds at once.
pub(crate) fn score_bytes(machine: &Tcp, compiled: &Compiled) -> u64 {
    let program = &compiled.prefill;
    let most: Vec<i64> = program.registers.iter().map(|register| register.most).collect();
    let written = |kind: &str| {
        let images = program.execs.iter().filter(|exec| kind_of(&exec.name) == kind);
        let bytes = images.map(|exec| {
            let footprint = of_exec(machine, &exec.resolved(&most), PeId { chip: 0, pe: 0 }, &[]);
            let writes =
                footprint.accesses.iter().filter(|access| access.write && access.memory == MemoryKind::Dm);
            writes.map(|access| access.bytes.len()).max().or_broken("scores are written to data memory")
        });
        bytes.max()
    };
    // Scores of several passes are written in parts; probabilities always are.
    written("scores").unwrap_or_default() + written("chances").or_broken("a prompt has probabilities")
}

/// As text.
pub(crate) fn text(layout: &BlockLayout) -> String {
    let head = ["weights", "fills", "B of a slice", "MB in the model", "MB in HBM", "padding"];
    let mut rows = vec![head.map(str::to_string).to_vec()];
    for weights in &layout.weights {
        rows.push(vec![
            weights.operator.to_string(),
            weights.fills.to_string(),
            weights.fill_bytes_per_slice.to_string(),
            format!("{:.2}", size(weights.model_bytes) / 1e6),
            format!("{:.2}", size(weights.stored_bytes) / 1e6),
            format!("{:.1} %", weights.padding_percent),
        ]);
    }
    let mut aligns = [Align::Right; 6];
    aligns[0] = Align::Left;
    let mut text = table(&aligns, &rows);
    text += &format!(
        "\nWeights come in fills that the register files take at once, to {} places in turns: one is in use, \
         the next on its way.\n",
        layout.slots
    );
    if let Some(inner) = &layout.inner {
        text += &format!(
            "The inner width {} is {} on each PE; contractions read whole packets of {}, so {} are stored \
             where it is contracted.\n\n",
            inner.width, inner.of_pe, inner.packet_elements, inner.contracted_of_pe
        );
        let head = ["inner width", "", "MB a layer", "us at the peak of HBM"];
        let mut rows = vec![head.map(str::to_string).to_vec()];
        for width in &inner.widths {
            rows.push(vec![
                width.width.to_string(),
                width.what.clone(),
                format!("{:.2}", size(width.layer_bytes) / 1e6),
                format!("{:.1}", width.us_at_peak),
            ]);
        }
        text += &table(&[Align::Right, Align::Left, Align::Right, Align::Right], &rows);
    }
    text
}
