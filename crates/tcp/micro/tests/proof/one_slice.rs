//! Commands of one slice: contractions, copies, vector commands, transposes, loads.

use proptest::prelude::*;
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

    /// The widest accesses follow each other through the banks, so a plain copy loses next to nothing.
    #[test]
    fn copies_of_whole_flits_do_not_meet_in_banks(flits in 1..2048_u64, from in 0..16_u64, to in 0..16_u64) {
        let mut work = sample::copy(tcp(), &mut SampleChoices::new(&[]));
        let command = &mut work.command;
        for packets in [command.fetch.as_mut().map(|s| &mut s.packets), command.collect.as_mut().map(|s| &mut s.packets)] {
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

fn accesses(work: &MicroCommand) -> (u64, u64) {
    let fetch = work.command.fetch.expect("every command fetches");
    let width = if fetch.context == Context::Sub { 8 } else { fetch.read_bytes };
    let reads = fetch.packets * fetch.packet_bytes.div_ceil(width);
    let writes = work.command.commit.map_or(0, |commit| {
        let width = if commit.context == Context::Sub { 8 } else { commit.write_bytes };
        commit.flits * commit.valid_bytes.div_ceil(width)
    });
    (reads, writes)
}
