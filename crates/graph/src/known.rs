//! Integers whose value is known while a graph is built: constants, sizes, and what is computed from them.
//!
//! Exported models compute the shapes of their tensors by operators. Those operators run here, on sizes
//! instead of numbers, and so fold away even where an axis is open.

use crate::dim::{Axis, Dim};
use crate::dtype::Dtype;
use crate::graph::Type;
use crate::op::{Binary, Fold, Op, Unary};

/// Elements of a tensor whose values are followed, at most.
pub const MOST_KNOWN: usize = 1024;

/// The elements of an integer or bool tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownElements {
    /// Sizes.
    pub dims: Vec<usize>,
    /// Elements in row-major order.
    pub items: Vec<Dim>,
}

impl KnownElements {
    /// A scalar.
    pub fn scalar(item: Dim) -> KnownElements {
        KnownElements { dims: Vec::new(), items: vec![item] }
    }

    /// Elements as numbers, if no axis is in them.
    pub fn fixed(&self) -> Option<Vec<i64>> {
        self.items.iter().map(Dim::as_fixed).collect()
    }

    /// The element at a coordinate, where sizes of 1 stretch and missing axes are in front.
    fn stretched(&self, at: &[usize]) -> Option<&Dim> {
        let skip = at.len().checked_sub(self.dims.len())?;
        let mut offset = 0;
        for (x, size) in at.get(skip..)?.iter().zip(&self.dims) {
            offset = offset * size + if *size == 1 { 0 } else { *x };
        }
        self.items.get(offset)
    }
}

fn sizes(ty: &Type) -> Option<Vec<usize>> {
    if ty.dtype.is_float() {
        return None;
    }
    let dims: Option<Vec<usize>> =
        ty.dims.iter().map(|dim| dim.as_fixed().and_then(|dim| usize::try_from(dim).ok())).collect();
    dims.filter(|dims| {
        let count = dims.iter().try_fold(1_usize, |count, dim| count.checked_mul(*dim));
        count.is_some_and(|count| count <= MOST_KNOWN)
    })
}

/// Every coordinate of a shape in row-major order.
fn coordinates(dims: &[usize]) -> impl Iterator<Item = Vec<usize>> + '_ {
    (0..dims.iter().product()).map(move |flat: usize| {
        let mut rest = flat;
        let mut at = vec![0; dims.len()];
        for (x, size) in at.iter_mut().zip(dims).rev() {
            *x = rest % size;
            rest /= size;
        }
        at
    })
}

/// The result of an operator on known values; `None` if it is not known.
pub fn evaluate(
    op: &Op,
    inputs: &[Option<&KnownElements>],
    ty: &Type,
    axes: &[Axis],
) -> Option<KnownElements> {
    let dims = sizes(ty)?;
    let each = |item: &dyn Fn(&[usize]) -> Option<Dim>| -> Option<Vec<Dim>> {
        coordinates(&dims).map(|at| item(&at)).collect()
    };
    if let Op::Size(dim) = op {
        return Some(KnownElements::scalar(dim.clone()));
    }
    if let Op::Iota { axis, .. } = op {
        let items = each(&|at| i64::try_from(*at.get(*axis)?).ok().map(Dim::fixed))?;
        return Some(KnownElements { dims, items });
    }
    let known: Vec<&KnownElements> = inputs.iter().copied().collect::<Option<_>>()?;
    let first = *known.first()?;
    let items = match op {
        Op::Unary(unary) => first.items.iter().map(|x| one(*unary, x, axes)).collect(),
        Op::Binary(binary) => {
            let second = *known.get(1)?;
            each(&|at| two(*binary, first.stretched(at)?, second.stretched(at)?, ty.dtype, axes))
        }
        Op::Select => each(&|at| {
            let chosen = if first.stretched(at)?.as_fixed()? != 0 { known.get(1)? } else { known.get(2)? };
            chosen.stretched(at).cloned()
        }),
        Op::Convert(dtype) => first.items.iter().map(|x| converted(*dtype, x, axes)).collect(),
        Op::Reduce { fold, axes: reduced, keep } => {
            each(&|at| reduce(*fold, first, reduced, *keep, at, ty.dtype, axes))
        }
        Op::Reshape(_) => Some(first.items.clone()),
        Op::Broadcast(_) => each(&|at| first.stretched(at).cloned()),
        Op::Transpose(order) => each(&|at| {
            let mut from = vec![0; at.len()];
            for (x, axis) in at.iter().zip(order) {
                *from.get_mut(*axis)? = *x;
            }
            first.stretched(&from).cloned()
        }),
        Op::Slice { axis, start, step, .. } => each(&|at| {
            let mut from = at.to_vec();
            let x = from.get_mut(*axis)?;
            *x = usize::try_from(start.as_fixed()? + i64::try_from(*x).ok()? * step).ok()?;
            first.stretched(&from).cloned()
        }),
        Op::Concat { axis } => each(&|at| joined(&known, *axis, at)),
        Op::Gather { axis } => each(&|at| taken(first, known.get(1)?, *axis, at)),
        _ => None,
    }?;
    Some(KnownElements { dims, items })
}

fn boolean(value: bool) -> Dim {
    Dim::fixed(i64::from(value))
}

fn one(unary: Unary, x: &Dim, axes: &[Axis]) -> Option<Dim> {
    let (least, most) = x.range(axes);
    match unary {
        Unary::Neg => x.times(&Dim::fixed(-1)),
        Unary::Abs if least >= 0 => Some(x.clone()),
        Unary::Abs if most <= 0 => x.times(&Dim::fixed(-1)),
        Unary::Sign if least > 0 => Some(Dim::fixed(1)),
        Unary::Sign => x.as_fixed().map(|x| Dim::fixed(x.signum())),
        Unary::Not => x.as_fixed().map(|x| boolean(x == 0)),
        _ => None,
    }
}

fn two(binary: Binary, x: &Dim, y: &Dim, dtype: Dtype, axes: &[Axis]) -> Option<Dim> {
    if let (Some(x), Some(y)) = (x.as_fixed(), y.as_fixed()) {
        return numbers(binary, x, y).map(|value| Dim::fixed(dtype.wrap(value)));
    }
    let (least, most) = x.minus(y)?.range(axes);
    let decided = |yes: bool, no: bool| if yes || no { Some(boolean(yes)) } else { None };
    match binary {
        Binary::Add => x.plus(y),
        Binary::Sub => x.minus(y),
        Binary::Mul => x.times(y),
        Binary::Div if x.range(axes).0 >= 0 && y.range(axes).0 > 0 => x.divided(y),
        Binary::Mod | Binary::Rem if x.divided(y).is_some() => Some(Dim::fixed(0)),
        Binary::Max if least >= 0 => Some(x.clone()),
        Binary::Max if most <= 0 => Some(y.clone()),
        Binary::Min if least >= 0 => Some(y.clone()),
        Binary::Min if most <= 0 => Some(x.clone()),
        Binary::Eq => decided(x == y, least > 0 || most < 0),
        Binary::Ne => decided(least > 0 || most < 0, x == y),
        Binary::Lt => decided(most < 0, least >= 0),
        Binary::Le => decided(most <= 0, least > 0),
        Binary::Gt => decided(least > 0, most <= 0),
        Binary::Ge => decided(least >= 0, most < 0),
        _ => None,
    }
}

fn numbers(binary: Binary, x: i64, y: i64) -> Option<i64> {
    Some(match binary {
        Binary::Add => x.checked_add(y)?,
        Binary::Sub => x.checked_sub(y)?,
        Binary::Mul => x.checked_mul(y)?,
        Binary::Div => x.checked_div(y)?,
        Binary::Pow => x.checked_pow(u32::try_from(y).ok()?)?,
        Binary::Mod => {
            let rest = x.checked_rem(y)?;
            if rest != 0 && (rest < 0) != (y < 0) { rest + y } else { rest }
        }
        Binary::Rem => x.checked_rem(y)?,
        Binary::Max => x.max(y),
        Binary::Min => x.min(y),
        Binary::And => i64::from(x != 0 && y != 0),
        Binary::Or => i64::from(x != 0 || y != 0),
        Binary::Xor => i64::from((x != 0) != (y != 0)),
        Binary::Eq => i64::from(x == y),
        Binary::Ne => i64::from(x != y),
        Binary::Lt => i64::from(x < y),
        Binary::Le => i64::from(x <= y),
        Binary::Gt => i64::from(x > y),
        Binary::Ge => i64::from(x >= y),
    })
}

fn converted(dtype: Dtype, x: &Dim, axes: &[Axis]) -> Option<Dim> {
    let (least, most) = x.range(axes);
    match (x.as_fixed(), dtype) {
        (Some(x), _) => Some(Dim::fixed(dtype.wrap(x))),
        (None, Dtype::Bool) => (least > 0 || most < 0).then(|| boolean(true)),
        (None, Dtype::I64) => Some(x.clone()),
        (None, _) => {
            let (smallest, largest) = dtype.integer_range()?;
            (least >= i128::from(smallest) && most <= i128::from(largest)).then(|| x.clone())
        }
    }
}

fn reduce(
    fold: Fold,
    x: &KnownElements,
    reduced: &[usize],
    keep: bool,
    at: &[usize],
    dtype: Dtype,
    axes: &[Axis],
) -> Option<Dim> {
    let binary = match fold {
        Fold::Sum => Binary::Add,
        Fold::Prod => Binary::Mul,
        Fold::Max => Binary::Max,
        Fold::Min => Binary::Min,
    };
    let mut sum = match fold {
        Fold::Sum => Some(Dim::fixed(0)),
        Fold::Prod => Some(Dim::fixed(1)),
        _ => None,
    };
    for (from, item) in coordinates(&x.dims).zip(&x.items) {
        let kept = from.iter().enumerate().filter_map(|(axis, x)| match reduced.contains(&axis) {
            true => keep.then_some(0),
            false => Some(*x),
        });
        if kept.eq(at.iter().copied()) {
            sum = match sum {
                None => Some(item.clone()),
                Some(sum) => Some(two(binary, &sum, item, dtype, axes)?),
            };
        }
    }
    sum
}

fn joined(parts: &[&KnownElements], axis: usize, at: &[usize]) -> Option<Dim> {
    let mut from = at.to_vec();
    for part in parts {
        let size = *part.dims.get(axis)?;
        let x = from.get_mut(axis)?;
        if *x < size {
            return part.stretched(&from).cloned();
        }
        *x -= size;
    }
    None
}

fn taken(x: &KnownElements, indices: &KnownElements, axis: usize, at: &[usize]) -> Option<Dim> {
    let inner = axis + indices.dims.len();
    let index = indices.stretched(at.get(axis..inner)?)?.as_fixed()?;
    let size = i64::try_from(*x.dims.get(axis)?).ok()?;
    let index = usize::try_from(if index < 0 { index + size } else { index }).ok()?;
    let mut from = at.get(..axis)?.to_vec();
    from.push(index);
    from.extend(at.get(inner..)?);
    let inside = from.iter().zip(&x.dims).all(|(x, size)| x < size);
    if inside { x.stretched(&from).cloned() } else { None }
}
