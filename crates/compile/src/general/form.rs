//! A graph of primitives as kernels (stage 2): shapes become views, elementwise operators chains, einsums
//! contractions.

use std::collections::BTreeMap;

use tilewright_graph::{Dim, Dtype, Graph, Node, Op, TensorStore, ValueId};
use tilewright_num::RuleSet;
use tilewright_reference::Tensor;
use tilewright_tcp_isa::vector::FLIT_WORDS;

use super::constants::folded;
use super::elementwise::{Arg, Known, Writer};
use super::input_order::input_order;
use super::kernel::{HostBox, Kernel, Kernels, Origin, Packing, Part, Result as Output, Value, Work};
use super::pad::Pad;
use super::refusal::{Lowered, Refusal};
use super::tensors::words;
use super::view::{View, count, strides};
use super::without::{Choice, Without};

/// Elements of a value, at most.
pub(super) const MOST_ELEMENTS: u64 = 1 << 28;

/// What is known of a value of the graph.
#[derive(Clone, Debug)]
pub(super) enum Held {
    /// Its elements.
    Known(Tensor),
    /// Where they are.
    Seen(View),
}

/// Kernels in the making.
pub(super) struct Former<'g> {
    pub(super) graph: &'g Graph,
    pub(super) all: Kernels,
    held: Vec<Option<Held>>,
    /// Constants that have a place.
    placed: BTreeMap<ValueId, View>,
    /// Narrow values by the value that they are of and how they lie.
    narrows: BTreeMap<(usize, Packing), usize>,
    /// Node of each value.
    pub(super) makers: Vec<Option<usize>>,
    /// What was padded, by the value that has it.
    pub(super) pads: BTreeMap<usize, Pad>,
    /// Inputs lie in the order of their axes.
    keeps_order: bool,
    /// Depthwise sums go through the contraction engine.
    pub(super) is_depthwise: bool,
    /// Windows of few channels are read in whole flits.
    pub(super) has_runs: bool,
}

/// The kernels of a graph of primitives with fixed sizes. Inputs lie as windows are read, unless padding by
/// the host is left out.
///
/// # Errors
/// The first node that the chip does not compute.
pub(super) fn kernels(graph: &Graph, store: &TensorStore, without: Without) -> Result<Kernels, Refusal> {
    let whole = |why: String| Refusal { node: graph.name.clone(), op: "graph".to_string(), why };
    if let Some(axis) = graph.axes.first() {
        return Err(whole(format!("the size `{}` is open; give it a number with --dims", axis.name)));
    }
    let (tensors, known) = folded(graph, store).map_err(whole)?;
    let held = tensors.into_iter().map(|tensor| tensor.map(Held::Known)).collect();
    let all = Kernels { name: graph.name.clone(), ..Kernels::default() };
    let mut makers = vec![None; graph.values.len()];
    for (number, node) in graph.nodes.iter().enumerate() {
        node.outputs.iter().for_each(|id| makers[id.index()] = Some(number));
    }
    let (placed, narrows, pads) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let mut former = Former {
        graph,
        all,
        held,
        placed,
        narrows,
        makers,
        pads,
        keeps_order: without.has(Choice::Host),
        is_depthwise: !without.has(Choice::Depthwise),
        has_runs: !without.has(Choice::Runs),
    };
    for id in &graph.inputs {
        former.input(*id).map_err(whole)?;
    }
    for node in graph.nodes.iter().filter(|node| node.outputs.iter().any(|id| !known.contains(id))) {
        former.node(node).map_err(|why| Refusal {
            node: named(graph, node.outputs.first().copied()),
            op: node.op.name().to_string(),
            why,
        })?;
    }
    for output in &graph.outputs {
        let refused = |why| Refusal { node: output.name.clone(), op: "output".to_string(), why };
        former.output(&output.name, output.value).map_err(refused)?;
    }
    Ok(former.all)
}

fn named(graph: &Graph, id: Option<ValueId>) -> String {
    id.and_then(|id| graph.value(id)).map_or_else(String::new, |value| value.name.clone())
}

/// Sizes as numbers.
pub(super) fn fixed(dims: &[Dim]) -> Lowered<Vec<u64>> {
    let sizes: Option<Vec<u64>> =
        dims.iter().map(|dim| dim.as_fixed().and_then(|n| u64::try_from(n).ok())).collect();
    let sizes = sizes.ok_or("a size that is open")?;
    match count(&sizes) {
        0 => Err("a tensor without elements".to_string()),
        more if more > MOST_ELEMENTS => Err(format!("{more} elements; at most {MOST_ELEMENTS}")),
        _ => Ok(sizes),
    }
}

impl<'g> Former<'g> {
    fn input(&mut self, id: ValueId) -> Lowered<()> {
        let Some(value) = self.graph.value(id) else { return Ok(()) };
        if value.ty.dims.iter().any(|dim| dim.as_fixed() == Some(0)) {
            // Whoever reads it is refused.
            return Ok(());
        }
        let dims = fixed(&value.ty.dims).map_err(|why| format!("input `{}`: {why}", value.name))?;
        let order = if self.keeps_order { None } else { input_order(self.graph, id) };
        let order = order.unwrap_or_else(|| (0..dims.len()).collect());
        let stored: Vec<u64> = order.iter().map(|axis| dims[*axis]).collect();
        let number = self.value(&value.name, &stored, value.ty.dtype, Origin::Input);
        self.all.inputs.push(number);
        let whole = View::whole(number, &stored);
        let mut axes = whole.axes.clone();
        order.iter().zip(whole.axes).for_each(|(axis, row)| axes[*axis] = row);
        if !order.is_sorted() {
            let rows = axes.iter().map(|(size, stride)| Some((*size, u64::try_from(*stride).ok()?)));
            let axes = rows.collect::<Option<Vec<(u64, u64)>>>().ok_or("strides that go back")?;
            self.all.values[number].host = Some(HostBox { first: 0, axes });
        }
        self.held[id.index()] = Some(Held::Seen(View { value: number, first: 0, axes }));
        Ok(())
    }

    fn output(&mut self, name: &str, id: ValueId) -> Lowered<()> {
        let ty = self.graph.value(id).map(|value| value.ty.clone()).ok_or("no value")?;
        let dims = fixed(&ty.dims)?;
        let view = self.view(id)?;
        let view = if ty.dtype == Dtype::F8E4M3 { self.rounded(&view, name)? } else { view };
        let value = self.plain(&view, name)?;
        self.all.results.push(Output { name: name.to_string(), value, dims, dtype: ty.dtype });
        Ok(())
    }

    /// A new value.
    pub(super) fn value(&mut self, name: &str, dims: &[u64], dtype: Dtype, origin: Origin) -> usize {
        let (name, dims) = (name.to_string(), dims.to_vec());
        self.all.values.push(Value { name, dims, dtype, packing: Packing::Words, origin, host: None });
        self.all.values.len() - 1
    }

    /// A value that a kernel makes.
    pub(super) fn made(&mut self, name: &str, dims: &[u64], dtype: Dtype, work: Work) -> usize {
        let number = self.value(name, dims, dtype, Origin::Kernel);
        self.all.kernels.push(Kernel { work, results: vec![number] });
        number
    }

    pub(super) fn held(&self, id: Option<ValueId>) -> Lowered<&Held> {
        let held = id.and_then(|id| self.held.get(id.index())).and_then(Option::as_ref);
        held.ok_or_else(|| "an operand without elements".to_string())
    }

    /// A value of the graph as a view; constants get a place.
    pub(super) fn view(&mut self, id: ValueId) -> Lowered<View> {
        let tensor = match self.held(Some(id))? {
            Held::Seen(view) => return Ok(view.clone()),
            Held::Known(tensor) => tensor.clone(),
        };
        if let Some(view) = self.placed.get(&id) {
            return Ok(view.clone());
        }
        let name = named(self.graph, Some(id));
        let view = self.constant(&name, &tensor)?;
        self.placed.insert(id, view.clone());
        Ok(view)
    }

    /// A constant with a place of its own.
    pub(super) fn constant(&mut self, name: &str, tensor: &Tensor) -> Lowered<View> {
        let dims: Vec<u64> = tensor.dims.iter().map(|dim| *dim as u64).collect();
        if tensor.is_empty() {
            return Err("a tensor without elements".to_string());
        }
        let words = words(tensor).ok_or("an integer beyond 32 bits")?;
        let number = self.value(name, &dims, tensor.dtype, Origin::Constant(words));
        Ok(View::whole(number, &dims))
    }

    /// The value that has exactly the elements of a view, in its order: the one it looks at, or one that they
    /// are moved to.
    pub(super) fn plain(&mut self, view: &View, name: &str) -> Lowered<usize> {
        let of = &self.all.values[view.value];
        if view.is_plain() && of.count() == count(&view.dims()) {
            return Ok(view.value);
        }
        let (dtype, packing) = (of.dtype, of.packing);
        let dims = view.dims();
        if count(&dims) > MOST_ELEMENTS {
            return Err(format!("{} elements; at most {MOST_ELEMENTS}", count(&dims)));
        }
        if let Origin::Constant(words) = &of.origin {
            let words = taken(words, view).ok_or("elements that are not there")?;
            let moved = self.value(name, &dims, dtype, Origin::Constant(words));
            self.all.values[moved].packing = packing;
            return Ok(moved);
        }
        let part = self.part(view, 0, &strides(&dims));
        let moved = self.made(name, &dims, dtype, Work::Move(vec![part]));
        self.all.values[moved].packing = packing;
        Ok(moved)
    }

    /// A view's elements to places with their own strides.
    pub(super) fn part(&self, view: &View, to_first: i64, to: &[i64]) -> Part {
        let loops = view.axes.iter().zip(to).map(|((size, from), to)| (*size, *from, *to)).collect();
        Part { from: view.value, from_first: view.first, to_first, loops }
    }

    /// A value as contractions take it.
    pub(super) fn narrow(&mut self, value: usize, packing: Packing) -> usize {
        if let Some(narrow) = self.narrows.get(&(value, packing)) {
            return *narrow;
        }
        let Value { name, dims, dtype, origin, .. } = self.all.values[value].clone();
        let name = format!("{name}.{}", packing.name());
        let number = match origin {
            Origin::Constant(words) => {
                let narrow = |word: &u32| packing.narrowed(&RuleSet::TCP, *word);
                self.value(&name, &dims, dtype, Origin::Constant(words.iter().map(narrow).collect()))
            }
            _ => {
                let inputs = vec![View::whole(value, &dims)];
                self.made(&name, &dims, dtype, Work::Chain { inputs, lines: Vec::new(), streams: vec![0] })
            }
        };
        self.all.values[number].packing = packing;
        self.narrows.insert((value, packing), number);
        number
    }

    /// The elements of a view as contractions take them, in its order.
    pub(super) fn narrow_of(&mut self, view: &View, name: &str, packing: Packing) -> Lowered<usize> {
        let of = &self.all.values[view.value];
        let (dims, dtype) = (view.dims(), of.dtype);
        let moves = !self.all.is_whole(view) && !matches!(of.origin, Origin::Constant(_));
        if moves && !self.narrows.contains_key(&(view.value, packing)) {
            if count(&dims) > MOST_ELEMENTS {
                return Err(format!("{} elements; at most {MOST_ELEMENTS}", count(&dims)));
            }
            let work = Work::Chain { inputs: vec![view.clone()], lines: Vec::new(), streams: vec![0] };
            let number = self.made(name, &dims, dtype, work);
            self.all.values[number].packing = packing;
            return Ok(number);
        }
        let narrow = View { value: self.narrow(view.value, packing), ..view.clone() };
        self.plain(&narrow, name)
    }

    fn node(&mut self, node: &Node) -> Lowered<()> {
        let Some(out) = node.outputs.first().copied() else { return Ok(()) };
        if self.held[out.index()].is_some() {
            return Ok(());
        }
        let ty = self.graph.value(out).map(|value| value.ty.clone()).ok_or("no result")?;
        let (name, dims) = (named(self.graph, Some(out)), fixed(&ty.dims)?);
        let view = self.lowered(node, &name, &dims, ty.dtype)?;
        if view.dims() != dims {
            return Err(format!("a result of sizes {:?} instead of {dims:?}", view.dims()));
        }
        self.held[out.index()] = Some(Held::Seen(view));
        Ok(())
    }

    fn lowered(&mut self, node: &Node, name: &str, dims: &[u64], dtype: Dtype) -> Lowered<View> {
        let input =
            |at: usize| node.inputs.get(at).copied().flatten().ok_or("an operand is left out".to_string());
        let none = || "no strides say this".to_string();
        self.refuse_float8(node)?;
        match &node.op {
            Op::Convert(to) if self.is_float8_convert(input(0)?, *to) => {
                self.converted_float8(node, name, input(0)?)
            }
            Op::Unary(_) | Op::Binary(_) | Op::Select | Op::Convert(_) => self.chain(node, name, dims, dtype),
            Op::Reshape(_) => {
                let view = self.view(input(0)?)?;
                if let Some(view) = view.reshaped(dims) {
                    return Ok(view);
                }
                let moved = self.plain(&view, &format!("{name}.moved"))?;
                Ok(View::whole(moved, dims))
            }
            Op::Broadcast(_) => self.view(input(0)?)?.stretched(dims).ok_or_else(none),
            Op::Transpose(order) => self.view(input(0)?)?.transposed(order).ok_or_else(none),
            Op::Slice { axis, start, step, .. } => {
                let start = start.as_fixed().ok_or("a start that is open")?;
                let size = dims.get(*axis).copied().unwrap_or(1);
                self.view(input(0)?)?.sliced(*axis, start, size, *step).ok_or_else(none)
            }
            Op::Window { axis, size, stride, dilation } => {
                self.view(input(0)?)?.windowed(*axis, *size, *stride, *dilation).ok_or_else(none)
            }
            Op::Concat { axis } => {
                let ids: Vec<ValueId> = node.inputs.iter().copied().flatten().collect();
                let views = ids.iter().map(|id| self.view(*id)).collect::<Lowered<Vec<View>>>()?;
                self.joined(name, dims, dtype, *axis, &views)
            }
            Op::Pad { axis, low, high } => {
                let (x, fill) = (self.view(input(0)?)?, self.view(input(1)?)?);
                let sizes = [low, high].map(|dim| dim.as_fixed().and_then(|n| u64::try_from(n).ok()));
                let [Some(low), Some(high)] = sizes else {
                    return Err("padding of an open size".to_string());
                };
                let lies = node.outputs.first().map_or(Packing::Words, |out| self.lies(*out));
                self.padded(name, dims, *axis, [low, high], (&x, &fill), lies)
            }
            Op::Gather { axis } => self.gather(name, dims, *axis, input(0)?, input(1)?),
            Op::Scatter { fold: None } => self.scatter(name, dims, [input(0)?, input(1)?, input(2)?]),
            Op::Scatter { fold: Some(_) } => {
                Err("rows that are folded into those that are there".to_string())
            }
            Op::Reduce { fold, axes, .. } => {
                let x = self.view(input(0)?)?;
                let of = self.graph.value(input(0)?).map(|value| value.ty.dtype).ok_or("no operand")?;
                self.reduce(name, &x, (*fold, of), axes, dims)
            }
            Op::Einsum(spec) => {
                let ids: Vec<ValueId> = node.inputs.iter().copied().flatten().collect();
                self.einsum(name, spec, &ids, dtype)
            }
            other => Err(format!("`{}` has no kernel", other.name())),
        }
    }

    /// Views one behind the other along an axis.
    pub(super) fn joined(
        &mut self,
        name: &str,
        dims: &[u64],
        dtype: Dtype,
        axis: usize,
        views: &[View],
    ) -> Lowered<View> {
        // The result lies as the largest part does, so that what is contiguous stays so.
        let largest = views.iter().max_by_key(|view| count(&view.dims())).ok_or("no part")?;
        let mut order = memory_order(largest);
        let mut own = order.iter().position(|known| *known == axis).ok_or("an axis that is not there")?;
        // Short runs of many parts come before the axis around them, so that each is written at once.
        let run = |order: &[usize], own: usize| {
            let inner: u64 = order[own + 1..].iter().map(|axis| dims[*axis]).product();
            views.iter().map(|view| view.axes.get(axis).map_or(1, |row| row.0) * inner).max()
        };
        while own > 0 && run(&order, own).is_some_and(|run| run < FLIT_WORDS) {
            order.swap(own - 1, own);
            own -= 1;
        }
        let stored: Vec<u64> = order.iter().map(|axis| dims[*axis]).collect();
        let to = strides(&stored);
        let (mut parts, mut at) = (Vec::new(), 0_u64);
        for view in views {
            let size = view.axes.get(axis).ok_or("an axis that is not there")?.0;
            let view = view.transposed(&order).ok_or("axes that do not fit")?;
            if size > 0 {
                parts.push(self.part(&view, super::view::signed(at) * to[own], &to));
            }
            at += size;
        }
        let value = self.made(name, &stored, dtype, Work::Move(parts));
        let back = inverse(&order);
        View::whole(value, &stored).transposed(&back).ok_or_else(|| "axes that do not fit".to_string())
    }

    /// A view of a constant as one of a constant that lies in the order of the view.
    pub(super) fn compact(&mut self, view: View) -> View {
        let of = &self.all.values[view.value];
        let Origin::Constant(words) = &of.origin else { return view };
        let kept: Vec<(u64, i64)> =
            view.axes.iter().copied().filter(|(size, stride)| *size > 1 && *stride != 0).collect();
        let lies = View { value: view.value, first: view.first, axes: kept };
        if self.all.is_whole(&lies) || count(&lies.dims()) > of.count() {
            return view;
        }
        let Some(words) = taken(words, &lies) else { return view };
        let (name, dtype, packing, dims) = (format!("{}.laid", of.name), of.dtype, of.packing, lies.dims());
        let value = self.value(&name, &dims, dtype, Origin::Constant(words));
        self.all.values[value].packing = packing;
        let mut own = strides(&dims).into_iter();
        let axis = |(size, stride): &(u64, i64)| {
            let used = *size > 1 && *stride != 0;
            (*size, if used { own.next().unwrap_or(0) } else { 0 })
        };
        let axes = view.axes.iter().map(axis).collect();
        View { value, first: 0, axes }
    }

    /// Whether a node rounds floats to 16 bits for nobody but those who take results: the host does that.
    fn is_rounded_by_host(&self, node: &Node) -> bool {
        let rounds = matches!(node.op, Op::Convert(Dtype::F16 | Dtype::Bf16));
        let float = |id: &ValueId| self.graph.value(*id).is_some_and(|value| value.ty.dtype == Dtype::F32);
        let read = |id: &ValueId| self.graph.nodes.iter().any(|node| node.inputs.contains(&Some(*id)));
        rounds && node.inputs.iter().flatten().all(float) && !node.outputs.iter().any(read)
    }

    /// An elementwise operator: a chain of one.
    fn chain(&mut self, node: &Node, name: &str, dims: &[u64], dtype: Dtype) -> Lowered<View> {
        if let ([Some(id)], true) = (&node.inputs[..], self.is_rounded_by_host(node)) {
            return self.view(*id);
        }
        let mut ids: Vec<ValueId> = node.inputs.iter().copied().flatten().collect();
        let mut known = Known::default();
        if let (Op::Convert(to), [id]) = (&node.op, &mut ids[..]) {
            (*id, known) = self.converted(*id, *to);
        }
        let types: Vec<Dtype> =
            ids.iter().filter_map(|id| self.graph.value(*id)).map(|value| value.ty.dtype).collect();
        let order = self.order(&ids, dims);
        let (mut inputs, mut args) = (Vec::<View>::new(), Vec::new());
        for id in &ids {
            if let Held::Known(tensor) = self.held(Some(*id))?
                && let Some(word) = uniform(tensor)?
            {
                args.push(Arg::Word(word));
                continue;
            }
            let none = || "sizes that do not stretch".to_string();
            let view =
                self.view(*id)?.stretched(dims).ok_or_else(none)?.transposed(&order).ok_or_else(none)?;
            let view = self.compact(view);
            let stream = inputs.iter().position(|known| *known == view).unwrap_or(inputs.len());
            if stream == inputs.len() {
                inputs.push(view);
            }
            args.push(Arg::Stream(stream));
        }
        let mut writer = Writer::new(inputs.len());
        let stream = match (&node.op, &args[..], &types[..]) {
            (Op::Unary(op), [Arg::Stream(x)], [ty]) => writer.unary(*op, *ty, *x)?,
            (Op::Binary(op), [x, y], [ty, _]) => writer.binary(*op, *ty, *x, *y)?,
            (Op::Convert(to), [Arg::Stream(x)], [from]) => writer.convert(*from, *to, *x, known)?,
            (Op::Select, [Arg::Stream(c), x, y], _) => writer.select(*c, *x, *y),
            (Op::Select, [Arg::Word(c), x, y], _) => {
                let taken = if *c == 0 { y } else { x };
                writer.stream(*taken, 0)
            }
            _ => return Err("operands that do not fit".to_string()),
        };
        let stored: Vec<u64> = order.iter().map(|axis| dims[*axis]).collect();
        let made = match inputs.get(stream) {
            Some(same) => same.clone(),
            None => {
                let work = Work::Chain { inputs, lines: writer.lines, streams: vec![stream] };
                View::whole(self.made(name, &stored, dtype, work), &stored)
            }
        };
        made.transposed(&inverse(&order)).ok_or_else(|| "axes that do not fit".to_string())
    }

    /// The order of axes in which the first operand of full size lies in memory, so that it is not moved.
    fn order(&self, ids: &[ValueId], dims: &[u64]) -> Vec<usize> {
        let plain: Vec<usize> = (0..dims.len()).collect();
        for id in ids {
            let Ok(Held::Seen(view)) = self.held(Some(*id)) else { continue };
            if view.dims() != dims || self.all.values[view.value].count() != count(dims) {
                continue;
            }
            let order = memory_order(view);
            if view.transposed(&order).is_some_and(|view| view.is_plain()) {
                return if view.is_plain() { plain } else { order };
            }
        }
        plain
    }
}

/// Axes of a view by their strides, the largest first.
pub(super) fn memory_order(view: &View) -> Vec<usize> {
    let mut order: Vec<usize> = (0..view.axes.len()).collect();
    order.sort_by_key(|axis| std::cmp::Reverse((view.axes[*axis].0 > 1, view.axes[*axis].1)));
    order
}

/// The order that undoes another.
pub(super) fn inverse(order: &[usize]) -> Vec<usize> {
    let mut back = vec![0; order.len()];
    order.iter().enumerate().for_each(|(at, axis)| back[*axis] = at);
    back
}

/// Elements of a view, in its order.
fn taken(words: &[u32], view: &View) -> Option<Vec<u32>> {
    view.places()
        .into_iter()
        .map(|at| usize::try_from(at).ok().and_then(|at| words.get(at).copied()))
        .collect()
}

/// The word that all elements are, if they are.
fn uniform(tensor: &Tensor) -> Lowered<Option<u32>> {
    let words = words(tensor).ok_or("an integer beyond 32 bits")?;
    Ok(words.first().copied().filter(|first| words.iter().all(|word| word == first)))
}
