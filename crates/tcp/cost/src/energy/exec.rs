//! Events of a tensor unit command (engines in the order of the vISA book).

use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;
use tilewright_tcp_isa::contraction::{ContractionStage, active_elements, packet_elements};
use tilewright_tcp_isa::flow::{flow, packet_flits};
use tilewright_tcp_isa::program::exec::{Commit, Contract, Exec, ExecBody, Memory, Stream, iterations};
use tilewright_tcp_isa::program::vector::{ReduceOutput, Vector};
use tilewright_tcp_isa::switch::{Topology, ring_slices};
use tilewright_tcp_isa::vector::{flits_out, op_counts};

use super::{EnergyCounts, live};
use crate::cycles::registers;
use tilewright_tcp_isa::capped::{Capped, capped};

/// What a resolved image does, on all slices of its group together.
pub fn counts(machine: &Tcp, exec: &Exec) -> EnergyCounts {
    let slices = exec.pes.capped_mul(machine.pe.slices);
    let mut slice = EnergyCounts::default();
    match &exec.body {
        ExecBody::Stream(stream) => {
            network(machine, stream, &mut slice);
            let ratio = live::fraction(&stream.fetch, slices);
            if let Some(contract) = &stream.contract {
                products(machine, stream, contract, ratio, &mut slice);
            }
            if let Some(vector) = &stream.vector {
                let flits = flow(machine, stream).vector_flits;
                self::vector(machine, vector, flits, &mut slice);
            }
            let mut all = EnergyCounts::default();
            all.add(&slice, slices);
            if let Topology::Custom(ring) = stream.switch.topology {
                // Slices of a ring may keep different numbers of packets.
                let kept = stream.switch.sources.iter().map(|kept| kept.len() as u64).sum();
                all.delivered_bytes = all.sent_bytes.capped_mul(kept).checked_div(ring).unwrap_or(0);
            }
            written(&stream.commit, slices, &mut all);
            all
        }
        ExecBody::Fill(fill) => {
            let mut all = EnergyCounts::default();
            written(&fill.commit, slices, &mut all);
            all
        }
        ExecBody::Short(short) => {
            let bytes = short.bytes.capped_mul(slices);
            let trf_written_bytes = if short.memory == Memory::Vrf { 0 } else { bytes };
            EnergyCounts { fetch_bytes: bytes, trf_written_bytes, ..EnergyCounts::default() }
        }
    }
}

/// Fetch, network and collect.
fn network(machine: &Tcp, stream: &Stream, counts: &mut EnergyCounts) {
    let flow = flow(machine, stream);
    counts.fetch_bytes = flow.packets.capped_mul(flow.read_packet_bytes);
    counts.flits = flow.flits;
    if stream.switch.topology == Topology::Forwarding {
        return;
    }
    let packet_bytes = packet_flits(machine, flow.packet_bytes).capped_mul(machine.network.flit_bytes);
    counts.sent_bytes = flow.packets.capped_mul(packet_bytes);
    counts.delivered_bytes = flow.kept_packets.capped_mul(packet_bytes);
    // Every packet passes the whole ring, kept or not.
    counts.hop_bytes = counts.sent_bytes.capped_mul(ring_slices(stream.switch.topology));
}

fn products(
    machine: &Tcp,
    stream: &Stream,
    contract: &Contract,
    (live, of): (u128, u128),
    counts: &mut EnergyCounts,
) {
    let shape = ContractionStage::of(machine, stream, contract);
    let whole = packet_elements(machine, stream.fetch.leaves(), contract);
    let width = active_elements(contract).unwrap_or(whole);
    let steps = shape.groups.capped_mul(shape.group_steps);
    let macs = steps.capped_mul(contract.lanes).capped_mul(width);
    match stream.fetch.leaves() {
        Dtype::I4 | Dtype::I5 => counts.macs_int4 = macs,
        Dtype::F8E4M3Fn | Dtype::F8E5M2 => counts.macs_fp8 = macs,
        Dtype::Bf16 => counts.macs_bf16 = macs,
        _ => counts.macs_int8 = macs,
    }
    // Shifts show most of what is fetched several times and nothing of its padding, so all that they show
    // counts.
    let (live, of) = if contract.shift.is_some() { (1, 1) } else { (live, of) };
    // Elements of whole flits that a packet leaves empty multiply zeros.
    let packet_bytes = flow(machine, stream).packet_bytes;
    let filled = packet_flits(machine, packet_bytes).capped_mul(machine.network.flit_bytes).max(1);
    let filling = if width < whole || contract.shift.is_some() { filled } else { packet_bytes.min(filled) };
    let useful = u128::from(macs) * u128::from(filling) / u128::from(filled);
    let useful = useful.capped_mul(live).checked_div(of).unwrap_or(0);
    counts.macs_useful = capped(useful);
    counts.contraction_cycles = steps;
    let sums = steps.capped_mul(contract.lanes).capped_mul(shape.columns);
    if shape.group_steps > shape.group_output_steps {
        counts.accumulator_updates = sums;
    } else {
        counts.accumulator_passes = sums;
    }
    let reads = registers::reads(machine, stream, contract, steps);
    counts.trf_array_bytes = reads.array_bytes;
    counts.trf_cached_bytes = reads.cached_bytes;
}

/// The chain's units on the elements that reach them, and the reducer between slices.
fn vector(machine: &Tcp, vector: &Vector, flits: u64, counts: &mut EnergyCounts) {
    let ops = op_counts(vector, flits).unwrap_or_default();
    counts.vector_int_ops = ops.int;
    counts.vector_float_ops = ops.float;
    counts.vector_functions = ops.exp;
    let Some(between) = vector.between else { return };
    let (slices, others) = (between.slices.max(1), between.slices.saturating_sub(1));
    // Behind the chain, what the ring moves is what the chain leaves.
    let scattered = if matches!(between.gives, ReduceOutput::Scatter { .. }) { slices } else { 1 };
    let behind = flits_out(vector, flits).map_or(flits, |left| left.capped_mul(scattered));
    let moved = if vector.between_first { flits } else { behind };
    let passes = if between.gives == ReduceOutput::Broadcast { 2 } else { 1 };
    let bytes = moved.capped_mul(machine.network.flit_bytes);
    counts.hop_bytes = counts.hop_bytes.capped_add(bytes.capped_mul(others.capped_mul(passes)) / slices);
}

/// Bytes written by the slices that the mask names.
fn written(commit: &Commit, slices: u64, counts: &mut EnergyCounts) {
    let writing = if commit.slices.is_empty() {
        slices
    } else {
        commit.slices.iter().fold(0, |all, (first, end)| {
            let end = (*end).min(slices);
            u64::capped_add(all, end.saturating_sub(*first))
        })
    };
    let bytes = iterations(&commit.loops).capped_mul(commit.bytes).capped_mul(writing.min(slices));
    match commit.memory {
        Memory::Dm => counts.commit_bytes = bytes,
        Memory::Trf { .. } => counts.trf_written_bytes = bytes,
        Memory::Vrf => {}
    }
}
