//! Energy and counters of whole runs.

use tilewright_tcp_cost::energy::{COMPONENTS, Component, counts, energy_fj};
use tilewright_tcp_isa::program::Program;
use tilewright_tcp_isa::program::event::PeId;
use tilewright_tcp_isa::program::exec::Context;
use tilewright_tcp_sim::checks::{self, Violation};
use tilewright_tcp_sim::{EngineUnit, SimOutcome};

use crate::timeline::build::{
    contraction, dma, program, queue, run, run_exec, short, spans, try_run, weights,
};
use crate::timeline::tcp;

fn work(times: usize) -> Program {
    let mut steps = Vec::new();
    for _ in 0..times {
        steps.push(dma(0, 0));
        steps.extend(run_exec(1, Context::Sub, 0));
        steps.extend(run_exec(0, Context::Main, 1));
    }
    program(vec![contraction(256), short(2048, 4096)], vec![weights(0, 1024)], vec![queue(0, 0, steps)])
}

#[test]
fn energy_is_the_sum_of_its_parts() {
    let machine = tcp();
    let outcome = run(&machine, &work(3));
    let mut sum = [0_u128; COMPONENTS];
    for exec in [contraction(256), short(2048, 4096)] {
        let parts = energy_fj(&machine, &counts(&machine, &exec));
        sum.iter_mut().zip(parts).for_each(|(sum, part)| *sum += 3 * u128::from(part));
    }
    for component in
        [Component::Products, Component::Contraction, Component::Accumulators, Component::Registers]
    {
        assert_eq!(outcome.energy_fj[component as usize], sum[component as usize], "{component:?}");
    }
    // 256 KiB three times, at 4 pJ a bit, and 1.2 on the way.
    let bits = 3 * 1024 * 256 * 8;
    assert_eq!(outcome.energy_fj[Component::OffChip as usize], bits * 4000);
    assert_eq!(outcome.energy_fj[Component::Noc as usize], bits * 1200);
    let cycles = u128::from(outcome.cycles);
    assert_eq!(outcome.energy_fj[Component::Slices as usize], cycles * 512 * 12_000);
    assert_eq!(outcome.energy_fj[Component::Uncore as usize], cycles * 15_000_000);
    assert_eq!(outcome.energy_fj[Component::OffChipStandby as usize], cycles * 2 * 2_500_000);
    assert_eq!(outcome.record.totals.total_energy_fj(), outcome.energy_fj.iter().sum());
}

#[test]
fn the_same_work_takes_the_same_energy_however_it_is_repeated() {
    let machine = tcp();
    let (one, three) = (run(&machine, &work(1)), run(&machine, &work(3)));
    let events = COMPONENTS - Component::STANDING.len();
    for (one, three) in one.energy_fj[..events].iter().zip(&three.energy_fj[..events]) {
        assert_eq!(one * 3, *three);
    }
}

#[test]
fn an_idle_chip_takes_26_watts() {
    let outcome = run(&tcp(), &program(vec![], vec![], vec![queue(0, 0, vec![])]));
    let power = &outcome.record.totals.counters[0];
    assert_eq!((power.peak, power.value_cycles / u128::from(outcome.cycles)), (26_144, 26_144));
}

#[test]
fn utilisation_is_that_of_the_tracks() {
    let outcome = run(&tcp(), &work(2));
    let busy = |engine: EngineUnit| outcome.utilisation[engine as usize].busy_cycles;
    let totals = &outcome.record.totals.tracks;
    let of = |path: &str| {
        let layout = &outcome.record.layout;
        let at = (0..).zip(totals).find(|(id, _)| layout.path(tilewright_record::TrackId(*id)) == path);
        at.map(|(_, totals)| u128::from(totals.busy_cycles)).expect("a track")
    };
    assert_eq!(busy(EngineUnit::Main), of("chip0/pe0/main"));
    assert_eq!(busy(EngineUnit::Sub), of("chip0/pe0/sub"));
    assert_eq!(busy(EngineUnit::Dma), of("chip0/pe0/dma"));
    assert_eq!(busy(EngineUnit::Contraction), of("chip0/pe0/contraction"));
    assert_eq!(busy(EngineUnit::Commit), of("chip0/pe0/commit") + of("chip0/pe0/sub commit"));
    assert_eq!(busy(EngineUnit::Contraction), 2 * 1024);
}

#[test]
fn checks_find_what_is_wrong() {
    let machine = tcp();
    let good = run(&machine, &work(2));
    let found = |change: &dyn Fn(&mut SimOutcome)| {
        let mut bad = good.clone();
        change(&mut bad);
        checks::of_run(&machine, &bad)
    };
    assert_eq!(found(&|_| {}), []);
    let energy = found(&|bad| bad.energy_fj[0] += 1);
    assert!(matches!(energy[..], [Violation::Energy { .. }, Violation::Recorded { .. }]), "{energy:?}");
    let power = found(&|bad| bad.record.totals.counters[0].value_cycles *= 2);
    assert!(matches!(power[..], [Violation::Power { .. }]), "{power:?}");
    let busy = found(&|bad| bad.utilisation[0].busy_cycles = 1 << 60);
    assert!(matches!(busy[..], [Violation::Utilisation { .. }]), "{busy:?}");
    let idle = found(&|bad| {
        bad.latency_cycles = 0;
        bad.utilisation.iter_mut().for_each(|engine| engine.busy_cycles = 0);
    });
    assert!(matches!(idle[..], [Violation::TooLong { .. }]), "{idle:?}");
    let useful = found(&|bad| bad.counts.macs_useful = bad.counts.macs() + 1);
    assert!(matches!(useful[..], [Violation::Products { .. }]), "{useful:?}");
    let ring = found(&|bad| bad.counts.delivered_bytes = bad.counts.hop_bytes + 1);
    assert!(matches!(ring[..], [Violation::Delivered { .. }]), "{ring:?}");
    assert!(checks::compulsory(&good, good.counts.hbm_read_bytes + 1).is_some());
    assert!(checks::compulsory(&good, good.counts.hbm_read_bytes).is_none());
    assert!(checks::same(&good, &run(&machine, &work(1))).is_some());
    assert!(checks::never_slower(&run(&machine, &work(1)), &good).is_some());
}

#[test]
fn memory_beyond_its_end_is_found() {
    let steps = run_exec(0, Context::Sub, 0).to_vec();
    let all = program(vec![short(64, 65_536)], vec![], vec![queue(0, 0, steps)]);
    let outcome = try_run(&tcp(), &all).expect("it runs");
    let at_cycles = spans(&outcome, "chip0/pe0/sub")[0].1;
    let pe = PeId { chip: 0, pe: 0 };
    assert_eq!(outcome.violations, [Violation::Capacity { pe, at_cycles }], "when it ended");
}

#[test]
fn memories_fill_as_they_are_touched() {
    let outcome = run(&tcp(), &work(1));
    let layout = &outcome.record.layout;
    let peak = |path: &str| {
        let mut found = layout.counters.iter().zip(&outcome.record.totals.counters);
        found.find(|(counter, _)| layout.counter_path(counter) == path).map(|(_, totals)| totals.peak)
    };
    // 32 KiB of queries at the bottom, 16 KiB of results from 256 KiB on; parts of 4 KiB.
    assert_eq!(peak("chip0/pe0/dm/touched so far, in parts of 4096 B"), Some(48 << 10));
    assert_eq!(peak("chip0/pe0/trf/touched so far, in parts of 512 B"), Some(2048));
}
