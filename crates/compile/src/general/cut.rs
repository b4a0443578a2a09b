//! How a chain that reads values by strides is cut: shares of whole inner axes, one for each slice at a time.
//!
//! A share is a block of positions of the chain's axes. Of a value that is read by strides a slice brings the
//! hull of its share: each element once, in the order in which it lies in HBM. The fetch sequencer repeats,
//! turns and overlaps them on the way to the vector engine (vISA book, fetch engine), so that broadcasts,
//! transposes and windows are no copies in HBM.

use tilewright_machine::tcp::Tcp;
use tilewright_tcp_isa::vector::{FLIT_WORDS, HALF_WORDS};

use super::commands_keep::staged_rows;
use super::depthwise::{self, FLIT_CHANNELS};
use super::hull::Hull;
use super::operands::{Operand, slack};
use super::tap_folds::fold_cycles;
use super::view::{count, signed};

/// Words of a share, at most.
const MOST_SHARE: u64 = 131_072;
/// Elements between two that are needed, at most, where all of them are brought.
const MOST_BETWEEN: i64 = 32;
/// Elements for each that is needed, at most, where all between them are brought.
const MOST_BROUGHT: u64 = 16;
/// Bytes that go from slice to slice in a cycle, about.
const STAGED_BYTES_PER_CYCLE: u64 = 64;
/// Bytes of a word.
const WORD_BYTES: u64 = 4;

/// A cut of a chain's axes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// Shares along each axis.
    pub(super) digits: Vec<u64>,
    /// Positions of each axis within a share.
    pub(super) inner: Vec<u64>,
}

impl Cut {
    /// Shares in all.
    pub(super) fn shares(&self) -> u64 {
        self.digits.iter().product()
    }

    /// Elements of a share.
    pub(super) fn share(&self) -> u64 {
        self.inner.iter().product()
    }

    /// Whether shares follow each other in row-major order.
    pub(super) fn is_contiguous(&self) -> bool {
        let behind = self.digits.iter().rev().skip_while(|digit| **digit == 1).count();
        let cut = behind.saturating_sub(1);
        self.inner[..cut].iter().all(|inner| *inner == 1)
    }

    /// The same with rows of whole flits, if each is one axis.
    #[must_use]
    pub(super) fn pitched(&self, columns: u64) -> Cut {
        let mut wide = self.clone();
        if let Some(last) = wide.inner.last_mut().filter(|last| **last == columns) {
            *last = columns.next_multiple_of(FLIT_WORDS);
        }
        wide
    }

    /// Whether shares make up all axes and no more.
    pub(super) fn is_even(&self, dims: &[u64]) -> bool {
        self.digits.iter().zip(&self.inner).zip(dims).all(|((digits, inner), size)| digits * inner == *size)
    }

    /// Elements from the first of an operand's value on up to the last that shares touch.
    pub(super) fn reach(&self, operand: &Operand) -> Option<u64> {
        let sizes = self.digits.iter().zip(&self.inner).map(|(digits, inner)| signed(digits * inner));
        let axes = sizes.zip(operand.strides.iter().copied());
        let steps = operand.steps.iter().map(|(stride, size)| (signed(*size), *stride));
        let last = axes.chain(steps).map(|(size, stride)| (size - 1) * stride.max(0)).sum::<i64>();
        u64::try_from(operand.first + last).ok().map(|last| last + 1)
    }

    /// Elements before the first of an operand's value that shares touch.
    pub(super) fn ahead(&self, operand: &Operand) -> u64 {
        let sizes = self.digits.iter().zip(&self.inner).map(|(digits, inner)| signed(digits * inner));
        let axes = sizes.zip(operand.strides.iter().copied());
        let back = axes.map(|(size, stride)| (size - 1) * stride.min(0)).sum::<i64>();
        (operand.first + back).min(0).unsigned_abs()
    }

    /// Whether all that shares touch of an operand lies in its room.
    fn fits(&self, operand: &Operand) -> bool {
        self.reach(operand).is_some_and(|reach| reach <= operand.room) && self.ahead(operand) <= operand.ahead
    }

    /// Strides of the digits of shares.
    pub(super) fn outer(&self, operand: &Operand) -> Vec<i64> {
        operand.strides.iter().zip(&self.inner).map(|(stride, size)| stride * signed(*size)).collect()
    }

    /// What a share brings; `None` if no transfer can. Rows begin at whole access units of HBM where that
    /// touches fewer of them.
    pub(super) fn hull(&self, machine: &Tcp, operand: &Operand) -> Option<Hull> {
        let by = |bytes: u64| self.hull_by(operand, bytes / operand.element_bytes);
        let least = by(machine.tdma.alignment_bytes)?;
        if least.levels.len() == 1 {
            return Some(least);
        }
        let units = |hull: &Hull| hull.row_units(machine, operand);
        let wide = by(machine.hbm.access_bytes).filter(|hull| hull.levels.len() == least.levels.len());
        Some(wide.filter(|wide| units(wide) < units(&least)).unwrap_or(least))
    }

    /// The same with rows that begin at multiples of so many elements.
    fn hull_by(&self, operand: &Operand, granule: u64) -> Option<Hull> {
        let whole = |elements: i64| elements.unsigned_abs().is_multiple_of(granule);
        let digits = self.outer(operand).into_iter().zip(&self.digits);
        if digits.filter(|(_, size)| **size > 1).any(|(stride, _)| !whole(stride)) {
            return None;
        }
        let strides = &operand.strides;
        let own = || strides.iter().copied().zip(self.inner.iter().copied());
        let mut axes: Vec<(i64, u64)> = own().map(|(stride, size)| (stride.abs(), size)).collect();
        axes.extend(&operand.steps);
        axes.retain(|(stride, size)| *stride != 0 && *size > 1);
        axes.sort_unstable();
        if axes.first().is_some_and(|(stride, _)| *stride < 0) {
            return None;
        }
        let behind: i64 = own().map(|(stride, size)| (signed(size) - 1) * (-stride).max(0)).sum();
        // Levels from the innermost on: pitch and count. An axis that continues or overlaps a level makes it
        // longer.
        let mut levels: Vec<(i64, i64)> = vec![(1, 1)];
        for (stride, size) in axes {
            let (pitch, count) = levels.last_mut()?;
            // What lies so that no transfer takes its rows is brought with all between them.
            let dense = *pitch == 1 && !whole(stride) && stride <= MOST_BETWEEN;
            if stride % *pitch == 0 && (stride <= *pitch * *count || dense) {
                *count += (signed(size) - 1) * (stride / *pitch);
            } else {
                levels.push((stride, signed(size)));
            }
        }
        let needed: i64 = levels.iter().map(|(_, count)| *count).product();
        if let Some(torn) = levels[1..].iter().rposition(|(pitch, _)| !whole(*pitch)) {
            // What lies so that no transfer takes its rows is brought with all between them.
            let behind: i64 = levels[1..torn + 2].iter().map(|(pitch, count)| (count - 1) * pitch).sum();
            let run = levels[0].1 + behind;
            levels.splice(..torn + 2, [(1, run)]);
            let brought: i64 = levels.iter().map(|(_, count)| *count).product();
            if brought > needed * signed(MOST_BROUGHT) {
                return None;
            }
        }
        let lead = u64::try_from((operand.first - behind).rem_euclid(signed(granule))).ok()?;
        let run = (u64::try_from(levels[0].1).ok()? + lead).next_multiple_of(granule);
        let mut elements = run;
        let mut all = vec![(run, 1, 1)];
        for (pitch, count) in &levels[1..] {
            all.push((u64::try_from(*count).ok()?, *pitch, elements));
            elements = elements.checked_mul(u64::try_from(*count).ok()?)?;
        }
        let place = |stride: i64| {
            let level = all.iter().rev().find(|(_, pitch, _)| *pitch <= stride)?;
            Some(stride / level.1 * signed(level.2))
        };
        let walk = self.inner.iter().zip(strides).map(|(size, stride)| match stride {
            0 => Some((*size, 0)),
            stride => Some((*size, if *size == 1 { 0 } else { place(stride.abs())? * stride.signum() })),
        });
        let walk = walk.collect::<Option<Vec<_>>>()?;
        let back = walk.iter().map(|(size, stride)| (signed(*size) - 1) * (-stride).max(0)).sum::<i64>();
        let begins = lead + u64::try_from(back).ok()?;
        let steps = operand.steps.iter().map(|(stride, _)| place(*stride)).collect::<Option<Vec<_>>>()?;
        all.reverse();
        Some(Hull { lead, behind, begins, levels: all, elements, walk, steps })
    }

    /// Bytes that each slice's data memory must have for operands, besides streams.
    pub(super) fn hull_bytes(hulls: &[Hull], operands: &[Operand]) -> u64 {
        let bytes = |(hull, operand): (&Hull, &Operand)| block_bytes(hull.elements * operand.element_bytes);
        hulls.iter().zip(operands).map(bytes).sum()
    }
}

/// Bytes in whole flits.
pub(super) fn block_bytes(bytes: u64) -> u64 {
    bytes.next_multiple_of(FLIT_WORDS * WORD_BYTES)
}

/// What a cut depends on besides axes and operands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// PEs.
    pub(super) pes: u64,
    /// Bytes of an element of all streams that are there at once.
    pub(super) stream_bytes: u64,
    /// Commands of a share.
    pub(super) passes: u64,
    /// Bytes of an element of the result.
    pub(super) result_bytes: u64,
    /// Bytes of each slice's data memory.
    pub(super) dm_bytes: u64,
    /// Rows that stay together.
    pub(super) rows: Option<WholeRows>,
    /// Taps of sums that the contraction engine adds, channels together.
    pub(super) taps: u64,
    /// Elements of folds that the vector engine takes in one command, of neighbouring places together.
    pub(super) folded: u64,
    /// Elements that a share has a multiple of: a flit, or a granule if they are only copied, or filled up.
    pub(super) unit: u64,
}

/// Rows of which a share has all elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct WholeRows {
    /// Elements of a row.
    pub(super) columns: u64,
    /// A share has a multiple of so many rows.
    pub(super) multiple: u64,
    /// A share may have one row, too.
    pub(super) single: bool,
}

impl WholeRows {
    /// Whether a share of so many elements has rows as it must.
    fn takes(&self, share: u64) -> bool {
        share.is_multiple_of(self.columns * self.multiple) || self.single && share == self.columns
    }
}

/// The cut that takes least, and its cycles; `None` if no operand's hull can be brought by any.
pub(super) fn cut(machine: &Tcp, dims: &[u64], operands: &[Operand], room: Room) -> Option<(u64, Cut)> {
    let mut best: Option<(u64, Cut)> = None;
    let strides = super::view::strides(dims);
    let out = Operand {
        first: 0,
        strides,
        element_bytes: room.result_bytes,
        steps: Vec::new(),
        streams: 1,
        contracted: false,
        room: count(dims) + slack(count(dims)),
        ahead: 0,
    };
    for inner in blocks(dims, room.pes * machine.pe.slices) {
        let share: u64 = inner.iter().product();
        let torn = room.rows.is_some_and(|rows| {
            let behind = inner.iter().zip(dims).rev().take_while(|(inner, size)| inner == size);
            let whole: u64 = behind.map(|(inner, _)| *inner).product();
            !rows.takes(share) || whole < rows.columns
        });
        let by_channel = inner.last().is_some_and(|channels| channels.is_multiple_of(FLIT_CHANNELS));
        let by_halves = inner.last().is_some_and(|last| last.is_multiple_of(HALF_WORDS));
        if room.taps > 0 && !by_channel
            || room.folded > 0 && !by_halves
            || share > MOST_SHARE
            || torn
            || !share.is_multiple_of(room.unit)
        {
            continue;
        }
        let digits = dims.iter().zip(&inner).map(|(size, inner)| size.div_ceil(*inner)).collect();
        let one = Cut { digits, inner };
        let wide = room.rows.map_or_else(|| one.clone(), |rows| one.pitched(rows.columns));
        let fits = one.fits(&out) && operands.iter().all(|operand| wide.fits(operand));
        if !(one.is_even(dims) && wide == one) && (room.taps > 0 || !fits) {
            continue;
        }
        if room.rows.is_some() && !one.is_contiguous() {
            continue;
        }
        let Some(cycles) = cycles(machine, &one, operands, (&out, room)) else { continue };
        if best.as_ref().is_none_or(|(least, _)| cycles < *least) {
            best = Some((cycles, one));
        }
    }
    best
}

/// Blocks of axes: some positions of one axis and all behind it, of which one other axis may have fewer too.
/// Of the first axis the last block may be shorter than others.
fn blocks(dims: &[u64], slices: u64) -> Vec<Vec<u64>> {
    let mut all = Vec::new();
    if let Some((first, behind)) = dims.split_first() {
        let powers = std::iter::successors(Some(2), |size| Some(size * 2)).take_while(|size| size < first);
        let shares = [1, 2, 4, 8].map(|turns| first.div_ceil(slices * turns));
        let even = shares.into_iter().flat_map(|share| [2, 8].map(|unit| share.next_multiple_of(unit)));
        let mut sizes: Vec<u64> = powers.chain(even).filter(|size| *size < *first).collect();
        sizes.retain(|size| !first.is_multiple_of(*size));
        sizes.sort_unstable();
        sizes.dedup();
        all.extend(sizes.into_iter().map(|size| [&[size], behind].concat()));
    }
    for axis in 0..dims.len() {
        for factor in divisors(dims[axis]) {
            let mut inner: Vec<u64> = vec![1; axis];
            inner.push(factor);
            inner.extend(&dims[axis + 1..]);
            all.push(inner.clone());
            for other in axis + 1..dims.len() {
                for part in divisors(dims[other]).into_iter().filter(|part| *part > 1 && *part < dims[other])
                {
                    let mut inner = inner.clone();
                    inner[other] = part;
                    all.push(inner);
                }
            }
        }
    }
    all
}

/// Numbers that divide another, up to what a share has at most.
fn divisors(number: u64) -> Vec<u64> {
    (1..=number.min(MOST_SHARE)).filter(|factor| number.is_multiple_of(*factor)).collect()
}

/// Cycles by counting requests, packets and commands; `None` if a hull cannot be brought or data memory is
/// too small.
fn cycles(machine: &Tcp, cut: &Cut, operands: &[Operand], (out, room): (&Operand, Room)) -> Option<u64> {
    let written = cut.hull_by(out, machine.tdma.alignment_bytes / out.element_bytes)?;
    let hulls = operands.iter().map(|operand| cut.hull(machine, operand)).collect::<Option<Vec<Hull>>>()?;
    let share = cut.share();
    let columns = room.rows.map_or(1, |rows| rows.columns);
    let words = share / columns * room.rows.map_or(1, |_| columns.next_multiple_of(FLIT_WORDS));
    let bytes = Cut::hull_bytes(&hulls, operands) + room.stream_bytes * words;
    if bytes > room.dm_bytes {
        return None;
    }
    let slices = machine.pe.slices;
    let turns = cut.shares().div_ceil(slices * room.pes);
    let live = cut.shares().min(slices);
    let requests = |run_bytes: u64| run_bytes.div_ceil(machine.tdma.request_bytes);
    let rows =
        |hull: &Hull| hull.levels[..hull.levels.len() - 1].iter().map(|level| level.0).product::<u64>();
    let run_bytes = |hull: &Hull, operand: &Operand| hull.run() * operand.element_bytes;
    let mut dma = machine.tdma.startup_cycles;
    if rows(&written) == 1 && cut.is_contiguous() {
        let bytes = share * room.result_bytes;
        let torn = !bytes.is_multiple_of(machine.hbm.access_bytes) && bytes > machine.hbm.access_bytes;
        let partial = if torn {
            2 * machine.hbm.partial_write_cycles * room.pes / machine.hbm_channels().max(1)
        } else {
            0
        };
        let by_units = staged_rows(machine, bytes)
            .map_or(u64::MAX, |_| machine.tdma.startup_cycles + live * bytes / STAGED_BYTES_PER_CYCLE);
        dma += live * requests(bytes) + (live * requests(bytes) * partial).min(by_units);
    } else {
        let run = run_bytes(&written, out);
        let partial = if run.is_multiple_of(machine.hbm.access_bytes) {
            0
        } else {
            2 * machine.hbm.partial_write_cycles
        };
        let channels = machine.hbm_channels().max(1);
        dma += live * rows(&written) * (requests(run) + partial * room.pes / channels);
    }
    let mut unit = room.passes * (machine.command.overhead_cycles + share / FLIT_WORDS);
    if room.taps > 0 {
        unit += depthwise::cycles(machine, share, room.taps);
    }
    for (hull, operand) in hulls.iter().zip(operands) {
        dma += machine.tdma.startup_cycles + live * rows(hull) * requests(run_bytes(hull, operand));
        let narrow = hull.walk.last().is_some_and(|(size, stride)| *size > 1 && *stride != 1);
        if room.folded > 0 {
            unit += machine.command.overhead_cycles + fold_cycles(share, room.folded, narrow);
        }
        if !operand.contracted && (!hull.is_stream() || operand.element_bytes != WORD_BYTES) {
            unit +=
                operand.streams * (machine.command.overhead_cycles + share / hull.words_per_cycle(narrow));
        }
    }
    Some(turns * dma.max(unit) + dma.min(unit))
}

/// Shares of a range that all digits walk over: the first, and size, digit and distance in shares of each
/// loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShareBox {
    /// First share.
    pub(super) first: u64,
    /// Outermost first.
    pub(super) loops: Vec<(u64, usize, u64)>,
}

/// Shares `first..end` as boxes of whole digits.
pub(super) fn boxes(digits: &[u64], first: u64, end: u64) -> Vec<ShareBox> {
    let mut all = Vec::new();
    split(digits, 0, first, end, 0, &mut all);
    all
}

fn split(digits: &[u64], digit: usize, first: u64, end: u64, base: u64, all: &mut Vec<ShareBox>) {
    if first >= end {
        return;
    }
    let behind: u64 = digits[digit + 1..].iter().product();
    let (low, high) = (first.div_ceil(behind), end / behind);
    if low >= high && first / behind == (end - 1) / behind {
        let own = first / behind * behind;
        return split(digits, digit + 1, first - own, end - own, base + own, all);
    }
    let head = first / behind * behind;
    if first > head {
        split(digits, digit + 1, first - head, behind, base + head, all);
    }
    if low < high {
        let mut loops = vec![(high - low, digit, behind)];
        let mut step = behind;
        for (at, size) in digits.iter().enumerate().skip(digit + 1) {
            step /= size;
            loops.push((*size, at, step));
        }
        loops.retain(|row| row.0 > 1);
        all.push(ShareBox { first: base + low * behind, loops });
    }
    let tail = high * behind;
    if tail < end && high >= low {
        split(digits, digit + 1, 0, end - tail, base + tail, all);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Windows that begin inside of an access unit bring what lies before them in it.
    #[test]
    fn rows_of_a_hull_begin_at_access_units() {
        let operand = |first: i64, row: i64| Operand {
            first,
            strides: vec![row, 32, 1],
            element_bytes: 2,
            steps: vec![(row, 3), (32, 3)],
            streams: 9,
            contracted: true,
            room: u64::MAX,
            ahead: 0,
        };
        let cut = Cut { digits: vec![4, 4, 1], inner: vec![2, 28, 32] };
        let machine = tilewright_testkit::tcp();
        let hull = |first, row| cut.hull(&machine, &operand(first, row)).unwrap();
        let (inside, at_units) = (hull(96, 3840), hull(128, 3840));
        assert_eq!((inside.lead, inside.run()), (96, 1152));
        assert_eq!((at_units.lead, at_units.run()), (0, 960));
        // Rows whose pitch is no whole unit begin elsewhere each time.
        assert_eq!((hull(96, 3872).lead, hull(96, 3872).run()), (0, 960));
    }

    fn by_strides(strides: &[i64], room: u64) -> Operand {
        Operand {
            first: 0,
            strides: strides.to_vec(),
            element_bytes: 4,
            steps: Vec::new(),
            streams: 1,
            contracted: false,
            room,
            ahead: 0,
        }
    }

    /// Every other element of odd rows: eight rows are whole flits, and the last share has fewer.
    #[test]
    fn shares_of_odd_rows_may_run_over_the_end() {
        let machine = tilewright_testkit::tcp();
        let room = |unit| Room {
            pes: 1,
            stream_bytes: 4,
            passes: 1,
            result_bytes: 4,
            dm_bytes: 1 << 18,
            rows: None,
            taps: 0,
            folded: 0,
            unit,
        };
        let (count, dims) = (300 * 301, [300, 151]);
        let cut = |room_of: u64, unit| {
            cut(&machine, &dims, &[by_strides(&[301, 2], room_of)], room(unit)).map(|(_, cut)| cut)
        };
        let found = cut(count + slack(count), FLIT_WORDS).expect("shares of eight rows and more");
        assert!(found.inner[0].is_multiple_of(8) && !found.is_even(&dims), "{found:?}");
        // Copies alone go by granules, so that shares of two rows do: 300 of them are even.
        let even = cut(count, 2).expect("shares of two rows and more");
        assert!(even.is_even(&dims), "{even:?}");
        // Nothing behind the last row may be touched.
        assert_eq!(cut(count, FLIT_WORDS), None);
    }

    /// Rows of a hull that begin within granules are brought with all between them, unless that is too much.
    #[test]
    fn rows_that_no_transfer_takes_come_as_one() {
        let cut = Cut { digits: vec![24, 1, 1], inner: vec![2, 28, 28] };
        let hull = cut.hull_by(&by_strides(&[3249, 114, 2], u64::MAX), 2).expect("one run");
        assert_eq!((hull.levels.len(), hull.run()), (1, 3249 + 27 * 114 + 27 * 2 + 1));
        assert_eq!(hull.walk, [(2, 3249), (28, 114), (28, 2)]);
        let far = Cut { digits: vec![1, 1], inner: vec![40, 8] };
        assert_eq!(far.hull_by(&by_strides(&[23_177, 1], u64::MAX), 2), None);
    }

    /// Rows are filled up to whole flits, and what that reads must be there.
    #[test]
    fn rows_of_whole_flits_reach_further() {
        let cut = Cut { digits: vec![4, 1], inner: vec![8, 77] };
        let wide = cut.pitched(77);
        assert_eq!((wide.inner.as_slice(), wide.share()), (&[8, 80][..], 640));
        let operand = by_strides(&[77, 1], u64::MAX);
        assert_eq!((cut.reach(&operand), wide.reach(&operand)), (Some(32 * 77), Some(32 * 77 + 3)));
        assert_eq!(wide.hull_by(&operand, 2).map(|hull| hull.walk), Some(vec![(8, 77), (80, 1)]));
        assert_eq!(cut.pitched(11), cut);
    }

    proptest! {
        #[test]
        fn boxes_are_all_shares_once(
            digits in proptest::collection::vec(1..6_u64, 1..4), ends in (0..200_u64, 0..200_u64),
        ) {
            let all: u64 = digits.iter().product();
            let (first, end) = (ends.0.min(ends.1).min(all), ends.0.max(ends.1).min(all));
            let mut found = Vec::new();
            for one in boxes(&digits, first, end) {
                let mut shares = vec![one.first];
                for (size, digit, step) in &one.loops {
                    prop_assert!(*digit < digits.len());
                    let walk = |from: u64| (0..*size).map(move |at| from + at * step);
                    shares = shares.into_iter().flat_map(walk).collect();
                }
                found.extend(shares);
            }
            found.sort_unstable();
            prop_assert_eq!(found, (first..end).collect::<Vec<u64>>());
        }
    }
}
