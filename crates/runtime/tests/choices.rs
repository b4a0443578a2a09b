//! Schedules and choices of compiled models: bounds hold, search is the same every time, and never slower than the rule.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use tilewright_compile::kernel::Kernels;
use tilewright_compile::{Choices, Mixed, Options, compile_chosen, compile_kernels, kernel_text};
use tilewright_machine::Tcp;
use tilewright_num::Dtype;
use tilewright_runtime::schedule::{EXPLAINED_PERCENT, schedule};
use tilewright_runtime::tune::{budget, tune};
use tilewright_tcp::program::event::Unit;
use tilewright_tcp::program::text::print;

fn tcp() -> Tcp {
    let mut sources = tilewright_base::Sources::default();
    let id = sources.add("tcp", tilewright_machine::builtin("tcp").unwrap());
    tilewright_machine::load(&mut sources, id, &|_| None).unwrap().machine.tcp().unwrap().clone()
}

fn small() -> Kernels {
    let text = include_str!("../../../tests/kernels/canonical.kernels");
    kernel_text::read(text, tilewright_base::SourceId(0)).unwrap()
}

fn options(pes: u64) -> Options {
    Options {
        dtype: Dtype::Bf16,
        mixed: Mixed::default(),
        cache: Dtype::Bf16,
        context: 128,
        pes,
        chips: 1,
        batch: 1,
    }
}

#[test]
fn no_schedule_beats_its_bound_and_reasons_add_up() {
    let machine = tcp();
    for pes in [1, 2] {
        let compiled = compile_kernels(&machine, &small(), options(pes)).unwrap();
        for outline in &compiled.outlines {
            let schedule = schedule(&machine, &compiled, outline).unwrap();
            assert!(schedule.cycles >= schedule.bound_cycles());
            assert!(schedule.ratio_thousandths() >= 1000);
            let main = |pe: u64| {
                schedule
                    .commands
                    .values()
                    .filter(move |command| command.pe.pe == pe && command.unit == Unit::Main)
            };
            // On a context commands follow each other, and what it stood still for fills the gaps.
            let (first, last) =
                (main(0).next().unwrap().start, main(0).map(|command| command.end).max().unwrap());
            let busy: u64 = main(0).map(|command| command.end - command.start).sum();
            let stood: u64 = schedule.blames.iter().map(|blame| blame.cycles).sum();
            assert_eq!(busy + stood, last - first);
            let told = schedule.print().contains("more than the bound because");
            assert_eq!(told, schedule.ratio_thousandths() * 100 > EXPLAINED_PERCENT * 1000);
            assert!(schedule.areas.iter().all(|area| area.bytes.0 < area.bytes.1));
        }
    }
}

#[test]
fn search_is_the_same_every_time_and_never_slower() {
    let machine = tcp();
    for pes in [1, 4] {
        let rule = tune(&machine, &small(), options(pes), 0).unwrap();
        assert_eq!(rule.compiled.plan.choices, Choices::default());
        let one = tune(&machine, &small(), options(pes), 2).unwrap();
        let other = tune(&machine, &small(), options(pes), 2).unwrap();
        assert_eq!(print(&one.compiled.decode), print(&other.compiled.decode));
        assert_eq!(print(&one.compiled.prefill), print(&other.compiled.prefill));
        assert!(one.evaluations <= budget(2) + 1);
        let (before, after) = one.times.unwrap();
        assert!(
            after.decode_cycles <= before.decode_cycles
                || after.prefill_millicycles < before.prefill_millicycles
        );
        let wrong = one
            .compiled
            .check(&machine)
            .into_iter()
            .flat_map(|(_, checked)| checked.errors().cloned().collect::<Vec<_>>());
        assert_eq!(wrong.collect::<Vec<_>>(), []);
    }
}

#[test]
fn any_choice_gives_a_right_schedule() {
    let machine = tcp();
    for text in [
        "rows=2 slots=3 parts=1 fills=1,2,4,8,1",
        "rows=auto slots=8 parts=8 fills=whole",
        "slots=1 parts=4 fills=2",
        "window=4",
        "window=6 parts=2 slots=2 fills=4",
    ] {
        let choices: Choices = text.parse().unwrap();
        assert_eq!(choices.to_string().parse::<Choices>().unwrap(), choices);
        for pes in [1, 2] {
            let compiled = compile_chosen(&machine, &small(), options(pes), &choices).unwrap();
            for (name, checked) in compiled.check(&machine) {
                assert!(checked.errors().next().is_none(), "{text} {name}: {:?}", checked.errors().next());
            }
        }
    }
    for wrong in ["slots", "slots=0", "window=9", "fills=9", "fills=", "rows=two", "speed=9"] {
        assert!(wrong.parse::<Choices>().is_err(), "{wrong}");
    }
}
