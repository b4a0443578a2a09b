//! Schedules and choices of compiled models: bounds hold, search is the same every time, and never slower
//! than the rule.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::ops::ControlFlow;

use tilewright_compile::kernel::Kernels;
use tilewright_compile::{Choices, Mixed, Options, compile_chosen, compile_kernels, kernel_text};
use tilewright_explore::Goal;
use tilewright_num::Dtype;
use tilewright_schedule::timing::{EXPLAINED_PERCENT, schedule};
use tilewright_schedule::tune::{TuneError, TuneGoal, budget, tune, tune_compiled};
use tilewright_tcp_isa::program::event::ExecUnit;
use tilewright_tcp_isa::program::text::print;
pub(super) use tilewright_testkit::tcp;

fn small() -> Kernels {
    let text = include_str!("../../../../tests/kernels/canonical.kernels");
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
                    .filter(move |command| command.pe.pe == pe && command.unit == ExecUnit::Main)
            };
            // On a context commands follow each other, and what it stalled for fills the gaps.
            let (first, last) =
                (main(0).next().unwrap().start, main(0).map(|command| command.end).max().unwrap());
            let busy: u64 = main(0).map(|command| command.end - command.start).sum();
            let stood: u64 = schedule.main_stalls.iter().map(|blame| blame.cycles).sum();
            assert_eq!(busy + stood, last - first);
            let explained = schedule.text().print().contains("more than the bound because");
            assert_eq!(explained, schedule.ratio_thousandths() * 100 > EXPLAINED_PERCENT * 1000);
            assert!(schedule.areas.iter().all(|area| area.bytes.0 < area.bytes.1));
        }
    }
}

#[test]
fn a_search_that_is_stopped_ends_before_its_next_step() {
    let machine = tcp();
    let rule = tune(&machine, &small(), options(1), TuneGoal::time(0)).unwrap().compiled;
    for goal in [Goal::Time, Goal::Energy] {
        let mut steps = 0;
        let aim = TuneGoal { goal, ..TuneGoal::time(2) };
        let ended = tune_compiled(&machine, &small(), rule.clone(), aim, &mut |_, _| {
            steps += 1;
            if steps == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert!(matches!(ended, Err(TuneError::Stopped)), "{goal:?}");
        assert_eq!(steps, 3, "{goal:?}");
    }
}

#[test]
fn search_is_the_same_every_time_and_never_slower() {
    let machine = tcp();
    for pes in [1, 4] {
        let rule = tune(&machine, &small(), options(pes), TuneGoal::time(0)).unwrap();
        assert_eq!(rule.compiled.plan.choices, Choices::default());
        let one = tune(&machine, &small(), options(pes), TuneGoal::time(2)).unwrap();
        // Begun with the rule's programs, it ends with the same.
        let mut parts = Vec::new();
        let mut progress = |done: u64, of: u64| {
            parts.push((done, of));
            ControlFlow::Continue(())
        };
        let other =
            tune_compiled(&machine, &small(), rule.compiled, TuneGoal::time(2), &mut progress).unwrap();
        assert!(parts.len() > 10 && parts.is_sorted(), "{parts:?}");
        assert!(parts.iter().all(|(done, of)| done <= of && *of == budget(2) + 1), "{parts:?}");
        assert_eq!(print(&one.compiled.decode), print(&other.compiled.decode));
        assert_eq!(print(&one.compiled.prefill), print(&other.compiled.prefill));
        assert!(one.evaluations <= budget(2) + 1);
        let (before, after) = one.times.unwrap();
        assert!(
            after.decode.millicycles <= before.decode.millicycles
                || after.prefill.millicycles < before.prefill.millicycles
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
fn the_goal_of_energy_takes_no_more_of_it_than_the_goal_of_time() {
    let machine = tcp();
    for pes in [1, 2] {
        let by = |goal| {
            tune(&machine, &small(), options(pes), TuneGoal { goal, ..TuneGoal::time(1) })
                .unwrap()
                .times
                .unwrap()
        };
        let ((rule, fast), (same, frugal)) = (by(Goal::Time), by(Goal::Energy));
        assert_eq!(rule, same);
        let ranks = [&frugal, &fast].map(|times| times.score(&rule, Goal::Energy));
        assert!(ranks[0] <= ranks[1], "{frugal:?} {fast:?}");
        let all = |times: &tilewright_schedule::tune::ProgramCosts| {
            times.decode.energy_fj + times.prefill.energy_fj
        };
        assert!(all(&frugal) <= all(&fast) && all(&frugal) <= all(&rule));
    }
}

#[test]
fn a_power_is_stayed_below_or_refused_with_the_least_there_is() {
    let machine = tcp();
    let by = |effort, goal| tune(&machine, &small(), options(1), TuneGoal { goal, ..TuneGoal::time(effort) });
    let (_, fast) = by(1, Goal::Time).unwrap().times.unwrap();
    // Whatever time chose may be had below its own power.
    let enough = by(1, Goal::TimeBelow(fast.milliwatts())).unwrap().times.unwrap().1;
    assert!(enough.milliwatts() <= fast.milliwatts());
    let TuneError::Power { most_milliwatts: 1, least_milliwatts, evaluated } =
        by(1, Goal::TimeBelow(1)).unwrap_err()
    else {
        panic!("a milliwatt is not enough");
    };
    assert!(evaluated > 1 && least_milliwatts <= fast.milliwatts());
    // What is said to be reachable is; a little less is not.
    let least = by(1, Goal::TimeBelow(least_milliwatts)).unwrap().times.unwrap().1;
    assert!(least.milliwatts() <= least_milliwatts);
    // The rule alone: without effort there is no other choice.
    let TuneError::Power { least_milliwatts: rule, evaluated: 1, .. } =
        by(0, Goal::TimeBelow(1)).unwrap_err()
    else {
        panic!("a milliwatt is not enough for the rule");
    };
    assert!(rule >= least_milliwatts);
    assert!(by(0, Goal::TimeBelow(rule)).is_ok());
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
        "bands=4 fills=4",
        "rows=1 bands=2 slots=2 parts=4 window=4 fills=8,2,8",
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
    for wrong in
        ["slots", "slots=0", "bands=3", "bands=32", "window=9", "fills=9", "fills=", "rows=two", "speed=9"]
    {
        assert!(wrong.parse::<Choices>().is_err(), "{wrong}");
    }
}
