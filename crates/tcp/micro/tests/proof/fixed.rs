//! What random commands once got wrong, shrunk. Each was a closed form without a rule that it has now: see
//! `tilewright_tcp_cost::cycles::batches` and `switch::burst_cycles`.

use tilewright_tcp_cost::cycles::collect::CollectStage;
use tilewright_tcp_cost::cycles::commit::CommitStage;
use tilewright_tcp_cost::cycles::fetch::FetchStage;
use tilewright_tcp_cost::cycles::switch::SwitchStage;
use tilewright_tcp_cost::cycles::{CommandStages, PipelineStage};
use tilewright_tcp_isa::contraction::ContractionStage;
use tilewright_tcp_isa::program::exec::{Context, Drain};
use tilewright_tcp_isa::switch::{Ring, Topology};
use tilewright_tcp_isa::transpose::TransposeStage;
use tilewright_tcp_micro::{MicroCommand, MicroError, run};

use crate::{gap, tcp};

const MAIN: Context = Context::Main;

fn fetched(packets: u64, packet_bytes: u64, read_bytes: u64) -> CommandStages {
    CommandStages {
        fetch: Some(FetchStage { context: MAIN, packets, packet_bytes, read_bytes, cast: false }),
        collect: Some(CollectStage { packets, packet_bytes }),
        ..CommandStages::default()
    }
}

fn commit(flits: u64, valid_bytes: u64, write_bytes: u64) -> Option<CommitStage> {
    Some(CommitStage { context: MAIN, flits, valid_bytes, write_bytes })
}

/// One group whose operands arrive slowly: its sums leave after the last of them, not beside them.
#[test]
fn sums_of_a_group_that_is_fetched_slowly_leave_after_it() {
    let contraction = ContractionStage {
        packet_elements: 64,
        packet_bytes: 32,
        repeats: 32,
        groups: 1,
        group_steps: 256,
        group_output_steps: 128,
        lanes: 8,
        columns: 1,
        drain: Drain::Interleaved,
    };
    let work = MicroCommand::new(CommandStages {
        contraction: Some(contraction),
        commit: commit(128, 32, 8),
        ..fetched(8, 32, 1)
    });
    let gap = gap(&work);
    assert_eq!((gap.binding, gap.is_tight()), (PipelineStage::Commit, true), "{gap:?}");
    assert!(gap.holds() && gap.closed_cycles >= 256 + 512, "{gap:?}");
}

/// A tile leaves at the pace of the commit unit, after its last flit.
#[test]
fn the_last_tile_leaves_as_fast_as_it_is_committed() {
    let tile =
        TransposeStage { element_bits: 8, rows: 8, columns: 16, output_rows: 16, flit_elements: 8, tiles: 4 };
    let work = MicroCommand::new(CommandStages {
        transpose: Some(tile),
        commit: commit(64, 32, 8),
        ..fetched(64, 32, 8)
    });
    let gap = gap(&work);
    assert!(gap.is_tight() && gap.holds() && gap.closed_cycles >= 256 + 64, "{gap:?}");
}

/// Tiles of both buffers neither fill while they leave nor leave while they fill: slow neighbours add up, but
/// for what queues hide.
#[test]
fn wide_tiles_add_up_slow_neighbours() {
    let tile =
        TransposeStage { element_bits: 8, rows: 8, columns: 32, output_rows: 32, flit_elements: 8, tiles: 8 };
    let work = MicroCommand::new(CommandStages {
        transpose: Some(tile),
        commit: commit(256, 32, 8),
        ..fetched(256, 32, 8)
    });
    let gap = gap(&work);
    assert!(gap.holds() && gap.worst_cycles > gap.closed_cycles, "{gap:?}");
    assert!(gap.simulated_cycles > gap.closed_cycles * 5 / 4, "{gap:?}");
}

/// Under Broadcast01 a slice sends t0 packets in a row: a fetch unit that is fast enough on average is too
/// slow for that.
#[test]
fn slow_fetches_stop_a_broadcast_in_bursts() {
    let topology = Topology::Broadcast01(Ring { slice1: 4, slice0: 1 }, 64);
    let work = MicroCommand::new(CommandStages {
        switch: Some(SwitchStage { topology, packets: 64, packet_flits: 1 }),
        collect: Some(CollectStage { packets: 256, packet_bytes: 32 }),
        commit: commit(256, 32, 32),
        ..fetched(64, 32, 8)
    });
    let gap = gap(&work);
    assert!(gap.holds() && gap.simulated_cycles > 3 * gap.closed_cycles, "{gap:?}");
}

/// The two commands of the vISA book's schedule that exchange packets, measured to about 3 cycles.
#[test]
fn a_ring_of_8_takes_343_of_which_264_come_before_the_first_access() {
    let tile =
        TransposeStage { element_bits: 16, rows: 4, columns: 8, output_rows: 1, flit_elements: 8, tiles: 2 };
    let topology = Topology::InterTranspose(Ring { slice1: 8, slice0: 1 }, 1);
    let work = MicroCommand::new(CommandStages {
        switch: Some(SwitchStage { topology, packets: 8, packet_flits: 1 }),
        transpose: Some(tile),
        commit: commit(2, 8, 8),
        ..fetched(8, 16, 16)
    });
    let simulated = gap(&work).simulated_cycles + 264;
    assert!(simulated.abs_diff(343) <= 3, "{simulated}");
}

#[test]
fn what_cannot_run_is_refused() {
    let machine = tcp();
    let refused = |command| run(machine, Some(&MicroCommand::new(command)), None);
    assert_eq!(refused(CommandStages::default()), Err(MicroError::NoFetch));
    assert_eq!(refused(fetched(1, 32, 32)), Err(MicroError::NoSink));
    let flits = MicroError::Flits { given: 2, taken: 3 };
    assert_eq!(refused(CommandStages { commit: commit(3, 32, 32), ..fetched(2, 32, 32) }), Err(flits));
    let topology = Topology::Broadcast1(Ring { slice1: 128, slice0: 1 });
    let switch = Some(SwitchStage { topology, packets: 1, packet_flits: 1 });
    let large = MicroError::TooLarge { what: "slices", most: 64 };
    assert_eq!(
        refused(CommandStages { switch, commit: commit(128, 32, 32), ..fetched(1, 32, 32) }),
        Err(large)
    );
    let endless = refused(CommandStages { commit: commit(u64::MAX, 32, 32), ..fetched(u64::MAX, 32, 32) });
    assert!(matches!(endless, Err(MicroError::TooLarge { .. })), "{endless:?}");
}
