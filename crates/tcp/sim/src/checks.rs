//! What must hold after every run: conservation of bytes, products and energy, and bounds that no schedule
//! beats.
//!
//! The checks are numbered as in the project's cost model. Those that compare two runs take both.

use std::sync::Arc;

use tilewright_base::invariant::Exact;
use tilewright_machine::tcp::Tcp;
use tilewright_tcp_cost::energy::{COMPONENTS, Component, energy_of_run_fj, standing_fj};
use tilewright_tcp_isa::program::event::PeId;

use crate::SimOutcome;
use crate::ledger::Ledger;
use crate::outcome::RunEnd;

/// Something that should hold and does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// 1: bytes read from or written to off-chip memory are not those of the transfers.
    HbmBytes {
        /// Counted as events.
        counted: u64,
        /// Summed over transfers.
        transferred: u64,
    },
    /// 1: fewer bytes were read than the program cannot do without.
    Compulsory {
        /// Read.
        read_bytes: u64,
        /// Needed.
        needed_bytes: u64,
    },
    /// 2: more useful products than products.
    Products {
        /// Useful.
        useful: u64,
        /// Issued.
        issued: u64,
    },
    /// 2: products are not those of the contractions' loops.
    Loops {
        /// Counted as events.
        issued: u64,
        /// From the loops.
        expected: u128,
    },
    /// 3 and 4: fetch units read fewer bytes than their elements have, or more than their packets, as if each
    /// receiver read them.
    Fetched {
        /// Counted as events.
        counted: u64,
        /// From the loops.
        needed: u128,
        /// Whole packets, once.
        most: u128,
    },
    /// 3: bytes into or out of a memory are not those of the commands' loops.
    Moved {
        /// Which way.
        what: &'static str,
        /// Counted as events.
        counted: u64,
        /// From the loops.
        expected: u128,
    },
    /// 2: more products than the engines' cycles allow.
    Peak {
        /// Issued.
        issued: u64,
        /// Possible in the cycles that they worked.
        possible: u64,
    },
    /// 3: when a command ended, a memory held more than it can, or a byte past its end.
    Capacity {
        /// Whose.
        pe: PeId,
        /// The cycle at which it happened.
        at_cycles: u64,
    },
    /// 4: slices kept more than the rings carried past them.
    Delivered {
        /// Bytes kept.
        delivered: u64,
        /// Bytes times slices passed.
        carried: u64,
    },
    /// 4: slices kept another number of bytes than was sent, times those who receive it.
    Received {
        /// Bytes kept.
        delivered: u64,
        /// Bytes sent once, times receivers.
        expected: u128,
    },
    /// 5: a component's energy is not its events times their figures.
    Energy {
        /// The component of the energy.
        component: Component,
        /// In the outcome.
        fj: u128,
        /// From the counts.
        expected_fj: u128,
    },
    /// 5: the record has other energy than the outcome.
    Recorded {
        /// In the record.
        recorded_fj: u128,
        /// In the outcome.
        fj: u128,
    },
    /// 5: commands one by one have other energy than their events together.
    Commands {
        /// One by one.
        commands_fj: u128,
        /// Together.
        fj: u128,
    },
    /// 5: power over time is not the energy.
    Power {
        /// From the power counters.
        integral_fj: u128,
        /// In the outcome.
        fj: u128,
    },
    /// 6: a command was quicker than one of its stages, or than it is alone.
    Hurried {
        /// The command.
        name: Arc<str>,
        /// How long it took.
        cycles: u64,
        /// How long it takes at least.
        least_cycles: u64,
    },
    /// 6: something was busy longer than there was time.
    Utilisation {
        /// Parts per million.
        ppm: u64,
    },
    /// 7: the run is shorter than its busiest part.
    TooShort {
        /// The run.
        cycles: u64,
        /// Its busiest part.
        longest_cycles: u64,
    },
    /// 7: the run is longer than all of its parts one after the other.
    TooLong {
        /// The run.
        cycles: u64,
        /// All parts.
        sum_cycles: u128,
    },
    /// 8: more of some resource made it slower.
    Slower {
        /// With less.
        before_cycles: u64,
        /// With more.
        after_cycles: u64,
    },
    /// 9: the same program gave another result.
    Different,
}

/// Checks of a single run, with what it counted a second way.
pub(crate) fn all(machine: &Tcp, outcome: &SimOutcome, ledger: &Ledger) -> Vec<Violation> {
    let mut found = of_run(machine, outcome);
    found.extend(bytes(outcome, ledger));
    found.extend(work(outcome, ledger));
    found.extend(moved(outcome, ledger));
    found.extend(compulsory(outcome, ledger.needed_bytes));
    found.extend(ledger.full.map(|(pe, at_cycles)| Violation::Capacity { pe, at_cycles }));
    let (cycles, longest_cycles) = (outcome.cycles, ledger.longest_cycles);
    if longest_cycles > cycles {
        found.push(Violation::TooShort { cycles, longest_cycles });
    }
    found
}

/// Checks 2, 4, 5, 6 and the upper bound of 7, which an outcome alone can be held to.
pub fn of_run(machine: &Tcp, outcome: &SimOutcome) -> Vec<Violation> {
    let mut found = products(machine, outcome);
    found.extend(delivered(outcome));
    found.extend(energy(machine, outcome));
    found.extend(power(outcome));
    found.extend(bounds(outcome));
    found
}

/// Check 1: every byte read or written off-chip belongs to a transfer.
fn bytes(outcome: &SimOutcome, ledger: &Ledger) -> impl Iterator<Item = Violation> {
    let counted = [outcome.counts.hbm_read_bytes, outcome.counts.hbm_written_bytes];
    let both = counted.into_iter().zip(ledger.moved_bytes);
    both.filter(|(counted, moved)| counted != moved)
        .map(|(counted, transferred)| Violation::HbmBytes { counted, transferred })
}

/// Checks 2, 3, 5 and 6 against what loops say and commands took one by one.
fn work(outcome: &SimOutcome, ledger: &Ledger) -> Vec<Violation> {
    let mut found = Vec::new();
    let (issued, expected) = (outcome.counts.macs(), ledger.products);
    if u128::from(issued) != expected {
        found.push(Violation::Loops { issued, expected });
    }
    let (counted, needed, most) = (outcome.counts.fetch_bytes, ledger.fetched_bytes, ledger.packet_bytes);
    if u128::from(counted) < needed || u128::from(counted) > most {
        found.push(Violation::Fetched { counted, needed, most });
    }
    let (delivered, expected) = (outcome.counts.delivered_bytes, ledger.received_bytes);
    if u128::from(delivered) != expected {
        found.push(Violation::Received { delivered, expected });
    }
    let standing = Component::STANDING.map(|part| outcome.energy_fj[part as usize]);
    let all: u128 = outcome.energy_fj.iter().sum();
    let (commands_fj, fj) = (ledger.commands_fj, all.exact_sub(standing.iter().sum()));
    if commands_fj != fj {
        found.push(Violation::Commands { commands_fj, fj });
    }
    if let Some((name, cycles, least_cycles)) = ledger.hurried.clone() {
        found.push(Violation::Hurried { name, cycles, least_cycles });
    }
    found
}

/// Check 3: what goes into data memory and register files, and what DMA takes out, are the bytes of the
/// commands' loops.
fn moved(outcome: &SimOutcome, ledger: &Ledger) -> impl Iterator<Item = Violation> {
    let counts = &outcome.counts;
    let rows = [
        ("committed to data memory", counts.commit_bytes, ledger.committed_bytes),
        ("written to register files", counts.trf_written_bytes, ledger.loaded_bytes),
        ("brought to data memory", counts.dm_written_bytes, ledger.brought_bytes),
        ("taken from data memory", counts.dm_read_bytes, ledger.taken_bytes),
    ];
    let wrong = rows.into_iter().filter(|(_, counted, expected)| u128::from(*counted) != *expected);
    wrong.map(|(what, counted, expected)| Violation::Moved { what, counted, expected })
}

/// Check 1: what must be read at least. Every run is held to the distinct bytes of its largest transfer; a
/// caller may know more: weights once, and the context's keys and values.
pub fn compulsory(outcome: &SimOutcome, needed_bytes: u64) -> Option<Violation> {
    let read_bytes = outcome.counts.hbm_read_bytes;
    (read_bytes < needed_bytes).then_some(Violation::Compulsory { read_bytes, needed_bytes })
}

/// Check 2: useful products are products, and there are no more than lanes and widths allow.
fn products(machine: &Tcp, outcome: &SimOutcome) -> Vec<Violation> {
    let counts = &outcome.counts;
    let (useful, issued) = (counts.macs_useful, counts.macs());
    let widest = machine.ce.int4_elements.max(machine.ce.int8_elements);
    let widest = widest.max(machine.ce.fp8_elements).max(machine.ce.bf16_elements);
    // More than can be counted is possible: no count of products exceeds it.
    let possible = counts.contraction_cycles.saturating_mul(machine.ce.lanes).saturating_mul(widest);
    let mut found = Vec::new();
    if useful > issued {
        found.push(Violation::Products { useful, issued });
    }
    if issued > possible {
        found.push(Violation::Peak { issued, possible });
    }
    found
}

/// Check 4: a slice keeps only what its ring carries past it.
fn delivered(outcome: &SimOutcome) -> Option<Violation> {
    let (delivered, carried) = (outcome.counts.delivered_bytes, outcome.counts.hop_bytes);
    (delivered > carried).then_some(Violation::Delivered { delivered, carried })
}

/// Check 5: energy is events times figures, each in one component, and the record has the same.
fn energy(machine: &Tcp, outcome: &SimOutcome) -> Vec<Violation> {
    let mut expected: [u128; COMPONENTS] = energy_of_run_fj(machine, &outcome.counts);
    let chips = outcome.record.layout.tracks.iter().filter(|track| track.parent.is_none()).count() as u64;
    for (component, fj) in Component::STANDING.iter().zip(standing_fj(machine, chips, outcome.cycles)) {
        expected[*component as usize] = fj;
    }
    let mut found = Vec::new();
    for component in Component::ALL {
        let (fj, expected_fj) = (outcome.energy_fj[component as usize], expected[component as usize]);
        if fj != expected_fj {
            found.push(Violation::Energy { component, fj, expected_fj });
        }
    }
    let (recorded_fj, fj) = (outcome.record.totals.total_energy_fj(), outcome.energy_fj.iter().sum());
    if recorded_fj != fj {
        found.push(Violation::Recorded { recorded_fj, fj });
    }
    found
}

/// Check 5: the integral of power is the energy, up to one milliwatt a cycle and the rounding of each
/// command.
fn power(outcome: &SimOutcome) -> Option<Violation> {
    let layout = &outcome.record.layout;
    let totals = outcome.record.layout.counters.iter().zip(&outcome.record.totals.counters);
    let power = totals.filter(|(counter, _)| counter.name == "power");
    let (mut milliwatt_cycles, mut chips) = (0_u128, 0_u128);
    for (_, totals) in power {
        milliwatt_cycles = milliwatt_cycles.exact_add(totals.value_cycles);
        chips += 1;
    }
    let finished = outcome.ended == RunEnd::Finished;
    if chips == 0 || !finished {
        return None;
    }
    let clock_hz = u128::from(layout.clock_hz.get());
    let integral_fj = milliwatt_cycles.exact_mul(1_000_000_000_000) / clock_hz;
    let fj: u128 = outcome.energy_fj.iter().sum();
    let cycle_fj = 1_000_000_000_000_u128.div_ceil(clock_hz);
    let rounding = (u128::from(outcome.cycles) * chips + 1).exact_mul(cycle_fj);
    let commands = u128::from(outcome.execs + outcome.transfers);
    // A transfer that is slowed ends up to a cycle late, at the power it had.
    let slack = rounding.exact_add(commands.exact_mul(fj / 1000 + 1).min(fj / 100));
    (integral_fj.abs_diff(fj) > slack).then_some(Violation::Power { integral_fj, fj })
}

/// Checks 6 and 7: nobody is busier than time allows, and the run is no longer than all of its parts in a
/// row.
fn bounds(outcome: &SimOutcome) -> Vec<Violation> {
    let mut found = Vec::new();
    let busy = outcome.utilisation.iter().filter(|engine| engine.busy_cycles > engine.available_cycles);
    found.extend(busy.map(|engine| Violation::Utilisation { ppm: engine.ppm() }));
    let cycles = outcome.cycles;
    let parts = outcome.utilisation.iter().take(3).map(|engine| engine.busy_cycles);
    let sum_cycles = parts.sum::<u128>().exact_add(outcome.latency_cycles);
    if u128::from(cycles) > sum_cycles && outcome.ended == RunEnd::Finished {
        found.push(Violation::TooLong { cycles, sum_cycles });
    }
    found
}

/// Check 8: with more of some resource and nothing else changed, a program is not slower.
pub fn never_slower(with_less: &SimOutcome, with_more: &SimOutcome) -> Option<Violation> {
    let (before_cycles, after_cycles) = (with_less.cycles, with_more.cycles);
    (after_cycles > before_cycles).then_some(Violation::Slower { before_cycles, after_cycles })
}

/// Check 9: the same program on the same machine gives the same.
pub fn same(one: &SimOutcome, other: &SimOutcome) -> Option<Violation> {
    let alike = one.cycles == other.cycles
        && one.counts == other.counts
        && one.energy_fj == other.energy_fj
        && one.record == other.record;
    (!alike).then_some(Violation::Different)
}

#[cfg(test)]
mod tests {
    use tilewright_base::Sources;
    use tilewright_machine::{builtin, load};
    use tilewright_record::KeepLast;
    use tilewright_tcp_isa::program::Program;

    use super::*;
    use crate::{NoObserver, SimOptions, simulate};

    #[test]
    fn a_ledger_that_does_not_agree_is_found() {
        let mut sources = Sources::default();
        let id = sources.add("tcp", builtin("tcp").expect("a known machine"));
        let loaded = load(&mut sources, id, &|_| None).unwrap_or_else(|_| panic!("it loads"));
        let machine = loaded.machine.tcp().expect("a tensor contraction processor").clone();
        let program = Program { chips: 1, ..Program::default() };
        let outcome = simulate(&machine, &program, &SimOptions::default(), KeepLast::new(0), &mut NoObserver);
        let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
        let found = |change: &dyn Fn(&mut Ledger)| {
            let mut ledger = Ledger::default();
            change(&mut ledger);
            all(&machine, &outcome, &ledger)
        };
        assert_eq!(found(&|_| {}), []);
        assert!(matches!(found(&|ledger| ledger.moved_bytes[1] = 8)[..], [Violation::HbmBytes { .. }]));
        assert!(matches!(found(&|ledger| ledger.products = 1)[..], [Violation::Loops { .. }]));
        assert!(matches!(found(&|ledger| ledger.fetched_bytes = 1)[..], [Violation::Fetched { .. }]));
        assert!(matches!(found(&|ledger| ledger.received_bytes = 1)[..], [Violation::Received { .. }]));
        assert!(matches!(found(&|ledger| ledger.needed_bytes = 1)[..], [Violation::Compulsory { .. }]));
        let moved: [fn(&mut Ledger); 4] = [
            |ledger| ledger.committed_bytes = 1,
            |ledger| ledger.loaded_bytes = 1,
            |ledger| ledger.brought_bytes = 1,
            |ledger| ledger.taken_bytes = 1,
        ];
        for change in moved {
            assert!(matches!(found(&change)[..], [Violation::Moved { .. }]));
        }
        let (pe, at_cycles) = (PeId { chip: 0, pe: 3 }, 7);
        let full = found(&|ledger| ledger.full = Some((pe, at_cycles)));
        assert_eq!(full, [Violation::Capacity { pe, at_cycles }]);
        let mut multiplied = outcome.clone();
        multiplied.counts.fetch_bytes = 64;
        let multiplied = all(&machine, &multiplied, &Ledger::default());
        assert!(multiplied.iter().any(|found| matches!(found, Violation::Fetched { most: 0, .. })));
        assert!(matches!(found(&|ledger| ledger.commands_fj = 1)[..], [Violation::Commands { .. }]));
        assert!(matches!(found(&|ledger| ledger.longest_cycles = 1 << 40)[..], [Violation::TooShort { .. }]));
        let quick = found(&|ledger| ledger.lasted(&"copy".into(), 9, 10));
        assert!(matches!(quick[..], [Violation::Hurried { cycles: 9, least_cycles: 10, .. }]), "{quick:?}");
        assert_eq!(found(&|ledger| ledger.lasted(&"copy".into(), 10, 10)), []);
    }
}
