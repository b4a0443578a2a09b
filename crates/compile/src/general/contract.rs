//! Einsums as contractions of two values in bf16, f8e4m3 or bytes, reductions, and rows by number.

use tilewright_graph::{Binary, Dtype, Fold, Subscripts, ValueId};

use super::depthwise::{FLIT_CHANNELS, LEAST_TAPS, tap_lines};
use super::elementwise::{Arg, Writer};
use super::float8::sums_alone;
use super::form::{Former, Held};
use super::group::GRANULE_WORDS;
use super::kernel::{Origin, Packing, Sizes, Work};
use super::refusal::{Lowered, outside};
use super::view::{View, count, signed, strides};

/// Products that the vector engine adds one after the other, at most.
pub(super) const MOST_TAPS: u64 = 64;
/// Products that it adds so whatever their number, at most.
const FEW_TAPS: u64 = 16;
/// Products of each position, for each that is added: with fewer of them commands take longer than products.
const LEAST_TAP_ELEMENTS: u64 = 256;

/// Whether the vector engine takes a contraction: the contraction engine would share nothing, or use one
/// lane.
pub(crate) fn is_vector_work(sizes: Sizes) -> bool {
    let Sizes { batch, rows, columns, summed, .. } = sizes;
    if summed == 1 || rows == 1 && columns == 1 {
        return true;
    }
    let elements = batch.saturating_mul(rows).saturating_mul(columns);
    let pays = summed <= FEW_TAPS || elements >= summed.saturating_mul(LEAST_TAP_ELEMENTS);
    batch > 1 && rows.min(columns) == 1 && summed <= MOST_TAPS && pays
}

/// Whether taps are sums of neighbouring channels that lie together: the innermost axis of results, which
/// weights have besides those that are summed, and no other.
fn is_by_channel(operands: [&Lettered; 2], stored: &[u8], summed: &[u8]) -> bool {
    let [windows, weights] = match operands {
        [a, b] if a.letters.len() >= b.letters.len() => [a, b],
        [a, b] => [b, a],
    };
    let live: Vec<u8> = stored.iter().copied().filter(|letter| windows.size(*letter) > 1).collect();
    let Some((channel, around)) = live.split_last() else { return false };
    let fixed = |letter: &u8| weights.size(*letter) == 1 || weights.stride(*letter) == 0;
    let has_all = |from: &Lettered| summed.iter().all(|letter| from.has(*letter));
    let steps = |letter: &u8| windows.stride(*letter) >= 0;
    windows.stride(*channel) == 1
        && windows.size(*channel).is_multiple_of(FLIT_CHANNELS)
        && weights.size(*channel) == windows.size(*channel)
        && summed.iter().map(|letter| windows.size(*letter)).product::<u64>() >= LEAST_TAPS
        && around.iter().all(|letter| fixed(letter) && steps(letter))
        && summed.iter().all(steps)
        && has_all(windows)
        && has_all(weights)
}

/// A view with a letter for each axis.
#[derive(Clone, Debug)]
pub(super) struct Lettered {
    pub(super) letters: Vec<u8>,
    pub(super) view: View,
    /// Whether it was converted from integers of four bits.
    pub(super) four_bits: bool,
}

impl Lettered {
    /// Letters that come twice are walked together.
    fn new(letters: &[u8], view: &View) -> Lettered {
        let view_of_none = View { axes: Vec::new(), ..view.clone() };
        let mut one = Lettered { letters: Vec::new(), view: view_of_none, four_bits: false };
        for (letter, (size, stride)) in letters.iter().zip(&view.axes) {
            match one.letters.iter().position(|known| known == letter) {
                Some(at) => one.view.axes[at].1 += stride,
                None => {
                    one.letters.push(*letter);
                    one.view.axes.push((*size, *stride));
                }
            }
        }
        one
    }

    /// Other positions of a letter.
    pub(super) fn resize(&mut self, letter: u8, size: u64) {
        let at = self.letters.iter().position(|known| *known == letter);
        if let Some(axis) = at.and_then(|at| self.view.axes.get_mut(at)) {
            axis.0 = size;
        }
    }

    /// Takes only the first positions of a letter.
    fn cut(&mut self, letter: u8, size: u64) {
        let at = self.letters.iter().position(|known| *known == letter);
        if let Some(axis) = at.and_then(|at| self.view.axes.get_mut(at)) {
            axis.0 = axis.0.min(size);
        }
    }

    pub(super) fn has(&self, letter: u8) -> bool {
        self.letters.contains(&letter)
    }

    pub(super) fn size(&self, letter: u8) -> u64 {
        let at = self.letters.iter().position(|known| *known == letter);
        at.and_then(|at| self.view.axes.get(at)).map_or(1, |axis| axis.0)
    }

    /// Elements from one position of a letter to the next; 0 if it has none.
    pub(super) fn stride(&self, letter: u8) -> i64 {
        let at = self.letters.iter().position(|known| *known == letter);
        at.and_then(|at| self.view.axes.get(at)).map_or(0, |axis| axis.1)
    }

    /// Axes in the order of letters.
    pub(super) fn ordered(&self, letters: &[u8]) -> Option<View> {
        let order: Option<Vec<usize>> =
            letters.iter().map(|letter| self.letters.iter().position(|known| known == letter)).collect();
        self.view.transposed(&order?)
    }
}

/// Elements in one position of an axis up to which those of many positions are not gathered one by one.
const SHORT_ROW: u64 = 16;
/// Elements that are gathered from which on that pays, and elements of the source for each of them at most.
const MANY_GATHERED: u64 = 1 << 12;
const MOST_TURNED: u64 = 64;

/// Rows that are gathered from which on their source may be copied for that.
const MANY_ROWS: u64 = 1 << 9;

/// Whether what a gather takes for an index are short rows, many times.
fn has_short_rows(own: &[u64], axis: usize, dims: &[u64]) -> bool {
    let gathered = count(dims);
    let (before, behind) = (count(&own[..axis]), count(&own[axis + 1..]));
    before > 1
        && behind <= SHORT_ROW
        && gathered >= MANY_GATHERED
        && count(own) <= gathered.saturating_mul(MOST_TURNED)
}

/// Whether many rows are gathered that are no whole granules, of a source that is not much larger.
fn is_odd_and_many((before, size, inner): (u64, u64, u64), dims: &[u64]) -> bool {
    let gathered = count(dims);
    !inner.is_multiple_of(GRANULE_WORDS)
        && gathered / inner.max(1) >= MANY_ROWS
        && before.saturating_mul(size).saturating_mul(inner + 1) <= gathered.saturating_mul(MOST_TURNED)
}

impl Former<'_> {
    /// Sums of products.
    pub(super) fn einsum(&mut self, name: &str, spec: &str, ids: &[ValueId], dtype: Dtype) -> Lowered<View> {
        let parsed = Subscripts::parse(spec).ok_or("subscripts that are not letters")?;
        let mut operands = Vec::new();
        for (id, letters) in ids.iter().zip(&parsed.inputs) {
            let four_bits = self.is_four_bits(*id);
            operands.push(Lettered { four_bits, ..Lettered::new(letters, &self.view(*id)?) });
        }
        // What is widened on the chip is the operand with the columns.
        operands.sort_by_key(|operand| operand.four_bits);
        match <[Lettered; 2]>::try_from(operands) {
            Ok([a, b]) => match self.multiplied(dtype, ids)? {
                Packing::Float8 if sums_alone(&parsed) => {
                    let operands = [self.lettered_float8(name, a)?, self.lettered_float8(name, b)?];
                    self.contraction(name, operands, &parsed.output, Packing::Half)
                }
                Packing::Byte if sums_alone(&parsed) => {
                    Err("sums of integers of eight bits before they are multiplied".to_string())
                }
                packing => self.contraction(name, [a, b], &parsed.output, packing),
            },
            Err(mut one) if one.len() == 1 => {
                let one = one.remove(0);
                let sums = self.summed(name, one, &parsed.output, dtype)?;
                sums.ordered(&parsed.output).ok_or("letters".to_string())
            }
            Err(more) => Err(format!("an einsum of {} operands; allowed are one and two", more.len())),
        }
    }

    /// An operand with its elements rounded to f8e4m3, where they may not be yet.
    fn lettered_float8(&mut self, name: &str, operand: Lettered) -> Lowered<Lettered> {
        let view = self.rounded(&operand.view, &format!("{name}.rounded"))?;
        Ok(Lettered { view, ..operand })
    }

    /// Sums over the axes that are not kept, of elements of a type.
    fn summed(&mut self, name: &str, one: Lettered, kept: &[u8], dtype: Dtype) -> Lowered<Lettered> {
        let (stay, go): (Vec<u8>, Vec<u8>) = one.letters.iter().partition(|letter| kept.contains(letter));
        if go.is_empty() {
            return Ok(one);
        }
        let axes: Vec<usize> =
            one.letters.iter().enumerate().filter(|(_, l)| go.contains(l)).map(|(at, _)| at).collect();
        let dims: Vec<u64> = stay.iter().map(|letter| one.size(*letter)).collect();
        let view = self.reduce(&format!("{name}.sum"), &one.view, (Fold::Sum, dtype), &axes, &dims)?;
        Ok(Lettered { letters: stay, view, four_bits: false })
    }

    fn contraction(
        &mut self,
        name: &str,
        [a, b]: [Lettered; 2],
        out: &[u8],
        packing: Packing,
    ) -> Lowered<View> {
        let kept = |other: &Lettered| [out, &other.letters[..]].concat();
        let (of_a, of_b) = (kept(&b), kept(&a));
        let dtype = if packing == Packing::Byte { Dtype::I32 } else { Dtype::F32 };
        let (a, b) = (self.summed(name, a, &of_a, dtype)?, self.summed(name, b, &of_b, dtype)?);
        let shared: Vec<u8> =
            a.letters.iter().copied().filter(|letter| b.has(*letter) && !out.contains(letter)).collect();
        let counted: u64 = shared.iter().map(|letter| a.size(*letter)).product();
        let (a, b) = match self.padded_sum(name, [&a, &b], &shared, packing)? {
            Some([a, b]) => (a, b),
            None => (a, b),
        };
        let ([a, b], runs) = match self.whole_runs(name, [&a, &b], &shared, packing)? {
            Some((operands, runs)) => (operands, Some(runs)),
            None => ([a, b], None),
        };
        let letters = |wanted: &dyn Fn(u8) -> bool, from: &[u8]| -> Vec<u8> {
            from.iter().copied().filter(|letter| wanted(*letter)).collect()
        };
        let batch = letters(&|l| a.has(l) && b.has(l), out);
        let mut rows = letters(&|l| a.has(l) && !b.has(l), out);
        let mut columns = letters(&|l| !a.has(l) && b.has(l), out);
        let mut summed = letters(&|l| b.has(l) && !out.contains(&l), &a.letters);
        // As they lie in memory, so that runs are long; where operands differ, the one that is computed
        // decides.
        rows.sort_by_key(|letter| std::cmp::Reverse(a.stride(*letter)));
        columns.sort_by_key(|letter| std::cmp::Reverse(b.stride(*letter)));
        let decides = if self.is_constant(&a.view) || self.is_input(&a.view) && !self.is_input(&b.view) {
            &b
        } else {
            &a
        };
        let decides = if self.is_constant(&b.view) { &a } else { decides };
        summed.sort_by_key(|letter| std::cmp::Reverse(decides.stride(*letter)));
        let size = |from: &Lettered, letters: &[u8]| letters.iter().map(|l| from.size(*l)).product::<u64>();
        let sum = size(&a, &summed);
        let sizes = |a: &Lettered, b: &Lettered| {
            let sizes =
                Sizes::new(size(a, &batch), size(a, &rows), size(b, &columns), size(a, &summed), packing);
            Sizes { counted, runs, ..sizes }
        };
        let exact = sizes(&a, &b);
        if is_vector_work(exact) || self.has_few_taps(&a, exact, &rows, &summed) {
            return self.vector_work(name, [a, b], ([&batch, &summed], exact), (out, dtype));
        }
        let mut a = a;
        let fewer = if sum > 1 { self.extended_rows(&mut a, &rows, sum) } else { None };
        let shorter = columns.last().map(|letter| (*letter, b.size(*letter)));
        let above = [size(&a, &batch), size(&a, &rows)];
        let b = self.padded_columns(name, &b, &columns, above)?.unwrap_or(b);
        let sizes = sizes(&a, &b);
        let mut values = [0; 2];
        for (at, (from, own)) in [(&a, &rows), (&b, &columns)].into_iter().enumerate() {
            let order = [&batch[..], own, &summed].concat();
            let view = from.ordered(&order).ok_or("letters that no operand has")?;
            values[at] = self.narrow_of(&view, &format!("{name}.{at}"), packing)?;
        }
        if b.four_bits && matches!(self.all.values[values[1]].origin, Origin::Constant(_)) {
            self.all.values[values[1]].dtype = Dtype::I4;
        }
        let made = [&batch[..], &rows, &columns].concat();
        let dims: Vec<u64> = made.iter().map(|l| if a.has(*l) { a.size(*l) } else { b.size(*l) }).collect();
        let work = Work::Contract { a: values[0], b: values[1], sizes };
        let value = self.made(name, &dims, dtype, work);
        let mut whole = Lettered { letters: made, view: View::whole(value, &dims), four_bits: false };
        shorter.into_iter().chain(fewer).for_each(|(letter, size)| whole.cut(letter, size));
        whole.ordered(out).ok_or_else(|| "a letter of the result that no operand has".to_string())
    }

    /// What the vector engine takes of contractions: products, sums of all, or sums of few.
    fn vector_work(
        &mut self,
        name: &str,
        [a, b]: [Lettered; 2],
        ([batch, summed], sizes): ([&[u8]; 2], Sizes),
        result: (&[u8], Dtype),
    ) -> Lowered<View> {
        let (a, b) = if sizes.operands == Packing::Float8 && is_vector_work(sizes) {
            (self.lettered_float8(name, a)?, self.lettered_float8(name, b)?)
        } else {
            (a, b)
        };
        match sizes {
            Sizes { summed: 1, .. } => self.products(name, [&a, &b], result.0, result.1),
            Sizes { rows: 1, columns: 1, .. } => self.dots(name, [&a, &b], (batch, summed), result),
            _ => self.taps(name, [&a, &b], summed, result),
        }
    }

    /// Whether sums are over overlapping windows of each position of a batch: as rows of a contraction every
    /// element would be written once for each window that it is in.
    fn has_few_taps(&self, a: &Lettered, sizes: Sizes, rows: &[u8], summed: &[u8]) -> bool {
        let overlaps = |row: &u8, tap: &u8| {
            let (row, tap, taps) = (a.stride(*row), a.stride(*tap), a.size(*tap));
            tap > 0 && row > 0 && row % tap == 0 && row < tap * signed(taps)
        };
        let alone = sizes.batch > 1 && sizes.columns == 1 && sizes.summed <= MOST_TAPS;
        alone && rows.iter().any(|row| summed.iter().any(|tap| overlaps(row, tap)))
    }

    fn is_constant(&self, view: &View) -> bool {
        matches!(self.all.values[view.value].origin, Origin::Constant(_))
    }

    fn is_input(&self, view: &View) -> bool {
        self.all.values[view.value].origin == Origin::Input
    }

    /// Sums of few products at each position of a batch, as depthwise convolutions have them: products and
    /// sums in f32 of what is read by strides. Where channels lie together, operands are in bf16, as those of
    /// other contractions, and the contraction engine can take them (`depthwise`).
    fn taps(
        &mut self,
        name: &str,
        operands: [&Lettered; 2],
        summed: &[u8],
        (out, dtype): (&[u8], Dtype),
    ) -> Lowered<View> {
        let size = |letter: u8| operands[0].size(letter).max(operands[1].size(letter));
        let larger =
            if operands[0].letters.len() >= operands[1].letters.len() { operands[0] } else { operands[1] };
        let mut stored = out.to_vec();
        stored.sort_by_key(|letter| std::cmp::Reverse((size(*letter) > 1, larger.stride(*letter))));
        let view = |from: &Lettered, tap: &[(u8, u64)]| {
            let skipped: i64 = tap.iter().map(|(letter, at)| from.stride(*letter) * signed(*at)).sum();
            let axes = stored.iter().map(|letter| (size(*letter), from.stride(*letter))).collect();
            View { value: from.view.value, first: from.view.first + skipped, axes }
        };
        let mut taps: Vec<Vec<(u8, u64)>> = vec![Vec::new()];
        let by_channel = dtype == Dtype::F32 && is_by_channel(operands, &stored, summed);
        let mut laid = Vec::new();
        for from in operands {
            let live: Vec<u8> = stored.iter().copied().filter(|letter| size(*letter) > 1).collect();
            let mut one = self.laid_taps(name, from, summed, &live, by_channel)?;
            if by_channel {
                one.view.value = self.narrow(one.view.value, Packing::Half);
            }
            laid.push(one);
        }
        for letter in summed {
            let more =
                |tap: Vec<(u8, u64)>| (0..size(*letter)).map(move |at| [&tap[..], &[(*letter, at)]].concat());
            taps = taps.into_iter().flat_map(more).collect();
        }
        let inputs = taps.iter().flat_map(|tap| laid.iter().map(|from| view(from, tap)));
        let mut inputs: Vec<View> = inputs.collect();
        if !by_channel {
            inputs = inputs.into_iter().map(|view| self.compact(view)).collect();
        }
        let writer = tap_lines(taps.len(), dtype, by_channel && self.is_depthwise)?;
        let stream = (inputs.len() + writer.lines.len()).checked_sub(1).ok_or("a sum of nothing")?;
        let dims: Vec<u64> = stored.iter().map(|letter| size(*letter)).collect();
        let work = Work::Chain { inputs, lines: writer.lines, streams: vec![stream] };
        let view = View::whole(self.made(name, &dims, dtype, work), &dims);
        let order = out.iter().map(|letter| stored.iter().position(|known| known == letter));
        let order = order.collect::<Option<Vec<usize>>>().ok_or("letters")?;
        view.transposed(&order).ok_or_else(|| "letters".to_string())
    }

    /// An operand of taps that is spread over some axes, with the elements of each tap one after the other:
    /// they come once for all of these axes, in one run.
    fn laid_taps(
        &mut self,
        name: &str,
        from: &Lettered,
        summed: &[u8],
        stored: &[u8],
        by_channel: bool,
    ) -> Lowered<Lettered> {
        let own = |letter: &&u8| from.has(**letter) && from.stride(**letter) != 0;
        let spread = stored.iter().any(|letter| !from.has(*letter));
        let letters: Vec<u8> = summed.iter().filter(own).chain(stored.iter().filter(own)).copied().collect();
        let same =
            || Lettered { letters: from.letters.clone(), view: from.view.clone(), four_bits: from.four_bits };
        let stays = self.is_constant(&from.view) && !by_channel;
        if !spread || stays || letters.is_empty() {
            return Ok(same());
        }
        let Some(view) = from.ordered(&letters) else { return Ok(same()) };
        let value = self.plain(&view, &format!("{name}.taps"))?;
        Ok(Lettered { letters, view: View::whole(value, &view.dims()), four_bits: false })
    }

    /// Products that nothing is summed over: the vector engine multiplies in f32.
    fn products(&mut self, name: &str, operands: [&Lettered; 2], out: &[u8], dtype: Dtype) -> Lowered<View> {
        let size = |letter: u8| operands[0].size(letter).max(operands[1].size(letter));
        let dims: Vec<u64> = out.iter().map(|letter| size(*letter)).collect();
        let inputs = operands.map(|from| {
            let of = |letter: &u8| from.letters.iter().position(|known| known == letter);
            let stride =
                |letter: &u8| of(letter).and_then(|at| from.view.axes.get(at)).map_or(0, |axis| axis.1);
            let axes = out.iter().map(|letter| (size(*letter), stride(letter))).collect();
            View { axes, ..from.view.clone() }
        });
        let mut writer = Writer::new(2);
        let stream = writer.binary(Binary::Mul, dtype, Arg::Stream(0), Arg::Stream(1))?;
        let work = Work::Chain { inputs: inputs.to_vec(), lines: writer.lines, streams: vec![stream] };
        Ok(View::whole(self.made(name, &dims, dtype, work), &dims))
    }

    /// A sum of products for each position of a batch alone: the contraction engine has nothing to share, so
    /// that the vector engine multiplies and adds in f32.
    fn dots(
        &mut self,
        name: &str,
        [a, b]: [&Lettered; 2],
        (batch, summed): (&[u8], &[u8]),
        (out, dtype): (&[u8], Dtype),
    ) -> Lowered<View> {
        let order = [batch, summed].concat();
        let mut inputs = Vec::new();
        for from in [a, b] {
            inputs.push(from.ordered(&order).ok_or("letters that no operand has")?);
        }
        let dims: Vec<u64> = order.iter().map(|letter| a.size(*letter)).collect();
        let mut writer = Writer::new(2);
        let stream = writer.binary(Binary::Mul, dtype, Arg::Stream(0), Arg::Stream(1))?;
        let work = Work::Chain { inputs, lines: writer.lines, streams: vec![stream] };
        let products = self.made(&format!("{name}.products"), &dims, dtype, work);
        let one = Lettered { letters: order, view: View::whole(products, &dims), four_bits: false };
        let ones: Vec<u8> = out.iter().copied().filter(|letter| !batch.contains(letter)).collect();
        let mut sums = self.summed(name, one, batch, dtype)?;
        sums.view.axes.extend(ones.iter().map(|_| (1, 0)));
        sums.letters.extend(ones);
        sums.ordered(out).ok_or_else(|| "a letter of the result that no operand has".to_string())
    }

    /// Byte offsets of rows of a size, from their numbers: those below 0 count from the end, others are
    /// clamped.
    fn table(&mut self, name: &str, id: ValueId, size: u64, row_bytes: u64) -> Lowered<(usize, u64)> {
        let word = |number: u64| u32::try_from(number).map_err(|_| "rows beyond 32 bits".to_string());
        let (last, row_bytes) = (word(size.saturating_sub(1))?, word(row_bytes)?);
        word(size.saturating_mul(row_bytes.into()))?;
        if let Held::Known(tensor) = self.held(Some(id))? {
            let inside = tensor.as_ints().iter().map(|number| {
                let row = if *number < 0 { number + signed(size) } else { *number };
                let found = (0..signed(size)).contains(&row);
                found.then_some(row * i64::from(row_bytes)).ok_or_else(|| outside(*number, size))
            });
            let offsets = inside.collect::<Result<Vec<i64>, String>>()?;
            let rows = offsets.len();
            let view =
                self.constant(name, &tilewright_reference::Tensor::ints(Dtype::I32, &[rows], offsets))?;
            return Ok((view.value, rows as u64));
        }
        let view = self.view(id)?;
        let dims = view.dims();
        let mut writer = Writer::new(1);
        let stream = writer.row_offsets(0, word(size)?, last, row_bytes);
        let work = Work::Chain { inputs: vec![view], lines: writer.lines, streams: vec![stream] };
        Ok((self.made(name, &[count(&dims)], Dtype::I32, work), count(&dims)))
    }

    /// Rows of an axis by number.
    pub(super) fn gather(
        &mut self,
        name: &str,
        dims: &[u64],
        axis: usize,
        x: ValueId,
        indices: ValueId,
    ) -> Lowered<View> {
        let view = self.view(x)?;
        let own = view.dims();
        if axis > 0 && has_short_rows(&own, axis, dims) {
            return self.gathered_first(name, dims, axis, &view, indices);
        }
        let from = self.plain(&view, &format!("{name}.from"))?;
        let (before, behind) = (own.get(..axis).ok_or("an axis")?, own.get(axis + 1..).ok_or("an axis")?);
        let around = (count(before), own[axis], count(behind));
        if is_odd_and_many(around, dims) {
            return self.gathered_even(name, (dims, dims.len() - behind.len()), (from, around), indices);
        }
        let (table, _) = self.table(&format!("{name}.table"), indices, own[axis], count(behind) * 4)?;
        let dtype = self.all.values[from].dtype;
        let value = self.made(name, dims, dtype, Work::Gather { from, table, around });
        Ok(View::whole(value, dims))
    }

    /// The same of rows that are no whole granules, and of which many are taken: each with the element behind
    /// it, so that they come through data memory. Axes of the result from `behind` on are those of a row.
    fn gathered_even(
        &mut self,
        name: &str,
        (dims, behind): (&[u64], usize),
        (from, (before, size, inner)): (usize, (u64, u64, u64)),
        indices: ValueId,
    ) -> Lowered<View> {
        let (even, dtype) = (inner + 1, self.all.values[from].dtype);
        let view = View { value: from, first: 0, axes: vec![(before * size, signed(inner)), (even, 1)] };
        let work = Work::Chain { inputs: vec![view], lines: Vec::new(), streams: vec![0] };
        let from = self.made(&format!("{name}.even"), &[before * size, even], dtype, work);
        let (table, taken) = self.table(&format!("{name}.table"), indices, size, even * 4)?;
        let lies = [before, taken, even];
        let around = (before, size, even);
        let value = self.made(name, &lies, dtype, Work::Gather { from, table, around });
        let outer = strides(&dims[..behind]).into_iter().map(|stride| stride * signed(even));
        let axes = outer.chain(strides(&dims[behind..]));
        Ok(View { value, first: 0, axes: dims.iter().copied().zip(axes).collect() })
    }

    /// The same with the axis in front, where what lies in one position of it is long, and behind it again.
    fn gathered_first(
        &mut self,
        name: &str,
        dims: &[u64],
        axis: usize,
        view: &View,
        indices: ValueId,
    ) -> Lowered<View> {
        let own = view.dims();
        let others = (0..own.len()).filter(|other| *other != axis);
        let order: Vec<usize> = std::iter::once(axis).chain(others.clone()).collect();
        let turned = view.transposed(&order).ok_or("an axis")?;
        let from = self.plain(&turned, &format!("{name}.from"))?;
        let inner = others.map(|other| own[other]).product::<u64>();
        let (table, _) = self.table(&format!("{name}.table"), indices, own[axis], inner * 4)?;
        let rows = dims.len() + 1 - own.len();
        let lies: Vec<u64> = [&dims[axis..axis + rows], &dims[..axis], &dims[axis + rows..]].concat();
        let dtype = self.all.values[from].dtype;
        let around = (1, own[axis], inner);
        let value = self.made(name, &lies, dtype, Work::Gather { from, table, around });
        let back: Vec<usize> = (rows..rows + axis).chain(0..rows).chain(rows + axis..dims.len()).collect();
        View::whole(value, &lies).transposed(&back).ok_or_else(|| "axes that do not fit".to_string())
    }

    /// Rows replaced by others.
    pub(super) fn scatter(
        &mut self,
        name: &str,
        dims: &[u64],
        [x, indices, rows]: [ValueId; 3],
    ) -> Lowered<View> {
        let (view, rows) = (self.view(x)?, self.view(rows)?);
        let base = self.plain(&view, &format!("{name}.from"))?;
        let rows = self.plain(&rows, &format!("{name}.rows"))?;
        let (size, inner) = (dims.first().copied().unwrap_or(1), count(dims.get(1..).unwrap_or(&[])));
        let (table, _) = self.table(&format!("{name}.table"), indices, size, inner * 4)?;
        let dtype = self.all.values[base].dtype;
        let value = self.made(name, dims, dtype, Work::Scatter { base, table, rows, inner });
        Ok(View::whole(value, dims))
    }
}
