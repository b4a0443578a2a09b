//! What stands between brackets: integers, slices, `...`, `None`, index expressions and index tiles.

use std::ops::Deref;

use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PyInt, PySlice, PyString, PyTuple};
use smallvec::SmallVec;
use tilewright_neuron_isa::pattern::{PatternDim, PatternDims, SKIP, TensorView};
use tilewright_neuron_isa::{Refusal, TensorRegion};

use crate::error::{out_of_bounds, plain};
use crate::index::{Index, IndexShape, broadcast_shapes, operand, registers_of};
use crate::tensor::Tensor;

/// An index expression: the kernel's own, or one that was made of what it gave.
pub(crate) enum Expression<'py> {
    Borrowed(Bound<'py, Index>),
    Owned(Index),
}

impl Deref for Expression<'_> {
    type Target = Index;

    fn deref(&self) -> &Index {
        match self {
            Expression::Borrowed(index) => index.get(),
            Expression::Owned(index) => index,
        }
    }
}

/// One item of a key, for one dimension of the tensor.
pub(crate) enum KeyItem<'py> {
    /// A number: the dimension goes away.
    Number(i64),
    /// Start, count and step.
    Slice(i64, usize, i64),
    /// An index expression.
    Index(Expression<'py>),
    /// A new dimension of size 1.
    New,
}

/// Tiles whose elements a key was made of.
pub(crate) type KeyTiles = SmallVec<[TensorRegion; 2]>;

/// What a key has to say of a tensor of that shape, one item for each dimension; tiles at which slices start
/// go to `by`.
pub(crate) fn parse<'py>(
    key: &Bound<'py, PyAny>,
    shape: &[usize],
    by: &mut KeyTiles,
) -> PyResult<SmallVec<[KeyItem<'py>; 6]>> {
    let items: SmallVec<[Bound<'py, PyAny>; 6]> = match key.cast::<PyTuple>() {
        Ok(tuple) => tuple.iter().collect(),
        Err(_) => SmallVec::from_iter([key.clone()]),
    };
    let is_open = |item: &Bound<'_, PyAny>| item.is_none() || item.is_instance_of::<PyEllipsis>();
    let mut named = 0;
    for item in items.iter().filter(|item| !is_open(item)) {
        named += mesh_of(item)?.map_or(Ok(1), |mesh| mesh.len())?;
    }
    if named > shape.len() {
        return Err(PyIndexError::new_err(format!(
            "{named} indices for a tensor of {} dimensions",
            shape.len()
        )));
    }
    if items.iter().filter(|item| item.is_instance_of::<PyEllipsis>()).count() > 1 {
        return Err(PyIndexError::new_err(
            "an index with more than one ..., of which each stands for the rest",
        ));
    }
    let mut parsed: SmallVec<[KeyItem<'py>; 6]> = SmallVec::new();
    let mut axis = 0;
    for item in &items {
        if item.is_none() {
            parsed.push(KeyItem::New);
        } else if item.is_instance_of::<PyEllipsis>() {
            for _ in 0..shape.len() - named {
                parsed.push(KeyItem::Slice(0, shape[axis], 1));
                axis += 1;
            }
        } else if let Some(mesh) = mesh_of(item)? {
            for part in mesh.try_iter()? {
                parsed.push(one(&part?, shape[axis], by)?);
                axis += 1;
            }
        } else {
            parsed.push(one(item, shape[axis], by)?);
            axis += 1;
        }
    }
    parsed.extend(shape[axis..].iter().map(|&size| KeyItem::Slice(0, size, 1)));
    Ok(parsed)
}

/// The index expressions of a whole mesh, if the item is one.
fn mesh_of<'py>(item: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let plain = item.is_instance_of::<PySlice>()
        || item.is_instance_of::<PyInt>()
        || item.is_instance_of::<Index>()
        || item.is_instance_of::<Tensor>();
    if plain { Ok(None) } else { item.getattr_opt(intern!(item.py(), "__mesh__")) }
}

fn one<'py>(item: &Bound<'py, PyAny>, size: usize, by: &mut KeyTiles) -> PyResult<KeyItem<'py>> {
    let number = |index: &Index| {
        (index.shape.is_empty() && index.values.is_none()).then_some(KeyItem::Number(index.constant))
    };
    if let Ok(index) = item.cast::<Index>() {
        return Ok(number(index.get()).unwrap_or_else(|| KeyItem::Index(Expression::Borrowed(index.clone()))));
    }
    if let Ok(slice) = item.cast::<PySlice>() {
        return parse_slice(slice, size, by);
    }
    refuse_bool(item)?;
    match operand(item)? {
        Some(index) => {
            let number = number(&index);
            // Those of other expressions are found where these are applied.
            let known_by = index.by.iter().filter(|_| number.is_some());
            by.extend(known_by.flat_map(|tiles| tiles.iter().copied()));
            if let (Some(KeyItem::Number(at)), true) = (&number, index.by.is_some()) {
                not_before_the_first(*at, size)?;
            }
            Ok(number.unwrap_or(KeyItem::Index(Expression::Owned(index))))
        }
        None => match item.call_method0("__index__") {
            Ok(number) => Ok(KeyItem::Number(number.extract()?)),
            Err(_) => Err(PyTypeError::new_err(format!(
                "a tensor cannot be indexed with {}",
                item.get_type().name()?
            ))),
        },
    }
}

/// Refuses a place of the run before the first: a device adds what a register holds to an address, and
/// counts from no end.
fn not_before_the_first(at: i64, size: usize) -> PyResult<()> {
    if at >= 0 {
        return Ok(());
    }
    Err(plain(&Refusal::new(
        "neuron/bounds",
        format!("element {at} of a dimension of {size}, where a value of the run places it"),
        format!("elements 0 to {}", size.saturating_sub(1)),
        "check the register or tile that the place comes from",
    )))
}

/// Refuses truth values, which Python takes for 0 and 1.
fn refuse_bool(item: &Bound<'_, PyAny>) -> PyResult<()> {
    if !item.is_instance_of::<PyBool>() {
        return Ok(());
    }
    let asked = format!("a tensor indexed with {}", item.str()?);
    let instead =
        "write 0 or 1 for a place; elements are chosen with mask=, nl.where or nisa.tensor_copy_predicated";
    Err(plain(&Refusal::new(
        "neuron/operand",
        asked,
        "numbers, slices, index expressions, tiles of integers, None and ...",
        instead,
    )))
}

/// A slice; it may reach beyond the end, where only a mask makes it legal.
fn parse_slice<'py>(slice: &Bound<'py, PySlice>, size: usize, by: &mut KeyTiles) -> PyResult<KeyItem<'py>> {
    let py = slice.py();
    let mut at_run_time = false;
    let mut number = |name: &Bound<'py, PyString>, default: i64| -> PyResult<i64> {
        let value = slice.getattr(name)?;
        if value.is_none() {
            return Ok(default);
        }
        refuse_bool(&value)?;
        if let Ok(tile) = value.cast::<Tensor>() {
            by.extend(TensorRegion::of(tile.get().operand()?));
            at_run_time = true;
            return tile.get().integer();
        }
        let registers = registers_of(&value)?;
        at_run_time |= registers.is_some();
        by.extend(registers.iter().flat_map(|regions| regions.iter().copied()));
        match value.extract() {
            Ok(value) => Ok(value),
            Err(_) => value.call_method0("__index__")?.extract(),
        }
    };
    let end = i64::try_from(size).unwrap_or(i64::MAX);
    let step = number(intern!(py, "step"), 1)?;
    if step < 1 {
        return Err(PyIndexError::new_err(format!("a slice with step {step}; steps are 1 or more")));
    }
    let (start, stop) = (number(intern!(py, "start"), 0)?, number(intern!(py, "stop"), end)?);
    // A device adds what a register holds to an address: no place counts from the end.
    let wrap = |value: i64| if value < 0 && !at_run_time { value.saturating_add(end) } else { value };
    let (start, stop) = (wrap(start), wrap(stop));
    let count = stop.saturating_sub(start).max(0).saturating_add(step - 1) / step;
    Ok(KeyItem::Slice(start, usize::try_from(count).unwrap_or(0), step))
}

/// An index into a dimension of that size that may lie outside it.
#[derive(Clone, Debug)]
pub(crate) struct IndexBounds {
    /// The index, over the axes of the result.
    pub(crate) index: Index,
    /// The dimension's number; none if the index counts elements of the whole tensor.
    pub(crate) axis: Option<usize>,
    /// Size of the dimension.
    pub(crate) size: usize,
    /// Elements from one step of the dimension to the next.
    pub(crate) stride: i64,
    /// Element of the tensor that the dimension starts at.
    pub(crate) base: i64,
}

impl IndexBounds {
    /// Least and largest place that an element has, if one of them lies outside.
    fn outside(&self) -> Option<(i64, i64)> {
        let (least, most) = self.index.range()?;
        let inside = least >= 0 && usize::try_from(most).is_ok_and(|most| most < self.size);
        (!inside).then_some((least, most))
    }

    /// The bounds, as long as an element still lies outside.
    pub(crate) fn still(self) -> Option<IndexBounds> {
        self.outside().is_some().then_some(self)
    }

    /// The same of elements that a view picks: `positions` count them in row-major order of `shape`.
    pub(crate) fn of_positions(&self, shape: &[usize], positions: &TensorView) -> Option<IndexBounds> {
        let values = self.index.broadcast(shape).evaluate();
        let place = |at: i64| usize::try_from(at).ok().and_then(|at| values.get(at)).copied().unwrap_or(0);
        let picked = positions.offsets().into_iter().map(place).collect();
        let index = Index::explicit(positions.shape().iter().copied().collect(), picked);
        IndexBounds { index, ..self.clone() }.still()
    }

    /// What to say of it. A place that only values of the run give is told as NumPy tells it, as the vendor's
    /// own simulator does (docs/hardware-rules.md#eager-execution).
    pub(crate) fn refusal(&self, by_values: bool, elements: usize) -> Option<PyErr> {
        let (least, most) = self.outside()?;
        let size = i64::try_from(self.size).unwrap_or(i64::MAX);
        let Some(axis) = self.axis.filter(|_| !by_values) else {
            let first = self.index.evaluate().into_iter().find(|&at| at < 0 || at >= size)?;
            return Some(out_of_bounds(
                self.base.saturating_add(first.saturating_mul(self.stride)),
                elements,
                self.axis.map(|axis| (axis, self.size)),
            ));
        };
        let asked = if least == most {
            format!("element {least} of dimension {axis}, which has {size}")
        } else {
            format!("elements {least} to {most} of dimension {axis}, which has {size}")
        };
        let allowed = if size == 0 { "none".to_owned() } else { format!("elements 0 to {}", size - 1) };
        let instead = format!(
            "end it at {size}, or with min(...) where a tile is cut short; mask= of the first dialect leaves \
             out what lies beyond"
        );
        Some(plain(&Refusal::new("neuron/bounds", asked, allowed, instead)))
    }
}

/// What a key makes of a view.
pub(crate) struct IndexedView {
    pub(crate) view: TensorView,
    pub(crate) bounds: Vec<IndexBounds>,
}

/// Applies a key to a view whose elements, or places outside the tensor, are listed: to their positions
/// first.
pub(crate) fn apply_to_listed(
    view: &TensorView,
    earlier: &[IndexBounds],
    items: SmallVec<[KeyItem<'_>; 6]>,
    by: KeyTiles,
    on_chip: bool,
) -> PyResult<IndexedView> {
    let shape = view.shape();
    let whole = TensorView {
        mx: view.mx,
        picked_by: view.picked_by.clone(),
        ..TensorView::whole(&shape, view.dtype, view.blocks)
    };
    let IndexedView { view: positions, mut bounds } = apply(&whole, items, by, on_chip)?;
    bounds.extend(earlier.iter().filter_map(|bounds| bounds.of_positions(&shape, &positions)));
    let offsets = view.offsets();
    let pick = |at: i64| usize::try_from(at).ok().and_then(|at| offsets.get(at)).copied().unwrap_or(SKIP);
    let gather = Some(positions.offsets().into_iter().map(pick).collect());
    Ok(IndexedView { view: TensorView { gather, offset: 0, ..positions }, bounds })
}

/// Applies a key to a view. `on_chip` tensors keep their partition dimension and at least two dimensions.
pub(crate) fn apply(
    view: &TensorView,
    items: SmallVec<[KeyItem<'_>; 6]>,
    by: KeyTiles,
    on_chip: bool,
) -> PyResult<IndexedView> {
    let mut items = items;
    let partition = if on_chip { Some(view.blocks) } else { None };
    let advanced = items.iter().any(|item| matches!(item, KeyItem::Index(_)));
    let mut lead = false;
    for (axis, item) in items.iter_mut().filter(|item| !matches!(item, KeyItem::New)).enumerate() {
        if let KeyItem::Number(number) = item {
            if *number < 0 {
                *number += view.dims[axis].size as i64;
            }
            if Some(axis) == partition {
                // Beside index expressions a number is one of them.
                lead = advanced;
                if !advanced {
                    *item = KeyItem::Slice(*number, 1, 1);
                }
            }
        }
    }
    let layout = KeyLayout::of(&items)?;
    let mut by = by;
    if view.gather.is_none() {
        by.extend(view.picked_by.iter().flat_map(|tiles| tiles.iter().copied()));
    }
    let mut indexed = build(view, &items, &layout, by)?;
    let view = &mut indexed.view;
    if on_chip {
        while view.dims.len() < 2 + view.blocks {
            let at = if lead { 0 } else { view.dims.len() };
            view.dims.insert(at, PatternDim { size: 1, stride: 1 });
        }
    }
    Ok(indexed)
}

/// Which axes of the result each item gets.
struct KeyLayout {
    rank: usize,
    /// First axis of the index expressions, and their common shape.
    first: usize,
    common: IndexShape,
}

impl KeyLayout {
    fn of(items: &[KeyItem<'_>]) -> PyResult<KeyLayout> {
        let mut common = IndexShape::new();
        let mut any = false;
        for item in items {
            if let KeyItem::Index(index) = item {
                common = broadcast_shapes(&common, &index.shape)?;
                any = true;
            }
        }
        let kept = items.iter().filter(|item| matches!(item, KeyItem::Slice(..) | KeyItem::New)).count();
        let is_index = |item: &KeyItem<'_>| {
            matches!(item, KeyItem::Index(_)) || (any && matches!(item, KeyItem::Number(_)))
        };
        let start = items.iter().position(is_index).unwrap_or(0);
        let end = items.iter().rposition(is_index).unwrap_or(0);
        let together = items.get(start..=end).is_some_and(|part| part.iter().all(is_index));
        let before =
            items[..start].iter().filter(|item| matches!(item, KeyItem::Slice(..) | KeyItem::New)).count();
        Ok(KeyLayout { rank: kept + common.len(), first: if any && together { before } else { 0 }, common })
    }
}

/// Where an item without explicit values leads: a constant, and the axes of the result that it moves along,
/// with the size and the coefficient of each.
struct AffineIndex {
    constant: i64,
    terms: SmallVec<[(usize, usize, i64); 4]>,
}

impl AffineIndex {
    fn of(item: &KeyItem<'_>, layout: &KeyLayout, next: usize) -> AffineIndex {
        let mut terms = SmallVec::new();
        let constant = match item {
            KeyItem::Number(number) => *number,
            KeyItem::Slice(start, count, step) => {
                terms.push((next, *count, *step));
                *start
            }
            KeyItem::Index(index) => {
                let axes = layout.first + layout.common.len() - index.shape.len()..;
                let moves = axes.zip(&index.shape).zip(&index.coefficients);
                terms.extend(
                    moves.filter(|((_, size), _)| **size != 1).map(|((axis, &size), &c)| (axis, size, c)),
                );
                index.constant
            }
            KeyItem::New => 0,
        };
        AffineIndex { constant, terms }
    }

    /// True if every value lies in a dimension of that size, or there is none.
    fn is_inside(&self, size: usize) -> bool {
        let (mut least, mut most) = (self.constant, self.constant);
        for &(_, count, c) in &self.terms {
            if count == 0 {
                return true;
            }
            let reach = c.saturating_mul(count as i64 - 1);
            if reach < 0 { least = least.saturating_add(reach) } else { most = most.saturating_add(reach) }
        }
        least >= 0 && most < size as i64
    }
}

fn build(
    view: &TensorView,
    items: &[KeyItem<'_>],
    layout: &KeyLayout,
    mut by: KeyTiles,
) -> PyResult<IndexedView> {
    let rank = layout.rank;
    let mut dims: PatternDims = SmallVec::from_elem(PatternDim { size: 1, stride: 0 }, rank);
    for (at, &size) in layout.common.iter().enumerate() {
        dims[layout.first + at].size = size;
    }
    let mut offset = i64::try_from(view.offset).unwrap_or(i64::MAX);
    let base = offset;
    let mut bounds = Vec::new();
    let mut computed: Option<Index> = None;
    let (mut axis, mut next, mut blocks) = (0, 0, 0);
    for item in items {
        if next == layout.first && !layout.common.is_empty() {
            next += layout.common.len();
        }
        if matches!(item, KeyItem::New) {
            next += 1;
            continue;
        }
        let PatternDim { size, stride } = view.dims[axis];
        let stride = stride as i64;
        axis += 1;
        if let KeyItem::Index(index) = item {
            by.extend(index.by.iter().flat_map(|tiles| tiles.iter().copied()));
        }
        if let KeyItem::Index(index) = item
            && index.values.is_some()
        {
            let index = spread(index, layout);
            let scaled = index.scaled(stride);
            if index.range().is_some_and(|(least, most)| least < 0 || most >= size as i64) {
                bounds.push(IndexBounds { index, axis: Some(axis - 1), size, stride, base });
            }
            computed = Some(match computed {
                Some(sum) => sum.plus(&scaled)?,
                None => scaled,
            });
            continue;
        }
        let affine = AffineIndex::of(item, layout, next);
        let empty = matches!(item, KeyItem::Index(_)) && layout.common.contains(&0);
        if !empty && !affine.is_inside(size) {
            bounds.push(IndexBounds {
                index: explained(item, layout, next),
                axis: Some(axis - 1),
                size,
                stride,
                base,
            });
        }
        if let KeyItem::Slice(_, count, _) = item {
            dims[next].size = *count;
            // Leading ones that are left still number tiles, whichever were picked before them.
            if axis <= view.blocks && blocks == next {
                blocks += 1;
            }
            next += 1;
        }
        offset = offset.wrapping_add(affine.constant.wrapping_mul(stride));
        for &(along, _, c) in &affine.terms {
            let step = isize::try_from(c.wrapping_mul(stride)).unwrap_or(isize::MAX);
            dims[along].stride = dims[along].stride.wrapping_add(step);
        }
    }
    let mut out = TensorView { dims, mx: view.mx, blocks, ..TensorView::whole(&[], view.dtype, 0) };
    if let Some(computed) = computed {
        gather(&mut out, &computed, offset)?;
    } else if offset >= 0 {
        out.offset = usize::try_from(offset).unwrap_or(usize::MAX);
    } else {
        gather(&mut out, &Index::constant(0), offset)?;
    }
    out.picked_by = (!by.is_empty()).then(|| by.into_iter().collect());
    Ok(IndexedView { view: out, bounds })
}

/// An item as an index over the axes of the result, to say where it leaves its dimension.
fn explained(item: &KeyItem<'_>, layout: &KeyLayout, next: usize) -> Index {
    match item {
        KeyItem::Number(number) => Index::constant(*number),
        KeyItem::Slice(start, count, step) => Index::axis(layout.rank, next, *start, *count, *step),
        KeyItem::Index(index) => spread(index, layout),
        KeyItem::New => Index::constant(0),
    }
}

/// An index expression over the axes of the result.
fn spread(index: &Index, layout: &KeyLayout) -> Index {
    let full = index.broadcast(&layout.common);
    let after = layout.rank - layout.first - layout.common.len();
    let mut shape = IndexShape::from_elem(1, layout.first);
    shape.extend_from_slice(&full.shape);
    shape.extend(std::iter::repeat_n(1, after));
    let mut coefficients = SmallVec::from_elem(0, layout.first);
    coefficients.extend_from_slice(&full.coefficients);
    coefficients.extend(std::iter::repeat_n(0, after));
    Index { shape, constant: full.constant, coefficients, values: full.values, by: full.by }
}

/// Turns loops into explicit offsets, with computed ones added.
fn gather(view: &mut TensorView, computed: &Index, offset: i64) -> PyResult<()> {
    let shape: IndexShape = view.dims.iter().map(|dim| dim.size).collect();
    let loops = Index {
        shape: shape.clone(),
        constant: offset,
        coefficients: view.dims.iter().map(|dim| dim.stride as i64).collect(),
        values: None,
        by: None,
    };
    let offsets = loops.plus(&computed.broadcast(&shape))?.evaluate();
    view.gather = Some(offsets.into());
    view.offset = 0;
    Ok(())
}
