//! How the slices of a processing element share the heads of a prompt's attention.
//!
//! A key that passes meets the queries of eight lanes. The stream brings half a packet a cycle, so that the
//! contraction engine is only at full rate if a packet meets two queries of each lane (paper section VI-D:
//! reuse of what was fetched). Heads that share keys give them; else halves of the slices attend to different
//! heads, each with the tokens of both: queries go to the other half before, and what attention gives comes
//! back.

use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;
use tilewright_tcp_isa::program::transfer::{SLICE_STRIDE, TransferLoop};
use tilewright_tcp_lower::kernels::pass::signed;

use super::build::Build;
use super::heads::Columns;
use super::image::{bytes, n, packet_of, transfer, turn};
use crate::CompileError;
use crate::kernel::Heads;

/// Queries of a lane that bring the contraction engine to its full rate.
const FULL: u64 = 2;

/// Groups of slices, and what each lane of a slice has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Teams {
    /// Groups of slices that attend to different heads.
    pub(super) count: u64,
    /// Slices of a group.
    pub(super) slices: u64,
    /// Queries of a lane.
    pub(super) deep: u64,
    /// Values of two keys side by side, so that a packet has 32 columns of both: eight-bit packets are longer
    /// than the columns that a lane keeps.
    pub(super) pairs: bool,
    /// Rows of keys whose weights the register files hold at once.
    pub(super) held_rows: u64,
    /// There may be up to twice as many.
    pub(super) is_halved: bool,
}

/// Columns that lie side by side of each of two keys: half a flit.
pub(super) const PAIRED: u64 = 16;

impl Teams {
    /// All slices for the same heads.
    pub(super) fn one(machine: &Tcp) -> Teams {
        let held_rows = u64::MAX;
        Teams { count: 1, slices: machine.pe.slices, deep: 1, pairs: false, held_rows, is_halved: false }
    }

    /// For heads of a cache of a type, with so many rows of keys at most.
    pub(super) fn new(machine: &Tcp, cache: Dtype, heads: &Heads, key_rows: u64) -> Teams {
        let (slices, one) = (machine.pe.slices, Teams::one(machine));
        let held_rows = held_rows(machine, cache);
        // The columns of a head fill the accumulators: with twice the queries they go in two turns.
        let columns = Columns::new(machine, cache, heads.depth, machine.ce.lanes).ok();
        let turns = columns.and_then(|columns| columns.turns(machine, FULL));
        let (Some(columns), Some(turns)) = (columns, turns) else { return Teams::one(machine) };
        // Sums of halves are exact in integers alone, and those of the first must fit the vector register
        // file behind maxima and sums of weights.
        let words = FULL * machine.ce.lanes * (2 + heads.depth / turns.max(1));
        let halves = cache == Dtype::I8 && bytes(Dtype::I32, words) <= machine.vrf.capacity_bytes;
        let is_halved = halves && key_rows > held_rows;
        if held_rows == 0 || key_rows > held_rows.saturating_mul(1 + u64::from(is_halved)) {
            return Teams::one(machine);
        }
        let one = Teams { held_rows, is_halved, ..one };
        if heads.group.is_multiple_of(FULL) {
            Teams { deep: FULL, ..one }
        } else if heads.kv.is_multiple_of(FULL) && slices.is_multiple_of(FULL) {
            let pairs = cache == Dtype::I8 && columns.each == 2 * PAIRED;
            Teams { count: FULL, slices: slices / FULL, deep: FULL, pairs, ..one }
        } else {
            Teams::one(machine)
        }
    }

    /// Heads with keys of their own of a team.
    pub(super) fn kv(&self, heads: &Heads) -> u64 {
        heads.kv / self.count
    }

    /// Columns of a team's queries.
    pub(super) fn width(&self, heads: &Heads) -> u64 {
        heads.query_width() / self.count
    }

    /// What the next query of a lane is worth in places of tokens: another token, or another head of the
    /// same.
    pub(super) fn next_place(&self) -> u64 {
        if self.count > 1 { self.slices } else { 0 }
    }

    /// A loop over teams at the target.
    pub(super) fn teams_at_target(&self, source: u64) -> TransferLoop {
        TransferLoop {
            size: n(self.count),
            source: signed(source),
            target: SLICE_STRIDE * signed(self.slices),
        }
    }

    /// A loop over teams at the source.
    fn teams_at_source(&self, target: u64) -> TransferLoop {
        TransferLoop {
            size: n(self.count),
            source: SLICE_STRIDE * signed(self.slices),
            target: signed(target),
        }
    }

    fn by_slice(&self) -> TransferLoop {
        TransferLoop { size: n(self.slices), source: SLICE_STRIDE, target: SLICE_STRIDE }
    }
}

/// Rows of keys whose weights the register files hold, two queries a lane, in whole eights.
pub(super) fn held_rows(machine: &Tcp, cache: Dtype) -> u64 {
    let keys = machine.trf_lane_payload_bytes() * 8 / u64::from(cache.storage_bits()) / FULL;
    let eights = machine.ce.lanes.max(1);
    keys / machine.pe.slices.max(1) / eights * eights
}

/// Teams of a program for prompts.
pub(super) fn of(build: &Build<'_>, heads: &Heads) -> Teams {
    Teams::new(build.machine, build.cache(), heads, build.most_key_rows())
}

/// Queries of each team's heads to its slices: those of the tokens of all teams, one team's after the other.
pub(super) fn deal_queries(build: &mut Build<'_>, heads: &Heads, teams: Teams) {
    if teams.count == 1 {
        return;
    }
    let (dtype, lanes) = (build.cache(), build.machine.ce.lanes);
    let (row, width) = (bytes(dtype, heads.query_width()), bytes(dtype, teams.width(heads)));
    let over = [teams.teams_at_target(width), teams.teams_at_source(lanes * width)];
    let (from, to) = (build.at.queries, build.at.dealt_queries);
    exchange(build, "deal_queries", (from, to), teams, over, (row, width, width));
}

/// What a head of each team gave back to the slices that have the tokens; `head` counts those of a team.
pub(super) fn collect(build: &mut Build<'_>, heads: &Heads, teams: Teams, head: u64) {
    if teams.count == 1 {
        return;
    }
    let lanes = build.machine.ce.lanes;
    let (place, out, _) = build.attended();
    let (width, depth) = (bytes(out, teams.width(heads)), bytes(out, heads.depth));
    let row = bytes(out, build.attended_row(heads));
    let over = [teams.teams_at_source(width), teams.teams_at_target(lanes * width)];
    let (from, to) = (build.at.dealt_attended + head * depth, place + head * depth);
    exchange(build, "collect", (from, to), teams, over, (width, row, depth));
}

/// Rows between slices of different teams: so many bytes of each row of a lane, with those from row to row on
/// both sides.
fn exchange(
    build: &mut Build<'_>,
    name: &str,
    (from, to): (u64, u64),
    teams: Teams,
    over: [TransferLoop; 2],
    (from_row, to_row, size): (u64, u64, u64),
) {
    let packet = packet_of(build.machine, size);
    let rows = turn(n(build.machine.ce.lanes), from_row, to_row);
    let pieces = turn(n(size / packet), packet, packet);
    let loops = over.into_iter().chain([teams.by_slice(), rows, pieces]);
    let loops = loops.filter(|row| row.size != n(1)).collect();
    let (from, to) = (build.dm(0, from), build.dm(0, to));
    build.emit.dma(transfer(name, from, to, loops, packet));
}

/// Turns in which the columns of a head are contracted with so many queries of a lane.
///
/// # Errors
/// Columns that do not divide.
pub(super) fn turns(build: &Build<'_>, columns: Columns, teams: Teams) -> Result<u64, CompileError> {
    columns.turns(build.machine, teams.deep).ok_or_else(|| CompileError::Size {
        what: "packets of a head's columns",
        found: columns.packets,
        allowed: "what the accumulators hold, or twice that".to_string(),
    })
}
