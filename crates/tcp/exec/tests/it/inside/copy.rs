//! Runs of bytes of both sides of a copy.

use proptest::prelude::*;
use smallvec::SmallVec;
use tilewright_tcp_exec::inside::{ByteRun, EvenRuns, OffsetWalk, RunSide, listed};

type Loops = SmallVec<[(u64, i64); 8]>;

/// First bytes of all runs of a side.
fn starts(side: &RunSide) -> Vec<i64> {
    let walk = OffsetWalk::new(side.loops.clone()).expect("few steps");
    walk.map(|offset| side.first + offset).collect()
}

/// What [`EvenRuns::of`] must give: runs cut to the shorter ones of both sides.
fn literally(from: &RunSide, to: &RunSide) -> Option<Vec<ByteRun>> {
    let targets = starts(to).into_iter().map(i64::unsigned_abs);
    let length = |side: &RunSide| usize::try_from(side.bytes).expect("few bytes");
    listed((starts(from).into_iter(), length(from)), (targets, length(to)))
}

fn side() -> impl Strategy<Value = RunSide> {
    let row = (1..5_u64, prop_oneof![Just(8_i64), Just(16), Just(32), Just(64), 0..256_i64]);
    (0..64_i64, prop::collection::vec(row, 0..4), prop_oneof![Just(8_u64), Just(16), Just(32), Just(24)])
        .prop_map(|(first, loops, bytes)| RunSide { first, loops: Loops::from_vec(loops), bytes })
}

/// Pairs of sides, half of which have the same number of bytes because one is the other in one run.
fn sides() -> impl Strategy<Value = (RunSide, RunSide)> {
    (side(), side(), any::<bool>()).prop_map(|(from, to, joined)| {
        let whole = |side: &RunSide| side.bytes * side.loops.iter().map(|row| row.0).product::<u64>();
        let bytes = whole(&to);
        let from = if joined { RunSide { loops: Loops::new(), bytes, ..from } } else { from };
        (from, to)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn loops_of_both_sides_are_their_runs((from, to) in sides()) {
        let total = |side: &RunSide| side.bytes * starts(side).len() as u64;
        match EvenRuns::of(&from, &to) {
            Some(even) => {
                prop_assert_eq!(total(&from), total(&to));
                let runs: Vec<ByteRun> = even.runs().collect();
                prop_assert_eq!(Some(runs), literally(&from, &to));
            }
            // One run on one side, and what fits it on the other, never takes more than the other's
            // loops.
            None => {
                let other = total(&from) != total(&to);
                prop_assert!(other || !from.loops.is_empty() || to.loops.len() > 2);
            }
        }
    }
}
