//! Moves of whole values that strides can say become chains, which join others; what chains read by strides
//! that no transfer walks is moved first.

use tilewright_machine::tcp::Tcp;

use super::commands_group::plan_group;
use super::emit::dm_bytes;
use super::group::Group;
use super::kernel::{Kernel, Kernels, Origin, Part, Value, Work};
use super::repitch::repitched;
use super::view::{View, count, strides};

/// The same kernels, every chain of which can be cut.
#[must_use]
pub(super) fn legal(machine: &Tcp, pes: u64, mut all: Kernels) -> Kernels {
    let mut kernels = Vec::with_capacity(all.kernels.len());
    for mut kernel in std::mem::take(&mut all.kernels) {
        if !is_cut(machine, pes, &mut all, &kernel) {
            if let Some(made) = repitched(machine, pes, &mut all, &kernel) {
                kernels.extend(made);
                continue;
            }
            match moved(&all, &kernel) {
                Some(part) => kernel.work = Work::Move(vec![part]),
                None => {
                    for made in plain(&mut all, &mut kernel.work) {
                        kernels.extend(turned(machine, pes, &mut all, made));
                    }
                }
            }
        }
        kernels.push(kernel);
    }
    all.kernels = kernels;
    all
}

/// A move, or what does the same by rows if it is one that transfers take element by element.
fn turned(machine: &Tcp, pes: u64, all: &mut Kernels, made: Kernel) -> Vec<Kernel> {
    let chain = walked(all, &made).map(|work| Kernel { work, results: made.results.clone() });
    let Some(chain) = chain else { return vec![made] };
    match is_cut(machine, pes, all, &chain) {
        true => vec![chain],
        false => repitched(machine, pes, all, &chain).unwrap_or_else(|| vec![made]),
    }
}

/// The same kernels with moves that strides can say as chains without steps, so that they join others.
#[must_use]
pub(super) fn walked_moves(mut all: Kernels) -> Kernels {
    for number in 0..all.kernels.len() {
        if let Some(chain) = walked(&all, &all.kernels[number]) {
            all.kernels[number].work = chain;
        }
    }
    all
}

/// A chain without steps as a move.
fn moved(all: &Kernels, kernel: &Kernel) -> Option<Part> {
    let (Work::Chain { inputs, lines, streams }, [to]) = (&kernel.work, &kernel.results[..]) else {
        return None;
    };
    let ([view], [], [0]) = (&inputs[..], &lines[..], &streams[..]) else { return None };
    if all.values[view.value].packing != all.values[*to].packing {
        return None;
    }
    let own = strides(&view.dims());
    let loops = view.axes.iter().zip(own).map(|((size, from), to)| (*size, *from, to)).collect();
    Some(Part { from: view.value, from_first: view.first, to_first: 0, loops })
}

/// A move of one part to all of a value in its order, as a chain without steps.
fn walked(all: &Kernels, kernel: &Kernel) -> Option<Work> {
    let (Work::Move(parts), [to]) = (&kernel.work, &kernel.results[..]) else { return None };
    let [Part { from, from_first, to_first: 0, loops }] = &parts[..] else { return None };
    let dims: Vec<u64> = loops.iter().map(|row| row.0).collect();
    let rows = loops.iter().zip(strides(&dims)).all(|(row, own)| row.0 == 1 || row.2 == own);
    if !rows
        || count(&dims) != all.values[*to].count()
        || all.values[*to].packing != all.values[*from].packing
    {
        return None;
    }
    let axes = loops.iter().map(|(size, stride, _)| (*size, *stride)).collect();
    let inputs = vec![View { value: *from, first: *from_first, axes }];
    Some(Work::Chain { inputs, lines: Vec::new(), streams: vec![0] })
}

/// Whether a kernel is no chain, or one that can be cut; kernels are empty before and after.
pub(super) fn is_cut(machine: &Tcp, pes: u64, all: &mut Kernels, kernel: &Kernel) -> bool {
    let Work::Chain { inputs, .. } = &kernel.work else { return true };
    if all.whole_inputs(inputs).is_some() {
        return true;
    }
    all.kernels.push(kernel.clone());
    let group = Group { kernels: 0..1, rows: 1, columns: 1 };
    let plan = plan_group(machine, all, &group, (pes, dm_bytes(machine) / 2), None);
    all.kernels.clear();
    plan.is_some()
}

/// Moves of what a chain reads by strides, so that it reads values as they are.
fn plain(all: &mut Kernels, work: &mut Work) -> Vec<Kernel> {
    let Work::Chain { inputs, .. } = work else { return Vec::new() };
    let mut moves = Vec::new();
    for view in inputs {
        if all.is_whole(view) {
            continue;
        }
        let dims = view.dims();
        let Value { name, dtype, packing, .. } = all.values[view.value].clone();
        let name = format!("{name}.moved");
        all.values.push(Value { name, dims: dims.clone(), dtype, packing, origin: Origin::Kernel });
        let to = all.values.len() - 1;
        let loops =
            view.axes.iter().zip(strides(&dims)).map(|((size, from), to)| (*size, *from, to)).collect();
        let part = Part { from: view.value, from_first: view.first, to_first: 0, loops };
        moves.push(Kernel { work: Work::Move(vec![part]), results: vec![to] });
        *view = View::whole(to, &dims);
    }
    moves
}
