//! Lanes of a track. A slice end closes the slice begun last, so the slices of one Perfetto track must
//! nest; intervals that overlap go to further tracks of the same name and parent, which viewers show as one.

/// A Perfetto track that carries intervals one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceLane {
    pub(crate) uuid: u64,
    end_cycles: u64,
}

/// The lanes of one track: as many as intervals overlap, if they come in order of start or of end.
#[derive(Clone, Debug)]
pub(crate) struct TraceLanes {
    lanes: Vec<TraceLane>,
}

impl TraceLanes {
    pub(crate) fn new(uuid: u64) -> TraceLanes {
        TraceLanes { lanes: vec![TraceLane { uuid, end_cycles: 0 }] }
    }

    /// The lane that ends last among those that end by the start of the interval, which makes the fewest
    /// lanes. None if every lane is taken.
    pub(crate) fn place(&mut self, start_cycles: u64, end_cycles: u64) -> Option<u64> {
        let free = self.lanes.iter_mut().filter(|lane| lane.end_cycles <= start_cycles);
        let lane = free.max_by_key(|lane| (lane.end_cycles, std::cmp::Reverse(lane.uuid)))?;
        lane.end_cycles = end_cycles;
        Some(lane.uuid)
    }

    /// Opens a lane for an interval that ends at `end_cycles`.
    pub(crate) fn open(&mut self, uuid: u64, end_cycles: u64) {
        self.lanes.push(TraceLane { uuid, end_cycles });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lane of each interval.
    fn place_all(intervals: &[(u64, u64)]) -> Vec<u64> {
        let mut lanes = TraceLanes::new(0);
        let mut opened = 0;
        let mut place = |&(start, end): &(u64, u64)| {
            lanes.place(start, end).unwrap_or_else(|| {
                opened += 1;
                lanes.open(opened, end);
                opened
            })
        };
        intervals.iter().map(&mut place).collect()
    }

    #[test]
    fn intervals_one_after_the_other_share_a_lane() {
        assert_eq!(place_all(&[(0, 5), (5, 9), (9, 9), (12, 20)]), [0, 0, 0, 0]);
    }

    #[test]
    fn overlaps_take_as_many_lanes_as_they_are_deep() {
        assert_eq!(place_all(&[(0, 10), (5, 15), (10, 20), (15, 25)]), [0, 1, 0, 1]);
        assert_eq!(place_all(&[(5, 6), (7, 8), (0, 10), (10, 11), (9, 12)]), [0, 0, 1, 1, 0]);
    }
}
