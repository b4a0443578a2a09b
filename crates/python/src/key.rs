//! What stands between brackets: integers, slices, `...`, `None`, index expressions and index tiles.

use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyEllipsis, PyInt, PySlice, PyTuple};
use smallvec::SmallVec;
use tilewright_neuron::pattern::{Dim, Dims, View};

use crate::index::{Index, Shape, broadcast_shapes, operand};
use crate::tensor::Tensor;

/// One item of a key, for one dimension of the tensor.
pub(crate) enum Item {
    /// A number: the dimension goes away.
    Number(i64),
    /// Start, count and step.
    Slice(i64, usize, i64),
    /// An index expression.
    Index(Index),
    /// A new dimension of size 1.
    New,
}

/// What a key has to say of a tensor of that shape, one item for each dimension.
pub(crate) fn parse(key: &Bound<'_, PyAny>, shape: &[usize]) -> PyResult<SmallVec<[Item; 6]>> {
    let items: SmallVec<[Bound<'_, PyAny>; 6]> = match key.cast::<PyTuple>() {
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
    let mut parsed: SmallVec<[Item; 6]> = SmallVec::new();
    let mut axis = 0;
    for item in &items {
        if item.is_none() {
            parsed.push(Item::New);
        } else if item.is_instance_of::<PyEllipsis>() {
            for _ in 0..shape.len() - named {
                parsed.push(Item::Slice(0, shape[axis], 1));
                axis += 1;
            }
        } else if let Some(mesh) = mesh_of(item)? {
            for part in mesh.try_iter()? {
                parsed.push(one(&part?, shape[axis])?);
                axis += 1;
            }
        } else {
            parsed.push(one(item, shape[axis])?);
            axis += 1;
        }
    }
    parsed.extend(shape[axis..].iter().map(|&size| Item::Slice(0, size, 1)));
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

fn one(item: &Bound<'_, PyAny>, size: usize) -> PyResult<Item> {
    if let Ok(slice) = item.cast::<PySlice>() {
        return parse_slice(slice, size);
    }
    match operand(item)? {
        Some(index) if index.shape.is_empty() && index.values.is_none() => Ok(Item::Number(index.constant)),
        Some(index) => Ok(Item::Index(index)),
        None => match item.call_method0("__index__") {
            Ok(number) => Ok(Item::Number(number.extract()?)),
            Err(_) => Err(PyTypeError::new_err(format!(
                "a tensor cannot be indexed with {}",
                item.get_type().name()?
            ))),
        },
    }
}

/// A slice; it may reach beyond the end, where only a mask makes it legal.
fn parse_slice(slice: &Bound<'_, PySlice>, size: usize) -> PyResult<Item> {
    let number = |name: &str, default: i64| -> PyResult<i64> {
        let value = slice.getattr(name)?;
        if value.is_none() {
            return Ok(default);
        }
        match value.extract() {
            Ok(value) => Ok(value),
            Err(_) => value.call_method0("__index__")?.extract(),
        }
    };
    let end = i64::try_from(size).unwrap_or(i64::MAX);
    let wrap = |value: i64| if value < 0 { value.saturating_add(end) } else { value };
    let step = number("step", 1)?;
    if step < 1 {
        return Err(PyIndexError::new_err(format!("a slice with step {step}; steps are 1 or more")));
    }
    let start = wrap(number("start", 0)?);
    let stop = wrap(number("stop", end)?);
    let count = stop.saturating_sub(start).max(0).saturating_add(step - 1) / step;
    Ok(Item::Slice(start, usize::try_from(count).unwrap_or(0), step))
}

/// An index into a dimension of that size that may lie outside it.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    /// The index, over the axes of the result.
    pub(crate) index: Index,
    /// Size of the dimension.
    pub(crate) size: usize,
    /// Elements from one step of the dimension to the next.
    pub(crate) stride: i64,
}

/// What a key makes of a view.
pub(crate) struct Indexed {
    pub(crate) view: View,
    pub(crate) bounds: Vec<Bounds>,
    /// First element of the tensor that the bounds are counted from.
    pub(crate) base: i64,
}

/// Applies a key to a view. `on_chip` tensors keep their partition dimension and at least two dimensions.
pub(crate) fn apply(view: &View, items: SmallVec<[Item; 6]>, on_chip: bool) -> PyResult<Indexed> {
    let mut items = items;
    let partition = if on_chip { Some(view.blocks) } else { None };
    let advanced = items.iter().any(|item| matches!(item, Item::Index(_)));
    let mut lead = false;
    for (axis, item) in items.iter_mut().filter(|item| !matches!(item, Item::New)).enumerate() {
        if let Item::Number(number) = item {
            if *number < 0 {
                *number += view.dims[axis].size as i64;
            }
            if Some(axis) == partition {
                // Beside index expressions a number is one of them.
                lead = advanced;
                if !advanced {
                    *item = Item::Slice(*number, 1, 1);
                }
            }
        }
    }
    let layout = Layout::of(&items)?;
    let mut indexed = build(view, &items, &layout)?;
    let view = &mut indexed.view;
    if on_chip {
        while view.dims.len() < 2 + view.blocks {
            let at = if lead { 0 } else { view.dims.len() };
            view.dims.insert(at, Dim { size: 1, stride: 1 });
        }
    }
    Ok(indexed)
}

/// Which axes of the result each item gets.
struct Layout {
    rank: usize,
    /// First axis of the index expressions, and their common shape.
    first: usize,
    common: Shape,
}

impl Layout {
    fn of(items: &[Item]) -> PyResult<Layout> {
        let mut common = Shape::new();
        let mut any = false;
        for item in items {
            if let Item::Index(index) = item {
                common = broadcast_shapes(&common, &index.shape)?;
                any = true;
            }
        }
        let kept = items.iter().filter(|item| matches!(item, Item::Slice(..) | Item::New)).count();
        let is_index =
            |item: &Item| matches!(item, Item::Index(_)) || (any && matches!(item, Item::Number(_)));
        let start = items.iter().position(is_index).unwrap_or(0);
        let end = items.iter().rposition(is_index).unwrap_or(0);
        let together = items.get(start..=end).is_some_and(|part| part.iter().all(is_index));
        let before = items[..start].iter().filter(|item| matches!(item, Item::Slice(..) | Item::New)).count();
        Ok(Layout { rank: kept + common.len(), first: if any && together { before } else { 0 }, common })
    }
}

fn build(view: &View, items: &[Item], layout: &Layout) -> PyResult<Indexed> {
    let rank = layout.rank;
    let mut dims: Dims = (0..rank).map(|_| Dim { size: 1, stride: 0 }).collect();
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
        if matches!(item, Item::New) {
            next += 1;
            continue;
        }
        let Dim { size, stride } = view.dims[axis];
        let stride = stride as i64;
        let index = match item {
            Item::Number(number) => Index::constant(*number),
            Item::Slice(start, count, step) => {
                dims[next] = Dim { size: *count, stride: 0 };
                let index = Index::axis(rank, next, *start, *count, *step);
                // Leading ones that are left still number tiles, whichever were picked before them.
                if axis < view.blocks && blocks == next {
                    blocks += 1;
                }
                next += 1;
                index
            }
            Item::Index(index) => spread(index, layout),
            Item::New => continue,
        };
        let inside = index.range().is_none_or(|(least, most)| least >= 0 && most < size as i64);
        if !inside {
            bounds.push(Bounds { index: index.clone(), size, stride });
        }
        if index.values.is_some() {
            let scaled = index.scaled(stride);
            computed = Some(match computed {
                Some(sum) => sum.plus(&scaled)?,
                None => scaled,
            });
        } else {
            offset = offset.wrapping_add(index.constant.wrapping_mul(stride));
            for (dim, c) in dims[rank - index.shape.len()..].iter_mut().zip(&index.coefficients) {
                dim.stride =
                    dim.stride.wrapping_add(isize::try_from(c.wrapping_mul(stride)).unwrap_or(isize::MAX));
            }
        }
        axis += 1;
    }
    let mut out = View { dims, mx: view.mx, blocks, ..View::whole(&[], view.dtype, 0) };
    if let Some(computed) = computed {
        gather(&mut out, &computed, offset)?;
    } else if offset >= 0 {
        out.offset = usize::try_from(offset).unwrap_or(usize::MAX);
    } else {
        gather(&mut out, &Index::constant(0), offset)?;
    }
    Ok(Indexed { view: out, bounds, base })
}

/// An index expression over the axes of the result.
fn spread(index: &Index, layout: &Layout) -> Index {
    let full = index.broadcast(&layout.common);
    let after = layout.rank - layout.first - layout.common.len();
    let mut shape = Shape::from_elem(1, layout.first);
    shape.extend_from_slice(&full.shape);
    shape.extend(std::iter::repeat_n(1, after));
    let mut coefficients = SmallVec::from_elem(0, layout.first);
    coefficients.extend_from_slice(&full.coefficients);
    coefficients.extend(std::iter::repeat_n(0, after));
    Index { shape, constant: full.constant, coefficients, values: full.values }
}

/// Turns loops into explicit offsets, with computed ones added.
fn gather(view: &mut View, computed: &Index, offset: i64) -> PyResult<()> {
    let shape: Shape = view.dims.iter().map(|dim| dim.size).collect();
    let loops = Index {
        shape: shape.clone(),
        constant: offset,
        coefficients: view.dims.iter().map(|dim| dim.stride as i64).collect(),
        values: None,
    };
    let offsets = loops.plus(&computed.broadcast(&shape))?.evaluate();
    view.gather = Some(offsets.into());
    view.offset = 0;
    Ok(())
}
