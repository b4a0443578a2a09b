//! Stages that take equally long, where a queue that is too small would show most: fetch and products,
//! products and drain, all of them.

use tilewright_tcp_cost::cycles::CommandStages;
use tilewright_tcp_cost::cycles::collect::CollectStage;
use tilewright_tcp_cost::cycles::commit::CommitStage;
use tilewright_tcp_cost::cycles::fetch::FetchStage;
use tilewright_tcp_cost::cycles::vector::VectorStage;
use tilewright_tcp_isa::contraction::ContractionStage;
use tilewright_tcp_isa::program::exec::{Context, Drain};
use tilewright_tcp_micro::{MicroCommand, RegisterReads};

use crate::gap;

/// A contraction of 64-byte packets that takes `repeats` steps of each, read at `read_bytes` a cycle.
fn contraction(shape: ContractionStage, read_bytes: u64, narrow: bool) -> MicroCommand {
    let context = Context::Main;
    let packets = shape.groups * shape.group_steps / shape.repeats;
    let packet_bytes = shape.packet_bytes;
    let flits = shape.groups * shape.group_output_steps * shape.columns;
    let command = CommandStages {
        fetch: Some(FetchStage { context, packets, packet_bytes, read_bytes, cast: false }),
        collect: Some(CollectStage { packets, packet_bytes }),
        contraction: Some(shape),
        vector: Some(VectorStage {
            flits,
            chain_flits: flits,
            narrow,
            upper_half_padding: false,
            units: 2,
            reduced_slices: 1,
        }),
        commit: Some(CommitStage { context, flits, valid_bytes: 32, write_bytes: 32 }),
        ..CommandStages::default()
    };
    let reads = RegisterReads { wide: true, held_steps: 1, units: 4, stride_units: 1 };
    MicroCommand { reads, ..MicroCommand::new(command) }
}

fn shape(repeats: u64, groups: u64, passes: u64, slots: u64, columns: u64) -> ContractionStage {
    ContractionStage {
        packet_elements: 64,
        packet_bytes: 64,
        repeats,
        groups,
        group_steps: passes * slots,
        group_output_steps: slots,
        lanes: 8,
        columns,
        drain: Drain::Interleaved,
    }
}

/// QK^T of the paper's Fig. 10: products, stream and a float vector chain all take 1,024 cycles.
#[test]
fn figure_10_with_every_stage_equally_long() {
    let work = contraction(shape(2, 256, 2, 2, 1), 32, true);
    let figure = gap(&MicroCommand { banks_apart: false, ..work });
    assert!(figure.closed_cycles >= 1024 && figure.holds(), "{figure:?}");
    assert!(figure.cycles() <= 16, "{figure:?}");
}

#[test]
fn fetch_and_products() {
    for (read_bytes, repeats) in [(32, 2), (16, 4), (8, 8), (4, 16)] {
        for groups in [1, 2, 7, 64] {
            for passes in [1, 2, 16] {
                let work = contraction(shape(repeats, groups, passes, repeats, 1), read_bytes, false);
                let gap = gap(&work);
                assert!(gap.is_tight() && gap.holds() && gap.cycles() <= 32, "{gap:?} {work:?}");
            }
        }
    }
}

#[test]
fn products_and_drain() {
    for (slots, columns) in [(1, 4), (2, 8), (4, 16), (8, 16), (4, 32)] {
        for groups in [1, 3, 64] {
            let work = contraction(shape(slots, groups, columns, slots, columns), 32, false);
            let gap = gap(&work);
            assert!(gap.is_tight() && gap.holds() && gap.cycles() <= 32, "{gap:?} {work:?}");
        }
    }
}
