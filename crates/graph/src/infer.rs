//! What type a primitive gives, and which operands it takes: the rule of each, written once.

use tilewright_base::Diagnostic;

use crate::dim::{Axis, Dim, same_count};
use crate::dtype::Dtype;
use crate::graph::Type;
use crate::op::{Binary, Op, Unary};

/// What was made, or why it cannot be.
pub type BuildResult<T> = Result<T, Box<Diagnostic>>;

/// A refusal of shapes.
pub fn shape_error(what: impl Into<String>, allowed: impl Into<String>) -> Box<Diagnostic> {
    Box::new(Diagnostic::error("graph/shape", what).allowed(allowed))
}

/// A refusal of element types.
pub fn dtype_error(what: impl Into<String>, allowed: impl Into<String>) -> Box<Diagnostic> {
    Box::new(Diagnostic::error("graph/dtype", what).allowed(allowed))
}

/// A size out of bounds.
pub fn size_error(what: impl Into<String>, allowed: impl Into<String>) -> Box<Diagnostic> {
    Box::new(Diagnostic::error("graph/size", what).allowed(allowed))
}

/// Axes of a tensor, at most.
pub const MOST_RANK: usize = 24;
/// Elements of a tensor, at most, whatever sizes its axes have.
pub const MOST_ELEMENTS: i128 = 1 << 48;

/// The results of a primitive.
pub fn infer(op: &Op, inputs: &[&Type], axes: &[Axis]) -> BuildResult<Type> {
    let rule = ShapeRule { op, axes };
    let ty = match (op, inputs) {
        (Op::Unary(unary), [x]) => rule.unary(*unary, x)?,
        (Op::Binary(binary), [x, y]) => rule.binary(*binary, x, y)?,
        (Op::Select, [c, x, y]) => rule.select(c, x, y)?,
        (Op::Convert(dtype), [x]) => Type::new(*dtype, x.dims.clone()),
        (Op::Reduce { axes, keep, .. }, [x]) => rule.reduce(axes, *keep, x)?,
        (Op::Einsum(spec), _) => rule.einsum(spec, inputs)?,
        (Op::Reshape(dims), [x]) => rule.reshape(dims, x)?,
        (Op::Broadcast(dims), [x]) => rule.stretch(dims, x)?,
        (Op::Transpose(order), [x]) => rule.transpose(order, x)?,
        (Op::Slice { axis, start, size, step }, [x]) => rule.slice(*axis, (start, size, *step), x)?,
        (Op::Concat { axis }, [_, ..]) => rule.concat(*axis, inputs)?,
        (Op::Pad { axis, low, high }, [x, value]) => rule.pad(*axis, low, high, x, value)?,
        (Op::Gather { axis }, [x, indices]) => rule.gather(*axis, x, indices)?,
        (Op::Scatter { .. }, [x, indices, updates]) => rule.scatter(x, indices, updates)?,
        (Op::Iota { dtype, dims, axis }, []) => {
            rule.axis(*axis, dims)?;
            Type::new(*dtype, dims.clone())
        }
        (Op::Size(_), []) => Type::new(Dtype::I64, []),
        (Op::Window { axis, size, stride, dilation }, [x]) => {
            rule.window(*axis, *size, *stride, *dilation, x)?
        }
        _ => {
            let what = format!("`{}` with {} operands", op.name(), inputs.len());
            return Err(Box::new(Diagnostic::error("graph/operands", what).allowed(operands(op))));
        }
    };
    bounded(&ty, axes)?;
    Ok(ty)
}

fn operands(op: &Op) -> &'static str {
    match op {
        Op::Iota { .. } | Op::Size(_) => "none",
        Op::Binary(_) | Op::Pad { .. } | Op::Gather { .. } => "two",
        Op::Select | Op::Scatter { .. } => "three",
        Op::Einsum(_) => "as many as the subscripts name",
        Op::Concat { .. } => "at least one",
        _ => "one",
    }
}

/// Complains about negative or huge sizes.
pub fn bounded(ty: &Type, axes: &[Axis]) -> BuildResult<()> {
    if ty.dims.len() > MOST_RANK {
        return Err(size_error(
            format!("a tensor with {} axes", ty.dims.len()),
            format!("at most {MOST_RANK}"),
        ));
    }
    let mut most = 1_i128;
    for dim in &ty.dims {
        let (least, largest) = dim.range(axes);
        if least < 0 {
            let what = format!("the size {} may be {least}", dim.text(axes));
            return Err(size_error(what, "sizes that are never negative"));
        }
        most = most.saturating_mul(largest.max(1));
    }
    if most > MOST_ELEMENTS {
        let what = format!("{} has up to {most} elements", ty.text(axes));
        return Err(size_error(what, format!("at most {MOST_ELEMENTS}")));
    }
    Ok(())
}

/// The shape that two shapes stretch to, aligned at their last axes.
pub fn stretched(x: &[Dim], y: &[Dim], axes: &[Axis]) -> BuildResult<Vec<Dim>> {
    let rank = x.len().max(y.len());
    let at = |dims: &[Dim], place: usize| -> Dim {
        (place + dims.len())
            .checked_sub(rank)
            .and_then(|at| dims.get(at).cloned())
            .unwrap_or_else(|| Dim::fixed(1))
    };
    (0..rank)
        .map(|place| match (at(x, place), at(y, place)) {
            (a, b) if a == b || b.is(1) => Ok(a),
            (a, b) if a.is(1) => Ok(b),
            (a, b) => Err(shape_error(
                format!("sizes {} and {} meet", a.text(axes), b.text(axes)),
                "equal sizes, or 1, which stretches",
            )),
        })
        .collect()
}

struct ShapeRule<'r> {
    op: &'r Op,
    axes: &'r [Axis],
}

impl ShapeRule<'_> {
    fn name(&self) -> &'static str {
        self.op.name()
    }

    fn axis<'d>(&self, axis: usize, dims: &'d [Dim]) -> BuildResult<&'d Dim> {
        dims.get(axis).ok_or_else(|| {
            shape_error(
                format!("`{}` along axis {axis} of {}", self.name(), dims.len()),
                "an axis that is there",
            )
        })
    }

    fn same_dtype(&self, x: &Type, y: &Type) -> BuildResult<()> {
        if x.dtype == y.dtype {
            return Ok(());
        }
        let what = format!("`{}` of {} and {}", self.name(), x.dtype, y.dtype);
        Err(Box::new(
            Diagnostic::error("graph/dtype", what).allowed("equal types").instead("convert one of them"),
        ))
    }

    fn unary(&self, unary: Unary, x: &Type) -> BuildResult<Type> {
        let good = match unary {
            Unary::Not => x.dtype == Dtype::Bool,
            Unary::Neg | Unary::Abs | Unary::Sign => x.dtype != Dtype::Bool,
            _ => x.dtype.is_float(),
        };
        if !good {
            let allowed = if unary == Unary::Not { "bool" } else { "a float type" };
            return Err(dtype_error(format!("`{}` of {}", self.name(), x.dtype), allowed));
        }
        let tests = matches!(unary, Unary::IsNan | Unary::IsInf);
        Ok(Type::new(if tests { Dtype::Bool } else { x.dtype }, x.dims.clone()))
    }

    fn binary(&self, binary: Binary, x: &Type, y: &Type) -> BuildResult<Type> {
        self.same_dtype(x, y)?;
        let logic = x.dtype == Dtype::Bool;
        let equality = matches!(binary, Binary::Eq | Binary::Ne);
        if !equality && binary.is_logic() != logic {
            let allowed = if binary.is_logic() { "bool" } else { "numbers" };
            return Err(dtype_error(format!("`{}` of {}", self.name(), x.dtype), allowed));
        }
        let dtype = if binary.compares() { Dtype::Bool } else { x.dtype };
        Ok(Type::new(dtype, stretched(&x.dims, &y.dims, self.axes)?))
    }

    fn select(&self, c: &Type, x: &Type, y: &Type) -> BuildResult<Type> {
        self.same_dtype(x, y)?;
        if c.dtype != Dtype::Bool {
            return Err(dtype_error(format!("`select` by {}", c.dtype), "a condition of bool"));
        }
        let dims = stretched(&x.dims, &y.dims, self.axes)?;
        Ok(Type::new(x.dtype, stretched(&c.dims, &dims, self.axes)?))
    }

    fn reduce(&self, reduced: &[usize], keep: bool, x: &Type) -> BuildResult<Type> {
        if !reduced.is_sorted_by(|a, b| a < b) {
            return Err(shape_error(format!("axes {reduced:?} of a reduction"), "ascending, each once"));
        }
        if let Some(last) = reduced.last() {
            self.axis(*last, &x.dims)?;
        }
        let dims = x.dims.iter().enumerate().filter_map(|(axis, dim)| match reduced.contains(&axis) {
            true => keep.then(|| Dim::fixed(1)),
            false => Some(dim.clone()),
        });
        Ok(Type::new(x.dtype, dims.collect::<Vec<_>>()))
    }

    fn einsum(&self, spec: &str, inputs: &[&Type]) -> BuildResult<Type> {
        let parts = Subscripts::parse(spec)
            .ok_or_else(|| shape_error(format!("`{spec}` as subscripts"), "letters: bse,fe->bsf"))?;
        if parts.inputs.len() != inputs.len() || inputs.is_empty() {
            let what = format!("`{spec}` with {} operands", inputs.len());
            return Err(shape_error(what, format!("{} operands", parts.inputs.len())));
        }
        let mut sizes: Vec<(u8, Dim)> = Vec::new();
        for (labels, ty) in parts.inputs.iter().zip(inputs) {
            if labels.len() != ty.dims.len() {
                let what = format!("`{spec}` on {}", ty.text(self.axes));
                return Err(shape_error(what, format!("{} axes", labels.len())));
            }
            for (label, dim) in labels.iter().zip(&ty.dims) {
                match sizes.iter().find(|(known, _)| known == label) {
                    None => sizes.push((*label, dim.clone())),
                    Some((_, known)) if known == dim => {}
                    Some((_, known)) => {
                        let (a, b) = (known.text(self.axes), dim.text(self.axes));
                        let what = format!("label {} of `{spec}` has sizes {a} and {b}", char::from(*label));
                        return Err(shape_error(what, "one size for each label"));
                    }
                }
            }
        }
        let first = inputs.first().map_or(Dtype::F32, |ty| ty.dtype);
        for ty in inputs {
            if ty.dtype != first || first == Dtype::Bool {
                return Err(dtype_error(
                    format!("`einsum` of {} and {first}", ty.dtype),
                    "equal types of numbers",
                ));
            }
        }
        let dims: Option<Vec<Dim>> = parts
            .output
            .iter()
            .map(|label| sizes.iter().find(|(known, _)| known == label).map(|(_, dim)| dim.clone()))
            .collect();
        let dims = dims.ok_or_else(|| {
            shape_error(format!("`{spec}` makes an axis of nothing"), "labels of the operands")
        })?;
        Ok(Type::new(first, dims))
    }

    fn reshape(&self, dims: &[Dim], x: &Type) -> BuildResult<Type> {
        if same_count(&x.dims, dims) {
            return Ok(Type::new(x.dtype, dims));
        }
        let wanted = Type::new(x.dtype, dims).text(self.axes);
        let what = format!("`reshape` of {} to {wanted}", x.text(self.axes));
        Err(shape_error(what, "as many elements as there are"))
    }

    fn stretch(&self, dims: &[Dim], x: &Type) -> BuildResult<Type> {
        if stretched(&x.dims, dims, self.axes)? == dims {
            return Ok(Type::new(x.dtype, dims));
        }
        let wanted = Type::new(x.dtype, dims).text(self.axes);
        Err(shape_error(
            format!("`broadcast` of {} to {wanted}", x.text(self.axes)),
            "sizes that only grow from 1",
        ))
    }

    fn transpose(&self, order: &[usize], x: &Type) -> BuildResult<Type> {
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..x.dims.len()) {
            let what = format!("`transpose` {order:?} of {}", x.text(self.axes));
            return Err(shape_error(what, "each axis once"));
        }
        let dims: Vec<Dim> = order.iter().filter_map(|axis| x.dims.get(*axis).cloned()).collect();
        Ok(Type::new(x.dtype, dims))
    }

    fn slice(&self, axis: usize, (start, size, step): (&Dim, &Dim, i64), x: &Type) -> BuildResult<Type> {
        let dim = self.axis(axis, &x.dims)?;
        let what = || {
            let (start, size) = (start.text(self.axes), size.text(self.axes));
            format!("`slice` of axis {axis} of {}: {size} from {start} by {step}", x.text(self.axes))
        };
        let refused = || shape_error(what(), "elements that are there");
        let last =
            size.minus(&Dim::fixed(1)).and_then(|n| n.times(&Dim::fixed(step))).and_then(|n| n.plus(start));
        let last = last.ok_or_else(refused)?;
        let one = Dim::fixed(1);
        let room =
            |at: &Dim| dim.minus(at).and_then(|rest| rest.minus(&one)).map(|rest| rest.range(self.axes).0);
        let inside = |at: &Dim| at.range(self.axes).0 >= 0 && room(at).is_some_and(|room| room >= 0);
        // A slice of nothing may start anywhere; one that may be empty ends one step before its first
        // element.
        let empty = size.is(0);
        let may_be_empty = size.range(self.axes).0 == 0 && step == 1;
        let fits = may_be_empty
            && start.range(self.axes).0 >= 0
            && start
                .plus(size)
                .and_then(|end| dim.minus(&end))
                .is_some_and(|rest| rest.range(self.axes).0 >= 0);
        if step == 0 || !(empty || fits || inside(start) && inside(&last)) {
            return Err(refused());
        }
        Ok(replaced(x, axis, [size.clone()]))
    }

    fn concat(&self, axis: usize, inputs: &[&Type]) -> BuildResult<Type> {
        let Some((first, rest)) = inputs.split_first() else {
            return Err(shape_error("nothing to join", "operands"));
        };
        let mut sum = self.axis(axis, &first.dims)?.clone();
        for ty in rest {
            self.same_dtype(first, ty)?;
            let dim = self.axis(axis, &ty.dims)?;
            if replaced(first, axis, [dim.clone()]) != **ty {
                let what = format!("`concat` of {} and {}", first.text(self.axes), ty.text(self.axes));
                return Err(shape_error(what, format!("sizes that are equal but for axis {axis}")));
            }
            sum = sum.plus(dim).ok_or_else(|| size_error("`concat` of too much", "64 bits"))?;
        }
        Ok(replaced(first, axis, [sum]))
    }

    fn pad(&self, axis: usize, low: &Dim, high: &Dim, x: &Type, value: &Type) -> BuildResult<Type> {
        self.same_dtype(x, value)?;
        let dim = self.axis(axis, &x.dims)?;
        if !value.dims.is_empty() || low.range(self.axes).0 < 0 || high.range(self.axes).0 < 0 {
            return Err(shape_error("`pad` by less than nothing, or with more than one value", "a scalar"));
        }
        let sum = dim.plus(low).and_then(|sum| sum.plus(high));
        Ok(replaced(x, axis, [sum.ok_or_else(|| size_error("`pad` to too much", "64 bits"))?]))
    }

    fn gather(&self, axis: usize, x: &Type, indices: &Type) -> BuildResult<Type> {
        self.axis(axis, &x.dims)?;
        self.index_dtype(indices)?;
        Ok(replaced(x, axis, indices.dims.iter().cloned()))
    }

    fn index_dtype(&self, indices: &Type) -> BuildResult<()> {
        if matches!(indices.dtype, Dtype::I32 | Dtype::I64) {
            return Ok(());
        }
        Err(dtype_error(format!("`{}` by {}", self.name(), indices.dtype), "indices of i32 or i64"))
    }

    fn scatter(&self, x: &Type, indices: &Type, updates: &Type) -> BuildResult<Type> {
        self.same_dtype(x, updates)?;
        self.index_dtype(indices)?;
        self.axis(0, &x.dims)?;
        let [count] = indices.dims.as_slice() else {
            return Err(shape_error("`scatter` by indices of several axes", "one axis"));
        };
        if replaced(x, 0, [count.clone()]) != *updates {
            let what = format!("`scatter` of {} into {}", updates.text(self.axes), x.text(self.axes));
            return Err(shape_error(what, "a row for each index"));
        }
        Ok((*x).clone())
    }

    fn window(&self, axis: usize, size: u64, stride: u64, dilation: u64, x: &Type) -> BuildResult<Type> {
        let dim = self.axis(axis, &x.dims)?;
        let refused = |why: &str| {
            let what =
                format!("`window` of {size} by {stride} with dilation {dilation} on {}", dim.text(self.axes));
            shape_error(what, why)
        };
        let reach = size.checked_sub(1).and_then(|n| n.checked_mul(dilation)).and_then(|n| n.checked_add(1));
        let reach = reach.and_then(|reach| i64::try_from(reach).ok());
        let reach = reach.filter(|_| stride > 0 && dilation > 0).ok_or_else(|| refused("numbers from 1"))?;
        let rest = dim.minus(&Dim::fixed(reach)).ok_or_else(|| refused("64 bits"))?;
        if rest.range(self.axes).0 < 0 {
            return Err(refused("windows that fit"));
        }
        let steps = match rest.as_fixed() {
            // A stride beyond 64 bits goes beyond the first window, as one of that size does.
            Some(rest) => Dim::fixed(rest / i64::try_from(stride).unwrap_or(i64::MAX)),
            None if stride == 1 => rest,
            None => return Err(refused("stride 1 along an axis whose size is open")),
        };
        let windows = steps.plus(&Dim::fixed(1)).ok_or_else(|| refused("64 bits"))?;
        let size = Dim::fixed(i64::try_from(size).map_err(|_| refused("64 bits"))?);
        Ok(replaced(x, axis, [windows, size]))
    }
}

/// A type with one axis replaced by others.
fn replaced(x: &Type, axis: usize, by: impl IntoIterator<Item = Dim>) -> Type {
    let mut dims = x.dims.clone();
    dims.splice(axis..(axis + 1).min(x.dims.len()), by);
    Type::new(x.dtype, dims)
}

/// Subscripts of an einsum, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscripts {
    /// Labels of each operand.
    pub inputs: Vec<Vec<u8>>,
    /// Labels of the result, each once.
    pub output: Vec<u8>,
}

impl Subscripts {
    /// Reads `bse,fe->bsf`.
    pub fn parse(spec: &str) -> Option<Subscripts> {
        let (left, right) = spec.split_once("->")?;
        let labels = |text: &str| -> Option<Vec<u8>> {
            text.bytes().map(|byte| byte.is_ascii_alphabetic().then_some(byte)).collect()
        };
        let inputs: Option<Vec<Vec<u8>>> = left.split(',').map(labels).collect();
        let output = labels(right)?;
        let once = output.iter().enumerate().all(|(at, label)| !output[..at].contains(label));
        if !once {
            return None;
        }
        Some(Subscripts { inputs: inputs?, output })
    }
}
