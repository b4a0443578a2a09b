//! From a register image to the stages of a command: what `exec` and `dma` take, alone (vISA book, engines in
//! order).
//!
//! Sizes must be numbers ([`Exec::resolved`]); a register counts as 0. The closed forms of the engines do the
//! rest. Counts behind the vector engine are those of the commit unit, whose loops say how many flits arrive.

use tilewright_base::invariant::OrBroken;
use tilewright_machine::tcp::Tcp;
use tilewright_notation::algebra::access::{AccessLoop, AccessPattern};
use tilewright_tcp_isa::contraction::ContractionStage;
use tilewright_tcp_isa::flow::{FlowCounts, flow, packet_flits};
use tilewright_tcp_isa::memory::payload_bits;
use tilewright_tcp_isa::program::exec;
use tilewright_tcp_isa::program::exec::{
    Context, Exec, ExecBody, Fill, Memory, ShortLoad, Stream, iterations,
};
use tilewright_tcp_isa::switch::Topology;
use tilewright_tcp_isa::transpose::{TransposeStage, tile_flits};

use super::cast::CastStage;
use super::collect::CollectStage;
use super::commit::CommitStage;
use super::fetch::{self, FetchStage};
use super::load::LoadStage;
use super::switch::SwitchStage;
use super::vector::VectorStage;
use super::{CommandCycles, CommandStages, PipelineStage, command_cycles};
use tilewright_tcp_isa::capped::Capped;

mod accesses;
pub mod context_overlap;
pub mod exclusive_use;
pub mod longest;
pub mod networks;
pub mod transfer;

pub use accesses::held_accesses;
pub use context_overlap::{Traffic, bank_shares_q32, sub_speed_q32, traffic};
pub use exclusive_use::{ExclusiveUse, exclusive_use};
pub use longest::{Delay, LongestCycles, exec_longest_cycles, longest_cycles};
pub use transfer::{TransferCost, transfer_cost};

/// How long an execution takes alone, and why.
pub fn exec_cycles(machine: &Tcp, exec: &Exec) -> CommandCycles {
    let mut cycles = command_cycles(machine, &exec_command(machine, exec));
    if let ExecBody::Stream(stream) = &exec.body
        && stream.contract.as_ref().is_some_and(|contract| contract.transpose.is_some())
    {
        let delay_cycles = machine.ce.transpose_cycles;
        let tail = &mut cycles.tail_cycles[PipelineStage::Contraction as usize];
        *tail = tail.capped_add(delay_cycles);
        cycles.total_cycles = cycles.total_cycles.capped_add(delay_cycles);
    }
    cycles
}

/// The stages of an execution.
pub fn exec_command(machine: &Tcp, exec: &Exec) -> CommandStages {
    match &exec.body {
        ExecBody::Stream(stream) => stream_command(machine, exec.context, stream),
        ExecBody::Fill(fill) => fill_command(exec.context, fill),
        ExecBody::Short(short) => short_command(exec.context, *short),
    }
}

fn stream_command(machine: &Tcp, context: Context, stream: &Stream) -> CommandStages {
    let flow = flow(machine, stream);
    let switch = (stream.switch.topology != Topology::Forwarding).then(|| SwitchStage {
        topology: stream.switch.topology,
        packets: flow.packets,
        packet_flits: packet_flits(machine, flow.packet_bytes),
    });
    let tiles = stream.transpose.map(|transpose| transpose_stage(stream, transpose, flow.commit_flits));
    let cast_flits = tiles.map_or(flow.commit_flits, |tiles| tiles.tiles.capped_mul(tile_flits(&tiles)));
    let mut command = CommandStages {
        fetch: Some(fetch_stage(machine, context, stream, &flow)),
        switch,
        collect: Some(CollectStage { packets: flow.kept_packets, packet_bytes: flow.packet_bytes }),
        contraction: stream.contract.as_ref().map(|contract| ContractionStage::of(machine, stream, contract)),
        vector: vector_stage(stream, &flow),
        cast: stream.cast.map(|_| CastStage { flits: cast_flits }),
        transpose: tiles,
        ..CommandStages::default()
    };
    write_stage(context, &stream.commit, &mut command);
    command
}

fn fetch_stage(machine: &Tcp, context: Context, stream: &Stream, flow: &FlowCounts) -> FetchStage {
    let fetch = &stream.fetch;
    FetchStage {
        context,
        packets: flow.packets,
        packet_bytes: flow.read_packet_bytes,
        read_bytes: read_bytes(machine, context, fetch),
        cast: fetch.cast.is_some(),
    }
}

/// Bytes of an access: as wide as the addresses allow, and no wider than what becomes one flit behind the
/// adapter.
pub fn read_bytes(machine: &Tcp, context: Context, fetch: &exec::Fetch) -> u64 {
    let (read_bits, sent_bits) = (payload_bits(fetch.dtype), payload_bits(fetch.leaves()));
    let widest = fetch::read_bytes(machine, context, &pattern(fetch), fetch.packet, read_bits);
    let most = machine.network.flit_bytes.capped_mul(read_bits) / sent_bits.max(1);
    if context == Context::Sub || widest <= most {
        return widest;
    }
    let widths = machine.fetch.main_widths_bytes.iter().copied();
    let narrower = widths.clone().filter(|width| *width <= most && widest.is_multiple_of(*width)).max();
    narrower.or(widths.min()).or_broken("a machine has widths of fetches")
}

/// The loops of a fetch, joined where they can be; loops that jump elsewhere join nothing.
pub(crate) fn pattern(fetch: &exec::Fetch) -> AccessPattern {
    /// No loop of bytes that exist has such a stride.
    const JUMP: u64 = 1 << 63;
    let jumps = [fetch.interleave.map(|jump| jump.at_loop), fetch.indirect.map(|jump| jump.at_loop)];
    let loops = fetch.loops.iter().enumerate().map(|(at, row)| {
        let stride = if jumps.contains(&Some(at)) { JUMP } else { row.stride.cast_unsigned() };
        AccessLoop::new(row.size.fixed(), stride)
    });
    AccessPattern { loops: loops.collect() }.merged()
}

fn vector_stage(stream: &Stream, flow: &FlowCounts) -> Option<VectorStage> {
    stream.vector.as_ref().map(|vector| VectorStage::of(vector, flow.vector_flits))
}

fn transpose_stage(stream: &Stream, transpose: exec::Transpose, commit_flits: u64) -> TransposeStage {
    let computed = stream.contract.is_some() || stream.vector.is_some();
    let word_bits = if computed { 32 } else { payload_bits(stream.fetch.leaves()) };
    let element_bits = stream.cast.map_or(word_bits, payload_bits);
    TransposeStage {
        element_bits,
        rows: transpose.rows,
        columns: transpose.columns,
        output_rows: transpose.kept,
        flit_elements: if element_bits == 4 { 16 } else { 8 },
        tiles: commit_flits.div_ceil(transpose.kept.max(1)),
    }
}

/// The commit unit, or the register file that takes what would be committed.
fn write_stage(context: Context, commit: &exec::Commit, command: &mut CommandStages) {
    let flits = iterations(&commit.loops);
    match commit.memory {
        Memory::Dm => {
            let (valid_bytes, write_bytes) = (commit.bytes, commit.width);
            command.commit = Some(CommitStage { context, flits, valid_bytes, write_bytes });
        }
        Memory::Trf { .. } | Memory::Vrf => {
            command.load = Some(LoadStage { context, slice_bytes: flits.capped_mul(commit.bytes) });
        }
    }
}

fn fill_command(context: Context, fill: &Fill) -> CommandStages {
    let mut command = CommandStages::default();
    write_stage(context, &fill.commit, &mut command);
    command
}

fn short_command(context: Context, short: ShortLoad) -> CommandStages {
    CommandStages { load: Some(LoadStage { context, slice_bytes: short.bytes }), ..CommandStages::default() }
}
