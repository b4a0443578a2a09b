//! The time that a track was busy: the length of the union of its intervals, exact in any order of arrival.
//!
//! Stretches before the settled cycle are added up and forgotten, so memory is that of the stretches
//! that a later interval may still touch.

/// The union of half-open intervals of one track.
#[derive(Clone, Debug, Default)]
pub(crate) struct BusyTime {
    /// Length of the stretches that nothing can touch any more.
    closed_cycles: u64,
    /// Stretches with gaps between them, in order.
    open: Vec<(u64, u64)>,
}

impl BusyTime {
    /// Adds an interval; nothing that comes later starts before `settled_cycles`.
    pub(crate) fn add(&mut self, start: u64, end: u64, settled_cycles: u64) {
        self.settle(settled_cycles);
        if start >= end {
            return;
        }
        match self.open.last_mut() {
            // Usually time goes forward: the last stretch grows, or a new one follows.
            Some(last) if last.0 <= start && start <= last.1 => last.1 = last.1.max(end),
            Some(last) if start <= last.1 => self.merge(start, end),
            _ => self.open.push((start, end)),
        }
    }

    fn merge(&mut self, start: u64, end: u64) {
        // The stretches from `first` to before `after` touch the new one and become one with it;
        // there may be none.
        let first = self.open.partition_point(|stretch| stretch.1 < start);
        let after = self.open.partition_point(|stretch| stretch.0 <= end);
        let touched = &self.open[first..after];
        let start = touched.first().map_or(start, |stretch| stretch.0.min(start));
        let end = touched.last().map_or(end, |stretch| stretch.1.max(end));
        self.open.splice(first..after, [(start, end)]);
    }

    fn settle(&mut self, settled_cycles: u64) {
        let closed = self.open.partition_point(|stretch| stretch.1 <= settled_cycles);
        self.closed_cycles += self.open.drain(..closed).map(|(start, end)| end - start).sum::<u64>();
    }

    /// Length of the union so far.
    pub(crate) fn cycles(&self) -> u64 {
        self.closed_cycles + self.open.iter().map(|(start, end)| end - start).sum::<u64>()
    }

    /// How many stretches are remembered.
    #[cfg(test)]
    fn remembered(&self) -> usize {
        self.open.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlaps_count_once_and_gaps_not_at_all() {
        let mut busy = BusyTime::default();
        for (start, end) in [(10, 20), (30, 40), (15, 17), (20, 25), (5, 12), (50, 50)] {
            busy.add(start, end, 0);
        }
        assert_eq!((busy.cycles(), busy.remembered()), (30, 2));
        busy.add(0, u64::MAX, 0);
        assert_eq!((busy.cycles(), busy.remembered()), (u64::MAX, 1));
    }

    #[test]
    fn settled_time_takes_no_memory() {
        let mut busy = BusyTime::default();
        for step in 0..10_000 {
            busy.add(10 * step, 10 * step + 5, 10 * step);
            assert!(busy.remembered() <= 2);
        }
        assert_eq!(busy.cycles(), 50_000);
    }
}
