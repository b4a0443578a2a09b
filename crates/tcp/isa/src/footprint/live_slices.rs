//! Which slices of a command feed a write: what other slices fetch or multiply goes nowhere, so it is not
//! read.

use crate::program::exec::{Stream, Switch};
use crate::switch::{Topology, ring_slices};
use tilewright_base::invariant::to_index;

/// Slices of a group that matter to each engine, as ranges within the group.
pub(super) struct LiveSlices {
    /// Slices whose data memory is read.
    pub(super) fetch: Vec<(u64, u64)>,
    /// Slices whose register files are read.
    pub(super) engines: Vec<(u64, u64)>,
}

impl LiveSlices {
    pub(super) fn of(stream: &Stream, slices: u64) -> LiveSlices {
        let all = vec![(0, slices)];
        if stream.commit.slices.is_empty() {
            return LiveSlices { fetch: all.clone(), engines: all };
        }
        let mut writes = vec![false; to_index(slices)];
        for &(first, end) in &stream.commit.slices {
            mark(&mut writes, first, end);
        }
        let between = stream.vector.as_ref().and_then(|vector| vector.between).map_or(1, |b| b.slices.max(1));
        let engines = in_groups(&writes, between);
        let fetch = sources(&stream.switch, &engines);
        LiveSlices { fetch: ranges(&fetch), engines: ranges(&engines) }
    }
}

fn mark(slices: &mut [bool], first: u64, end: u64) {
    let at = |slice: u64| to_index(slice).min(slices.len());
    let (first, end) = (at(first), at(end));
    slices[first..end.max(first)].fill(true);
}

/// All slices of groups in which one counts.
fn in_groups(slices: &[bool], group: u64) -> Vec<bool> {
    let mut all = slices.to_vec();
    let group = to_index(group).max(1);
    for part in all.chunks_mut(group) {
        let any = part.contains(&true);
        part.fill(any);
    }
    all
}

/// The slices whose packets reach slices that count.
fn sources(switch: &Switch, slices: &[bool]) -> Vec<bool> {
    match switch.topology {
        Topology::Forwarding => slices.to_vec(),
        Topology::Custom(ring) => custom(switch, ring.max(1), slices),
        topology => in_groups(slices, ring_slices(topology)),
    }
}

fn custom(switch: &Switch, ring: u64, slices: &[bool]) -> Vec<bool> {
    let mut from = vec![false; slices.len()];
    for (slice, _) in (0_u64..).zip(slices).filter(|(_, counts)| **counts) {
        let kept = usize::try_from(slice % ring).ok().and_then(|at| switch.sources.get(at));
        for source in kept.into_iter().flatten() {
            let at = slice - slice % ring + u64::from(*source);
            mark(&mut from, at, at + 1);
        }
    }
    from
}

fn ranges(slices: &[bool]) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for (slice, _) in (0_u64..).zip(slices).filter(|(_, counts)| **counts) {
        match ranges.last_mut() {
            Some(range) if range.1 == slice => range.1 += 1,
            _ => ranges.push((slice, slice + 1)),
        }
    }
    ranges
}
