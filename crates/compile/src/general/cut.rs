//! How a chain that reads values by strides is cut: shares of whole inner axes, one for each slice at a time.
//!
//! A share is a block of positions of the chain's axes. Of a value that is read by strides a slice brings the
//! hull of its share: each element once, in the order in which it lies in HBM. The fetch sequencer repeats,
//! turns and overlaps them on the way to the vector engine (vISA book, fetch engine), so that broadcasts,
//! transposes and windows are no copies in HBM.

use tilewright_base::invariant::OrBroken;
use tilewright_machine::tcp::Tcp;
use tilewright_tcp_isa::vector::FLIT_WORDS;

use super::depthwise::{self, FLIT_CHANNELS};
use super::view::{View, signed};

/// Words of a share, at most.
const MOST_SHARE: u64 = 131_072;
/// Elements between two that are needed, at most, where all of them are brought.
const MOST_BETWEEN: i64 = 32;
/// Bytes of a word.
const WORD_BYTES: u64 = 4;

/// A value that enters a chain, by strides over the axes of the chain, and what it takes to fetch it.
#[derive(Clone, Debug)]
pub(super) struct Operand {
    /// First element.
    pub(super) first: i64,
    /// Stride of each axis.
    pub(super) strides: Vec<i64>,
    /// Bytes of an element.
    pub(super) element_bytes: u64,
    /// Stride and size of the steps by which streams that read the same elements are apart; none for one
    /// stream alone.
    pub(super) steps: Vec<(i64, u64)>,
    /// Streams that read it.
    pub(super) streams: u64,
    /// The contraction engine reads it, as one stream.
    pub(super) contracted: bool,
}

/// Axes that all operands walk alike are one: sizes, and the operands on them.
pub(super) fn coalesced(inputs: &[View], element_bytes: &[u64]) -> (Vec<u64>, Vec<Operand>) {
    let mut dims: Vec<u64> = Vec::new();
    let mut operands: Vec<Operand> = inputs
        .iter()
        .zip(element_bytes)
        .map(|(view, bytes)| Operand {
            first: view.first,
            strides: Vec::new(),
            element_bytes: *bytes,
            steps: Vec::new(),
            streams: 1,
            contracted: false,
        })
        .collect();
    let rank = inputs.first().map_or(0, |view| view.axes.len());
    for axis in 0..rank {
        let size = inputs[0].axes[axis].0;
        if size == 1 {
            continue;
        }
        let next: Vec<i64> = inputs.iter().map(|view| view.axes[axis].1).collect();
        let follows =
            |(operand, next): (&Operand, &i64)| operand.strides.last() == Some(&(next * signed(size)));
        let one = !dims.is_empty() && operands.iter().zip(&next).all(follows);
        match dims.last_mut().filter(|_| one) {
            Some(last) => *last *= size,
            None => dims.push(size),
        }
        for (operand, next) in operands.iter_mut().zip(next) {
            match operand.strides.last_mut().filter(|_| one) {
                Some(last) => *last = next,
                None => operand.strides.push(next),
            }
        }
    }
    if dims.is_empty() {
        dims.push(1);
        operands.iter_mut().for_each(|operand| operand.strides.push(0));
    }
    (dims, operands)
}

/// Distance and number of a step.
type Stride = (i64, u64);

/// How many of each step a stream is from the first.
type Counts = Vec<i64>;

/// The number of what several streams have in common, and where one begins in it.
type Member = (usize, Counts);

/// Operands that read the same value by the same strides from other first elements on, as one: what they have
/// in common, and for each operand the number of the common one and its steps in it. Those that are spread
/// over an axis stay alone, unless the contraction engine takes them.
pub(super) fn shared(dims: &[u64], operands: &[(usize, Operand)]) -> (Vec<(usize, Operand)>, Vec<Member>) {
    let mut common: Vec<(usize, Operand)> = Vec::new();
    let mut places = vec![(usize::MAX, Vec::new()); operands.len()];
    for at in 0..operands.len() {
        if places[at].0 != usize::MAX {
            continue;
        }
        let (value, own) = &operands[at];
        let spread = own.strides.iter().zip(dims).any(|(stride, size)| *stride == 0 && *size > 1);
        let same = |other: &usize| {
            let (its, operand) = &operands[*other];
            let alike = operand.strides == own.strides && operand.contracted == own.contracted;
            its == value && alike && places[*other].0 == usize::MAX
        };
        let alone = spread && !own.contracted;
        let members: Vec<usize> = if alone { vec![at] } else { (at..operands.len()).filter(same).collect() };
        let least = members.iter().map(|other| operands[*other].1.first).min().unwrap_or(own.first);
        let apart: Vec<i64> = members.iter().map(|other| operands[*other].1.first - least).collect();
        match steps(&apart) {
            Some((steps, taken)) if members.len() > 1 => {
                let one = Operand { first: least, steps, streams: members.len() as u64, ..own.clone() };
                for (member, taken) in members.iter().zip(taken) {
                    places[*member] = (common.len(), taken);
                }
                common.push((*value, one));
            }
            _ => {
                places[at] = (common.len(), Vec::new());
                common.push((*value, own.clone()));
            }
        }
    }
    (common, places)
}

/// Distances as multiples of at most two steps: stride and size of each, and how many of each a distance is.
fn steps(apart: &[i64]) -> Option<(Vec<Stride>, Vec<Counts>)> {
    let Some(short) = apart.iter().copied().filter(|distance| *distance > 0).min() else {
        return Some((Vec::new(), vec![Vec::new(); apart.len()]));
    };
    let row = |distance: i64| (0..).take_while(|at| at * short <= distance).find(|at| at * short == distance);
    let most = (1..)
        .take_while(|at| apart.contains(&(at * short)))
        .last()
        .or_broken("the shortest distance is one of them");
    let long = apart.iter().copied().filter(|distance| row(*distance).is_none_or(|at| at > most)).min();
    let taken = |distance: &i64| {
        let rows = long.map_or(0, |long| distance / long);
        let rest = distance - rows * long.unwrap_or(0);
        let at = row(rest).filter(|at| *at <= most)?;
        Some(if long.is_some() { vec![rows, at] } else { vec![at] })
    };
    let taken = apart.iter().map(taken).collect::<Option<Vec<Vec<i64>>>>()?;
    let size = |at: usize| {
        let most = taken.iter().filter_map(|steps| steps.get(at)).copied().max();
        u64::try_from(most.or_broken("each distance has its steps"))
            .or_broken("distances are from the first on")
            + 1
    };
    let all = match long {
        Some(long) => vec![(long, size(0)), (short, size(1))],
        None => vec![(short, size(0))],
    };
    Some((all, taken))
}

/// What a slice brings of an operand for one share: rows at regular pitches, and how the share walks over
/// them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hull {
    /// Elements before the first that is needed, so that the run starts on a granule.
    pub(super) lead: u64,
    /// Size, pitch in the value and pitch in data memory of each level, outermost first; the last is
    /// contiguous.
    pub(super) levels: Vec<(u64, i64, u64)>,
    /// Elements that it takes in data memory.
    pub(super) elements: u64,
    /// Size and stride in data memory of each axis of the share.
    pub(super) walk: Vec<(u64, i64)>,
    /// Distance in data memory of each step from stream to stream.
    pub(super) steps: Vec<i64>,
}

impl Hull {
    /// Elements of a contiguous run.
    pub(super) fn run(&self) -> u64 {
        self.levels.last().or_broken("a hull has a run").0
    }

    /// Access units of HBM that requests for a row touch.
    fn row_units(&self, machine: &Tcp, operand: &Operand) -> u64 {
        let (unit, step) = (machine.hbm.access_bytes, machine.tdma.request_bytes);
        let first = (operand.first - signed(self.lead)) * signed(operand.element_bytes);
        let inside = first.rem_euclid(signed(unit)).unsigned_abs();
        let bytes = self.run() * operand.element_bytes;
        let touched = |bytes: u64| (inside + bytes).div_ceil(unit);
        let rest = bytes % step;
        bytes / step * touched(step) + if rest > 0 { touched(rest) } else { 0 }
    }

    /// Whether the share is what was brought, in its order.
    pub(super) fn is_stream(&self) -> bool {
        self.lead == 0 && self.stream_elements() == Some(self.elements)
    }

    /// Elements of the share, if they lie one after the other where they were brought.
    pub(super) fn stream_elements(&self) -> Option<u64> {
        let mut next = 1;
        let order = self.walk.iter().rev().filter(|(size, _)| *size != 1).all(|(size, stride)| {
            let fits = *stride == signed(next);
            next *= *size;
            fits
        });
        order.then_some(next)
    }
}

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
        let mut axes: Vec<(i64, u64)> = strides.iter().copied().zip(self.inner.iter().copied()).collect();
        axes.extend(&operand.steps);
        axes.retain(|(stride, size)| *stride != 0 && *size > 1);
        axes.sort_unstable();
        if axes.first().is_some_and(|(stride, _)| *stride < 0) {
            return None;
        }
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
        if levels.len() > 1 && levels[1..].iter().any(|(pitch, _)| !whole(*pitch)) {
            return None;
        }
        let lead = u64::try_from(operand.first.rem_euclid(signed(granule))).ok()?;
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
            stride => Some((*size, if *size == 1 { 0 } else { place(*stride)? })),
        });
        let walk = walk.collect::<Option<Vec<_>>>()?;
        let steps = operand.steps.iter().map(|(stride, _)| place(*stride)).collect::<Option<Vec<_>>>()?;
        all.reverse();
        Some(Hull { lead, levels: all, elements, walk, steps })
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

/// The cut that takes least; `None` if no operand's hull can be brought by any.
pub(super) fn cut(machine: &Tcp, dims: &[u64], operands: &[Operand], room: Room) -> Option<Cut> {
    let mut best: Option<(u64, Cut)> = None;
    let strides = super::view::strides(dims);
    let out = Operand {
        first: 0,
        strides,
        element_bytes: room.result_bytes,
        steps: Vec::new(),
        streams: 1,
        contracted: false,
    };
    for inner in blocks(dims) {
        let share: u64 = inner.iter().product();
        let torn = room.rows.is_some_and(|rows| {
            let behind = inner.iter().zip(dims).rev().take_while(|(inner, size)| inner == size);
            let whole: u64 = behind.map(|(inner, _)| *inner).product();
            !rows.takes(share) || whole < rows.columns
        });
        let by_channel = inner.last().is_some_and(|channels| channels.is_multiple_of(FLIT_CHANNELS));
        if room.taps > 0 && !by_channel || share > MOST_SHARE || torn || !share.is_multiple_of(FLIT_WORDS) {
            continue;
        }
        let digits = dims.iter().zip(&inner).map(|(size, inner)| size / inner).collect();
        let one = Cut { digits, inner };
        if room.rows.is_some() && !one.is_contiguous() {
            continue;
        }
        let Some(cycles) = cycles(machine, &one, operands, (&out, room)) else { continue };
        if best.as_ref().is_none_or(|(least, _)| cycles < *least) {
            best = Some((cycles, one));
        }
    }
    best.map(|(_, cut)| cut)
}

/// Blocks of axes: some positions of one axis and all behind it, of which one other axis may have fewer too.
fn blocks(dims: &[u64]) -> Vec<Vec<u64>> {
    let mut all = Vec::new();
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
    let bytes = Cut::hull_bytes(&hulls, operands) + room.stream_bytes * share;
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
        dma += live * requests(bytes) * (1 + partial);
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
        if !operand.contracted && (!hull.is_stream() || operand.element_bytes != WORD_BYTES) {
            let narrow = hull.walk.last().is_some_and(|(size, stride)| *size > 1 && *stride != 1);
            let words = if narrow { share } else { share / FLIT_WORDS };
            unit += operand.streams * (machine.command.overhead_cycles + words);
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
