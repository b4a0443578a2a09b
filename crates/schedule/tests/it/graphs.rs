//! Choices of general graphs: more effort is never worse, whatever is to be least.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use tilewright_base::SourceId;
use tilewright_compile::general::{Choice, Options, Without, plan};
use tilewright_explore::Goal;
use tilewright_graph::{Graph, TensorStore, primitives};
use tilewright_schedule::tune::{
    GraphGoal, TokenCost, TuneError, TunedGraph, graph_options, order_searches, tune_graph, worth,
};
use tilewright_testkit::draws;
use tilewright_testkit::tcp;

fn graphs() -> [Graph; 3] {
    let texts = [
        include_str!("../../../../tests/general/mlp.graph"),
        include_str!("../../../../tests/general/encoder.graph"),
        include_str!("../../../../tests/general/compiled-file.graph"),
    ];
    texts.map(|text| primitives(&tilewright_graph::text::read(text, SourceId(0)).unwrap()).unwrap())
}

fn tuned(graph: &Graph, pes: u64, aim: GraphGoal) -> Result<TunedGraph, TuneError> {
    let (machine, store) = (tcp(), TensorStore::default());
    let made = |options: &Options| plan(&machine, graph, &store, options);
    let rule = Options { pes, ..Options::default() };
    let mut last = 0;
    let tuned = tune_graph(&machine, rule, aim, &made, &mut |done, of| {
        assert!(done == last + 1 && done <= of, "{done} of {of} behind {last}");
        last = done;
    });
    if let Ok(TunedGraph { evaluations, .. }) = &tuned {
        assert_eq!(last, *evaluations);
    }
    tuned
}

#[test]
fn what_an_effort_tries_the_next_one_tries_too() {
    for pes in [1, 2, 8] {
        let rule = Options { pes, ..Options::default() };
        let tried = |effort| -> Vec<(u64, usize, Without)> {
            graph_options(rule, effort).iter().map(|one| (one.pes, one.tactics, one.without)).collect()
        };
        assert!(tried(0).is_empty());
        for effort in 1..9 {
            let (less, more) = (tried(effort), tried(effort + 1));
            assert!(less.iter().all(|one| more.contains(one)), "{less:?} {more:?}");
            assert!(!more.contains(&(rule.pes, rule.tactics, rule.without)), "the rule is there already");
        }
    }
}

#[test]
fn more_effort_is_never_worse() {
    let goals = [Goal::Time, Goal::Energy, Goal::EnergyDelay];
    for (number, graph) in graphs().into_iter().enumerate() {
        // A goal for each graph, and all of them in the long run.
        for goal in goals.into_iter().skip(draws(number % 3, 0)).take(draws(1, 3)) {
            let value = |cost: TokenCost| goal.value(cost.millicycles, cost.energy_fj);
            let mut best = u128::MAX;
            for effort in 1..3 {
                let (rule, own) = tuned(&graph, 4, GraphGoal { effort, goal }).unwrap().costs.unwrap();
                assert!(value(own) <= value(rule).min(best), "{goal:?} with effort {effort}");
                best = value(own);
            }
        }
    }
}

/// Contractions, chains, reductions and layers of many sizes, beside those of files.
fn twenty() -> Vec<Graph> {
    let sizes = [(16, 16, 16), (64, 32, 48), (33, 20, 12), (128, 64, 64), (8, 256, 64), (72, 96, 40)];
    let mut texts = Vec::new();
    for (rows, columns, summed) in sizes {
        let head = format!("graph 1\nname one\ninput x: f32[{rows}, {summed}]\n");
        let product = format!(
            "input w: f32[{columns}, {summed}]\nlet y: f32[{rows}, {columns}] = einsum(x, w) \
             spec=\"mk,nk->mn\"\n"
        );
        let ty = format!("f32[{rows}, {columns}]");
        texts.push(format!("{head}{product}output y = y\n"));
        texts.push(format!("{head}{product}let s: {ty} = softmax(y) axis=1\noutput s = s\n"));
        texts.push(format!("{head}let s: f32[{rows}, {summed}] = softmax(x) axis=1\noutput s = s\n"));
    }
    let read = |text: String| primitives(&tilewright_graph::text::read(&text, SourceId(0)).unwrap()).unwrap();
    graphs().into_iter().chain(texts.into_iter().map(read)).collect()
}

#[test]
fn more_effort_is_never_worse_on_twenty_graphs() {
    let (mut count, mut better, mut searched) = (0, 0, 0);
    for (number, graph) in twenty().into_iter().enumerate() {
        let mut best = u64::MAX;
        // The genetic search for some of them, and for all in the long run.
        for effort in 1..if number % draws(4, 1) == 1 % draws(4, 1) { 4 } else { 3 } {
            let aim = GraphGoal { effort, goal: Goal::Time };
            let (rule, own) = tuned(&graph, 2, aim).unwrap().costs.unwrap();
            assert!(own.millicycles <= rule.millicycles.min(best), "effort {effort}");
            searched += usize::from(effort > 1 && own.millicycles < best);
            best = own.millicycles;
            better += usize::from(own.millicycles < rule.millicycles);
        }
        count += 1;
    }
    assert!(count >= 20 && better > 0 && searched > 0, "{better} and {searched} gain, of {count} graphs");
}

/// The order of commands is searched from effort 2 on; what is found is checked, changes no kernel, and never
/// ends later by the model that orders are compared on, for some searches sooner.
#[test]
fn orders_are_searched_by_windows_and_priorities() {
    assert!(order_searches(0).is_empty() && order_searches(1).is_empty());
    let (machine, store) = (tcp(), TensorStore::default());
    let [mlp, encoder, _] = graphs();
    let mut sooner = Vec::new();
    for (graph, pes) in [(&encoder, 8), (&encoder, 4), (&encoder, 1), (&mlp, 8), (&mlp, 2)] {
        let rule = Options { pes, ..Options::default() };
        let plain = plan(&machine, graph, &store, &rule).unwrap();
        for search in order_searches(3) {
            let found = plan(&machine, graph, &store, &Options { search, ..rule }).unwrap();
            assert!(found.cycles <= plain.cycles, "{search:?}: {} {}", found.cycles, plain.cycles);
            assert_eq!(found.kernels, plain.kernels, "an order changes no kernel");
            sooner.extend((found.cycles < plain.cycles).then_some((pes, plain.cycles, found.cycles)));
        }
    }
    assert!(!sooner.is_empty(), "no search ends sooner on any of them");
}

#[test]
fn a_part_that_is_left_out_has_a_price() {
    let [graph, ..] = graphs();
    let (machine, store) = (tcp(), TensorStore::default());
    let made = |options: &Options| plan(&machine, &graph, &store, options);
    let rule = Options { pes: 2, ..Options::default() };
    let found = worth(&machine, rule, &Choice::ALL, &made, &mut |_, _| {}).unwrap();
    assert_eq!(found.parts.len(), Choice::ALL.len());
    let cycles = |part: Choice| found.parts.iter().find(|one| one.part == part).unwrap().cycles.unwrap();
    assert!(cycles(Choice::Epilogue) > found.cycles, "{found:?}");
    assert!(cycles(Choice::Order) > found.cycles, "{found:?}");
}

#[test]
fn few_elements_are_faster_on_fewer_pes() {
    let [_, _, small] = graphs();
    let tuned = tuned(&small, 8, GraphGoal { effort: 1, goal: Goal::Time }).unwrap();
    assert!(tuned.options.pes < 8, "{:?}", tuned.options);
    let (rule, own) = tuned.costs.unwrap();
    assert!(own.millicycles < rule.millicycles);
}

#[test]
fn a_power_that_nothing_stays_below_is_refused() {
    let [graph, ..] = graphs();
    let refused = tuned(&graph, 2, GraphGoal { effort: 1, goal: Goal::TimeBelow(1) }).unwrap_err();
    let TuneError::Power { least_milliwatts, evaluated, .. } = refused else { panic!("{refused}") };
    assert_eq!(evaluated, 2);
    tuned(&graph, 2, GraphGoal { effort: 1, goal: Goal::TimeBelow(least_milliwatts) }).unwrap();
}
