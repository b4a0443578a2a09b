//! Published cycle counts by the closed forms of the engine: single stages, whole commands, transfers. Rows
//! of `bench/published.toml` say what runs; nothing is computed here that `tilewright_tcp_cost::cycles` does
//! not say.

use serde::Deserialize;
use tilewright_base::invariant::Exact;
use tilewright_machine::Tcp;
use tilewright_notation::algebra::access::{AccessLoop, AccessPattern};
use tilewright_tcp_cost::cycles::cast::CastStage;
use tilewright_tcp_cost::cycles::collect::{CollectStage, padding_bytes};
use tilewright_tcp_cost::cycles::commit::CommitStage;
use tilewright_tcp_cost::cycles::dma::{DmaRoute, DmaSide, ahead_cycles, requests, transfer_cycles};
use tilewright_tcp_cost::cycles::fetch::{self, FetchStage};
use tilewright_tcp_cost::cycles::hbm::{Direction, HbmAccess, HbmChannels};
use tilewright_tcp_cost::cycles::load::LoadStage;
use tilewright_tcp_cost::cycles::vector::VectorStage;
use tilewright_tcp_cost::cycles::{CommandStages, command_cycles, switch, transpose};
use tilewright_tcp_isa::contraction::ContractionStage;
use tilewright_tcp_isa::flow::packet_flits;
use tilewright_tcp_isa::program::exec::{Context, Drain};
use tilewright_tcp_isa::switch::{Ring, Topology, delivered_packets};
use tilewright_tcp_isa::transpose::TransposeStage;

/// A contiguous tensor in packets.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FetchCase {
    elements: u64,
    packet: u64,
    bits: u64,
}

/// Packets through a ring.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SwitchCase {
    topology: String,
    ring: [u64; 2],
    #[serde(default)]
    time0: u64,
    packets: u64,
    flits: u64,
}

/// Tiles through the transpose engine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TransposeCase {
    bits: u64,
    rows: u64,
    columns: u64,
    out_rows: u64,
    tiles: u64,
    flit_elements: u64,
}

/// A transfer: loops of sizes and strides of the side in off-chip memory, requests of the side in data
/// memory.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TransferCase {
    route: String,
    engines: u64,
    dmns: u64,
    packet: u64,
    #[serde(default)]
    from: Vec<[u64; 2]>,
    #[serde(default)]
    to: Vec<[u64; 2]>,
    /// First bytes of the engines' parts.
    #[serde(default)]
    bases: Vec<u64>,
    #[serde(default)]
    to_base: u64,
}

/// Stages of a command; those that are left out it does not have.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CommandCase {
    sub: bool,
    packets: u64,
    packet_bytes: u64,
    read_bytes: Option<u64>,
    cast_in: bool,
    switch: Option<SwitchCase>,
    transpose: Option<TransposeCase>,
    /// Steps of one sum on one lane.
    contraction_steps: Option<u64>,
    vector_units: Option<u64>,
    vector_flits: u64,
    cast_flits: Option<u64>,
    commit_flits: Option<u64>,
    load_bytes: Option<u64>,
}

/// Cycles of a fetch.
pub(crate) fn fetched(machine: &Tcp, how: &FetchCase) -> u64 {
    let pattern = AccessPattern { loops: [AccessLoop::new(how.elements, 1)].into_iter().collect() };
    let read_bytes = fetch::read_bytes(machine, Context::Main, &pattern, how.packet, how.bits);
    // A row without packets sends none.
    let packets = how.elements.checked_div(how.packet).unwrap_or(0);
    let packet_bytes = how.packet.exact_mul(how.bits) / 8;
    let fetch = FetchStage { context: Context::Main, packets, packet_bytes, read_bytes, cast: false };
    fetch::stream_cycles(machine, &fetch)
}

/// Part of its flits that a packet leaves empty.
pub(crate) fn wasted(machine: &Tcp, packet_bytes: u64) -> f64 {
    let flits = packet_flits(machine, packet_bytes) * machine.network.flit_bytes;
    crate::sizes::size(padding_bytes(machine, packet_bytes)) / crate::sizes::size(flits.max(1))
}

fn topology(how: &SwitchCase) -> Option<Topology> {
    let [slice1, slice0] = how.ring;
    let ring = Ring { slice1, slice0 };
    Some(match how.topology.as_str() {
        "broadcast01" => Topology::Broadcast01(ring, how.time0),
        "broadcast1" => Topology::Broadcast1(ring),
        "transpose" => Topology::Transpose(ring),
        "transposed_broadcast1" => Topology::TransposedBroadcast1(ring),
        "inter_transpose" => Topology::InterTranspose(ring, how.time0),
        "custom" => Topology::Custom(slice1.exact_mul(slice0)),
        _ => return None,
    })
}

/// Cycles of a switch.
pub(crate) fn switched(how: &SwitchCase) -> Option<u64> {
    let topology = topology(how)?;
    Some(switch::stream_cycles(&switch::SwitchStage {
        topology,
        packets: how.packets,
        packet_flits: how.flits,
    }))
}

fn tiles(how: &TransposeCase) -> TransposeStage {
    TransposeStage {
        element_bits: how.bits,
        rows: how.rows,
        columns: how.columns,
        output_rows: how.out_rows,
        flit_elements: how.flit_elements,
        tiles: how.tiles,
    }
}

/// Cycles of a transpose.
pub(crate) fn transposed(machine: &Tcp, how: &TransposeCase) -> u64 {
    transpose::stream_cycles(machine, &tiles(how))
}

/// Cycles of a command.
pub(crate) fn command(machine: &Tcp, how: &CommandCase) -> Option<u64> {
    let context = if how.sub { Context::Sub } else { Context::Main };
    let (packets, packet_bytes) = (how.packets, how.packet_bytes);
    let read_bytes = how.read_bytes.unwrap_or(packet_bytes);
    let topology = match &how.switch {
        Some(switch) => Some(topology(switch)?),
        None => None,
    };
    let kept = topology.map_or(packets, |topology| delivered_packets(topology, packets));
    let contraction = how.contraction_steps.map(|group_steps| ContractionStage {
        packet_elements: 8 * machine.ce.packet_bytes / 16,
        packet_bytes: machine.ce.packet_bytes,
        repeats: 1,
        groups: 1,
        group_steps,
        group_output_steps: 1,
        lanes: 1,
        columns: 1,
        drain: Drain::Interleaved,
    });
    let vector = how.vector_units.map(|units| VectorStage {
        flits: how.vector_flits,
        chain_flits: how.vector_flits,
        narrow: false,
        upper_half_padding: true,
        units,
        reduced_slices: 1,
    });
    let commit = how.commit_flits.map(|flits| CommitStage { context, flits, valid_bytes: 8, write_bytes: 8 });
    let command = CommandStages {
        fetch: Some(FetchStage { context, packets, packet_bytes, read_bytes, cast: how.cast_in }),
        switch: topology.map(|topology| switch::SwitchStage { topology, packets, packet_flits: 1 }),
        collect: how.load_bytes.is_none().then_some(CollectStage { packets: kept, packet_bytes }),
        contraction,
        vector,
        cast: how.cast_flits.map(|flits| CastStage { flits }),
        transpose: how.transpose.as_ref().map(tiles),
        commit,
        load: how.load_bytes.map(|slice_bytes| LoadStage { context, slice_bytes }),
    };
    Some(command_cycles(machine, &command).total_cycles)
}

/// One side in off-chip memory.
fn off_chip(
    machine: &Tcp,
    how: &TransferCase,
    direction: Direction,
    loops: &[[u64; 2]],
    bases: &[u64],
) -> Option<DmaSide> {
    let loops: Vec<AccessLoop> = loops.iter().map(|[size, stride]| AccessLoop::new(*size, *stride)).collect();
    let packets = loops.iter().map(|step| step.size).product();
    let mut channels = HbmChannels::new(machine);
    for base_bytes in bases {
        let access =
            HbmAccess { direction, base_bytes: *base_bytes, loops_bytes: &loops, packet_bytes: how.packet };
        channels.add(machine, &access).ok()?;
    }
    let sent = requests(machine, packets, how.packet).exact_mul(bases.len() as u64);
    Some(DmaSide::off_chip(machine, sent, how.engines, &channels))
}

/// Cycles of a transfer.
pub(crate) fn moved(machine: &Tcp, how: &TransferCase) -> Option<u64> {
    let bases = if how.bases.is_empty() { &[0][..] } else { &how.bases };
    let within = |loops: &[[u64; 2]]| {
        let packets: u64 = loops.iter().map(|[size, _]| *size).product();
        let sent = requests(machine, packets, how.packet).exact_mul(bases.len() as u64);
        DmaSide::data_memory(machine, sent, how.engines, how.dmns, false)
    };
    let (route, read, write) = match how.route.as_str() {
        "hbm to hbm" => (
            DmaRoute::WithinOffChip { ahead_cycles: ahead_cycles(machine) },
            off_chip(machine, how, Direction::Read, &how.from, bases)?,
            off_chip(machine, how, Direction::Write, &how.to, &[how.to_base])?,
        ),
        "hbm to dm" => (
            DmaRoute::AcrossTiers,
            off_chip(machine, how, Direction::Read, &how.from, bases)?,
            within(&how.from),
        ),
        "dm to hbm" => (
            DmaRoute::AcrossTiers,
            within(&how.to),
            off_chip(machine, how, Direction::Write, &how.to, &[how.to_base])?,
        ),
        "dm to dm" => (DmaRoute::WithinTier, within(&how.from), within(&how.from)),
        _ => return None,
    };
    Some(transfer_cycles(machine.tdma.startup_cycles, route, read, write).total_cycles)
}
