//! The tensor unit commands of the vISA book's MNIST schedule, whose bars are measured to about 3 cycles.
//! Stages are those of the program that the book schedules. What the rules miss is asserted as it is, and its
//! test says so.

use tilewright_tcp_cost::cycles::cast::CastStage;
use tilewright_tcp_cost::cycles::collect::CollectStage;
use tilewright_tcp_cost::cycles::commit::CommitStage;
use tilewright_tcp_cost::cycles::fetch::FetchStage;
use tilewright_tcp_cost::cycles::load::LoadStage;
use tilewright_tcp_cost::cycles::switch::SwitchStage;
use tilewright_tcp_cost::cycles::vector::VectorStage;
use tilewright_tcp_cost::cycles::{CommandCycles, CommandStages, PipelineStage, command_cycles};
use tilewright_tcp_isa::contraction::ContractionStage;
use tilewright_tcp_isa::program::exec::{Context, Drain};
use tilewright_tcp_isa::switch::{Ring, Topology, delivered_packets};
use tilewright_tcp_isa::transpose::TransposeStage;

use crate::cycles::tcp;

fn run(command: CommandStages) -> CommandCycles {
    command_cycles(&tcp(), &command)
}

fn within_3(ours: u64, published: u64) -> bool {
    ours.abs_diff(published) <= 3
}

/// Packets through fetch and collect.
fn fetched(packets: u64, packet_bytes: u64) -> CommandStages {
    let (context, read_bytes) = (Context::Main, packet_bytes);
    CommandStages {
        fetch: Some(FetchStage { context, packets, packet_bytes, read_bytes, cast: false }),
        collect: Some(CollectStage { packets, packet_bytes }),
        ..CommandStages::default()
    }
}

fn commit(flits: u64) -> Option<CommitStage> {
    Some(CommitStage { context: Context::Main, flits, valid_bytes: 8, write_bytes: 8 })
}

/// Rows of 8 columns, each a flit.
fn transpose(rows: u64, output_rows: u64, tiles: u64) -> Option<TransposeStage> {
    Some(TransposeStage { element_bits: 16, rows, columns: 8, output_rows, flit_elements: 8, tiles })
}

#[test]
fn one_flit_transposed_takes_273() {
    let cost = run(CommandStages { transpose: transpose(1, 8, 1), commit: commit(8), ..fetched(1, 16) });
    assert_eq!((cost.total_cycles, cost.binding), (273, PipelineStage::Transpose));
}

#[test]
fn a_load_of_1600_bytes_takes_464() {
    let fetch =
        FetchStage { context: Context::Sub, packets: 1, packet_bytes: 1600, read_bytes: 8, cast: false };
    let load = LoadStage { context: Context::Sub, slice_bytes: 1600 };
    let cost = run(CommandStages { fetch: Some(fetch), load: Some(load), ..CommandStages::default() });
    assert_eq!((cost.total_cycles, cost.stage_cycles(PipelineStage::Load)), (464, 200));
}

/// 264 + 50 in the figure, so the tree (5) is in the 264; the last sum leaves one cycle after its last
/// product.
#[test]
fn the_first_layer_takes_314_but_for_the_last_sum() {
    let contraction = ContractionStage {
        packet_elements: 32,
        packet_bytes: 64,
        repeats: 1,
        groups: 1,
        group_steps: 25,
        group_output_steps: 1,
        lanes: 1,
        columns: 1,
        drain: Drain::Interleaved,
    };
    let (contraction, cast) = (Some(contraction), Some(CastStage { flits: 1 }));
    let cost = run(CommandStages { contraction, cast, commit: commit(1), ..fetched(50, 32) });
    assert_eq!((cost.total_cycles, cost.stage_cycles(PipelineStage::Contraction)), (315, 50));
    assert!(within_3(cost.total_cycles, 314));
}

/// One flit, of which each slice keeps what the ring delivers.
fn switched(topology: Topology, packets: u64, packet_bytes: u64) -> CommandStages {
    let packets_kept = delivered_packets(topology, packets);
    CommandStages {
        switch: Some(SwitchStage { topology, packets, packet_flits: 1 }),
        collect: Some(CollectStage { packets: packets_kept, packet_bytes }),
        ..fetched(packets, packet_bytes)
    }
}

#[test]
fn an_exchange_of_8_steps_in_rings_of_8_takes_343() {
    let exchange = switched(Topology::InterTranspose(Ring { slice1: 8, slice0: 1 }, 1), 8, 16);
    let cost = run(CommandStages { transpose: transpose(4, 1, 2), commit: commit(2), ..exchange });
    // One cycle more than the ring: the last tile leaves after its last packet has arrived.
    assert_eq!((cost.total_cycles, cost.binding), (264 + 64 + 16 + 1, PipelineStage::Switch));
    assert!(within_3(cost.total_cycles, 343));
}

#[test]
fn a_broadcast_in_a_ring_of_256_takes_1033() {
    let broadcast = switched(Topology::Broadcast1(Ring { slice1: 256, slice0: 1 }), 1, 8);
    let cost = run(CommandStages { transpose: transpose(4, 1, 64), commit: commit(64), ..broadcast });
    assert_eq!((cost.total_cycles, cost.binding), (264 + 257 + 512, PipelineStage::Transpose));
    assert_eq!(cost.total_cycles, 1033);
}

/// 264 + 2 + 18 in the figure: the 18 are fetch cast (2), units (1 or 2), and the depth of the engine.
#[test]
fn adding_a_bias_takes_284_with_relu_and_283_without() {
    let add = VectorStage {
        flits: 2,
        chain_flits: 2,
        narrow: false,
        upper_half_padding: true,
        units: 1,
        reduced_slices: 1,
    };
    let mut bias = CommandStages {
        vector: Some(add),
        cast: Some(CastStage { flits: 1 }),
        commit: commit(1),
        ..fetched(2, 8)
    };
    bias.fetch = bias.fetch.map(|fetch| FetchStage { cast: true, ..fetch });
    let relu = CommandStages { vector: Some(VectorStage { units: 2, ..add }), ..bias };
    assert_eq!([run(relu).total_cycles, run(bias).total_cycles], [284, 283]);
}

#[test]
fn a_command_without_stages_takes_its_overhead() {
    let cost = run(CommandStages::default());
    assert_eq!((cost.total_cycles, cost.overhead_cycles), (264, 264));
}
