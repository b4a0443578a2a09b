//! Padding: values with room around what is moved into them.
//!
//! What is padded with one word is written once by the host; a kernel moves what lies inside. Padding of
//! several axes is one move. Positions are added until rows and what lies inside of them begin at whole
//! access units of HBM, which takes others only with a read before.

use std::collections::BTreeMap;

use tilewright_graph::{Dim, Dtype, Node, Op, Subscripts, ValueId};

use super::contract::MOST_TAPS;
use super::depthwise::{FLIT_CHANNELS, LEAST_TAPS};
use super::form::{Former, MOST_ELEMENTS, inverse, memory_order};
use super::kernel::{Origin, Packing, Value, Work};
use super::refusal::Lowered;
use super::view::{View, count, signed, strides};
use super::words::{Arith, Line, Other, Step};

/// Words of a constant that padding is read from, at most.
const MOST_FILL: usize = 1 << 16;
/// Bytes of an access unit of HBM.
const UNIT_BYTES: u64 = 256;
/// Operators between padding and the contraction that it is for, at most.
const MOST_LOOKS: u32 = 8;
/// Elements from which on what is padded is aligned.
const LEAST_ALIGNED: u64 = 1 << 14;

/// Places for a word of which the others are zero, at most.
const MOST_STUFFED: u64 = 8;
/// Elements from which on that pays.
const LEAST_STUFFED: u64 = 1 << 10;

/// Part of the positions of an axis that aligning it may add.
const MOST_MORE: u64 = 2;

/// Something with room around it.
#[derive(Clone, Debug)]
pub(super) struct Pad {
    /// What lies inside.
    base: View,
    /// Positions before and behind it on each axis.
    around: Vec<[u64; 2]>,
    word: u32,
    /// All of it.
    pub(super) view: View,
}

/// How an axis lies: positions before what is inside, and all.
#[derive(Clone, Copy)]
struct Room {
    before: u64,
    all: u64,
}

impl Former<'_> {
    pub(super) fn padded(
        &mut self,
        name: &str,
        dims: &[u64],
        axis: usize,
        [low, high]: [u64; 2],
        (x, fill): (&View, &View),
        packing: Packing,
    ) -> Lowered<View> {
        if low == 0 && high == 0 {
            return Ok(x.clone());
        }
        if let Some(word) = self.word(fill) {
            return self.padded_over(name, axis, [low, high], x, (word, packing));
        }
        let dtype = self.all.values[x.value].dtype;
        let order = memory_order(x);
        let mut edge = |size: u64| {
            let mut sizes = dims.to_vec();
            sizes[axis] = size;
            let view = fill.stretched(&sizes).ok_or_else(|| "padding that is no scalar".to_string())?;
            Ok::<View, String>(self.filled(&view, &order, axis).unwrap_or(view))
        };
        let all = [edge(low)?, x.clone(), edge(high)?];
        let live: Vec<View> = all.into_iter().filter(|view| count(&view.dims()) > 0).collect();
        self.joined(name, dims, dtype, axis, &live)
    }

    /// How a value of the graph lies in the end: narrow, if nothing but contractions without a batch and
    /// depthwise sums read it, through padding and windows.
    pub(super) fn lies(&self, id: ValueId) -> Packing {
        self.contracted(id, MOST_LOOKS).unwrap_or_default()
    }

    fn contracted(&self, id: ValueId, looks: u32) -> Option<Packing> {
        if looks == 0 || self.graph.outputs.iter().any(|output| output.value == id) {
            return None;
        }
        let mut all: Option<Packing> = None;
        for node in self.graph.nodes.iter().filter(|node| node.inputs.contains(&Some(id))) {
            let out = *node.outputs.first()?;
            let own = match &node.op {
                Op::Pad { .. }
                | Op::Window { .. }
                | Op::Transpose(_)
                | Op::Reshape(_)
                | Op::Slice { .. }
                | Op::Convert(_) => self.contracted(out, looks - 1)?,
                Op::Einsum(spec) => {
                    let parsed = Subscripts::parse(spec)?;
                    let [a, b] = &parsed.inputs[..] else { return None };
                    let ty = &self.graph.value(out)?.ty;
                    let batch = |(letter, dim): (&u8, &Dim)| {
                        a.contains(letter) && b.contains(letter) && dim.as_fixed() != Some(1)
                    };
                    if parsed.output.iter().zip(&ty.dims).any(batch) {
                        return self.depthwise(node, &parsed).then_some(Packing::Half);
                    }
                    self.multiplied(ty.dtype, &node.inputs.iter().copied().flatten().collect::<Vec<_>>())
                        .ok()?
                }
                _ => return None,
            };
            if all.is_some_and(|known| known != own) {
                return None;
            }
            all = Some(own);
        }
        all
    }

    /// Whether an einsum is one of few products for each channel of a batch of them, in f32.
    fn depthwise(&self, node: &Node, parsed: &Subscripts) -> bool {
        let [Some(a), Some(b)] = node.inputs[..] else { return false };
        let mut sizes: BTreeMap<u8, u64> = BTreeMap::new();
        for (id, letters) in [a, b].iter().zip(&parsed.inputs) {
            let Some(value) = self.graph.value(*id) else { return false };
            for (letter, dim) in letters.iter().zip(&value.ty.dims) {
                let size = dim.as_fixed().and_then(|size| u64::try_from(size).ok());
                let Some(size) = size else { return false };
                sizes.insert(*letter, size);
            }
        }
        let float = self.graph.value(a).is_some_and(|value| value.ty.dtype == Dtype::F32);
        float && is_depthwise(&sizes, parsed).unwrap_or(false)
    }

    /// The word that a constant is.
    fn word(&self, fill: &View) -> Option<u32> {
        let of = &self.all.values[fill.value];
        let Origin::Constant(words) = &of.origin else { return None };
        words.first().copied().filter(|_| of.count() == 1)
    }

    /// Room around a view that holds one word.
    fn padded_over(
        &mut self,
        name: &str,
        axis: usize,
        [low, high]: [u64; 2],
        x: &View,
        (word, lies): (u32, Packing),
    ) -> Lowered<View> {
        let known = self.pads.get(&x.value).filter(|pad| pad.view == *x && pad.word == word).cloned();
        let (base, mut around) = match known {
            Some(pad) => (pad.base, pad.around),
            None => (x.clone(), vec![[0; 2]; x.axes.len()]),
        };
        let own = around.get_mut(axis).ok_or("an axis that is not there")?;
        *own = [own[0] + low, own[1] + high];
        let order = memory_order(&base);
        let rooms = rooms(&base, &around, &order, UNIT_BYTES / lies.element_bytes());
        let stored: Vec<u64> = order.iter().map(|axis| rooms[*axis].all).collect();
        if count(&stored) > MOST_ELEMENTS {
            return Err(format!("{} elements; at most {MOST_ELEMENTS}", count(&stored)));
        }
        let mut to = vec![0; order.len()];
        for (axis, stride) in order.iter().zip(strides(&stored)) {
            to[*axis] = stride;
        }
        let skipped =
            |of: &dyn Fn(usize) -> u64| (0..to.len()).map(|at| signed(of(at)) * to[at]).sum::<i64>();
        let turned = base.transposed(&order).ok_or("axes that do not fit")?;
        let inside = skipped(&|axis| rooms[axis].before);
        let part = self.part(&turned, inside, &strides(&stored));
        let Value { dtype, packing, origin, .. } = self.all.values[base.value].clone();
        if let Some(view) = self.stuffed(name, (&base, &around), &order, word)? {
            return Ok(view);
        }
        let value = if let Origin::Constant(words) = origin {
            let mut patterns = vec![word; usize::try_from(count(&stored)).map_err(|_| "too many elements")?];
            part.each(|from, to| patterns[to] = words[from]);
            self.value(name, &stored, dtype, Origin::Constant(patterns))
        } else {
            let value = self.made(name, &stored, dtype, Work::Move(vec![part]));
            self.all.values[value].origin = Origin::Filled(word);
            value
        };
        self.all.values[value].packing = packing;
        let first = skipped(&|axis| rooms[axis].before - around[axis][0]);
        let sizes = base.axes.iter().zip(&around).map(|((size, _), [low, high])| size + low + high);
        let view = View { value, first, axes: sizes.zip(to.iter().copied()).collect() };
        self.pads.insert(value, Pad { base, around, word, view: view.clone() });
        Ok(view)
    }

    /// Words between which few others are put, on the innermost axis alone: every word as often as there are
    /// places, under a mask. Transfers would write them one by one.
    fn stuffed(
        &mut self,
        name: &str,
        (base, around): (&View, &[[u64; 2]]),
        order: &[usize],
        word: u32,
    ) -> Lowered<Option<View>> {
        let made = self.all.values[base.value].origin == Origin::Kernel;
        let words = self.all.values[base.value].packing == Packing::Words;
        let padded = |axis: &&usize| around[**axis] != [0; 2];
        let innermost = order.iter().rev().find(|axis| base.axes[**axis].0 > 1 || padded(axis));
        let Some(axis) = innermost.copied().filter(|_| made && words && word == 0) else { return Ok(None) };
        let [low, high] = around[axis];
        let size = low + 1 + high;
        if base.axes[axis].0 != 1 || size > MOST_STUFFED || order.iter().filter(padded).count() != 1 {
            return Ok(None);
        }
        let mut dims = base.dims();
        dims[axis] = size;
        if count(&dims) < LEAST_STUFFED {
            return Ok(None);
        }
        let mut view = base.transposed(order).ok_or("axes that do not fit")?;
        let at = order.iter().position(|known| *known == axis).ok_or("an axis that is not there")?;
        view.axes[at] = (size, 0);
        let mask = (0..size).map(|place| if place == low { u32::MAX } else { 0 }).collect();
        let mask = self.value("mask", &[size], Dtype::I32, Origin::Constant(mask));
        let mut mask = View { value: mask, first: 0, axes: vec![(1, 0); order.len()] };
        for (at, (size, _)) in view.axes.iter().enumerate() {
            mask.axes[at] = (*size, 0);
        }
        mask.axes[at].1 = 1;
        let stored = view.dims();
        let step = Step::With { arith: Arith::And, other: Other::Stream(1), reversed: false };
        let lines = vec![Line { input: 0, step }];
        let work = Work::Chain { inputs: vec![view, mask], lines, streams: vec![2] };
        let dtype = self.all.values[base.value].dtype;
        let made = View::whole(self.made(name, &stored, dtype, work), &stored);
        made.transposed(&inverse(order)).ok_or_else(|| "axes that do not fit".to_string()).map(Some)
    }

    /// A value as it is seen before windows: what was padded without what aligns it, or all of it.
    pub(super) fn source(&self, value: usize) -> View {
        match self.pads.get(&value) {
            Some(pad) => pad.view.clone(),
            None => View::whole(value, &self.all.values[value].dims),
        }
    }

    /// A constant that is spread over axes, with a copy for each position from an axis on, so that it is read
    /// in long runs.
    fn filled(&mut self, view: &View, order: &[usize], axis: usize) -> Option<View> {
        let of = &self.all.values[view.value];
        let Origin::Constant(words) = &of.origin else { return None };
        let word = *words.first().filter(|_| of.count() == 1)?;
        let at = order.iter().position(|known| *known == axis)?;
        let (dims, dtype): (Vec<u64>, Dtype) = (view.dims(), of.dtype);
        let inner: Vec<u64> = order[at..].iter().map(|axis| dims[*axis]).collect();
        let size = usize::try_from(count(&inner)).ok().filter(|size| (2..=MOST_FILL).contains(size))?;
        let value = self.value("fill", &[count(&inner)], dtype, Origin::Constant(vec![word; size]));
        let mut axes: Vec<(u64, i64)> = dims.iter().map(|size| (*size, 0)).collect();
        for (axis, stride) in order[at..].iter().zip(strides(&inner)) {
            axes[*axis].1 = stride;
        }
        Some(View { value, first: 0, axes })
    }
}

/// Whether a sum has as many taps and channels as the contraction engine takes, and shares no operand.
fn is_depthwise(sizes: &BTreeMap<u8, u64>, parsed: &Subscripts) -> Option<bool> {
    let [a, b] = &parsed.inputs[..] else { return None };
    let count = |of: &dyn Fn(u8) -> bool| {
        let mut own = sizes.iter().filter(|(letter, _)| of(**letter));
        own.try_fold(1_u64, |all, (_, size)| all.checked_mul(*size))
    };
    let out = |letter: u8| parsed.output.contains(&letter);
    let channels = count(&|letter| a.contains(&letter) && b.contains(&letter) && out(letter))?;
    let own = [(a, b), (b, a)].map(|(own, other)| {
        count(&|letter| own.contains(&letter) && !other.contains(&letter) && out(letter))
    });
    let taps = count(&|letter| !out(letter))?;
    let few = (LEAST_TAPS..=MOST_TAPS).contains(&taps);
    Some(channels.is_multiple_of(FLIT_CHANNELS) && own.contains(&Some(1)) && few)
}

/// Room of every axis, innermost first: of those that are padded as much as aligns them to access units of so
/// many elements, if there is much.
fn rooms(base: &View, around: &[[u64; 2]], order: &[usize], access_unit: u64) -> Vec<Room> {
    let mut all: Vec<Room> = base.axes.iter().map(|(size, _)| Room { before: 0, all: *size }).collect();
    let aligns = count(&base.dims()) >= LEAST_ALIGNED;
    let mut inner = 1;
    for axis in order.iter().rev().copied() {
        let [low, high] = around[axis];
        let room = |unit: u64| {
            let whole = |least: u64| {
                (least..least + unit).find(|at| (at * inner).is_multiple_of(unit)).unwrap_or(least)
            };
            let before = if low > 0 { whole(low) } else { 0 };
            Room { before, all: whole(before + base.axes[axis].0 + high) }
        };
        let asked = low + base.axes[axis].0 + high;
        let aligned = room(if aligns && low + high > 0 { access_unit } else { 1 });
        let most = asked + asked / MOST_MORE;
        // Rows begin at whole units at least, if not what lies in them.
        let rows = Room { before: low, all: asked.next_multiple_of(access_unit.max(1)) };
        let is_row = aligns && inner == 1 && low + high > 0 && rows.all <= most;
        // Few positions are left as they are, and an axis around them begins at whole units.
        all[axis] = match aligned.all <= most {
            true => aligned,
            false if is_row => rows,
            false => room(1),
        };
        inner *= all[axis].all;
    }
    all
}
