//! What is known of a slice's data memory without looking at its bytes: parts that are still read where DMA
//! took them from, and parts that are zeros because nobody wrote anything else.
//!
//! Weights pass data memory once on their way to the register files. Bytes that somebody else holds unchanged
//! need not be copied for that; they are, once another command reads them or writes beside them.

use std::ops::Range;

use super::shared_bytes::SharedBytes;
use tilewright_base::invariant::Exact;

/// Most parts that are known to be zeros; of more than that the shortest are forgotten.
const MAX_ZEROS: usize = 16;

/// Parts from which on one that is written to is copied in whole.
const MAX_HELD: usize = 32;

/// Where bytes come from that need not be copied.
#[derive(Clone, Debug)]
pub enum ByteSource {
    /// Nobody wrote anything but zeros.
    Zeros,
    /// Somebody holds them.
    Borrowed(SharedBytes),
    /// They are in data memory, and are looked at before they change there.
    Own(Range<usize>),
}

/// A range of data memory whose bytes are read from their owner until they change.
#[derive(Clone, Debug)]
pub(super) struct BorrowedRange {
    start: usize,
    shared: SharedBytes,
}

impl BorrowedRange {
    fn range(&self) -> Range<usize> {
        self.start..self.start + self.shared.len()
    }

    /// What is left of it without a part.
    fn rest(&self, part: &Range<usize>) -> impl Iterator<Item = BorrowedRange> + use<> {
        let range = self.range();
        let held = |kept: Range<usize>| {
            let length = kept.len();
            let shared = self.shared.part(kept.start - range.start, length).filter(|_| length > 0)?;
            Some(BorrowedRange { start: kept.start, shared })
        };
        let before = held(range.start..part.start.clamp(range.start, range.end));
        let after = held(part.end.clamp(range.start, range.end)..range.end);
        [before, after].into_iter().flatten()
    }

    /// Puts the bytes where they belong.
    fn settle(&self, dm: &mut [u8]) {
        if let Some(place) = dm.get_mut(self.range()) {
            place.copy_from_slice(self.shared.bytes());
        }
    }
}

/// Parts of one data memory. No two of them share a byte.
#[derive(Clone, Debug, Default)]
pub struct Overlay {
    held: Vec<BorrowedRange>,
    zeros: Vec<Range<usize>>,
}

impl Overlay {
    /// Of a memory that nobody wrote to.
    pub fn zeros(bytes: usize) -> Overlay {
        let all = 0..bytes;
        Overlay { held: Vec::new(), zeros: vec![all] }
    }

    /// Whether bytes of a part are elsewhere.
    pub(super) fn holds(&self, part: &Range<usize>) -> bool {
        self.held.iter().any(|held| meet(&held.range(), part))
    }

    /// Before a part is read: its bytes are where they belong.
    pub fn settle(&mut self, part: &Range<usize>, dm: &mut [u8]) {
        self.held.retain(|held| {
            let reads = meet(&held.range(), part);
            if reads {
                held.settle(dm);
            }
            !reads
        });
    }

    /// Before some bytes of a part are written.
    pub fn change(&mut self, part: &Range<usize>, dm: &mut [u8]) {
        self.cut(part, dm, |held, dm| {
            let (from, end) = (held.start.max(part.start), held.range().end.min(part.end));
            let source = held.shared.bytes().get(from - held.start..end - held.start);
            if let (Some(place), Some(source)) = (dm.get_mut(from..end), source) {
                place.copy_from_slice(source);
            }
        });
        self.write(part);
    }

    /// Nothing of a part is elsewhere any more; `keep` sees what was.
    fn cut(&mut self, part: &Range<usize>, dm: &mut [u8], keep: impl Fn(&BorrowedRange, &mut [u8])) {
        if !self.holds(part) {
            return;
        }
        let many = self.held.len() >= MAX_HELD;
        for held in std::mem::take(&mut self.held) {
            if !meet(&held.range(), part) {
                self.held.push(held);
            } else if many {
                held.settle(dm);
            } else {
                keep(&held, dm);
                self.held.extend(held.rest(part));
            }
        }
    }

    /// Zeros were written to a part.
    pub fn clear(&mut self, part: Range<usize>) {
        let mut joined = part;
        self.zeros.retain(|zeros| {
            let apart = zeros.end < joined.start || joined.end < zeros.start;
            if !apart {
                joined = joined.start.min(zeros.start)..joined.end.max(zeros.end);
            }
            apart
        });
        self.zeros.push(joined);
        self.forget();
    }

    /// A part is where somebody holds it.
    pub fn lend(&mut self, start: usize, shared: SharedBytes, dm: &mut [u8]) {
        let part = start..start + shared.len();
        self.cut(&part, dm, |_, _| {});
        self.write(&part);
        self.held.push(BorrowedRange { start, shared });
    }

    /// Where all bytes of a part are, if they are in one place.
    pub fn source(&self, part: &Range<usize>) -> Option<ByteSource> {
        if self.zeros.iter().any(|zeros| within(part, zeros)) {
            return Some(ByteSource::Zeros);
        }
        match self.held.iter().find(|held| within(part, &held.range())) {
            Some(held) => held.shared.part(part.start - held.start, part.len()).map(ByteSource::Borrowed),
            None => (!self.holds(part)).then(|| ByteSource::Own(part.clone())),
        }
    }

    /// Puts bytes that are elsewhere over what was read from a place on.
    pub fn read(&self, start: usize, bytes: &mut [u8]) {
        let part = start..start.exact_add(bytes.len());
        for held in self.held.iter().filter(|held| meet(&held.range(), &part)) {
            let (from, end) = (held.start.max(part.start), held.range().end.min(part.end));
            let source = held.shared.bytes().get(from - held.start..end - held.start);
            if let (Some(place), Some(source)) = (bytes.get_mut(from - start..end - start), source) {
                place.copy_from_slice(source);
            }
        }
    }

    /// Whether bytes of a part are known to be zeros.
    pub(super) fn has_zeros(&self, part: &Range<usize>) -> bool {
        self.zeros.iter().any(|zeros| meet(zeros, part))
    }

    /// Bytes of a part, none of which is elsewhere, are written.
    pub(super) fn write(&mut self, part: &Range<usize>) {
        if !self.has_zeros(part) {
            return;
        }
        let rest = |zeros: Range<usize>| {
            let before = zeros.start..zeros.end.min(part.start);
            let after = zeros.start.max(part.end)..zeros.end;
            [before, after].into_iter().filter(|rest| !rest.is_empty())
        };
        self.zeros = std::mem::take(&mut self.zeros).into_iter().flat_map(rest).collect();
        self.forget();
    }

    fn forget(&mut self) {
        if self.zeros.len() > MAX_ZEROS {
            self.zeros.sort_by_key(|zeros| std::cmp::Reverse(zeros.len()));
            self.zeros.truncate(MAX_ZEROS);
        }
    }
}

fn meet(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start < other.end && other.start < one.end
}

fn within(part: &Range<usize>, whole: &Range<usize>) -> bool {
    whole.start <= part.start && part.end <= whole.end
}
