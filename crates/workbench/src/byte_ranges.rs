//! A memory as ranges of bytes, each with what is known of it; ranges are cut where others begin and end.

use std::collections::BTreeMap;

/// Ranges that do not overlap, by their first byte.
#[derive(Clone, Debug)]
pub(crate) struct ByteRanges<T> {
    ranges: BTreeMap<u64, (u64, T)>,
}

impl<T> Default for ByteRanges<T> {
    fn default() -> ByteRanges<T> {
        ByteRanges { ranges: BTreeMap::new() }
    }
}

impl<T: Clone> ByteRanges<T> {
    /// Makes a range begin at a byte, if one holds it.
    fn cut(&mut self, at: u64) {
        let before = self.ranges.range_mut(..at).next_back();
        if let Some((_, (end, what))) = before.filter(|(_, (end, _))| *end > at) {
            let behind = (*end, what.clone());
            *end = at;
            self.ranges.insert(at, behind);
        }
    }

    /// What is known of bytes, range by range, to be changed: first byte, one past the last, and what.
    pub(crate) fn within(&mut self, first: u64, last: u64) -> impl Iterator<Item = (u64, u64, &mut T)> {
        self.cut(first);
        self.cut(last);
        self.ranges.range_mut(first..last).map(|(start, (end, what))| (*start, *end, what))
    }

    /// Takes out what is known of bytes.
    pub(crate) fn take(&mut self, first: u64, last: u64) -> Vec<(u64, u64, T)> {
        let starts: Vec<u64> = self.within(first, last).map(|(start, _, _)| start).collect();
        let taken = starts.into_iter().filter_map(|start| Some((start, self.ranges.remove(&start)?)));
        taken.map(|(start, (end, what))| (start, end, what)).collect()
    }

    /// Says something of bytes; gives what was known before.
    pub(crate) fn put(&mut self, first: u64, last: u64, what: T) -> Vec<(u64, u64, T)> {
        let before = self.take(first, last);
        if first < last {
            self.ranges.insert(first, (last, what));
        }
        before
    }

    /// All that is known.
    pub(crate) fn all(self) -> impl Iterator<Item = (u64, u64, T)> {
        self.ranges.into_iter().map(|(start, (end, what))| (start, end, what))
    }
}

#[cfg(test)]
mod tests {
    use super::ByteRanges;

    #[test]
    fn ranges_are_cut_where_others_begin_and_end() {
        let mut ranges = ByteRanges::default();
        assert!(ranges.put(0, 100, 'a').is_empty());
        assert_eq!(ranges.put(40, 60, 'b'), [(40, 60, 'a')]);
        assert_eq!(
            ranges.within(50, 70).map(|(a, b, what)| (a, b, *what)).collect::<Vec<_>>(),
            [(50, 60, 'b'), (60, 70, 'a')]
        );
        assert_eq!(ranges.take(0, 50), [(0, 40, 'a'), (40, 50, 'b')]);
        assert_eq!(ranges.put(5, 5, 'c'), []);
        assert_eq!(ranges.all().collect::<Vec<_>>(), [(50, 60, 'b'), (60, 70, 'a'), (70, 100, 'a')]);
    }
}
