//! Commands of one slice: contractions, copies, vector commands, transposes, loads.

use proptest::prelude::*;
use tilewright_tcp_cost::cycles::CommandStages;
use tilewright_tcp_cost::cycles::commit::CommitStage;
use tilewright_tcp_cost::cycles::contention::{BankWalk, meeting_cycles};
use tilewright_tcp_cost::cycles::load::LoadStage;
use tilewright_tcp_isa::program::exec::Context;
use tilewright_tcp_micro::gap::SLACK_CYCLES;
use tilewright_tcp_micro::sample::{self, SampleChoices};
use tilewright_tcp_micro::{AccessWalk, MicroCommand};

use crate::{choices, gap, tcp};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn the_closed_form_is_a_close_lower_bound(list in choices()) {
        let work = sample::one_slice(tcp(), &mut SampleChoices::new(&list));
        let gap = gap(&work);
        prop_assert!(gap.holds(), "{gap:?} {work:?}");
    }

    #[test]
    fn queues_matter_to_contractions_only_with_wide_tiles(list in choices()) {
        let work = sample::contracted(tcp(), &mut SampleChoices::new(&list));
        let wide = work.command.transpose.is_some_and(|tile| tile.columns > tcp().transpose.buffer_columns);
        let gap = gap(&work);
        prop_assert!(gap.is_tight() || wide, "{gap:?} {work:?}");
        prop_assert!(gap.cycles() >= 0 && gap.holds(), "{gap:?} {work:?}");
    }

    #[test]
    fn fills_take_their_writes(flits in 1..4096_u64, valid in 0..4_usize, width in 0..4_usize, sub: bool) {
        let context = if sub { Context::Sub } else { Context::Main };
        let (valid_bytes, write_bytes) = ([8, 16, 24, 32][valid], [8, 16, 24, 32][width.min(valid)]);
        let commit = CommitStage { context, flits, valid_bytes, write_bytes };
        let gap = gap(&MicroCommand::new(CommandStages { commit: Some(commit), ..CommandStages::default() }));
        prop_assert!(gap.is_tight() && gap.holds() && gap.cycles() <= 4, "{gap:?} {commit:?}");
    }

    #[test]
    fn direct_loads_take_their_stores(flits in 1..2048_u64, sub: bool) {
        let context = if sub { Context::Sub } else { Context::Main };
        let load = LoadStage { context, slice_bytes: 32 * flits };
        let gap = gap(&MicroCommand::new(CommandStages { load: Some(load), ..CommandStages::default() }));
        prop_assert!(gap.is_tight() && gap.holds() && gap.cycles() <= 8, "{gap:?} {load:?}");
    }

    /// Fetch and commit of a command may meet in a bank; then each waits for the other at most once for each
    /// of its own accesses.
    #[test]
    fn meeting_in_a_bank_costs_at_most_the_accesses_of_the_other(list in choices()) {
        let mut work = sample::one_slice(tcp(), &mut SampleChoices::new(&list));
        work.banks_apart = false;
        let gap = gap(&work);
        let (reads, writes) = accesses(&work);
        let most = gap.worst_cycles + gap.fill_cycles + SLACK_CYCLES + 2 * reads.min(writes);
        prop_assert!(gap.cycles() >= 0 && gap.simulated_cycles <= most, "{gap:?} {work:?}");
    }

    /// Where fetch and commit units meet, their walks through the banks tell by how much, but for a cycle for
    /// each access of the unit that has fewer.
    #[test]
    fn meeting_in_a_bank_costs_what_the_walks_say(list in choices()) {
        let mut work = sample::one_slice(tcp(), &mut SampleChoices::new(&list));
        work.banks_apart = false;
        let gap = gap(&work);
        let (reads, writes) = accesses(&work);
        let (read_bytes, write_bytes) = widths(&work);
        let walk = |walk: AccessWalk, width_bytes| {
            BankWalk { base_bytes: walk.base_bytes, stride_bytes: walk.stride_bytes, width_bytes }
        };
        let (fetch, commit) = (walk(work.fetch, read_bytes), walk(work.commit, write_bytes));
        let met = meeting_cycles(tcp(), &fetch, reads, &commit, writes);
        let most = gap.worst_cycles.max(met + gap.fill_cycles) + gap.fill_cycles + SLACK_CYCLES;
        prop_assert!(gap.simulated_cycles <= most + reads.min(writes), "{met} {gap:?} {work:?}");
    }

    /// The widest accesses follow each other through the banks, so a plain copy loses next to nothing.
    #[test]
    fn copies_of_whole_flits_do_not_meet_in_banks(flits in 1..2048_u64, from in 0..16_u64, to in 0..16_u64) {
        let mut work = sample::copy(tcp(), &mut SampleChoices::new(&[]));
        let command = &mut work.command;
        for packets in [command.fetch.as_mut().map(|s| &mut s.packets),
            command.collect.as_mut().map(|s| &mut s.packets)] {
            *packets.expect("a copy fetches") = flits;
        }
        let commit = command.commit.as_mut().expect("a copy commits");
        (commit.flits, commit.write_bytes) = (flits, 32);
        let start = |bank| AccessWalk { base_bytes: 8 * bank, stride_bytes: 32 };
        let work = MicroCommand { fetch: start(from), commit: start(to), banks_apart: false, ..work };
        let gap = gap(&work);
        prop_assert!(gap.cycles() >= 0 && gap.cycles() <= 16, "{gap:?} {work:?}");
    }
}

/// Bytes of an access of the fetch and of the commit unit.
fn widths(work: &MicroCommand) -> (u64, u64) {
    let width = |context: Context, bytes: u64| if context == Context::Sub { 8 } else { bytes };
    let fetch = work.command.fetch.expect("every command fetches");
    (
        width(fetch.context, fetch.read_bytes),
        work.command.commit.map_or(1, |commit| width(commit.context, commit.write_bytes)),
    )
}

fn accesses(work: &MicroCommand) -> (u64, u64) {
    let (read_bytes, write_bytes) = widths(work);
    let fetch = work.command.fetch.expect("every command fetches");
    let reads = fetch.packets * fetch.packet_bytes.div_ceil(read_bytes);
    let commit = work.command.commit;
    (reads, commit.map_or(0, |commit| commit.flits * commit.valid_bytes.div_ceil(write_bytes)))
}
