//! Every candidate that the closed forms call legal is legal for the engine, can be lowered, and takes what
//! they say.

use proptest::prelude::*;
use tilewright_explore::tcp::cost::{CandidateCommands, columns};
use tilewright_explore::tcp::events::{counts, energy};
use tilewright_explore::tcp::nest::FrameContext;
use tilewright_explore::tcp::operand_transfers::OperandTransfers;
use tilewright_explore::tcp::program::lowered;
use tilewright_explore::tcp::spell::spell;
use tilewright_explore::tcp::{TcpCandidate, TcpSearchResult, TcpTask};
use tilewright_explore::{Goal, SearchOptions, search};
use tilewright_num::Dtype;
use tilewright_tcp_cost::cycles::image::exec_cycles;
use tilewright_tcp_cost::energy::EnergyCounts;
use tilewright_tcp_lower::LowerOptions;
use tilewright_testkit::draws;

use crate::setting::{machine, task};

/// Lowers a candidate and compares; the words of a disagreement if there is one.
fn disagreement(task: &TcpTask<'_>, found: &TcpSearchResult, candidate: &TcpCandidate) -> Option<String> {
    let frame = &found.frames[candidate.frame as usize];
    let framed = FrameContext::new(task, frame);
    let choice = &candidate.choice;
    let program = spell(task, &framed, choice)?;
    let text = program.to_string();
    let lowered = match lowered(task, &framed, choice, &LowerOptions::default()) {
        Ok(lowered) => lowered.program,
        Err(complaints) => return Some(format!("{text}{choice:?}\n{complaints:?}")),
    };
    let nest = framed.nest(choice).expect("a legal setting");
    let commands = CandidateCommands::new(&task.setup, &nest, choice).expect("a legal setting");
    let columns = columns(&task.setup, &commands, 1, (&OperandTransfers::default(), 0));
    let names: Vec<&str> = lowered.execs.iter().map(|exec| exec.name.as_str()).collect();
    let cycles: Vec<u64> =
        lowered.execs.iter().map(|exec| exec_cycles(task.setup.machine, exec).total_cycles).collect();
    let mut expected = vec![columns.load_cycles, columns.contract_cycles];
    expected.extend((columns.bridge_cycles > 0).then_some(columns.bridge_cycles));
    if cycles != expected {
        return Some(format!("{text}{choice:?}\n{names:?} {cycles:?}, estimated {expected:?}"));
    }
    let mut events = EnergyCounts::default();
    for exec in &lowered.execs {
        events.add(&tilewright_tcp_cost::energy::counts(task.setup.machine, exec), 1);
    }
    let estimated = counts(&task.setup, &nest, choice, &commands);
    let estimated = EnergyCounts { macs_useful: events.macs_useful, ..estimated };
    if events != estimated {
        let wrong: Vec<_> =
            events.named().into_iter().zip(estimated.named()).filter(|(a, b)| a != b).collect();
        return Some(format!("{text}{choice:?}\n{wrong:?}"));
    }
    let sum: u64 = energy(&task.setup, &estimated, columns.cycles, frame.commands()).iter().sum();
    (frame.commands() == 1 && sum != candidate.energy_fj).then(|| format!("{text} {sum}"))
}

fn everything(goal: Goal) -> SearchOptions {
    SearchOptions::everything(goal, usize::MAX)
}

#[test]
fn all_candidates_of_some_small_einsums() {
    let toy = machine("toy-tcp");
    let texts = [
        "mk,nk->mn; dims m=8, n=8, k=16",
        "mk,kn->mn; dims m=16, n=4, k=8",
        "bmk,bnk->bmn; dims b=2, m=4, n=8, k=16",
    ];
    for text in texts {
        let task = task(&toy, Dtype::I8, text);
        let found = search(&task, &everything(Goal::Time), &mut |_, _| false);
        assert!(found.legal > 100, "{text}: {}", found.legal);
        let wrong: Vec<String> =
            found.kept.best().iter().filter_map(|candidate| disagreement(&task, &found, candidate)).collect();
        let few: Vec<&String> = wrong.iter().step_by((wrong.len() / 4).max(1)).collect();
        assert!(wrong.is_empty(), "{} of {}:\n{few:#?}", wrong.len(), found.legal);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: draws(8, 24), failure_persistence: None, ..ProptestConfig::default()
    })]
    #[test]
    fn candidates_of_random_einsums(
        (b, m, n, k) in (1_u64..4, 1_u64..17, 1_u64..17, 2_u64..17),
        which in 0_usize..3,
        pick in 0_usize..1000,
    ) {
        let toy = machine("toy-tcp");
        let dtype = [Dtype::I8, Dtype::Bf16, Dtype::F8E4M3Fn][which];
        let task = task(&toy, dtype, &format!("bmk,bnk->bmn; dims b={b}, m={m}, n={n}, k={k}"));
        let found = search(&task, &everything(Goal::Time), &mut |_, _| false);
        let every = (found.kept.best().len() / 20).max(1);
        for candidate in found.kept.best().iter().skip(pick % every).step_by(every) {
            if let Some(words) = disagreement(&task, &found, candidate) {
                return Err(TestCaseError::fail(words));
            }
        }
    }
}
