//! Transfers in closed form against their requests one by one.

use tilewright_base::Span;
use tilewright_tcp_cost::cycles::image::transfer_cost;
use tilewright_tcp_isa::program::Count;
use tilewright_tcp_isa::program::transfer::{
    Address, MemoryInstance, MemoryLocation, SLICE_STRIDE, Transfer, TransferLoop,
};
use tilewright_tcp_micro::dma::gap::TransferGap;
use tilewright_tcp_micro::dma::{RowSwitches, run_transfers, sample};

use super::tcp;

/// Transfers that follow each other so that a controller gathers requests of one row are dearer in closed
/// form, which keeps their order; nothing is much cheaper.
#[test]
fn drawn_transfers_take_what_their_requests_take() {
    let draws = tilewright_testkit::draws(100, 2000);
    let mut far = Vec::new();
    for seed in 0..draws {
        let transfer = sample::transfer(tcp(), seed);
        let gap = TransferGap::of(tcp(), &transfer).unwrap_or_else(|error| panic!("{error}: {transfer:?}"));
        assert!(!gap.is_far_too_fast(), "{seed}: {gap:?} {transfer:?}");
        if !gap.holds() {
            far.push(format!("{seed}: {gap:?}"));
        }
    }
    assert!(far.len() as u64 * 10 <= draws, "{} of {draws} are too far:\n{}", far.len(), far.join("\n"));
}

/// The vISA book's example of row conflicts, a sixteenth of its rows: eight engines, every request another
/// row of its bank. The book has 40 cycles a request; a switch takes 45 here.
#[test]
fn row_conflicts_of_eight_engines_take_a_switch_a_request() {
    let transfers: Vec<Transfer> = (0..8).map(conflicts).collect();
    let channel_requests = 8 * 16 * 4 * 64 / 32;
    let simulated = run_transfers(tcp(), &transfers, RowSwitches::OneAtATime).expect("a simulation");
    assert_eq!((simulated.accesses, simulated.row_switches), (channel_requests * 32, channel_requests * 32));
    assert!((channel_requests * 45..channel_requests * 46).contains(&simulated.cycles), "{simulated:?}");
    let closed: u128 = transfers.iter().map(|t| busiest_q32(t) >> 32).sum();
    let a_request = closed as f64 / channel_requests as f64;
    assert!((44.0..=45.0).contains(&a_request), "{a_request} cycles a request");
}

/// The same bytes in the order of their addresses: no engine waits, and no channel takes longer than its bus.
#[test]
fn a_run_of_packets_takes_a_cycle_a_request() {
    for packet in [256, 512, 4096] {
        let mut run = conflicts(0);
        (run.packet, run.loops) =
            (packet, vec![row(8192 / packet, packet.cast_signed(), 0), row(2, 8192, NETWORK)]);
        let gap = TransferGap::of(tcp(), &run).expect("a simulation");
        assert_eq!(gap.closed_cycles, 64, "{packet} B");
        assert!(gap.holds(), "{packet} B: {gap:?}");
    }
}

const NETWORK: i64 = 32 * SLICE_STRIDE;

fn busiest_q32(transfer: &Transfer) -> u128 {
    transfer_cost(tcp(), transfer).and_then(|cost| cost.read).expect("off-chip memory is read").busiest_q32
}

fn row(size: u64, source: i64, target: i64) -> TransferLoop {
    TransferLoop { size: Count::Fixed(size), source, target }
}

fn conflicts(engine: u64) -> Transfer {
    let at = |medium, offset| Address::new(MemoryLocation { chip: 0, medium, offset });
    let loops =
        vec![row(16, 1024, 1024), row(4, 256, 256), row(32, 1 << 21, SLICE_STRIDE), row(2, 1 << 26, NETWORK)];
    Transfer {
        name: "conflicts".into(),
        source: at(MemoryInstance::Hbm, engine << 18),
        target: at(MemoryInstance::Dm { slice: 64 * engine }, 0),
        loops,
        packet: 256,
        index: None,
        span: Span::default(),
    }
}
