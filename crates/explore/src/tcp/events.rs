//! What a candidate does, counted from its loop sizes, and the energy of it (the figures and components are
//! `tilewright_tcp_cost::energy`; nothing here allocates).

use tilewright_num::Dtype;
use tilewright_tcp_cost::Setup;
use tilewright_tcp_cost::cycles::register_file_cache::{RowLoop, row_reads};
use tilewright_tcp_cost::energy::{COMPONENTS, Component, EnergyCounts, energy_fj};
use tilewright_tcp_isa::flow::packet_flits;
use tilewright_tcp_isa::switch::ring_slices;

use crate::cost_math::{CostMath, INFINITE};
use crate::tcp::cost::{CandidateCommands, WORD_BYTES, bytes, row_bytes};
use crate::tcp::point::{LoopNest, ORDERS, StreamSupply, TcpChoice, TimeLoop};

/// Events of the contraction of one part by itself, on all slices of the group.
pub fn of_contraction(
    setup: &Setup<'_>,
    nest: &LoopNest,
    choice: &TcpChoice,
    commands: &CandidateCommands,
) -> EnergyCounts {
    let mut all = EnergyCounts::default();
    all.add(&contract_counts(setup, nest, choice, commands), setup.slices());
    all.commit_bytes = committed(nest, commands);
    all
}

/// Bytes of results that the contraction writes: only slices that have some.
fn committed(nest: &LoopNest, commands: &CandidateCommands) -> u64 {
    let of_slice = commands.contract.commit.map_or(0, |commit| commit.flits.times_cost(commit.valid_bytes));
    of_slice.times_cost(nest.writing_slices())
}

/// Events of all commands of one part, on all slices of the group.
pub fn counts(
    setup: &Setup<'_>,
    nest: &LoopNest,
    choice: &TcpChoice,
    commands: &CandidateCommands,
) -> EnergyCounts {
    let slices = setup.slices();
    let mut all = of_contraction(setup, nest, choice, commands);
    all.add(&load_counts(setup, nest, commands), slices);
    // Writing is for the slices that have something to write.
    let loaded = commands.load.load.map_or(0, |load| load.slice_bytes);
    let idle_parts = nest.summed_slices > 1;
    let loading = if idle_parts { nest.live_slices_of_groups() } else { nest.live_slices };
    all.trf_written_bytes = loaded.times_cost(loading);
    let writing = nest.writing_slices();
    if let Some(bridge) = &commands.bridge {
        let moved = bridge.fetch.map_or(0, |fetch| fetch.packets.times_cost(fetch.packet_bytes));
        let flits = bridge.collect.map_or(0, |collect| collect.packets);
        all.fetch_bytes = all.fetch_bytes.plus_cost(moved.times_cost(slices));
        all.flits = all.flits.plus_cost(flits.times_cost(slices));
        all.commit_bytes = all.commit_bytes.plus_cost(moved.times_cost(writing));
    }
    all
}

impl LoopNest {
    /// Slices that write results: one of each group that adds its parts.
    fn writing_slices(&self) -> u64 {
        if self.summed_slices > 1 {
            self.live_slices_of_groups() / self.summed_slices
        } else {
            self.live_slices
        }
    }

    /// Slices of the groups that add their parts: idle ones of a group take part with zeros.
    fn live_slices_of_groups(&self) -> u64 {
        self.live_groups.times_cost(self.summed_slices)
    }
}

fn load_counts(setup: &Setup<'_>, nest: &LoopNest, commands: &CandidateCommands) -> EnergyCounts {
    let (_, read) = row_bytes(setup, nest.tree);
    let rows = commands.load.collect.map_or(0, |collect| collect.packets);
    let flits = rows.times_cost(packet_flits(setup.machine, read));
    EnergyCounts { fetch_bytes: rows.times_cost(read), flits, ..EnergyCounts::default() }
}

fn contract_counts(
    setup: &Setup<'_>,
    nest: &LoopNest,
    choice: &TcpChoice,
    commands: &CandidateCommands,
) -> EnergyCounts {
    let machine = setup.machine;
    let groups = commands.groups();
    let steps = groups.groups.times_cost(groups.steps);
    let macs = steps.times_cost(nest.lanes).times_cost(nest.columns).times_cost(nest.tree);
    let packet_bytes = bytes(setup, nest.columns * nest.tree);
    let own_packets = nest.packets() / nest.ring;
    let flits = packet_flits(machine, packet_bytes);
    let sums = steps.times_cost(nest.lanes).times_cost(nest.columns);
    let (trf_array_bytes, trf_cached_bytes) = register_reads(setup, nest, choice);
    let mut counts = EnergyCounts {
        contraction_cycles: steps,
        trf_array_bytes,
        trf_cached_bytes,
        fetch_bytes: own_packets.times_cost(packet_bytes),
        flits: nest.packets().times_cost(flits),
        ..EnergyCounts::default()
    };
    match setup.dtype {
        Dtype::I4 | Dtype::I5 => counts.macs_int4 = macs,
        Dtype::F8E4M3Fn | Dtype::F8E5M2 => counts.macs_fp8 = macs,
        Dtype::Bf16 => counts.macs_bf16 = macs,
        _ => counts.macs_int8 = macs,
    }
    if groups.steps > groups.open {
        counts.accumulator_updates = sums;
    } else {
        counts.accumulator_passes = sums;
    }
    let flit_bytes = machine.network.flit_bytes;
    if let Some(switch) = &commands.contract.switch {
        counts.sent_bytes = own_packets.times_cost(flits).times_cost(flit_bytes);
        counts.delivered_bytes = nest.packets().times_cost(flits).times_cost(flit_bytes);
        counts.hop_bytes = counts.sent_bytes.times_cost(ring_slices(switch.topology));
    }
    if let Some(vector) = &commands.contract.vector {
        let words = vector.flits.times_cost(flit_bytes / WORD_BYTES);
        if setup.dtype.is_float() {
            counts.vector_float_ops = words;
        } else {
            counts.vector_int_ops = words;
        }
        let others = nest.summed_slices - 1;
        let moved = vector.flits.times_cost(flit_bytes).times_cost(others) / nest.summed_slices;
        counts.hop_bytes = counts.hop_bytes.plus_cost(moved);
    }
    counts
}

/// Bytes that a slice reads from the arrays of its register files and from their caches: all that the order
/// of loops decides.
pub fn register_reads(setup: &Setup<'_>, nest: &LoopNest, choice: &TcpChoice) -> (u64, u64) {
    let (stride, read) = row_bytes(setup, nest.tree);
    let reads = row_reads(setup.machine, row_loops(nest, choice), read, stride);
    let lane_bytes = setup.machine.trf.row_payload_bytes.times_cost(nest.lanes);
    (reads.missed.times_cost(lane_bytes), reads.hit.times_cost(lane_bytes))
}

/// Loops over the rows of the register file, innermost first.
fn row_loops(nest: &LoopNest, choice: &TcpChoice) -> impl Iterator<Item = RowLoop> {
    let (nest, supply) = (*nest, choice.supply);
    let inner_ring = if supply == StreamSupply::RingInner { nest.ring } else { 1 };
    let inner =
        [RowLoop { size: nest.repeats, advances: true }, RowLoop { size: inner_ring, advances: false }];
    let turns = ORDERS[usize::from(choice.order)].into_iter().rev();
    inner.into_iter().chain(
        turns.map(move |turn| RowLoop { size: nest.turn(turn, supply), advances: turn != TimeLoop::Rows }),
    )
}

/// Energy of all parts by component: events, and the clock and leakage of the group's slices for as long as
/// it takes. What the rest of the chip takes meanwhile is nobody's choice here.
pub fn energy(setup: &Setup<'_>, counts: &EnergyCounts, cycles: u64, parts: u64) -> [u64; COMPONENTS] {
    let mut energy = energy_fj(setup.machine, counts).map(|part| part.times_cost(parts));
    energy[Component::Slices as usize] = cycle_fj(setup).times_cost(cycles);
    energy
}

/// Clock and leakage of the group's slices in one cycle.
pub fn cycle_fj(setup: &Setup<'_>) -> u64 {
    let [slices, ..] = tilewright_tcp_cost::energy::standing_fj(setup.machine, 1, 1);
    let share = slices * u128::from(setup.slices()) / u128::from(setup.machine.slices().max(1));
    u64::try_from(share).unwrap_or(INFINITE)
}
