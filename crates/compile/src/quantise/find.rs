//! Which contractions of a graph are quantised, and the values that become narrow for them.

use std::collections::{BTreeMap, BTreeSet};

use tilewright_graph::{Data, Dtype, Graph, Node, Op, Subscripts, Type, ValueId};

use super::types::{Class, Format, GraphTypes, Ruled, TypesError};
use crate::general::is_vector_work;
use crate::general::kernel::{Packing, Sizes};

/// An operand of a contraction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Operand {
    /// It depends on no input.
    Constant,
    /// A value that is computed, and the nodes that place its elements: the last is the nearest to it.
    Computed {
        /// The value.
        source: ValueId,
        /// By number in the graph, the nearest to the contraction first.
        nodes: Vec<usize>,
    },
}

/// A contraction that is quantised.
#[derive(Clone, Debug)]
pub(super) struct Contraction {
    /// Letters of its operands and of its result.
    pub(super) letters: Subscripts,
    pub(super) operands: [Operand; 2],
    /// What its operands become.
    pub(super) format: Format,
}

/// What was found.
pub(super) struct Found {
    /// By the number of their node.
    pub(super) chosen: BTreeMap<usize, Contraction>,
    /// Contractions that the engine takes.
    pub(super) all: usize,
    /// What is said of contractions in another type than was asked for.
    pub(super) notes: Vec<String>,
}

/// Letters, operands and elements of a sum of a contraction.
type ContractionParts = (Subscripts, [Operand; 2], u64);

/// What is known of a graph.
pub(super) struct ContractionFinder<'g> {
    graph: &'g Graph,
    makers: BTreeMap<ValueId, usize>,
    constants: BTreeSet<ValueId>,
}

impl<'g> ContractionFinder<'g> {
    fn new(graph: &'g Graph) -> ContractionFinder<'g> {
        let mut constants: BTreeSet<ValueId> =
            graph.constants.iter().map(|constant| constant.value).collect();
        let mut makers = BTreeMap::new();
        for (number, node) in graph.nodes.iter().enumerate() {
            makers.extend(node.outputs.iter().map(|id| (*id, number)));
            if node.inputs.iter().flatten().all(|id| constants.contains(id)) {
                constants.extend(node.outputs.iter().copied());
            }
        }
        ContractionFinder { graph, makers, constants }
    }

    /// Where an operand is made.
    fn operand(&self, id: ValueId) -> Operand {
        if self.constants.contains(&id) {
            return Operand::Constant;
        }
        let (mut source, mut nodes) = (id, Vec::new());
        while let Some(number) = self.makers.get(&source).copied() {
            let node = &self.graph.nodes[number];
            let Some(before) = self.placed(node) else { break };
            nodes.push(number);
            source = before;
        }
        Operand::Computed { source, nodes }
    }

    /// The value whose elements a node only places, or pads with zeros.
    fn placed(&self, node: &Node) -> Option<ValueId> {
        let before = node.inputs.first().copied().flatten()?;
        let places = match &node.op {
            Op::Reshape(_) | Op::Transpose(_) | Op::Broadcast(_) | Op::Slice { .. } | Op::Window { .. } => {
                true
            }
            Op::Pad { .. } => node.inputs.get(1).copied().flatten().is_some_and(|fill| self.is_zero(fill)),
            _ => false,
        };
        (places && !self.constants.contains(&before)).then_some(before)
    }

    fn is_zero(&self, id: ValueId) -> bool {
        is_number(self.graph, id, 0.0)
    }

    /// Letters, operands and elements of a sum of a contraction that the engine takes.
    fn contraction(&self, node: &Node) -> Option<ContractionParts> {
        let (Op::Einsum(spec), [Some(a), Some(b)]) = (&node.op, &node.inputs[..]) else { return None };
        let letters = Subscripts::parse(spec)?;
        let [of_a, of_b] = &letters.inputs[..] else { return None };
        let unlike = |letters: &[u8]| letters.iter().collect::<BTreeSet<_>>().len() == letters.len();
        let types = [*a, *b].map(|id| self.graph.value(id).map(|value| &value.ty));
        let [Some(ty_a), Some(ty_b)] = types else { return None };
        let floats = ty_a.dtype == Dtype::F32 && ty_b.dtype == Dtype::F32;
        if !floats || !unlike(of_a) || !unlike(of_b) {
            return None;
        }
        // Open sizes as they are at most, which is what is compiled.
        let most = |ty: &Type| {
            let sizes = ty.dims.iter().map(|dim| i64::try_from(dim.range(&self.graph.axes).1).ok());
            sizes.collect::<Option<Vec<i64>>>()
        };
        let (dims_a, dims_b) = (most(ty_a)?, most(ty_b)?);
        let size = |wanted: &dyn Fn(u8) -> bool, own: &[u8], dims: &[i64]| {
            let sizes = own.iter().zip(dims).filter(|(letter, _)| wanted(**letter));
            sizes.map(|(_, size)| u64::try_from(*size).unwrap_or(0)).fold(1, u64::saturating_mul)
        };
        let (in_a, in_b) = (|l: u8| of_a.contains(&l), |l: u8| of_b.contains(&l));
        let kept = |l: u8| letters.output.contains(&l);
        // What only one operand sums over is another kernel.
        if of_a.iter().any(|l| !kept(*l) && !in_b(*l)) || of_b.iter().any(|l| !kept(*l) && !in_a(*l)) {
            return None;
        }
        let sizes = Sizes::new(
            size(&|l| in_b(l) && kept(l), of_a, &dims_a),
            size(&|l| !in_b(l), of_a, &dims_a),
            size(&|l| !in_a(l), of_b, &dims_b),
            size(&|l| in_b(l) && !kept(l), of_a, &dims_a),
            Packing::Half,
        );
        if is_vector_work(sizes) {
            return None;
        }
        let operands = [self.operand(*a), self.operand(*b)];
        let computed = operands.iter().any(|operand| *operand != Operand::Constant);
        computed.then_some((letters, operands, sizes.summed))
    }

    /// A contraction as rules see it, but for what comes behind it.
    fn ruled(&self, node: &Node, operands: &[Operand; 2]) -> Ruled<'g> {
        let name = node.outputs.first().and_then(|out| self.graph.value(*out));
        let mut classes = BTreeSet::new();
        let windows = |operand: &Operand| match operand {
            Operand::Constant => false,
            Operand::Computed { nodes, .. } => {
                nodes.iter().any(|number| matches!(self.graph.nodes[*number].op, Op::Window { .. }))
            }
        };
        if operands.contains(&Operand::Constant) {
            classes.insert(Class::Weights);
            classes.extend(operands.iter().any(windows).then_some(Class::Convolution));
        } else {
            classes.insert(Class::Attention);
        }
        Ruled { name: name.map_or("", |value| value.name.as_str()), classes }
    }

    /// Every contraction that the engine takes, by the number of its node.
    fn all(&self) -> BTreeMap<usize, (ContractionParts, Ruled<'g>)> {
        let mut all = BTreeMap::new();
        for (number, node) in self.graph.nodes.iter().enumerate() {
            let Some(found) = self.contraction(node) else { continue };
            let ruled = self.ruled(node, &found.1);
            all.insert(number, (found, ruled));
        }
        let mut feeds = BTreeSet::new();
        for (number, node) in self.graph.nodes.iter().enumerate().rev() {
            let is_read = node.outputs.iter().any(|out| feeds.contains(out));
            if let Some((_, ruled)) = all.get_mut(&number)
                && !is_read
            {
                ruled.classes.insert(Class::Head);
            }
            if is_read || all.contains_key(&number) {
                feeds.extend(node.inputs.iter().flatten().copied());
            }
        }
        all
    }
}

/// Whether a value is a constant of this number everywhere.
pub(super) fn is_number(graph: &Graph, id: ValueId, number: f32) -> bool {
    let data = graph.constants.iter().find(|constant| constant.value == id).map(|constant| &constant.data);
    match data {
        // Minus zero is zero too.
        Some(Data::Floats(patterns)) => {
            !patterns.is_empty() && patterns.iter().all(|pattern| f32::from_bits(*pattern) == number)
        }
        _ => false,
    }
}

/// Elements of which sums with constants of four bits have a multiple: transfers move eight bytes at least.
const WHOLE_SUM: u64 = 16;

/// Contractions that the engine takes, and those that are to be narrow.
pub(super) fn contractions(graph: &Graph, types: &GraphTypes) -> Found {
    let mut found = Found { chosen: BTreeMap::new(), all: 0, notes: Vec::new() };
    for (number, ((letters, operands, summed), ruled)) in ContractionFinder::new(graph).all() {
        found.all += 1;
        let Some(mut format) = types.format(&ruled) else { continue };
        if format == Format::Weights4 && !summed.is_multiple_of(WHOLE_SUM) {
            format = Format::Int8;
            found.notes.push(format!(
                "`{}` in int8: a sum of {summed} elements; with four bits sums are multiples of {WHOLE_SUM}",
                ruled.name
            ));
        }
        found.chosen.insert(number, Contraction { letters, operands, format });
    }
    found
}

/// Refuses rules that are about no contraction.
pub(super) fn check(graph: &Graph, types: &GraphTypes) -> Result<(), TypesError> {
    let all: Vec<Ruled<'_>> = ContractionFinder::new(graph).all().into_values().map(|one| one.1).collect();
    types.check(&all)
}
