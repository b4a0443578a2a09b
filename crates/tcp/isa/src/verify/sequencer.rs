//! Loops of any sequencer: as many entries as it has once neighbours are joined, each of a size that it
//! counts (vISA book, sequencer).

use tilewright_notation::algebra::access::{AccessLoop, AccessPattern};

use super::context::VerifyContext;
use crate::capped::{Capped, TOO_MANY};
use crate::program::Count;
use crate::program::exec::Loop;
use crate::sequencer::entries;

/// Checks the loops of one unit. `kept` is a loop that joins no other: its addresses come from elsewhere.
pub(super) fn check(cx: &mut VerifyContext<'_>, who: &str, loops: &[Loop], kept: Option<usize>) {
    let most = cx.machine.sequencer.entry_size_max;
    for row in loops {
        let size = cx.program.most(row.size);
        if size == 0 || size > most {
            cx.refuse(
                "tcp/sequencer-size",
                format!("a loop of {who} has size {size}"),
                format!("1 to {most}"),
                if size == 0 {
                    "1, or no such loop".into()
                } else {
                    "two loops whose sizes multiply to it".into()
                },
            );
            return;
        }
    }
    let iterations = loops.iter().fold(1_u64, |all, row| all.capped_mul(cx.program.most(row.size)));
    if iterations == TOO_MANY {
        cx.refuse(
            "tcp/sequencer-size",
            format!("the loops of {who} run more often than can be counted"),
            format!("fewer than {TOO_MANY} iterations in all"),
            "two commands".into(),
        );
        return;
    }
    let rows: Vec<LoopExtent> = loops
        .iter()
        .enumerate()
        .map(|(at, row)| LoopExtent {
            size: cx.program.most(row.size),
            stride: row.stride,
            dynamic: matches!(row.size, Count::Register(_)),
            kept: kept == Some(at),
        })
        .collect();
    let written = rows.iter().filter(|row| row.size > 1 || row.dynamic).count();
    let merged = merged(&rows);
    let pattern = AccessPattern {
        loops: merged.iter().map(|row| AccessLoop::new(row.size, row.stride.unsigned_abs())).collect(),
    };
    let fits = written as u64 <= cx.machine.sequencer.entries || entries(cx.machine, &pattern).is_ok();
    if !fits {
        cx.refuse(
            "tcp/sequencer-entries",
            format!("{who} needs {} loops after joining neighbours", merged.len()),
            format!("{} loops", cx.machine.sequencer.entries),
            "loops whose strides continue one another, or two commands".into(),
        );
    }
}

/// A loop at its largest size.
#[derive(Clone, Copy)]
pub(super) struct LoopExtent {
    pub(super) size: u64,
    pub(super) stride: i64,
    pub(super) dynamic: bool,
    pub(super) kept: bool,
}

/// Neighbours joined: `(n1:s1)(n2:s2)` is `(n1*n2:s2)` iff `s1 = n2*s2`. A dynamic loop joins nothing outside
/// of it.
pub(super) fn merged(rows: &[LoopExtent]) -> Vec<LoopExtent> {
    let mut merged: Vec<LoopExtent> = Vec::new();
    for row in rows {
        match merged.last_mut() {
            _ if row.size == 1 && !row.dynamic => {}
            Some(outer)
                if !row.dynamic
                    && !row.kept
                    && !outer.kept
                    && i128::from(outer.stride) == i128::from(row.stride) * i128::from(row.size) =>
            {
                outer.size = outer.size.capped_mul(row.size);
                outer.stride = row.stride;
            }
            _ => merged.push(*row),
        }
    }
    merged
}
