//! Races on register files against an oracle of their own, which knows neither footprints nor clocks.
//!
//! Small random programs fill and read the tensor and the vector register file of slices from both contexts
//! of two PEs, alone and fused. `orders` goes through every order in which queues, contexts and cores can
//! take their steps; `effects` runs two commands in both orders on random memories. Two commands race if
//! neither always ends before the other starts and their order shows in any byte. The findings of the run
//! must name exactly these pairs; so must those of commands that use the same half of the register file.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../../../../tcp/isa/tests/it/oracle/build.rs"]
mod build;
mod drawn;
mod effects;
mod orders;

use std::collections::BTreeSet;
use std::sync::OnceLock;

use tilewright_base::Sources;
use tilewright_machine::{Tcp, builtin, load};
use tilewright_record::KeepLast;
use tilewright_runtime::readings::{ReadingOptions, read};
use tilewright_tcp_isa::program::Program;
use tilewright_tcp_sim::RunEnd;
use tilewright_tcp_sim::findings::{Finding, FindingCommand};
use tilewright_testkit::draws;

use effects::Effects;

/// PEs of the machine.
const PES: u64 = 2;

/// The small chip: register files of 8 KB and 512 B, so that every byte can be looked at.
fn machine() -> &'static Tcp {
    static MACHINE: OnceLock<Tcp> = OnceLock::new();
    MACHINE.get_or_init(|| {
        let mut sources = Sources::default();
        let id = sources.add("toy-tcp", builtin("toy-tcp").unwrap());
        let base = |name: &str| builtin(name).map(str::to_owned);
        load(&mut sources, id, &base).unwrap().machine.tcp().unwrap().clone()
    })
}

/// An image on the PE that runs it.
type Key = (String, u64);
type Pairs = BTreeSet<(Key, Key)>;

/// A pair without an order.
fn pair(one: Key, other: Key) -> (Key, Key) {
    if one <= other { (one, other) } else { (other, one) }
}

/// Pairs that race and pairs that meet in a half of the register file, as findings name them; nothing if the
/// program is refused or does not end.
fn found(program: &Program) -> Option<(Pairs, Pairs)> {
    let wanted = ReadingOptions { findings: true, ..ReadingOptions::default() };
    let reading = read(machine(), program, &mut |_| unreachable!(), &wanted, KeepLast::new(0)).ok()?;
    if reading.outcome.ended != RunEnd::Finished {
        return None;
    }
    let pairs = |codes: &[&str]| {
        let key = |command: &FindingCommand| (command.name.clone(), command.pe);
        let both =
            |finding: &Finding| Some(pair(key(finding.first.as_ref()?), key(finding.second.as_ref()?)));
        let named = reading.findings.iter().filter(|finding| codes.contains(&finding.code));
        named.filter_map(both).collect()
    };
    Some((pairs(&["tcp/race-trf", "tcp/race-vrf"]), pairs(&["tcp/trf-half"])))
}

/// What the oracle says of a program, and how many pairs of commands have no order.
fn expected(effects: &Effects<'_>, program: &Program) -> (Pairs, Pairs, usize) {
    let (mut races, mut halves) = (Pairs::new(), Pairs::new());
    let unordered = orders::unordered(program);
    for (one, other) in &unordered {
        let images = (&program.execs[one.exec], &program.execs[other.exec]);
        let key = pair((images.0.name.clone(), one.pe), (images.1.name.clone(), other.pe));
        let (one, other) = ((images.0, one.pe), (images.1, other.pe));
        if !effects.commute(one, other) {
            races.insert(key);
        } else if effects.share_half(one, other) {
            halves.insert(key);
        }
    }
    (races, halves, unordered.len())
}

#[test]
fn races_on_register_files_are_those_that_some_order_shows() {
    let (mut ran, mut raced, mut shared, mut silent) = (0, 0, 0, 0);
    let effects = Effects::new(machine());
    for seed in 0..draws(120, 6_000) {
        let program = drawn::program(seed);
        let Some((races, halves)) = found(&program) else { continue };
        let (expected_races, expected_halves, unordered) = expected(&effects, &program);
        assert_eq!(races, expected_races, "seed {seed}: races of {program:#?}");
        assert_eq!(halves, expected_halves, "seed {seed}: halves of {program:#?}");
        ran += 1;
        raced += races.len();
        shared += halves.len();
        silent += unordered.saturating_sub(races.len() + halves.len());
    }
    let summary = format!("{ran} programs: {raced} races, {shared} halves, {silent} pairs without either");
    assert!(ran >= 90 && raced >= 30 && shared >= 8 && silent >= 100, "{summary}");
}
