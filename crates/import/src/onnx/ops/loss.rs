//! Losses of classifiers: the negative logarithm of the probability that the right class was given.

use tilewright_graph::rich::{Attrs, RichOp};
use tilewright_graph::{Binary, BuildResult, Builder, Data, Dim, Dtype, Fold, Type, Unary, ValueId};

use crate::error::ImportResult;
use crate::onnx::node::Call;
use crate::onnx::ops::Outputs;

/// What is done with the losses of all elements.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reduction {
    Each,
    Sum,
    Mean,
}

/// Logarithms `[n, classes, ..]`, targets `[n, ..]`, and perhaps a weight for each class.
struct Classes {
    scores: ValueId,
    target: ValueId,
    weight: Option<ValueId>,
    ignored: Option<i64>,
    reduction: Reduction,
}

fn classes(call: &Call<'_, '_>) -> ImportResult<Classes> {
    let (scores, target) = (call.input(0)?, call.input(1)?);
    let reduction = match call.word("reduction", "mean").as_str() {
        "none" => Reduction::Each,
        "sum" => Reduction::Sum,
        "mean" => Reduction::Mean,
        other => {
            return Err(call.refuse(format!("`reduction` is `{other}`")).allowed("none, sum, mean"));
        }
    };
    let dtype = call.reader.b.dtype(target);
    if !matches!(dtype, Dtype::I32 | Dtype::I64) {
        return Err(call.refuse(format!("targets (operand 1) are of {dtype}")).allowed("i32, i64"));
    }
    let (rank, others) = (call.reader.b.rank(scores), call.reader.b.rank(target));
    if rank < 2 || others + 1 != rank {
        return Err(call
            .refuse(format!("scores have {rank} axes, targets {others}"))
            .allowed("scores [n, classes, ..] and targets [n, ..]"));
    }
    let range = dtype.integer_range().unwrap_or((0, 0));
    let ignored = call.attribute("ignore_index").map(|attribute| attribute.i);
    // A number that targets cannot be ignores nothing.
    let ignored = ignored.filter(|number| (range.0..=range.1).contains(number));
    Ok(Classes { scores, target, weight: call.maybe(2), ignored, reduction })
}

impl Classes {
    /// Elements `[n, classes, ..]` of the class that each target names.
    fn picked(b: &mut Builder, hits: ValueId, from: ValueId) -> BuildResult<ValueId> {
        let zero = b.scalar(b.dtype(from), 0.0)?;
        let chosen = b.select(hits, from, zero)?;
        b.reduce(Fold::Sum, chosen, &[1], false)
    }

    fn loss(&self, b: &mut Builder) -> BuildResult<ValueId> {
        let (rank, dtype) = (b.rank(self.scores), b.dtype(self.scores));
        let mut column = vec![Dim::fixed(1); rank];
        column[1] = b.dim(self.scores, 1)?;
        let numbers = b.iota(b.dtype(self.target), &column, 1)?;
        let target = b.unsqueeze(self.target, 1)?;
        let hits = b.binary(Binary::Eq, target, numbers)?;
        let scores = Self::picked(b, hits, self.scores)?;
        let mut loss = b.unary(Unary::Neg, scores)?;
        let mut weight = match self.weight {
            None => None,
            Some(weight) => {
                let weight = b.reshape(weight, &column)?;
                Some(Self::picked(b, hits, weight)?)
            }
        };
        if let Some(weight) = weight {
            loss = b.mul(loss, weight)?;
        }
        if let Some(ignored) = self.ignored {
            let ignored = b.constant(Type::new(b.dtype(self.target), []), Data::Ints(vec![ignored]))?;
            let counts = b.binary(Binary::Ne, self.target, ignored)?;
            let (zero, one) = (b.scalar(dtype, 0.0)?, b.scalar(dtype, 1.0)?);
            loss = b.select(counts, loss, zero)?;
            weight = Some(b.select(counts, weight.unwrap_or(one), zero)?);
        }
        let axes: Vec<usize> = (0..b.rank(loss)).collect();
        match (self.reduction, weight) {
            (Reduction::Each, _) => Ok(loss),
            (Reduction::Sum, _) => b.reduce(Fold::Sum, loss, &axes, false),
            (Reduction::Mean, None) => b.mean(loss, &axes, false),
            (Reduction::Mean, Some(weight)) => {
                let sum = b.reduce(Fold::Sum, loss, &axes, false)?;
                let weight = b.reduce(Fold::Sum, weight, &axes, false)?;
                b.div(sum, weight)
            }
        }
    }
}

pub(super) fn negative_log(call: &mut Call<'_, '_>) -> Outputs {
    let classes = classes(call)?;
    Ok(vec![call.build(|b| classes.loss(b))?])
}

/// The second result is the logarithms of the probabilities.
pub(super) fn cross_entropy(call: &mut Call<'_, '_>) -> Outputs {
    let mut classes = classes(call)?;
    let logarithms =
        call.rich_on(RichOp::LogSoftmax, &[Some(classes.scores)], Attrs::default().int("axis", 1))?;
    classes.scores = logarithms.first().copied().unwrap_or(classes.scores);
    let loss = call.build(|b| classes.loss(b))?;
    Ok(vec![loss, classes.scores])
}
