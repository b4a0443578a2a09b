//! Which PE has written which bytes of HBM, and the signals by which the others learn it (paper section
//! III-D: messages between PEs).
//!
//! A transfer that touches what another PE writes waits for a signal that this PE gives when its own transfer
//! has ended. A signal stands for all that its PE has written until then, so that a pair of PEs needs few.
//! Signals of a pair arrive in the order in which they are given: one comes behind every message that was
//! recorded for the pair before.

use std::collections::{BTreeMap, BTreeSet};

use tilewright_base::invariant::OrBroken;
use tilewright_tcp_isa::program::transfer::{Address, MemoryInstance, Transfer};

use super::emit::{Op, Range};
use super::view::signed;

/// Other PEs learn that transfers are done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Signal {
    /// Who learns it.
    pub(super) to: Vec<usize>,
    /// The transfers, by number among the commands of the PE, in ascending order.
    pub(super) after: Vec<usize>,
}

/// A command that wrote a range of bytes.
type Write = (Range, usize);

/// What one PE knows of the writes of another.
#[derive(Clone, Debug, Default)]
struct Known {
    /// Commands of the writer up to a number, and the wait of the reader behind which it knows of them; both
    /// ascend.
    waits: Vec<(usize, usize)>,
    /// The command of the writer behind which the next signal may be given.
    from: usize,
}

/// Writes of all PEs, and what they know of each other.
pub(super) struct Signals {
    /// First bytes of the places of values.
    places: BTreeSet<u64>,
    /// Writes of each PE by the place that they are in.
    writes: Vec<BTreeMap<u64, Vec<Write>>>,
    /// All writes of each PE.
    all: Vec<Vec<usize>>,
    /// The last command of each PE whose rows are found by index: which bytes it reads is data.
    by_index: BTreeMap<usize, usize>,
    /// By writer, then by reader.
    known: Vec<Vec<Known>>,
    /// Receivers of the signal behind a command of each PE.
    given: Vec<BTreeMap<usize, Vec<usize>>>,
    /// The waits that a transfer comes behind.
    behind: Vec<BTreeMap<usize, Vec<usize>>>,
}

/// Commands of other PEs that a transfer must come behind, by PE.
pub(super) type Before = BTreeMap<usize, usize>;

/// Bytes of HBM from the first to the last that loops over an address touch; `None` if it is not in HBM.
fn hull(at: Address, strides: impl Iterator<Item = (u64, i64)>, inside: u64) -> Option<Range> {
    let place = at.locate().filter(|place| place.medium == MemoryInstance::Hbm)?;
    let (mut first, mut last) = (signed(place.offset), signed(place.offset + inside));
    for (size, stride) in strides {
        let reach = signed(size.saturating_sub(1)) * stride;
        first += reach.min(0);
        last += reach.max(0);
    }
    Some((u64::try_from(first).ok()?, u64::try_from(last).ok()?))
}

/// Bytes of HBM that a transfer touches at one end.
pub(super) fn touched(transfer: &Transfer, source: bool) -> Option<Range> {
    let at = if source { transfer.source } else { transfer.target };
    let strides =
        transfer.loops.iter().map(|row| (row.size.fixed(), if source { row.source } else { row.target }));
    hull(at, strides, transfer.packet)
}

impl Signals {
    pub(super) fn new(pes: usize) -> Signals {
        Signals {
            places: BTreeSet::new(),
            writes: vec![BTreeMap::new(); pes],
            all: vec![Vec::new(); pes],
            by_index: BTreeMap::new(),
            known: vec![vec![Known::default(); pes]; pes],
            given: vec![BTreeMap::new(); pes],
            behind: vec![BTreeMap::new(); pes],
        }
    }

    /// A value begins at a byte.
    pub(super) fn place(&mut self, base: u64) {
        self.places.insert(base);
    }

    /// The places that a range of bytes is in.
    fn places(&self, (first, end): Range) -> impl Iterator<Item = u64> {
        let before = self.places.range(..=first).next_back().copied().unwrap_or_default();
        let inside = self.places.range(first.saturating_add(1)..end.max(first.saturating_add(1))).copied();
        std::iter::once(before).chain(inside)
    }

    /// Bytes of HBM that a transfer may write: any of the value if rows are scattered there.
    pub(super) fn written(&self, transfer: &Transfer) -> Option<Range> {
        let range = touched(transfer, false)?;
        if !transfer.index.is_some_and(|index| index.scatter) {
            return Some(range);
        }
        let first = self.places.range(..=range.0).next_back().copied().unwrap_or_default();
        let behind = self.places.range(range.0.saturating_add(1)..).next().copied();
        Some((first, behind.unwrap_or(u64::MAX)))
    }

    /// A command of a PE writes bytes.
    pub(super) fn wrote(&mut self, pe: usize, range: Range, command: usize) {
        for place in self.places(range).collect::<Vec<u64>>() {
            self.writes[pe].entry(place).or_default().push((range, command));
        }
        self.all[pe].push(command);
    }

    /// The last command of each PE but one that wrote some of these bytes.
    pub(super) fn writers(&self, reader: usize, range: Range) -> Before {
        let mut found = Before::new();
        for place in self.places(range) {
            for (pe, writes) in self.writes.iter().enumerate().filter(|(pe, _)| *pe != reader) {
                let writes = writes.get(&place).into_iter().flatten();
                let meets = writes.filter(|((first, end), _)| *first < range.1 && range.0 < *end);
                if let Some(last) = meets.map(|(_, command)| *command).max() {
                    let entry = found.entry(pe).or_default();
                    *entry = last.max(*entry);
                }
            }
        }
        found
    }

    /// A command of a PE finds rows by index.
    pub(super) fn reads_by_index(&mut self, pe: usize, command: usize) {
        self.by_index.insert(pe, command);
    }

    /// The last command of each PE but one that found rows by index: it may read what is written next.
    pub(super) fn readers_by_index(&self, writer: usize) -> Before {
        self.by_index.iter().filter(|(pe, _)| **pe != writer).map(|(pe, command)| (*pe, *command)).collect()
    }

    /// The last command of each PE but one that wrote anything.
    pub(super) fn all_writers(&self, reader: usize) -> Before {
        let others = self.all.iter().enumerate().filter(|(pe, _)| *pe != reader);
        others.filter_map(|(pe, all)| Some((pe, all.iter().copied().max()?))).collect()
    }

    /// The waits of a PE behind which it knows of some commands of others, and the commands that it does not
    /// know of.
    pub(super) fn known(&self, reader: usize, before: Before) -> (Vec<usize>, Before) {
        let (mut waits, mut unknown) = (BTreeSet::new(), Before::new());
        for (writer, command) in before {
            let known = &self.known[writer][reader].waits;
            match known.get(known.partition_point(|(last, _)| *last < command)) {
                Some((_, wait)) => _ = waits.insert(*wait),
                None => _ = unknown.insert(writer, command),
            }
        }
        (waits.into_iter().collect(), unknown)
    }

    /// A PE waits for others, by number of its command.
    pub(super) fn wait(&mut self, reader: usize, unknown: &Before, wait: usize) {
        for (writer, command) in unknown {
            let known = &mut self.known[*writer][reader];
            let at = known.from.max(*command);
            known.from = at;
            known.waits.push((at, wait));
            self.given[*writer].entry(at).or_default().push(reader);
        }
    }

    /// A transfer of a PE comes behind waits.
    pub(super) fn follows(&mut self, pe: usize, transfer: usize, waits: Vec<usize>) {
        if !waits.is_empty() {
            self.behind[pe].insert(transfer, waits);
        }
    }

    /// All PEs meet: commands of each by number, which know all that was written before.
    pub(super) fn met(&mut self, barriers: &[usize]) {
        for (writer, readers) in self.known.iter_mut().enumerate() {
            for (reader, known) in readers.iter_mut().enumerate() {
                known.waits.push((barriers[writer], barriers[reader]));
                known.from = barriers[writer];
            }
        }
    }

    /// A PE has a message for others as its last command.
    pub(super) fn note_message(&mut self, from: usize, to: &[usize], command: usize) {
        for reader in to {
            self.known[from][*reader].from = command;
        }
    }

    /// Commands of all PEs with the signals between them, and the waits that each transfer comes behind.
    pub(super) fn given(mut self, ops: Vec<Vec<Op>>) -> Vec<Vec<(Op, Vec<usize>)>> {
        let all = ops.into_iter().enumerate();
        all.map(|(pe, ops)| self.given_by(pe, ops)).collect()
    }

    fn given_by(&mut self, pe: usize, ops: Vec<Op>) -> Vec<(Op, Vec<usize>)> {
        let (given, behind) = (&self.given[pe], &mut self.behind[pe]);
        // Signals before a command move it back by as many.
        let mut moved = Vec::with_capacity(ops.len());
        let mut signals = 0;
        for at in 0..ops.len() {
            moved.push(at + signals);
            signals += usize::from(given.contains_key(&at));
        }
        let writes = &mut self.all[pe];
        writes.sort_unstable();
        writes.dedup();
        let mut done = vec![None; self.known.len()];
        let mut all = Vec::with_capacity(ops.len() + signals);
        for (at, mut op) in ops.into_iter().enumerate() {
            if let Op::Tell(tell) = &mut op {
                tell.after.iter_mut().for_each(|after| *after = moved[*after]);
            }
            let waits = behind.remove(&at).unwrap_or_default().into_iter().map(|wait| moved[wait]);
            all.push((op, waits.collect()));
            if let Some(readers) = given.get(&at) {
                // What the one of them knows who knows least.
                let since =
                    readers.iter().map(|reader| done[*reader]).min().or_broken("a signal has a receiver");
                let first = since.map_or(0, |since| writes.partition_point(|write| *write <= since));
                let end = writes.partition_point(|write| *write <= at);
                let after = writes[first..end].iter().map(|write| moved[*write]).collect();
                readers.iter().for_each(|reader| done[*reader] = Some(at));
                all.push((Op::Signal(Signal { to: readers.clone(), after }), Vec::new()));
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commands of two PEs, all of them transfers by number; PE 1 reads what PE 0 writes.
    struct Both {
        signals: Signals,
        ops: [usize; 2],
    }

    impl Both {
        fn new() -> Both {
            let mut signals = Signals::new(2);
            [0, 100, 200].into_iter().for_each(|base| signals.place(base));
            Both { signals, ops: [0; 2] }
        }

        fn write(&mut self, range: Range) -> usize {
            self.signals.wrote(0, range, self.ops[0]);
            self.ops[0] += 1;
            self.ops[0] - 1
        }

        /// The waits that a transfer of PE 1 comes behind, and whether one of them is new.
        fn read(&mut self, range: Range) -> (Vec<usize>, bool) {
            let before = self.signals.writers(1, range);
            let (mut waits, unknown) = self.signals.known(1, before);
            let is_new = !unknown.is_empty();
            if is_new {
                self.signals.wait(1, &unknown, self.ops[1]);
                waits.push(self.ops[1]);
                self.ops[1] += 1;
            }
            self.signals.follows(1, self.ops[1], waits.clone());
            self.ops[1] += 1;
            (waits, is_new)
        }
    }

    #[test]
    fn a_reader_waits_for_whoever_wrote_its_bytes_once() {
        let mut both = Both::new();
        both.write((0, 50));
        both.write((50, 100));
        both.write((100, 150));
        assert_eq!(both.read((20, 60)), (vec![0], true));
        assert_eq!(both.read((0, 10)), (vec![0], false));
        assert_eq!(both.read((200, 250)), (vec![], false));
        assert_eq!(both.read((140, 160)), (vec![4], true));
        // A signal stands for all that was written before it.
        assert_eq!(both.read((60, 70)), (vec![0], false));
    }

    #[test]
    fn signals_come_behind_the_last_write_that_is_read_and_name_all_since_the_one_before() {
        let mut both = Both::new();
        both.write((0, 50));
        both.write((50, 100));
        both.write((100, 150));
        both.read((20, 60));
        both.read((140, 160));
        let ops = both.ops.map(|count| (0..count).map(|_| Op::Meet).collect::<Vec<Op>>());
        let all = both.signals.given(ops.into());
        let of = |(at, (op, _)): (usize, &(Op, Vec<usize>))| match op {
            Op::Signal(signal) => Some((at, signal.to.clone(), signal.after.clone())),
            _ => None,
        };
        let found: Vec<(usize, Vec<usize>, Vec<usize>)> = all[0].iter().enumerate().filter_map(of).collect();
        assert_eq!(found, [(2, vec![1], vec![0, 1]), (4, vec![1], vec![3])]);
        let waits: Vec<Vec<usize>> = all[1].iter().map(|(_, waits)| waits.clone()).collect();
        assert_eq!(waits, [vec![], vec![0], vec![], vec![2]]);
    }

    /// A message of another kind was recorded first: the signal comes behind it, so that both arrive in
    /// order.
    #[test]
    fn signals_do_not_pass_other_messages() {
        let mut both = Both::new();
        both.write((0, 50));
        both.signals.note_message(0, &[1], both.ops[0]);
        both.ops[0] += 1;
        both.read((0, 10));
        let ops = both.ops.map(|count| (0..count).map(|_| Op::Meet).collect::<Vec<Op>>());
        let all = both.signals.given(ops.into());
        assert!(matches!(&all[0][..], [_, _, (Op::Signal(_), _)]));
    }

    #[test]
    fn a_barrier_tells_all() {
        let mut both = Both::new();
        both.write((0, 50));
        both.signals.met(&both.ops);
        both.ops = both.ops.map(|count| count + 1);
        assert_eq!(both.read((0, 10)), (vec![0], false));
        both.write((0, 50));
        assert!(both.read((0, 10)).1);
    }
}
