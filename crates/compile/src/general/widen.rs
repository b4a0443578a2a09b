//! Operands of contractions with more positions along an axis, zeros, so that rows are whole granules and
//! rows of results whole flits.

use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_graph::Dtype;
use tilewright_tcp_isa::vector::FLIT_WORDS;

use super::contract::Lettered;
use super::form::Former;
use super::kernel::{Origin, Packing, Runs, Work};
use super::plan::WORD_BYTES;
use super::refusal::Lowered;
use super::view::{View, signed, strides};
use super::words::{Arith, Line, Other, Step};

/// Bytes of a sum's positions that transfers move whole.
const GRANULE_BYTES: u64 = 8;
/// Bytes of a flit.
const FLIT_BYTES: u64 = 32;
/// Runs of windows get at most so many times as long.
const MOST_TAPS: u64 = 2;
/// Sums are padded to whole flits if they get longer by one part of so many.
const MOST_MORE: u64 = 16;
/// Elements of a copy at most.
const MOST_COPIED: u64 = 1 << 26;
/// Elements of which rows of windows that get longer have a multiple.
const ROW_ELEMENTS: u64 = 4;
/// Sizes of letters that are tried, at most.
const MOST_WAYS: usize = 1 << 12;
/// Elements of an operand or a result from which on it is padded.
const LEAST_PADDED: u64 = 1 << 12;

impl Former<'_> {
    /// The same operands with more positions of a letter that is summed over, zeros in both, so that rows are
    /// whole granules; `None` if they are already, or no letter is an axis of both values.
    pub(super) fn padded_sum(
        &mut self,
        name: &str,
        operands: [&Lettered; 2],
        summed: &[u8],
        packing: Packing,
    ) -> Lowered<Option<[Lettered; 2]>> {
        let granule = GRANULE_BYTES / packing.element_bytes();
        let size = |letter: u8| operands[0].size(letter);
        let all: u64 = summed.iter().map(|letter| size(*letter)).product();
        let long = operands
            .iter()
            .any(|one| one.letters.iter().map(|letter| one.size(*letter)).product::<u64>() >= LEAST_PADDED);
        if all.is_multiple_of(granule) || !long {
            return Ok(None);
        }
        // What is padded at all is padded to whole flits, which every cut takes, if they are few more.
        let wider_to = |letter: u8, whole: u64| {
            let others = all / size(letter);
            (size(letter)..size(letter) + whole).find(|size| (size * others).is_multiple_of(whole))
        };
        let little = |letter: u8| {
            wider_to(letter, FLIT_WORDS)
                .is_some_and(|wide| wide * (all / size(letter)) <= all + all / MOST_MORE)
        };
        let whole =
            if summed.iter().any(|letter| little(*letter)) { FLIT_WORDS.max(granule) } else { granule };
        let wider = |letter: u8| wider_to(letter, whole);
        let grown = |letter: u8| wider(letter).map_or(u64::MAX, |wide| wide * (all / size(letter)));
        let mut letters = summed.to_vec();
        letters.sort_by_key(|letter| grown(*letter));
        for letter in letters {
            let (Some(wide), [a, b]) = (wider(letter), operands) else { continue };
            if !self.is_axis(a, letter) || !self.is_axis(b, letter) {
                continue;
            }
            return Ok(Some([
                self.widened(&format!("{name}.0"), a, letter, wide)?,
                self.widened(&format!("{name}.1"), b, letter, wide)?,
            ]));
        }
        // Rows that are no whole granules are copied in any case: with zeros behind.
        let [letter] = summed[..] else { return self.padded_windows(name, operands, summed) };
        let Some(wide) = wider(letter).filter(|_| all > 1) else { return Ok(None) };
        let Some(a) = self.copied(&format!("{name}.0.copied"), operands[0], letter)? else { return Ok(None) };
        let Some(b) = self.copied(&format!("{name}.1.copied"), operands[1], letter)? else { return Ok(None) };
        Ok(Some([
            self.widened(&format!("{name}.0"), &a, letter, wide)?,
            self.widened(&format!("{name}.1"), &b, letter, wide)?,
        ]))
    }

    /// Operands whose sums are over several letters, with more positions of some of them, so that rows are
    /// whole flits: zeros where a letter is an axis, and a copy of windows under a mask. `None` if that is
    /// too much.
    fn padded_windows(
        &mut self,
        name: &str,
        operands: [&Lettered; 2],
        summed: &[u8],
    ) -> Lowered<Option<[Lettered; 2]>> {
        let wider = |letters: Vec<u64>, letter: &u8| {
            let own = operands[0].size(*letter);
            (own..own + FLIT_WORDS).map(move |size| [&letters[..], &[size]].concat())
        };
        let mut ways: Vec<Vec<u64>> = vec![Vec::new()];
        for letter in summed {
            ways = ways.into_iter().flat_map(|letters| wider(letters, letter)).collect();
            if ways.len() > MOST_WAYS {
                return Ok(None);
            }
        }
        let whole = |sizes: &Vec<u64>| sizes.iter().product::<u64>().is_multiple_of(FLIT_WORDS);
        let least = ways.into_iter().filter(whole).min_by_key(|sizes| sizes.iter().product::<u64>());
        let Some(least) = least else { return Ok(None) };
        let grown: Vec<(u8, u64)> = summed.iter().copied().zip(least).collect();
        let [a, b] = operands;
        let alone =
            |one: &Lettered, other: &Lettered| one.letters.iter().all(|l| other.has(*l) || one.size(*l) == 1);
        if alone(a, b) || alone(b, a) {
            // The vector engine takes sums of which one operand is spread over nothing.
            return Ok(None);
        }
        let Some(a) = self.grown(&format!("{name}.0"), (a, b), &grown)? else { return Ok(None) };
        let Some(b) = self.grown(&format!("{name}.1"), (b, operands[0]), &grown)? else { return Ok(None) };
        Ok(Some([a, b]))
    }

    /// An operand with so many positions of letters, zeros where it had none.
    fn grown(
        &mut self,
        name: &str,
        (one, other): (&Lettered, &Lettered),
        letters: &[(u8, u64)],
    ) -> Lowered<Option<Lettered>> {
        let longer: Vec<(u8, u64)> =
            letters.iter().copied().filter(|(letter, wide)| one.size(*letter) < *wide).collect();
        if longer.iter().all(|(letter, _)| self.is_axis(one, *letter)) {
            let mut wide = one.clone();
            for (letter, size) in longer {
                wide = self.widened(name, &wide, letter, size)?;
            }
            return Ok(Some(wide));
        }
        if self.all.values[one.view.value].packing != Packing::Words {
            return Ok(None);
        }
        // Windows that get longer stay within their rows.
        let mut roomy = one.clone();
        for (letter, size) in &longer {
            let source = self.source(roomy.view.value);
            if !stays_inside(&source, &roomy.view) {
                return Ok(None);
            }
            let Some(axis) =
                walked(&source, roomy.stride(*letter)).filter(|_| roomy.view.first == source.first)
            else {
                continue;
            };
            let step = u64::try_from(roomy.stride(*letter) / source.axes[axis].1).or_broken("steps go on");
            let more = step * (size - one.size(*letter));
            // What gets longer at all keeps rows that transfers take.
            let long = source.axes[axis].0 + more;
            let more = if source.axes[axis].1 == 1 {
                long.next_multiple_of(ROW_ELEMENTS) - source.axes[axis].0
            } else {
                more
            };
            roomy = self.widened_axis(&format!("{name}.rows"), &roomy, (&source, axis), more)?;
        }
        // Sums come last, those that both have first, all as they lie.
        let is_summed = |letter: u8| letters.iter().any(|known| known.0 == letter);
        let mut order = one.letters.clone();
        order.sort_by_key(|letter| {
            (is_summed(*letter), !other.has(*letter), std::cmp::Reverse(roomy.stride(*letter)))
        });
        let mut wide =
            Lettered { view: roomy.ordered(&order).ok_or("letters")?, letters: order, ..one.clone() };
        longer.iter().for_each(|(letter, size)| wide.resize(*letter, *size));
        let dims = wide.view.dims();
        if dims.iter().try_fold(1_u64, |all, size| all.checked_mul(*size)).is_none_or(|all| all > MOST_COPIED)
        {
            return Ok(None);
        }
        let mask = self.mask(&wide, one, &longer)?;
        let and = Step::With { arith: Arith::And, other: Other::Stream(1), reversed: false };
        let lines = vec![Line { input: 0, step: and }];
        let work = Work::Chain { inputs: vec![wide.view, mask], lines, streams: vec![2] };
        let dtype = self.all.values[one.view.value].dtype;
        let value = self.made(name, &dims, dtype, work);
        Ok(Some(Lettered { view: View::whole(value, &dims), letters: wide.letters, ..*one }))
    }

    /// All ones at positions of letters that an operand had, zeros behind, over the letters that it has.
    fn mask(&mut self, wide: &Lettered, had: &Lettered, letters: &[(u8, u64)]) -> Lowered<View> {
        let mut words = vec![-1_i64];
        for (letter, size) in letters {
            let live = |at: u64| if at < had.size(*letter) { -1 } else { 0 };
            words = words.iter().flat_map(|word| (0..*size).map(move |at| word & live(at))).collect();
        }
        let sizes: Vec<u64> = letters.iter().map(|letter| letter.1).collect();
        let dims: Vec<usize> =
            sizes.iter().map(|size| usize::try_from(*size).or_broken("few positions")).collect();
        let mask = self.constant("mask", &tilewright_reference::Tensor::ints(Dtype::I32, &dims, words))?;
        let stride = |letter: &u8| {
            letters
                .iter()
                .zip(strides(&sizes))
                .find(|(known, _)| known.0 == *letter)
                .map_or(0, |(_, own)| own)
        };
        let axes = wide.letters.iter().map(|letter| (wide.size(*letter), stride(letter))).collect();
        Ok(View { axes, ..mask })
    }

    /// An operand that has a letter as an axis: itself, or a copy where the letter walks over a part of one;
    /// `None` for copies of too many elements.
    fn copied(&mut self, name: &str, one: &Lettered, letter: u8) -> Lowered<Option<Lettered>> {
        if self.is_axis(one, letter) {
            return Ok(Some(one.clone()));
        }
        let dims = one.view.dims();
        if dims.iter().try_fold(1_u64, |all, size| all.checked_mul(*size)).is_none_or(|all| all > MOST_COPIED)
        {
            return Ok(None);
        }
        let value = self.plain(&one.view, name)?;
        let copy = Lettered { view: View::whole(value, &dims), ..one.clone() };
        Ok(Some(copy).filter(|copy| self.is_axis(copy, letter)))
    }

    /// Windows of few channels in runs of whole flits: more positions of the innermost letter that a window
    /// has besides channels, of which the rows have what lies there, and the columns zeros. `None` if runs
    /// are whole flits already, or longer by too much, if what the windows look at has no room for more, or
    /// if weights of four bits lie in pairs, which no tile widens behind windows.
    pub(super) fn whole_runs(
        &mut self,
        name: &str,
        [a, b]: [&Lettered; 2],
        summed: &[u8],
        packing: Packing,
    ) -> Lowered<Option<([Lettered; 2], Runs)>> {
        let mut letters: Vec<u8> = summed.iter().copied().filter(|letter| a.size(*letter) > 1).collect();
        letters.sort_by_key(|letter| a.stride(*letter));
        let (around, tap, channel) = match letters[..] {
            [channel, tap] => (1, tap, channel),
            [channel, tap, around] => (a.size(around), tap, channel),
            _ => return Ok(None),
        };
        let (channels, taps) = (a.size(channel), a.size(tap));
        let flit = FLIT_BYTES / packing.element_bytes();
        let few =
            !b.four_bits && a.stride(channel) == 1 && a.stride(tap) == signed(channels) && channels < flit;
        let wide = (taps..taps * MOST_TAPS).find(|taps| (taps * channels).is_multiple_of(flit));
        let Some(wide) = wide.filter(|wide| *wide > taps && few && around > 0 && self.has_runs) else {
            return Ok(None);
        };
        let Some((source, axis)) = self.looked_at(a, tap).filter(|_| self.is_axis(b, tap)) else {
            return Ok(None);
        };
        let mut rows = self.widened_axis(name, a, (&source, axis), wide - taps)?;
        rows.resize(tap, wide);
        let columns = self.widened(&format!("{name}.1"), b, tap, wide)?;
        Ok(Some(([rows, columns], Runs { size: wide * channels, live: taps * channels })))
    }

    /// What windows look at with the axis that one of their letters walks over, if it is padded or the host
    /// writes it, so that more positions of the axis take no kernel.
    fn looked_at(&self, one: &Lettered, letter: u8) -> Option<(View, usize)> {
        let value = one.view.value;
        let has_room = self.pads.contains_key(&value) || self.all.values[value].origin == Origin::Input;
        let (source, stride) = (self.source(value), one.stride(letter));
        let axis = source.axes.iter().position(|(size, own)| *size > 1 && *own == stride)?;
        let begins = one.view.first == source.first && stays_inside(&source, &one.view);
        (has_room && begins).then_some((source, axis))
    }

    /// The operand that gives columns with more of them, zeros, so that rows of the result are whole flits;
    /// `None` if they are already, are too few to matter, or their letter is no axis of the value.
    pub(super) fn padded_columns(
        &mut self,
        name: &str,
        operand: &Lettered,
        columns: &[u8],
        [batch, rows]: [u64; 2],
    ) -> Lowered<Option<Lettered>> {
        let Some(letter) = columns.last().copied() else { return Ok(None) };
        let all: u64 = columns.iter().map(|letter| operand.size(*letter)).product();
        let (own, others) = (operand.size(letter), all / operand.size(letter).max(1));
        let own_elements: u64 = operand.view.dims().iter().product();
        let elements = batch.exact_mul(rows).exact_mul(all.max(FLIT_WORDS)).max(own_elements);
        let is_short = all < 2 || rows == 0 || elements < LEAST_PADDED;
        // Rows of whole granules are written as they are, short ones of a batch each by itself.
        let in_parts = batch > 1 && all < FLIT_WORDS;
        if (all * WORD_BYTES).is_multiple_of(GRANULE_BYTES) && !in_parts
            || is_short
            || !self.is_axis(operand, letter)
        {
            return Ok(None);
        }
        let wide = (own..own + FLIT_WORDS).find(|size| (size * others).is_multiple_of(FLIT_WORDS));
        let Some(wide) = wide else { return Ok(None) };
        self.widened(&format!("{name}.1"), operand, letter, wide).map(Some)
    }

    /// More rows of an operand where its value has something behind the last, so that cuts of it have whole
    /// flits: the letter that has more, and how many it had. Whatever is read there becomes rows of the
    /// result that nobody looks at.
    pub(super) fn extended_rows(
        &self,
        operand: &mut Lettered,
        rows: &[u8],
        summed: u64,
    ) -> Option<(u8, u64)> {
        let all: u64 = rows.iter().map(|letter| operand.size(*letter)).product();
        if (all * summed).is_multiple_of(FLIT_WORDS) || all.saturating_mul(summed) < LEAST_PADDED {
            return None;
        }
        let count = signed(self.all.values.get(operand.view.value)?.count());
        let last = |view: &View| {
            let reach = view.axes.iter().map(|(size, stride)| (signed(*size) - 1) * stride.max(&0));
            view.first + reach.sum::<i64>()
        };
        for letter in rows.iter().rev() {
            let (own, others) = (operand.size(*letter), all / operand.size(*letter).max(1));
            let fits = |size: &u64| (size * others * summed).is_multiple_of(FLIT_WORDS);
            let at = operand.letters.iter().position(|known| known == letter)?;
            let wide = (own..own + FLIT_WORDS).find(fits).filter(|_| own >= FLIT_WORDS);
            let Some(wide) = wide else { continue };
            let mut view = operand.view.clone();
            view.axes[at].0 = wide;
            if view.axes[at].1 > 0 && last(&view) < count {
                operand.view = view;
                return Some((*letter, own));
            }
        }
        None
    }

    /// The axis of an operand's value that a letter walks over from end to end, if there is one and no other
    /// letter walks it.
    fn axis_of(&self, one: &Lettered, letter: u8) -> Option<usize> {
        let source = self.source(one.view.value);
        let (size, stride) = (one.size(letter), one.stride(letter));
        let axis = source.axes.iter().position(|own| *own == (size, stride) && size > 1)?;
        let others = one.letters.iter().filter(|known| **known != letter);
        let apart = |known: &u8| {
            let (size, stride) = (one.size(*known), one.stride(*known));
            size == 1 || stride == 0 || walked(&source, stride).is_some_and(|own| own != axis)
        };
        let begins = one.view.first == source.first && stays_inside(&source, &one.view);
        (begins && others.into_iter().all(apart)).then_some(axis)
    }

    fn is_axis(&self, one: &Lettered, letter: u8) -> bool {
        self.axis_of(one, letter).is_some()
    }

    /// An operand with more positions of a letter; those that are new are zero.
    fn widened(&mut self, name: &str, one: &Lettered, letter: u8, wide: u64) -> Lowered<Lettered> {
        let axis = self.axis_of(one, letter).ok_or("an axis that is not there")?;
        let source = self.source(one.view.value);
        let more = wide - source.axes[axis].0;
        let mut wider = self.widened_axis(name, one, (&source, axis), more)?;
        wider.resize(letter, wide);
        Ok(wider)
    }

    /// An operand of what has more positions of an axis behind, zeros.
    fn widened_axis(
        &mut self,
        name: &str,
        one: &Lettered,
        (source, axis): (&View, usize),
        more: u64,
    ) -> Lowered<Lettered> {
        let dtype = self.all.values[one.view.value].dtype;
        let mut wider = source.dims();
        wider[axis] += more;
        let zero = if dtype.is_float() {
            tilewright_reference::Tensor::floats(dtype, &[], vec![0.0])
        } else {
            tilewright_reference::Tensor::ints(dtype, &[], vec![0])
        };
        let zero = self.constant("zero", &zero)?;
        let padded = self.padded(name, &wider, axis, [0, more], (source, &zero), Packing::Words)?;
        let grown = |stride: i64| {
            let own = walked(source, stride)?;
            Some(stride / source.axes[own].1 * padded.axes[own].1)
        };
        let moved = one.view.axes.iter().map(|(size, stride)| {
            Some((*size, if *stride == 0 || *size == 1 { 0 } else { grown(*stride)? }))
        });
        let axes = moved.collect::<Option<Vec<(u64, i64)>>>().ok_or("strides of no axis")?;
        let view = View { axes, ..padded };
        Ok(Lettered { letters: one.letters.clone(), view, four_bits: one.four_bits })
    }
}

/// Whether a view from the first element on walks over axes of a source each by itself: where letters go from
/// the end of one axis on to the next position of another, nothing may come between them.
fn stays_inside(source: &View, view: &View) -> bool {
    let mut reached = vec![0_i64; source.axes.len()];
    for (size, stride) in view.axes.iter().filter(|(size, stride)| *size > 1 && *stride != 0) {
        let Some(axis) = walked(source, *stride) else { return false };
        reached[axis] += (signed(*size) - 1) * (stride / source.axes[axis].1);
    }
    reached.iter().zip(&source.axes).all(|(reached, (size, _))| *reached < signed((*size).max(1)))
}

/// The axis of a view of which a stride is some positions.
fn walked(source: &View, stride: i64) -> Option<usize> {
    let own = |(_, (size, own)): &(usize, &(u64, i64))| *size > 1 && *own > 0 && stride % own == 0;
    let axes = source.axes.iter().enumerate().filter(own).filter(|(_, (_, own))| *own <= stride);
    axes.max_by_key(|(_, (_, own))| *own).map(|(axis, _)| axis)
}
