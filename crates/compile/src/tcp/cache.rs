//! Cached keys and values in HBM: new rows go there, all rows come to the slices.
//!
//! If every place of a prompt's rows has a token, each row of tokens is one stretch of the cache, and keys
//! are on their way back while queries and values are still made. Else tokens go one by one to where a table
//! says.

use tilewright_base::invariant::OrBroken;
use tilewright_num::Dtype;
use tilewright_tcp_isa::program::transfer::{Address, SLICE_STRIDE, TransferLoop};
use tilewright_tcp_lower::kernels::pass::signed;

use super::build::{Build, Mode};
use super::image::{bytes, from_slices, indexed, n, packet_of, to_slices, transfer, turn};
use super::registers::Keys;
use super::teams::Teams;

/// Keys, or values: a half of each row.
#[derive(Clone, Copy)]
enum Half {
    Keys,
    Values,
}

impl Half {
    fn name(self) -> &'static str {
        match self {
            Half::Keys => "keys",
            Half::Values => "values",
        }
    }

    /// The first of a row's bytes, where rows have so many.
    fn first(self, row: u64) -> u64 {
        match self {
            Half::Keys => 0,
            Half::Values => row / 2,
        }
    }
}

/// Where this processing element has a cache.
fn start(build: &Build<'_>, cache: usize) -> u64 {
    build.plan.caches.get(cache).or_broken("attention has a cache in the plan")
        + build.home.pe * build.plan.cache_bytes
}

/// New keys of whole rows to the cache.
pub(super) fn store_keys(build: &mut Build<'_>, cache: usize) {
    build.emit.begin_if_above(build.registers.whole, 0);
    store_half(build, cache, Half::Keys);
    build.emit.end_if();
}

/// All keys from it, if rows are whole.
pub(super) fn fetch_keys(build: &mut Build<'_>, cache: usize, teams: Teams) {
    build.emit.begin_if_above(build.registers.whole, 0);
    fetch_half(build, cache, Half::Keys, teams);
    build.emit.end_if();
}

/// Both where places of a row have no token, with new values.
pub(super) fn turn_ragged_keys(build: &mut Build<'_>, cache: usize, teams: Teams) {
    build.emit.begin_if_above(build.registers.ragged, 0);
    store(build, cache);
    fetch_half(build, cache, Half::Keys, teams);
    build.emit.end_if();
}

/// New values of whole rows to the cache.
pub(super) fn store_values(build: &mut Build<'_>, cache: usize) {
    build.emit.begin_if_above(build.registers.whole, 0);
    store_half(build, cache, Half::Values);
    build.emit.end_if();
}

/// All values from it.
pub(super) fn fetch_values(build: &mut Build<'_>, cache: usize, teams: Teams) {
    fetch_half(build, cache, Half::Values, teams);
}

/// Places count backwards from the newest token: positions of a row rise from its last slice to its first.
fn store_half(build: &mut Build<'_>, cache: usize, half: Half) {
    let (plan, slices) = (build.plan, build.machine.pe.slices);
    let row = plan.cache_row;
    let packet = packet_of(build.machine, row / 2);
    let backwards = TransferLoop { size: n(slices), source: -SLICE_STRIDE, target: signed(row) };
    let mut loops = vec![turn(build.registers.rows, row, 0), backwards];
    if packet < row / 2 {
        loops.push(turn(n(row / 2 / packet), packet, packet));
    }
    let from = build.dm(slices - 1, build.at.fresh + half.first(row));
    let target = build.hbm(start(build, cache) + half.first(row));
    let scatter = transfer("store", from, target, loops, packet);
    let table = build.hbm(plan.row_table);
    build.emit.dma(indexed(scatter, table, true));
}

/// New rows, keys and values, token by token.
pub(super) fn store(build: &mut Build<'_>, cache: usize) {
    let (plan, slices) = (build.plan, build.machine.pe.slices);
    let (row, target): (u64, Address) = (plan.cache_row, build.hbm(start(build, cache)));
    let entry = bytes(Dtype::U32, slices);
    for index in 0..build.most_rows() {
        let from = build.dm(0, build.at.fresh + index * row);
        let mut loops = match build.mode {
            Mode::Prefill | Mode::Batch => vec![from_slices(slices, row)],
            Mode::Decode => vec![turn(n(1), row, row)],
        };
        let packet = packet_of(build.machine, row);
        if packet < row {
            loops.push(turn(n(row / packet), packet, packet));
        }
        let scatter = transfer("store", from, target, loops, packet);
        let table = build.hbm(plan.cache_table + index * entry);
        build.emit.dma(indexed(scatter, table, true));
    }
}

/// A half of all rows of the prompt's sequence to the slices of each team: a team has the heads that it
/// attends to.
fn fetch_half(build: &mut Build<'_>, cache: usize, half: Half, teams: Teams) {
    let row = build.plan.cache_row;
    let (own, own_row) = (row / 2 / teams.count, row / teams.count);
    let packet = packet_of(build.machine, own);
    let loops = vec![
        turn(build.registers.keys(0).rows, build.machine.pe.slices * row, row),
        turn(n(teams.count), teams.slices * row, own_row),
        teams.teams_at_target(own),
        to_slices(teams.slices, row),
        turn(n(own / packet), packet, packet),
    ];
    let mut loops: Vec<_> = loops.into_iter().filter(|row| row.size != n(1)).collect();
    let from = build.hbm(start(build, cache) + half.first(row));
    let to = build.dm(0, build.at.cached + half.first(own_row));
    let fetched = match build.plan.sequence_table {
        None => transfer(half.name(), from, to, loops, packet),
        Some(table) => {
            loops.insert(0, turn(n(1), 0, 0));
            indexed(transfer(half.name(), from, to, loops, packet), build.hbm(table), false)
        }
    };
    build.emit.dma(fetched);
}

/// All rows of a sequence to the slices, in turns, at a place.
pub(super) fn fetch(build: &mut Build<'_>, cache: usize, (sequence, keys): (u64, Keys), place: u64) {
    let (row, slices) = (build.plan.cache_row, build.machine.pe.slices);
    let packet = packet_of(build.machine, row);
    let loops = vec![
        turn(keys.rows, slices * row, row),
        to_slices(slices, row),
        turn(n(row / packet), packet, packet),
    ];
    let loops = loops.into_iter().filter(|row| row.size != n(1)).collect();
    let from = build.hbm(start(build, cache) + sequence * build.plan.sequence_bytes);
    build.emit.dma(transfer("cache", from, build.dm(0, place), loops, packet));
}
