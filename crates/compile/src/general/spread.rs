//! Moves that give the same elements to many places: one of them first, then what is there once more behind
//! it, twice as much each time. HBM writes whole access units; word by word each of them would be written
//! again for every word.

use tilewright_machine::tcp::Tcp;

use super::kernel::Part;
use super::link::cycles;
use super::view::signed;

/// Copies below which a move stays as it is.
const LEAST_COPIES: u64 = 4;

/// A part of a move of elements of so many bytes as it is, or as parts of which some go on from what is
/// written, whichever takes less.
pub(super) fn spread(machine: &Tcp, part: &Part, element_bytes: u64) -> Vec<(Part, bool)> {
    let doubled = doubled(part, machine.hbm.access_bytes / element_bytes);
    let parts: Vec<Part> = doubled.iter().map(|(part, _)| part.clone()).collect();
    let takes = |parts: &[Part]| cycles(machine, parts, element_bytes);
    if doubled.len() > 1 && takes(&parts) < takes(std::slice::from_ref(part)) {
        doubled
    } else {
        vec![(part.clone(), false)]
    }
}

/// A part of a move, and the parts behind it that go on from what is written; `unit` elements are an access
/// unit.
fn doubled(part: &Part, unit: u64) -> Vec<(Part, bool)> {
    let loops: Vec<(u64, i64, i64)> = part.loops.iter().copied().filter(|row| row.0 > 1).collect();
    let (mut run, mut copies, mut left) = (1, 1, &loops[..]);
    while let [rest @ .., (size, from, to)] = left {
        if copies > 1 || (*from, *to) != (signed(run), signed(run)) {
            break;
        }
        (run, left) = (run * size, rest);
    }
    while let [rest @ .., (size, from, to)] = left {
        if (*from, *to) != (0, signed(run * copies)) {
            break;
        }
        (copies, left) = (copies * size, rest);
    }
    if copies < LEAST_COPIES || run >= unit {
        return vec![(part.clone(), false)];
    }
    let with = |loops: &[(u64, i64, i64)], run: u64| [loops, &[(run, 1, 1)]].concat();
    let mut all = vec![(Part { loops: with(left, run), ..part.clone() }, false)];
    let rows: Vec<(u64, i64, i64)> = left.iter().map(|(size, _, to)| (*size, *to, *to)).collect();
    let mut done = 1;
    while done < copies {
        let more = done.min(copies - done);
        let (from_first, to_first) = (part.to_first, part.to_first + signed(done * run));
        all.push((Part { from: part.from, from_first, to_first, loops: with(&rows, more * run) }, true));
        done += more;
    }
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn run(part: &Part, mut step: impl FnMut(i64, i64)) {
        let mut places = vec![(part.from_first, part.to_first)];
        for (size, from, to) in &part.loops {
            let walk = |(a, b): (i64, i64)| (0..signed(*size)).map(move |at| (a + at * from, b + at * to));
            places = places.into_iter().flat_map(walk).collect();
        }
        places.into_iter().for_each(|(from, to)| step(from, to));
    }

    proptest! {
        #[test]
        fn every_place_gets_what_the_move_says(
            (rows, copies, inner) in (1..5_u64, 1..40_u64, 1..4_u64), pitch in 0..3_i64, unit in 1..65_u64,
        ) {
            let row = signed(copies * inner) + pitch;
            let loops = vec![(rows, signed(inner), row), (copies, 0, signed(inner)), (inner, 1, 1)];
            let part = Part { from: 0, from_first: 3, to_first: 5, loops };
            let (mut wanted, mut found) = (BTreeMap::new(), BTreeMap::new());
            run(&part, |from, to| _ = wanted.insert(to, from));
            for (part, from_there) in doubled(&part, unit) {
                let known: BTreeMap<i64, i64> = found.clone();
                run(&part, |from, to| {
                    let element = if from_there { known.get(&from).copied().unwrap_or(-1) } else { from };
                    found.insert(to, element);
                });
            }
            prop_assert_eq!(wanted, found);
        }
    }
}
