//! Transfers of several engines at once: bandwidth sharing beside their requests one by one
//! (`crates/tcp/micro`).

use std::sync::Arc;

use tilewright_base::Span;
use tilewright_base::random::below;
use tilewright_machine::tcp::Tcp;
use tilewright_tcp_cost::cycles::image::transfer_cost;
use tilewright_tcp_isa::program::Count;
use tilewright_tcp_isa::program::transfer::{SLICE_STRIDE, Transfer, TransferLoop};
use tilewright_tcp_micro::dma::{RowSwitches, run_transfers};
use tilewright_tcp_sim::bandwidth::{BandwidthSharing, ResourceUses};

use crate::timeline::build::{dm, hbm};
use crate::timeline::tcp;

/// Cycles until all transfers, started at once, have ended.
fn shared_cycles(machine: &Tcp, transfers: &[Transfer]) -> u64 {
    let mut sharing = BandwidthSharing::new(machine);
    for (owner, transfer) in (0..).zip(transfers) {
        let cost = transfer_cost(machine, transfer).expect("memories");
        sharing.start(0, owner, cost.moved_cycles, Arc::new(ResourceUses::new(&cost)));
    }
    let mut last = 0;
    while let Some((at, _)) = sharing.end() {
        last = at;
    }
    last
}

/// By the reference: banks switching rows each on its own, and a channel switching one row at a time.
fn request_cycles(machine: &Tcp, transfers: &[Transfer]) -> [u64; 2] {
    [RowSwitches::EachBank, RowSwitches::OneAtATime]
        .map(|switches| run_transfers(machine, transfers, switches).expect("it ends").cycles)
}

/// Cycles by which both may differ whatever the size: the first row that opens, and the last unit.
const SLACK_CYCLES: u64 = 128;
/// What they may differ by beside that where engines do not meet in rows of a bank.
const PERCENT: u64 = 25;
/// Bytes of HBM from one bank to the next.
const BANK_BYTES: u64 = 1 << 17;

/// A part of a weight as an engine reads it: pieces of slices that lie side by side, those of the two
/// networks of a PE in turns.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// Bytes from one slice to the next.
    slice_bytes: u64,
    /// Packets of 4 KiB that are read of each.
    packets: u64,
    /// Bytes from the part of one PE to that of the next.
    apart_bytes: u64,
    engines: u64,
}

impl Piece {
    fn drawn(state: &mut u64) -> Piece {
        let mut pick = |from: &[u64]| from[usize::try_from(below(state, from.len() as u64)).expect("few")];
        let slice_bytes = 4096 * pick(&[2, 4, 8, 12, 14, 16]);
        let packets = pick(&[1, 2, 4]).min(slice_bytes / 4096);
        let (banks, engines) = (pick(&[0, 1, 2, 3]), pick(&[1, 2, 3, 4, 5, 6, 7, 8]));
        let apart_bytes = ((64 * slice_bytes).div_ceil(BANK_BYTES) + banks) * BANK_BYTES;
        Piece { slice_bytes, packets, apart_bytes, engines }
    }

    fn transfers(&self) -> Vec<Transfer> {
        let row = |size, source: u64, target| TransferLoop {
            size: Count::Fixed(size),
            source: source.cast_signed(),
            target,
        };
        let loops = vec![
            row(32, 2 * self.slice_bytes, SLICE_STRIDE),
            row(2, self.slice_bytes, 32 * SLICE_STRIDE),
            row(self.packets, 4096, 4096),
        ];
        let of_pe = |pe: u64| Transfer {
            name: "piece".into(),
            source: hbm(0, pe * self.apart_bytes),
            target: dm(0, pe * 64, 0),
            loops: loops.clone(),
            packet: 4096,
            index: None,
            span: Span::default(),
        };
        (0..self.engines).map(of_pe).collect()
    }

    /// Engines that read at the same pace are never in the same bank at the same time.
    fn keeps_apart(&self) -> bool {
        (self.apart_bytes / BANK_BYTES) % 2 == 1
    }
}

/// Parts that lie an odd number of banks apart, as compiled weights do, take what their requests take. Where
/// parts begin at the same bank, engines open rows in turns, which sharing does not price: such streams take
/// up to four times as long request by request.
#[test]
fn one_to_eight_engines_take_what_their_requests_take() {
    let mut machine = tcp();
    // The reference has no refresh.
    machine.hbm.efficiency = 1.0;
    let (mut state, mut met) = (7, 0);
    for _ in 0..60 {
        let piece = Piece::drawn(&mut state);
        let transfers = piece.transfers();
        let shared = shared_cycles(&machine, &transfers);
        let [least, most] = request_cycles(&machine, &transfers);
        assert!(
            shared <= most + most * PERCENT / 100 + SLACK_CYCLES,
            "{piece:?}: {shared}, {least} to {most}"
        );
        if piece.keeps_apart() {
            let near = shared * PERCENT / 100 + SLACK_CYCLES;
            assert!(least <= shared + near, "{piece:?}: {shared}, {least} to {most}");
        } else {
            met += 1;
            assert!(least <= 4 * shared + SLACK_CYCLES, "{piece:?}: {shared}, {least} to {most}");
        }
    }
    assert!(met > 10, "{met} met in banks");
}
