//! Subscripts of Einsum: an ellipsis, letters that stand several times in an operand, sizes of 1 that
//! stretch, and any number of operands, two of which are contracted at a time.

use tilewright_graph::{BuildResult, Builder, Dim, Fold, ValueId};

use crate::error::ImportResult;
use crate::onnx::node::Call;
use crate::onnx::ops::Outputs;

/// Operands of one product, at most.
const MOST_OPERANDS: usize = 64;

/// A letter, or an axis of the ellipsis by its number from the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    Letter(u8),
    Hidden(usize),
}

/// An operand whose axes have labels, each once.
#[derive(Clone)]
struct Labelled {
    value: ValueId,
    labels: Vec<Label>,
}

pub(super) fn einsum(call: &mut Call<'_, '_>) -> Outputs {
    let spec: String = call.word("equation", "").chars().filter(|letter| !letter.is_whitespace()).collect();
    let (left, right) = match spec.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (spec.as_str(), None),
    };
    let terms: Vec<&str> = left.split(',').collect();
    if terms.len() > MOST_OPERANDS {
        let what = format!("{} operands", terms.len());
        return Err(call.refuse(what).allowed(format!("at most {MOST_OPERANDS}")));
    }
    if terms.len() != call.inputs.len() {
        let what = format!("subscripts `{spec}` with {} operands", call.inputs.len());
        return Err(call.refuse(what).allowed(format!("{} operands", terms.len())));
    }
    let mut operands = Vec::new();
    for (at, term) in terms.iter().enumerate() {
        let value = call.input(at)?;
        let labels = axes_of(call, term, call.reader.b.rank(value))?;
        operands.push(diagonal(call, value, &labels)?);
    }
    let output = match right {
        Some(right) => {
            let hidden = operands.iter().flat_map(|operand| &operand.labels);
            let hidden = hidden.filter(|label| matches!(label, Label::Hidden(_))).max();
            let width = match hidden {
                Some(Label::Hidden(at)) => at + 1,
                _ => 0,
            };
            let letters = right.len() - if right.contains("...") { 3 } else { 0 };
            axes_of(call, right, letters + width)?
        }
        None => implicit(left, &operands),
    };
    let is_once = output.iter().enumerate().all(|(at, label)| !output[..at].contains(label));
    let is_there = |label: &Label| operands.iter().any(|operand| operand.labels.contains(label));
    if !is_once || !output.iter().all(is_there) {
        return Err(call
            .refuse(format!("subscripts `{spec}`"))
            .allowed("labels of the operands behind the arrow, each once"));
    }
    let mut sizes: Vec<(Label, Dim)> = Vec::new();
    for operand in &operands {
        for (label, dim) in operand.labels.iter().zip(call.reader.b.dims(operand.value)) {
            match sizes.iter_mut().find(|(known, _)| known == label) {
                None => sizes.push((*label, dim.clone())),
                Some((_, known)) if known.is(1) => *known = dim.clone(),
                Some(_) => {}
            }
        }
    }
    Ok(vec![call.build(|b| contracted(b, &operands, &output, &sizes))?])
}

/// The labels of an operand's axes.
fn axes_of(call: &Call<'_, '_>, term: &str, rank: usize) -> ImportResult<Vec<Label>> {
    let wrong = || {
        call.refuse(format!("subscripts `{term}` of {rank} axes"))
            .allowed("a letter for each axis; `...` stands for those between")
    };
    let (front, back) = match term.split_once("...") {
        Some((front, back)) => (front, Some(back)),
        None => (term, None),
    };
    let letters = |text: &str| -> Option<Vec<Label>> {
        text.bytes().map(|letter| letter.is_ascii_alphabetic().then_some(Label::Letter(letter))).collect()
    };
    let mut labels = letters(front).ok_or_else(wrong)?;
    if let Some(back) = back {
        let back = letters(back).ok_or_else(wrong)?;
        let hidden = rank.checked_sub(labels.len() + back.len()).ok_or_else(wrong)?;
        labels.extend((0..hidden).rev().map(Label::Hidden));
        labels.extend(back);
    }
    if labels.len() == rank { Ok(labels) } else { Err(wrong()) }
}

/// Without an arrow the result has the axes of the ellipsis, then the letters that stand once, in
/// alphabetical order.
fn implicit(left: &str, operands: &[Labelled]) -> Vec<Label> {
    let hidden = operands.iter().flat_map(|operand| operand.labels.iter().copied());
    let mut hidden: Vec<Label> = hidden.filter(|label| matches!(label, Label::Hidden(_))).collect();
    hidden.sort_unstable();
    hidden.dedup();
    hidden.reverse();
    let is_once = |letter: &u8| left.bytes().filter(|other| other == letter).count() == 1;
    let mut once: Vec<u8> = left.bytes().filter(u8::is_ascii_alphabetic).filter(is_once).collect();
    once.sort_unstable();
    hidden.extend(once.into_iter().map(Label::Letter));
    hidden
}

/// Axes with the same label read along their diagonal.
fn diagonal(call: &mut Call<'_, '_>, value: ValueId, labels: &[Label]) -> ImportResult<Labelled> {
    let (mut value, mut labels) = (value, labels.to_vec());
    loop {
        let again = (0..labels.len())
            .find_map(|at| Some((labels[..at].iter().position(|known| *known == labels[at])?, at)));
        let Some((first, second)) = again else { return Ok(Labelled { value, labels }) };
        let dims = call.reader.b.dims(value).to_vec();
        let (rows, columns) = (dims[first].as_fixed(), dims[second].as_fixed());
        let (Some(rows), Some(columns)) = (rows, columns) else {
            return Err(call.refuse("a diagonal of an open size").allowed("fixed sizes"));
        };
        let whole = rows.checked_mul(rows).filter(|_| rows == columns);
        let whole = whole.ok_or_else(|| {
            call.refuse(format!("a diagonal of {rows} rows and {columns} columns")).allowed("equal sizes")
        })?;
        let order: Vec<usize> = [first, second]
            .into_iter()
            .chain((0..dims.len()).filter(|axis| *axis != first && *axis != second))
            .collect();
        let mut flat = vec![Dim::fixed(whole)];
        flat.extend(order[2..].iter().map(|axis| dims[*axis].clone()));
        value = call.build(|b| {
            let x = b.transpose(value, &order)?;
            let x = b.reshape(x, &flat)?;
            b.slice(x, 0, 0.into(), rows.into(), rows + 1)
        })?;
        let rest: Vec<Label> = order[2..].iter().map(|axis| labels[*axis]).collect();
        labels = [&[labels[first]][..], &rest].concat();
    }
}

/// Axes of size 1 that another operand stretches go away.
fn squeezed(b: &mut Builder, x: &Labelled, sizes: &[(Label, Dim)]) -> BuildResult<Labelled> {
    let dims = b.dims(x.value).to_vec();
    let stays = |label: &Label, dim: &Dim| {
        !dim.is(1) || sizes.iter().any(|(known, size)| known == label && size.is(1))
    };
    let kept = || x.labels.iter().zip(&dims).filter(|(label, dim)| stays(label, dim));
    let kept_dims: Vec<Dim> = kept().map(|(_, dim)| dim.clone()).collect();
    Ok(Labelled { labels: kept().map(|(label, _)| *label).collect(), value: b.reshape(x.value, &kept_dims)? })
}

/// Sums over labels that nothing else has.
fn summed(b: &mut Builder, x: Labelled, needed: &[Label]) -> BuildResult<Labelled> {
    let alone: Vec<usize> = (0..x.labels.len()).filter(|at| !needed.contains(&x.labels[*at])).collect();
    if alone.is_empty() {
        return Ok(x);
    }
    let value = b.reduce(Fold::Sum, x.value, &alone, false)?;
    Ok(Labelled { value, labels: x.labels.into_iter().filter(|label| needed.contains(label)).collect() })
}

fn contracted(
    b: &mut Builder,
    operands: &[Labelled],
    output: &[Label],
    sizes: &[(Label, Dim)],
) -> BuildResult<ValueId> {
    let mut rest = Vec::new();
    for operand in operands {
        rest.push(squeezed(b, operand, sizes)?);
    }
    let mut sum: Option<Labelled> = None;
    for at in 0..rest.len() {
        let later: Vec<Label> =
            rest[at + 1..].iter().flat_map(|operand| &operand.labels).chain(output).copied().collect();
        let next = rest[at].clone();
        let sum_of_both = match sum {
            None => next,
            Some(sum) => {
                let with = |other: &Labelled| [&later[..], &other.labels].concat();
                let (needed, needed_next) = (with(&next), with(&sum));
                let (x, y) = (summed(b, sum, &needed)?, summed(b, next, &needed_next)?);
                let mut labels: Vec<Label> = x.labels.clone();
                labels.extend(y.labels.iter().filter(|label| !x.labels.contains(label)));
                labels.retain(|label| later.contains(label));
                if at + 1 == rest.len() {
                    labels = output.iter().copied().filter(|label| labels.contains(label)).collect();
                }
                pair(b, &x, &y, labels)?
            }
        };
        sum = Some(summed(b, sum_of_both, &later)?);
    }
    let sum = sum.unwrap_or(Labelled { value: b.scalar(tilewright_graph::Dtype::F32, 1.0)?, labels: vec![] });
    let order: Vec<usize> =
        output.iter().filter_map(|label| sum.labels.iter().position(|known| known == label)).collect();
    b.transpose(sum.value, &order)
}

/// The product of two operands with these labels: element by element if nothing is summed.
fn pair(b: &mut Builder, x: &Labelled, y: &Labelled, labels: Vec<Label>) -> BuildResult<Labelled> {
    let is_summed = x.labels.iter().chain(&y.labels).any(|label| !labels.contains(label));
    if !is_summed {
        let (left, right) = (arranged(b, x, &labels)?, arranged(b, y, &labels)?);
        return Ok(Labelled { value: b.mul(left, right)?, labels });
    }
    let mut known: Vec<Label> = Vec::new();
    let mut text = |labels: &[Label]| -> String {
        let letter = |label: &Label| {
            let at = known.iter().position(|other| other == label).unwrap_or_else(|| {
                known.push(*label);
                known.len() - 1
            });
            char::from(*b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ".get(at).unwrap_or(&b'.'))
        };
        labels.iter().map(letter).collect()
    };
    let spec = format!("{},{}->{}", text(&x.labels), text(&y.labels), text(&labels));
    Ok(Labelled { value: b.einsum(&spec, &[x.value, y.value])?, labels })
}

/// Axes in the order of these labels, of size 1 where there is none.
fn arranged(b: &mut Builder, x: &Labelled, labels: &[Label]) -> BuildResult<ValueId> {
    let place = |label: &Label| x.labels.iter().position(|known| known == label);
    let order: Vec<usize> = labels.iter().filter_map(place).collect();
    let own = b.dims(x.value).to_vec();
    let dims: Vec<Dim> =
        labels.iter().map(|label| place(label).map_or(Dim::fixed(1), |at| own[at].clone())).collect();
    let turned = b.transpose(x.value, &order)?;
    b.reshape(turned, &dims)
}
