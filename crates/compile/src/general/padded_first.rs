//! Padding of inputs before elementwise work that leaves it as it is: the host pads what it gives, so that
//! what is computed of few channels is not moved into its padding in short pieces.

use tilewright_num::RuleSet;

use super::kernel::{Kernel, Kernels, Origin, Value, Work};
use super::plan::readers;
use super::view::View;
use super::words::evaluate;

/// Elementwise kernels one behind the other, from an input to the move that pads what they give.
struct Padded {
    chains: Vec<usize>,
    mover: usize,
    /// The value with padding.
    to: usize,
}

/// The same kernels with inputs that are padded before what is computed of each of their elements.
#[must_use]
pub(super) fn padded_first(mut all: Kernels) -> Kernels {
    for input in all.inputs.clone() {
        if let Some(found) = padded(&all, input) {
            apply(&mut all, input, &found);
        }
    }
    all
}

/// What is computed of an input alone, element by element, if padding it with zeros gives the same padding.
fn padded(all: &Kernels, input: usize) -> Option<Padded> {
    let readers = readers(all);
    let (mut value, mut word, mut chains) = (input, 0, Vec::new());
    if all.values[input].origin != Origin::Input {
        return None;
    }
    loop {
        let [reader] = readers[value][..] else { return None };
        let Kernel { work, results } = all.kernels.get(reader)?;
        let [to] = results[..] else { return None };
        let Value { origin, packing, .. } = &all.values[to];
        match work {
            Work::Chain { inputs, lines, streams } => {
                let ([view], [stream]) = (&inputs[..], &streams[..]) else { return None };
                if !all.is_whole(view) || all.values[value].packing.is_narrow() {
                    return None;
                }
                let streams = evaluate(&RuleSet::TCP, &[word], lines);
                word = packing.narrowed(&RuleSet::TCP, *streams.get(*stream)?);
                chains.push(reader);
                value = to;
            }
            Work::Move(parts) => {
                let alike = *packing == all.values[value].packing && parts.len() == 1;
                let is_same = *origin == Origin::Filled(word) && alike && !chains.is_empty();
                return is_same.then_some(Padded { chains, mover: reader, to });
            }
            _ => return None,
        }
    }
}

fn apply(all: &mut Kernels, input: usize, Padded { chains, mover, to }: &Padded) {
    let Work::Move(mut parts) = all.kernels[*mover].work.clone() else { return };
    parts.iter_mut().for_each(|part| part.from = input);
    let (dims, padded) = (all.values[*to].dims.clone(), all.values.len());
    let Value { name, dtype, packing, .. } = all.values[input].clone();
    let (name, origin) = (format!("{name}.padded"), Origin::Filled(0));
    all.values.push(Value { name, dims: dims.clone(), dtype, packing, origin, host: None });
    let mut from = padded;
    for (number, chain) in chains.iter().enumerate() {
        let kernel = &mut all.kernels[*chain];
        if number + 1 == chains.len() {
            kernel.results = vec![*to];
        }
        let made = kernel.results[0];
        if let Work::Chain { inputs, .. } = &mut kernel.work {
            *inputs = vec![View::whole(from, &dims)];
        }
        all.values[made].dims.clone_from(&dims);
        from = made;
    }
    all.values[*to].origin = Origin::Kernel;
    all.kernels.remove(*mover);
    all.kernels.insert(chains[0], Kernel { work: Work::Move(parts), results: vec![padded] });
}
