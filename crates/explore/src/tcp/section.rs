//! The space and the closed forms of one section of a PE as the paper's figures 14 and 15 have them: a
//! contraction without command overhead, its load beside it, every stage at its full width.
//!
//! Splits over slices are powers of two that use all of them; the register files hold one batch position at a
//! time; a packet is held for powers of two of steps. Cycles are the slowest stage, and to fill the ring and
//! the pipeline.

use crate::cost_math::CostMath;
use tilewright_tcp_cost::Setup;
use tilewright_tcp_cost::energy::{COMPONENTS, Component};

/// `batch` independent products of `rows0 x sum` by `rows1 x sum`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionProduct {
    /// Batch positions.
    pub batch: u64,
    /// Rows of in0.
    pub rows0: u64,
    /// Rows of in1.
    pub rows1: u64,
    /// Length of the sum.
    pub sum: u64,
}

/// A tactic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionTactic {
    /// Slices along batch, rows of in0, rows of in1, and the sum.
    pub split: [u64; 4],
    /// The register files hold in1; in0 if not.
    pub holds_in1: bool,
    /// Lanes.
    pub lanes: u64,
    /// Levels of the adder tree.
    pub depth: u32,
    /// Steps that hold a packet.
    pub repeats: u64,
    /// Bytes of a fetch.
    pub fetch_bytes: u64,
}

/// Cycles of each stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionCycles {
    /// Products.
    pub mac: u64,
    /// The stream.
    pub stream: u64,
    /// Sums that leave.
    pub drain: u64,
    /// A load by the sub context.
    pub load: u64,
    /// The slowest of the first three, and to fill.
    pub cycles: u64,
}

/// Extents on one slice: batch, held rows, streamed rows, sum.
fn extents(product: &SectionProduct, tactic: &SectionTactic) -> [u64; 4] {
    let [batch, rows0, rows1, sum] = tactic.split;
    let (in0, in1) = (product.rows0.div_ceil(rows0), product.rows1.div_ceil(rows1));
    let (held, streamed) = if tactic.holds_in1 { (in1, in0) } else { (in0, in1) };
    [product.batch.div_ceil(batch), held, streamed, product.sum.div_ceil(sum)]
}

/// Slices that share a stream.
fn ring(tactic: &SectionTactic) -> u64 {
    if tactic.holds_in1 { tactic.split[2] } else { tactic.split[1] }
}

/// Rows of the stream in one packet.
fn columns(setup: &Setup<'_>, tactic: &SectionTactic) -> u64 {
    setup.packet_elements() >> tactic.depth
}

/// Whether registers, accumulators and axes have room for a tactic.
pub fn fits(setup: &Setup<'_>, product: &SectionProduct, tactic: &SectionTactic) -> bool {
    let machine = setup.machine;
    let [_, held, streamed, sum] = extents(product, tactic);
    let columns = columns(setup, tactic);
    let tree = setup.packet_elements() / columns.max(1);
    let held_bytes = held.times_cost(sum).times_cost(setup.element_bits()) / 8;
    let sums = tactic.repeats * tactic.lanes * columns;
    held_bytes <= machine.ce.lanes * machine.trf_lane_payload_bytes()
        && tactic.lanes <= held
        && columns <= streamed
        && tree <= sum
        && tactic.repeats <= held / tactic.lanes
        && (sum.div_ceil(tree) == 1 || sums <= machine.accumulators())
}

/// The closed forms.
pub fn stages(setup: &Setup<'_>, product: &SectionProduct, tactic: &SectionTactic) -> SectionCycles {
    let machine = setup.machine;
    let [batch, held, streamed, sum] = extents(product, tactic);
    let columns = columns(setup, tactic);
    let tree = setup.packet_elements() / columns.max(1);
    let bytes = |elements: u64| elements * setup.element_bits() / 8;
    let mac = batch * held.div_ceil(tactic.lanes) * streamed.div_ceil(columns) * sum.div_ceil(tree);
    let passes = held.div_ceil(tactic.lanes * tactic.repeats);
    let stream = batch * passes * bytes(streamed * sum) / tactic.fetch_bytes;
    let drained = machine.ce.drain_elements_per_cycle.min(tactic.lanes * columns);
    let drain = batch * held * streamed / drained;
    let load = batch * bytes(held * sum) / machine.fetch.sub_width_bytes;
    let cycles = mac.max(stream).max(drain) + ring(tactic) + machine.ce.fill_cycles;
    SectionCycles { mac, stream, drain, load, cycles }
}

/// Power of a slice in mW at the chip's clock while it contracts.
pub fn slice_milliwatts(setup: &Setup<'_>, product: &SectionProduct, tactic: &SectionTactic) -> f64 {
    slice_parts(setup, product, tactic).iter().sum()
}

/// The same by component: the events of the closed forms, a cache hit for every register read of a block that
/// the cache holds.
pub fn slice_parts(setup: &Setup<'_>, product: &SectionProduct, tactic: &SectionTactic) -> [f64; COMPONENTS] {
    let energy = &setup.machine.energy;
    let [batch, held, streamed, sum] = extents(product, tactic).map(count);
    let stages = stages(setup, product, tactic);
    let columns = count(columns(setup, tactic));
    let tree = count(setup.packet_elements()) / columns;
    let element_bytes = count(setup.element_bits()) / 8.0;
    let steps = count(stages.mac);
    let lanes = count(tactic.lanes);
    let macs = steps * lanes * count(setup.packet_elements());
    let results = batch * held * streamed;
    let updates = steps * lanes * columns;
    let accumulates =
        if (sum / tree) > 1.0 { energy.accumulator_update_pj } else { energy.accumulator_pass_pj };
    let cache_bytes =
        count(setup.machine.trf.banks * setup.machine.trf.cache_rows * setup.machine.trf.row_payload_bytes);
    let block = count(tactic.repeats) * sum * element_bytes;
    let read = if block <= cache_bytes { energy.trf_hit_pj_per_byte } else { energy.trf_read_pj_per_byte };
    let registers = steps * lanes * tree * element_bytes * read;
    let passes = (held / (lanes * count(tactic.repeats))).ceil();
    let delivered = batch * passes * streamed * sum * element_bytes;
    let ring = count(ring(tactic));
    let network = if ring > 1.0 { delivered * energy.network_hop_pj_per_byte } else { 0.0 };
    let fetched = delivered / ring * energy.dm_read_pj_per_byte;
    let written = results * 4.0 * energy.dm_write_pj_per_byte;
    let cycles = count(stages.cycles);
    let mut parts = [0.0; COMPONENTS];
    for (component, event_pj) in [
        (Component::Products, macs * energy.mac_int8_pj),
        (Component::Contraction, steps * energy.ce_active_cycle_pj),
        (Component::Accumulators, updates * accumulates),
        (Component::Registers, registers),
        (Component::Network, network),
        (Component::DataMemory, fetched + written),
        (Component::Slices, cycles * energy.slice_idle_cycle_pj),
    ] {
        parts[component as usize] = event_pj / cycles;
    }
    parts
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn count(value: u64) -> f64 {
    value as f64
}

/// Calls `visit` with every tactic that fits, on all slices of the setup, fetched in whole words.
pub fn every_tactic(setup: &Setup<'_>, product: &SectionProduct, visit: &mut dyn FnMut(&SectionTactic)) {
    let slices = setup.slices();
    let fetch = &setup.machine.fetch;
    let widths = fetch.main_widths_bytes.iter().copied().filter(|width| *width >= fetch.packet_granule_bytes);
    let powers = |most: u64| {
        std::iter::successors(Some(1_u64), |power| Some(power * 2)).take_while(move |p| *p <= most)
    };
    // Sums over more than four slices leave the reducer more to do than the contraction.
    for (batch, sum) in powers(product.batch).flat_map(|batch| powers(4).map(move |sum| (batch, sum))) {
        for rows0 in powers(slices / (batch * sum).min(slices)) {
            let rows1 = slices / (batch * sum * rows0);
            if batch * sum * rows0 * rows1 != slices {
                continue;
            }
            let split = [batch, rows0, rows1, sum];
            for (holds_in1, lanes) in [true, false]
                .into_iter()
                .flat_map(|held| powers(setup.machine.ce.lanes).map(move |l| (held, l)))
            {
                for depth in 0..=setup.packet_elements().ilog2() {
                    for repeats in powers(product.rows0.max(product.rows1)) {
                        for fetch_bytes in widths.clone() {
                            let tactic =
                                SectionTactic { split, holds_in1, lanes, depth, repeats, fetch_bytes };
                            if fits(setup, product, &tactic) {
                                visit(&tactic);
                            }
                        }
                    }
                }
            }
        }
    }
}
