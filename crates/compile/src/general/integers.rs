//! Integers of 64 bits in words of the chip, and as floats what only floats have units for: quotients, and
//! products of bytes with their zero points taken off. All where the elements of inputs leave room: the host
//! refuses inputs beyond the limit that this finds. What does not fit for sure stays as it is, and is refused
//! where it is lowered.

use std::collections::{BTreeMap, BTreeSet};

use tilewright_base::invariant::OrBroken;
use tilewright_graph::graph::Constant;
use tilewright_graph::infer::BuildResult;
use tilewright_graph::{
    Binary, Builder, Dtype, Fold, Graph, Node, Op, Subscripts, TensorStore, Unary, ValueId,
};
use tilewright_reference::Tensor;

use super::constants::folded;
use super::elementwise::{LONG_INTEGERS, divided};
use super::integer_ranges::{IntegerRanges, WORDS};
use super::refusal::{Refusal, find};

/// Bits of the limits of inputs that are tried, the largest first: inputs of 15 bits are not worth a program.
const LIMIT_BITS: std::ops::RangeInclusive<u32> = 16..=31;

/// Integers below it are exact as f32, and so are the integer parts of their quotients: one that is no
/// integer is farther from the next than the quotient is rounded.
const EXACT: i128 = 1 << 24;

/// Integers up to it are exact as bf16.
const EXACT_BF16: i128 = 1 << 8;

/// Elements of bf16 that begin and end at access units of HBM.
const WHOLE: i128 = 128;

/// Parts of a sum at most, each of which is exact as f32.
const MOST_PARTS: i128 = 64;

/// A graph whose integers fit words.
#[derive(Clone, Debug)]
pub(super) struct WordGraph {
    pub(super) graph: Graph,
    /// How far from zero elements of integer inputs are at most.
    pub(super) most: u64,
}

/// The same graph of primitives in integers of 32 bits; `None` if it has no arithmetic of 64 bits and divides
/// no integers, or nothing says that results fit.
pub(super) fn word_integers(graph: &Graph, store: &TensorStore) -> Option<WordGraph> {
    if !graph.axes.is_empty() {
        return None;
    }
    let plain = IntegerRanges::new(graph, &[], WORDS.1);
    let may_gain = |node: &Node| needs(graph, node) || is_product(graph, node) && !plain.are_bytes(node);
    if !graph.nodes.iter().any(may_gain) {
        return None;
    }
    let (known, decided) = folded(graph, store).ok()?;
    let live: Vec<&Node> =
        graph.nodes.iter().filter(|node| node.outputs.iter().any(|id| !decided.contains(id))).collect();
    let ranges = IntegerRanges::new(graph, &known, WORDS.1);
    let gains = |node: &&Node| needs(graph, node) || ranges.parts(graph, node).is_some();
    if !live.iter().any(gains) {
        return None;
    }
    let most =
        LIMIT_BITS.rev().map(|bits| (1_i128 << bits) - 1).find(|most| fits(graph, &known, &live, *most))?;
    let ranges = IntegerRanges::new(graph, &known, most);
    let graph = rewritten(graph, (&ranges, &decided)).ok()?;
    Some(WordGraph { graph, most: u64::try_from(most).or_broken("a limit is above zero") })
}

fn dtype(graph: &Graph, id: Option<ValueId>) -> Option<Dtype> {
    Some(graph.value(id?)?.ty.dtype)
}

/// Whether a node computes integers of 64 bits that no operand has.
fn is_wide(graph: &Graph, node: &Node) -> bool {
    let wide = dtype(graph, node.outputs.first().copied()) == Some(Dtype::I64);
    let computes = match &node.op {
        Op::Unary(_) | Op::Einsum(_) | Op::Scatter { fold: Some(_) } => true,
        Op::Binary(op) => !matches!(op, Binary::Max | Binary::Min),
        Op::Reduce { fold, .. } => matches!(fold, Fold::Sum | Fold::Prod),
        _ => false,
    };
    wide && computes
}

fn is_division(graph: &Graph, node: &Node) -> bool {
    let divides = matches!(node.op, Op::Binary(Binary::Div | Binary::Mod | Binary::Rem));
    divides && dtype(graph, node.outputs.first().copied()).is_some_and(|dtype| !dtype.is_float())
}

/// Whether a node has no units for its integers.
fn needs(graph: &Graph, node: &Node) -> bool {
    is_wide(graph, node) || is_division(graph, node)
}

/// Whether a node sums products of integers.
fn is_product(graph: &Graph, node: &Node) -> bool {
    let of_integers = dtype(graph, node.outputs.first().copied()).is_some_and(|dtype| !dtype.is_float());
    matches!(node.op, Op::Einsum(_)) && of_integers
}

/// A sum of products in parts that are exact as floats: the axis of each operand that is cut, and how many of
/// its positions are a part.
#[derive(Clone, Copy, Debug)]
struct ExactParts {
    axes: [usize; 2],
    size: i64,
    each: i64,
}

impl IntegerRanges<'_> {
    /// Whether all operands of a node are integers of i8, which the engine multiplies as they are.
    fn are_bytes(&self, node: &Node) -> bool {
        node.inputs.iter().flatten().all(|id| self.of(*id).0 >= -128 && self.of(*id).1 <= 127)
    }

    /// How a sum of products of integers comes in exact parts; `None` if they are bytes, or too large.
    fn parts(&self, graph: &Graph, node: &Node) -> Option<ExactParts> {
        let (Op::Einsum(spec), [Some(x), Some(y)]) = (&node.op, &node.inputs[..]) else { return None };
        let far = [x, y].map(|id| self.of(*id).0.abs().max(self.of(*id).1.abs()));
        let exact = far.iter().all(|far| *far <= EXACT_BF16);
        if !is_product(graph, node) || self.are_bytes(node) || !exact {
            return None;
        }
        let parsed = Subscripts::parse(spec)?;
        let [first, second] = &parsed.inputs[..] else { return None };
        let size = |id: &ValueId, at: usize| graph.value(*id)?.ty.dims.get(at)?.as_fixed();
        let mut summed = BTreeMap::new();
        for (letters, id) in [(first, x), (second, y)] {
            for (at, letter) in letters.iter().enumerate().filter(|(_, one)| !parsed.output.contains(one)) {
                summed.insert(*letter, size(id, at)?);
            }
        }
        let shared = summed.iter().filter(|(letter, _)| first.contains(letter) && second.contains(letter));
        let (letter, size) = shared.max_by_key(|(_, size)| **size)?;
        let others: i128 =
            summed.iter().filter(|one| one.0 != letter).map(|one| i128::from(*one.1)).product();
        let each = EXACT / (others * far[0] * far[1]).max(1);
        // Parts begin at whole granules of the DMA engine, where they are longer than that.
        let each = if each < WHOLE { each } else { each / WHOLE * WHOLE }.min(i128::from(*size));
        if each == 0 || i128::from(*size) > MOST_PARTS * each {
            return None;
        }
        let axis = |letters: &[u8]| letters.iter().position(|one| one == letter);
        Some(ExactParts { axes: [axis(first)?, axis(second)?], size: *size, each: i64::try_from(each).ok()? })
    }
}

/// Whether words hold all that is computed, if elements of inputs are at most `most` away from zero.
fn fits(graph: &Graph, known: &[Option<Tensor>], live: &[&Node], most: i128) -> bool {
    first_unfit(graph, known, live, most).is_none()
}

/// The first node whose operands or results words do not hold for sure.
fn first_unfit<'g>(
    graph: &Graph,
    known: &[Option<Tensor>],
    live: &[&'g Node],
    most: i128,
) -> Option<&'g Node> {
    let ranges = IntegerRanges::new(graph, known, most);
    let within = |id: Option<ValueId>, (low, high): (i128, i128)| {
        id.is_some_and(|id| ranges.of(id).0 >= low && ranges.of(id).1 <= high)
    };
    let wide = |id: &Option<ValueId>| dtype(graph, *id) == Some(Dtype::I64);
    let is_unfit = |node: &&&Node| {
        let holds = node.inputs.iter().filter(|id| wide(id)).all(|id| within(*id, WORDS))
            && (!is_wide(graph, node) || within(node.outputs.first().copied(), WORDS));
        let exact = (1 - EXACT, EXACT - 1);
        !holds || is_division(graph, node) && !node.inputs.iter().all(|id| within(*id, exact))
    };
    live.iter().find(is_unfit).copied()
}

/// A refusal of integers of 64 bits as one of the node that makes them too large for words, which leaves all
/// others as they are; any other refusal as it is.
pub(super) fn named_unfit(graph: &Graph, store: &TensorStore, refused: Refusal) -> Refusal {
    let unfit = find(graph, &refused.node).filter(|node| needs(graph, node)).and_then(|_| {
        let (known, decided) = folded(graph, store).ok()?;
        let is_live = |node: &&Node| node.outputs.iter().any(|id| !decided.contains(id));
        let live: Vec<&Node> = graph.nodes.iter().filter(is_live).collect();
        let node = first_unfit(graph, &known, &live, (1 << LIMIT_BITS.start()) - 1)?;
        Some((node, graph.value(node.outputs.first().copied()?)?.name.clone()))
    });
    let Some((node, name)) = unfit.filter(|(_, name)| *name != refused.node) else { return refused };
    let op = node.op.name();
    let why = if is_division(graph, node) {
        divided(op)
    } else if is_wide(graph, node) {
        LONG_INTEGERS.to_string()
    } else {
        "an integer beyond 32 bits".to_string()
    };
    Refusal { node: name, op: op.to_string(), why }
}

/// The graph with words for integers of 64 bits.
fn rewritten(
    graph: &Graph,
    (ranges, decided): (&IntegerRanges<'_>, &BTreeSet<ValueId>),
) -> BuildResult<Graph> {
    let mut b = Builder::new(graph.name.clone());
    graph.values.iter().for_each(|value| b.reserve(&value.name));
    let new = vec![None; graph.values.len()];
    let mut pass = WordPass { graph, ranges, decided, b, new, words: BTreeMap::new() };
    for id in &graph.inputs {
        let Some(value) = graph.value(*id) else { continue };
        let input = pass.b.input(&value.name, value.ty.clone())?;
        pass.set(*id, input);
    }
    for Constant { value: id, data } in &graph.constants {
        let Some(value) = graph.value(*id) else { continue };
        let new = pass.b.called(value.name.clone()).constant(value.ty.clone(), data.clone())?;
        pass.set(*id, new);
    }
    graph.nodes.iter().try_for_each(|node| pass.node(node))?;
    for output in &graph.outputs {
        let value = pass.get(output.value);
        let value = match dtype(graph, Some(output.value)) {
            Some(dtype) => pass.b.convert(value, dtype)?,
            None => value,
        };
        pass.b.output(&output.name, value);
    }
    for state in &graph.states {
        let input = pass.get(state.input);
        pass.b.state(input, state.output);
    }
    Ok(pass.b.finish())
}

struct WordPass<'g> {
    graph: &'g Graph,
    ranges: &'g IntegerRanges<'g>,
    decided: &'g BTreeSet<ValueId>,
    b: Builder,
    new: Vec<Option<ValueId>>,
    /// Words of what constants alone decide, which is computed in 64 bits before.
    words: BTreeMap<ValueId, ValueId>,
}

impl WordPass<'_> {
    fn set(&mut self, old: ValueId, new: ValueId) {
        if let Some(slot) = self.new.get_mut(old.index()) {
            *slot = Some(new);
        }
    }

    fn get(&self, old: ValueId) -> ValueId {
        self.new.get(old.index()).copied().flatten().or_broken("nodes come behind what they read")
    }

    /// A value as words, if it has integers of 64 bits.
    fn word(&mut self, old: ValueId) -> BuildResult<ValueId> {
        let value = self.get(old);
        if self.b.dtype(value) != Dtype::I64 {
            return Ok(value);
        }
        if let Some(word) = self.words.get(&value) {
            return Ok(*word);
        }
        let word = self.b.convert(value, Dtype::I32)?;
        self.words.insert(value, word);
        Ok(word)
    }

    fn node(&mut self, node: &Node) -> BuildResult<()> {
        let Some(output) = node.outputs.first().copied() else { return Ok(()) };
        let is_live = !self.decided.contains(&output);
        let ids = node.inputs.iter().flatten();
        let inputs = ids.map(|id| if is_live { self.word(*id) } else { Ok(self.get(*id)) });
        let inputs: Vec<ValueId> = inputs.collect::<BuildResult<_>>()?;
        let kept = |dtype: Dtype| if is_live && dtype == Dtype::I64 { Dtype::I32 } else { dtype };
        let before = self.b.graph().values.len();
        let parts = self.ranges.parts(self.graph, node).filter(|_| is_live);
        let made = match (&node.op, &inputs[..]) {
            (Op::Binary(op), [x, y]) if is_live && is_division(self.graph, node) => {
                let divisor = node.inputs.get(1).copied().flatten().map(|id| self.ranges.of(id));
                let is_zero = divisor.is_none_or(|(low, high)| low <= 0 && high >= 0);
                self.division(*op, (*x, *y), is_zero)?
            }
            (Op::Einsum(spec), [x, y]) if let Some(parts) = parts => self.product(spec, [*x, *y], parts)?,
            (Op::Convert(dtype), [x]) => self.b.convert(*x, kept(*dtype))?,
            (Op::Iota { dtype, dims, axis }, _) => self.b.iota(kept(*dtype), dims, *axis)?,
            (op, inputs) => self.b.emit(op.clone(), inputs)?,
        };
        if made.index() >= before {
            let name = self.graph.value(output).map_or("", |value| &value.name);
            self.b.rename(made, name);
        }
        self.set(output, made);
        Ok(())
    }

    /// A sum of products by way of floats, in parts that are exact.
    fn product(&mut self, spec: &str, operands: [ValueId; 2], parts: ExactParts) -> BuildResult<ValueId> {
        let ExactParts { axes, size, each } = parts;
        let b = &mut self.b;
        let mut floats = Vec::new();
        for operand in operands {
            floats.push(b.convert(operand, Dtype::F32)?);
        }
        let mut sum = None;
        let mut first = 0;
        while first < size {
            let count = each.min(size - first);
            let mut cut = Vec::new();
            for (float, axis) in floats.iter().zip(axes) {
                let whole = count == size;
                cut.push(if whole { *float } else { b.slice(*float, axis, first.into(), count.into(), 1)? });
            }
            let part = b.einsum(spec, &cut)?;
            let part = b.convert(part, Dtype::I32)?;
            sum = Some(match sum {
                Some(sum) => b.add(sum, part)?,
                None => part,
            });
            first += count;
        }
        Ok(sum.or_broken("a sum has a part"))
    }

    /// Quotients cut towards zero or their rests, by way of floats; zero where a divisor is, if one may be.
    fn division(&mut self, op: Binary, (x, y): (ValueId, ValueId), is_zero: bool) -> BuildResult<ValueId> {
        let own = self.b.dtype(x);
        let (x, y) = (self.b.convert(x, Dtype::I32)?, self.b.convert(y, Dtype::I32)?);
        let made = self.quotient(op, x, y)?;
        if !is_zero {
            return self.b.convert(made, own);
        }
        let (zero, none) = (self.b.scalar(Dtype::I32, 0.0)?, self.b.with(Binary::Eq, y, 0.0)?);
        let made = self.b.select(none, zero, made)?;
        self.b.convert(made, own)
    }

    /// The same where no divisor is zero.
    fn quotient(&mut self, op: Binary, x: ValueId, y: ValueId) -> BuildResult<ValueId> {
        let b = &mut self.b;
        let (dividend, divisor) = (b.convert(x, Dtype::F32)?, b.convert(y, Dtype::F32)?);
        let quotient = b.div(dividend, divisor)?;
        let quotient = b.convert(quotient, Dtype::I32)?;
        if op == Binary::Div {
            return Ok(quotient);
        }
        let product = b.mul(quotient, y)?;
        let rest = b.sub(x, product)?;
        if op == Binary::Rem {
            return Ok(rest);
        }
        // With the sign of the divisor: where the signs differ, one divisor more.
        let signs = (b.unary(Unary::Sign, rest)?, b.unary(Unary::Sign, y)?);
        let both = b.mul(signs.0, signs.1)?;
        let differ = b.with(Binary::Lt, both, 0.0)?;
        let more = b.add(rest, y)?;
        b.select(differ, more, rest)
    }
}
