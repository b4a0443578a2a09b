//! Branch and bound against a search that looks at everything, on random small einsums.

use proptest::prelude::*;
use tilewright_explore::tcp::exhaustive::every_choice;
use tilewright_explore::tcp::nest::FrameContext;
use tilewright_explore::tcp::space::frames;
use tilewright_explore::{Goal, SearchOptions, search};
use tilewright_num::Dtype;
use tilewright_testkit::draws;

use crate::setting::{machine, task};

proptest! {
    #![proptest_config(ProptestConfig {
        cases: draws(75, 300), failure_persistence: None, ..ProptestConfig::default()
    })]
    #[test]
    fn nothing_better_exists(
        (b, m, n, k) in (1_u64..3, 1_u64..17, 1_u64..17, 2_u64..17),
        which in 0_usize..3,
        from_hbm in any::<[bool; 2]>(),
    ) {
        let toy = machine("toy-tcp");
        let task = task(&toy, Dtype::I8, &format!("bmk,bnk->bmn; dims b={b}, m={m}, n={n}, k={k}"))
            .with_inputs_in_hbm(from_hbm);
        let goal = [Goal::Time, Goal::Energy, Goal::EnergyDelay][which];
        let mut best: Option<(u128, u64, u64)> = None;
        let mut legal = 0_u64;
        for frame in frames(&task) {
            every_choice(&task, &FrameContext::new(&task, &frame), &mut |_, evaluated| {
                if let Ok((cycles, energy_fj)) = evaluated {
                    legal += 1;
                    let key = (goal.value(cycles, energy_fj), cycles, energy_fj);
                    best = Some(best.map_or(key, |best| best.min(key)));
                }
            });
        }
        let all = search(&task, &SearchOptions::everything(goal, 1), &mut |_, _| false);
        prop_assert_eq!(all.legal, legal);
        let bounded = search(&task, &SearchOptions::exact(goal, 1), &mut |_, _| false);
        let found = bounded.kept.best().first()
            .map(|c| (goal.value(c.ticks, c.energy_fj), c.ticks, c.energy_fj));
        prop_assert_eq!(found, best);
        prop_assert_eq!(bounded.kept.best(), all.kept.best());
        prop_assert_eq!(bounded.kept.front(), all.kept.front());
        let (bound, first) = (bounded.bound, bounded.kept.best().first());
        if let (Some(bound), Some(first)) = (bound, first) {
            prop_assert!(bound.ticks <= first.ticks && bound.energy_fj <= first.energy_fj);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    /// What orders of loops share is priced once: each candidate must come out as if it were asked alone.
    #[test]
    fn every_candidate_costs_what_it_costs_alone(
        (b, m, n, k) in (1_u64..3, 1_u64..8, 1_u64..8, 2_u64..12),
        from_hbm in any::<[bool; 2]>(),
        bf16 in any::<bool>(),
    ) {
        let toy = machine("toy-tcp");
        let dtype = if bf16 { Dtype::Bf16 } else { Dtype::I8 };
        let task = task(&toy, dtype, &format!("bmk,bnk->bmn; dims b={b}, m={m}, n={n}, k={k}"))
            .with_inputs_in_hbm(from_hbm);
        let mut alone = Vec::new();
        for (number, frame) in (0_u32..).zip(frames(&task)) {
            every_choice(&task, &FrameContext::new(&task, &frame), &mut |choice, evaluated| {
                alone.extend(evaluated.ok()
                    .map(|(cycles, energy_fj)| (number, choice.code(), cycles, energy_fj)));
            });
        }
        let all = search(&task, &SearchOptions::everything(Goal::Time, usize::MAX), &mut |_, _| false);
        let best = all.kept.best().iter();
        let mut shared: Vec<_> = best.map(|c| (c.frame, c.choice.code(), c.ticks, c.energy_fj)).collect();
        alone.sort_unstable();
        shared.sort_unstable();
        prop_assert_eq!(shared, alone);
    }
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let tcp = machine("tcp");
    let task = task(&tcp, Dtype::I8, "hqd, hkd -> hqk; dims h=4, q=64, k=64, d=64");
    let options = SearchOptions { cloud: true, ..SearchOptions::exact(Goal::EnergyDelay, 9) };
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        pool.install(|| search(&task, &options, &mut |_, _| false))
    };
    let (one, five) = (with(1), with(5));
    assert_eq!((one.evaluated, one.legal, one.refused), (five.evaluated, five.legal, five.refused));
    assert_eq!((one.excluded_frames, one.excluded_sets), (five.excluded_frames, five.excluded_sets));
    assert_eq!((one.kept.best(), one.kept.front()), (five.kept.best(), five.kept.front()));
    assert_eq!(one.cloud.points().collect::<Vec<_>>(), five.cloud.points().collect::<Vec<_>>());
}
