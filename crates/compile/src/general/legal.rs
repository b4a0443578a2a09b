//! Moves of whole values that strides can say become chains, which join others; what chains read by strides
//! that no transfer walks is moved first.

use std::collections::BTreeSet;

use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_machine::tcp::Tcp;

use super::emit::dm_bytes;
use super::even_pitch::{Apart, even_pitch, has_odd_pitches};
use super::group::Group;
use super::group_plan::{GroupPlan, plan_group};
use super::kernel::{Kernel, Kernels, Origin, Part, Value, Work};
use super::link;
use super::masked::masked;
use super::repitch::repitched;
use super::view::{View, count, strides};

/// Bytes of a run below which transfers take longer than two moves of whole rows.
const LEAST_RUN_BYTES: u64 = 32;
/// Cycles up to which a chain is not compared with what does the same.
pub(super) const LEAST_CYCLES: u64 = 8000;
/// What a kernel takes besides its commands.
pub(super) const KERNEL_CYCLES: u64 = 2000;
/// The part of what a chain takes, or a copy, that rows at even pitches must stay below: estimates are no
/// nearer.
const MUCH_LESS: [u64; 2] = [3, 4];
const SURELY_LESS: [u64; 2] = [7, 8];
/// Elements of a chain below which that does not matter.
const LEAST_TORN: u64 = 1 << 14;

/// How a chain can be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cutting {
    /// In shares whose rows are long enough.
    Whole,
    /// In shares of short runs.
    Torn,
    /// Not at all.
    None,
}

/// The same kernels, every chain of which can be cut.
#[must_use]
pub(super) fn legal(machine: &Tcp, pes: u64, mut all: Kernels) -> Kernels {
    let mut kernels = Vec::with_capacity(all.kernels.len());
    let mut apart = Apart::default();
    let multiplied: BTreeSet<usize> = all.kernels.iter().flat_map(multiplied).collect();
    for kernel in std::mem::take(&mut all.kernels) {
        if !kernel.results.iter().any(|value| multiplied.contains(value))
            && let Some(made) = masked(machine, pes, &mut all, &kernel)
        {
            kernels.push(made);
            continue;
        }
        let cutting = cutting(machine, pes, &mut all, &kernel);
        // A contraction may take what it reads by strides as it lies.
        if !kernel.results.iter().any(|value| multiplied.contains(value))
            && let Some(made) = copied(machine, pes, &mut all, (&kernel, cutting), &mut apart)
        {
            kernels.extend(made);
            continue;
        }
        if cutting == Cutting::Whole {
            let even = even_for_less(machine, pes, &mut all, &kernel, &mut apart);
            kernels.extend(even.unwrap_or_else(|| vec![kernel]));
            continue;
        }
        kernels.extend(mended_chain(machine, pes, &mut all, (kernel, cutting), &mut apart));
    }
    all.kernels = kernels;
    all
}

/// A chain that no cut takes, or one in short runs alone, or kernels that do the same in less: rows at even
/// pitches, or what the chain reads moved beforehand.
fn mended_chain(
    machine: &Tcp,
    pes: u64,
    all: &mut Kernels,
    (kernel, was): (Kernel, Cutting),
    apart: &mut Apart,
) -> Vec<Kernel> {
    let known = all.values.len();
    let even = even_pitch(machine, pes, all, (&kernel, was), apart);
    let made = moved_before(machine, pes, all, (kernel.clone(), was));
    let Some((least, way)) = even else { return made };
    let each: Option<Vec<u64>> = made.iter().map(|one| cycles(machine, pes, all, one)).collect();
    if each.is_some_and(|each| each.into_iter().sum::<u64>() <= least) {
        return made;
    }
    all.values.truncate(known);
    way.kernels(all, &kernel, apart).or_broken("a way that was weighed is there")
}

/// A chain over rows of odd pitch that can be cut, though perhaps in few shares: at even pitches, if that
/// takes much less.
fn even_for_less(
    machine: &Tcp,
    pes: u64,
    all: &mut Kernels,
    kernel: &Kernel,
    apart: &mut Apart,
) -> Option<Vec<Kernel>> {
    if !has_odd_pitches(all, kernel) {
        return None;
    }
    let own = cycles(machine, pes, all, kernel).filter(|own| *own > LEAST_CYCLES)?;
    let (least, way) = even_pitch(machine, pes, all, (kernel, Cutting::Whole), apart)?;
    if is_less(least, own, MUCH_LESS) { way.kernels(all, kernel, apart) } else { None }
}

/// Whether one way takes less than a part of another.
fn is_less(one: u64, other: u64, [part, of]: [u64; 2]) -> bool {
    one.exact_mul(of) <= other.exact_mul(part)
}

/// The same, with what such a chain reads moved beforehand.
fn moved_before(
    machine: &Tcp,
    pes: u64,
    all: &mut Kernels,
    (mut kernel, was): (Kernel, Cutting),
) -> Vec<Kernel> {
    if let Some(made) = repitched(machine, pes, all, (&kernel, was)) {
        return made;
    }
    if let Some(made) = reordered(machine, pes, all, &kernel) {
        return made;
    }
    let mut made = Vec::new();
    match moved(all, &kernel) {
        _ if was == Cutting::Torn => made = mended(machine, pes, all, &mut kernel),
        Some(part) => kernel.work = Work::Move(vec![part]),
        None => made = untangled(machine, pes, all, &mut kernel),
    }
    made.push(kernel);
    made
}

/// What a contraction reads.
fn multiplied(kernel: &Kernel) -> Vec<usize> {
    match kernel.work {
        Work::Contract { a, b, .. } => vec![a, b],
        _ => Vec::new(),
    }
}

/// A long chain without steps, or what does the same in less: rows moved apart and turned, or a move.
fn copied(
    machine: &Tcp,
    pes: u64,
    all: &mut Kernels,
    (kernel, was): (&Kernel, Cutting),
    apart: &mut Apart,
) -> Option<Vec<Kernel>> {
    let part = moved(all, kernel)?;
    let own = cycles(machine, pes, all, kernel).filter(|_| was != Cutting::None);
    if own.is_some_and(|own| own <= LEAST_CYCLES) && was == Cutting::Whole {
        return None;
    }
    let mut best = own.map(|own| (own, vec![kernel.clone()]));
    let mut weigh = |all: &mut Kernels, made: Vec<Kernel>| {
        let each: Option<Vec<u64>> = made.iter().map(|one| cycles(machine, pes, all, one)).collect();
        let Some(all) = each.map(|each| each.into_iter().sum::<u64>()) else { return };
        if best.as_ref().is_none_or(|(least, _)| all < *least) {
            best = Some((all, made));
        }
    };
    if let Some(made) = repitched(machine, pes, all, (kernel, Cutting::None)) {
        weigh(all, made);
    }
    weigh(all, vec![Kernel { work: Work::Move(vec![part]), ..kernel.clone() }]);
    let even = even_pitch(machine, pes, all, (kernel, was), apart);
    if let Some((cycles, way)) = even
        && best.as_ref().is_none_or(|(least, _)| is_less(cycles, *least, SURELY_LESS))
    {
        return way.kernels(all, kernel, apart);
    }
    best.map(|(_, made)| made)
}

/// What a chain or a move takes, about.
pub(super) fn cycles(machine: &Tcp, pes: u64, all: &mut Kernels, kernel: &Kernel) -> Option<u64> {
    let bytes = all.values[*kernel.results.first()?].element_bytes();
    Some(match &kernel.work {
        Work::Move(parts) => KERNEL_CYCLES + link::shared_cycles(machine, parts, bytes, pes),
        Work::Chain { inputs, .. } if all.whole_inputs(inputs).is_some() => KERNEL_CYCLES,
        Work::Chain { .. } => KERNEL_CYCLES + planned(machine, pes, all, kernel)?.cycles,
        _ => return None,
    })
}

/// A chain in the order in which one of its inputs lies, and behind it the rows of its result turned; `None`
/// if one of these cannot be cut.
fn reordered(machine: &Tcp, pes: u64, all: &mut Kernels, kernel: &Kernel) -> Option<Vec<Kernel>> {
    let (Work::Chain { inputs, lines, streams }, [to]) = (&kernel.work, &kernel.results[..]) else {
        return None;
    };
    let lies = inputs.iter().find(|view| is_turned(view))?;
    let mut order: Vec<usize> = (0..lies.axes.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(lies.axes[*at].1));
    let same_axes = |view: &View| view.dims() == lies.dims();
    if lines.is_empty() || !inputs.iter().all(same_axes) {
        return None;
    }
    let in_order =
        |view: &View| View { axes: order.iter().map(|at| view.axes[*at]).collect(), ..view.clone() };
    let dims: Vec<u64> = order.iter().map(|at| lies.axes[*at].0).collect();
    let known = all.values.len();
    let Value { name, dtype, packing, .. } = all.values[*to].clone();
    let name = format!("{name}.computed");
    all.values.push(Value { name, dims: dims.clone(), dtype, packing, origin: Origin::Kernel, host: None });
    let work = Work::Chain {
        inputs: inputs.iter().map(in_order).collect(),
        lines: lines.clone(),
        streams: streams.clone(),
    };
    let computed = Kernel { work, results: vec![known] };
    let mut axes = vec![(1, 0); order.len()];
    for ((at, size), stride) in order.iter().zip(&dims).zip(strides(&dims)) {
        axes[*at] = (*size, stride);
    }
    let view = View { value: known, first: 0, axes };
    let copy = Work::Chain { inputs: vec![view], lines: Vec::new(), streams: vec![0] };
    let copy = Kernel { work: copy, results: vec![*to] };
    let behind = match cutting(machine, pes, all, &copy) {
        Cutting::Whole => Some(vec![copy]),
        was => repitched(machine, pes, all, (&copy, was)),
    };
    let is_good = cutting(machine, pes, all, &computed) == Cutting::Whole;
    let Some(behind) = behind.filter(|_| is_good) else {
        all.values.truncate(known);
        return None;
    };
    Some([vec![computed], behind].concat())
}

/// What comes before a chain that can be cut in short runs alone, so that it reads whole rows; nothing if
/// that does not help.
fn mended(machine: &Tcp, pes: u64, all: &mut Kernels, kernel: &mut Kernel) -> Vec<Kernel> {
    let (known, own) = (all.values.len(), kernel.work.clone());
    let mut before = Vec::new();
    for made in plain(all, &mut kernel.work, &is_turned) {
        let chain = walked(all, &made).map(|work| Kernel { work, results: made.results.clone() });
        let turned = chain.and_then(|chain| repitched(machine, pes, all, (&chain, Cutting::Torn)));
        let Some(turned) = turned else {
            before.clear();
            break;
        };
        before.extend(turned);
    }
    if before.is_empty() || cutting(machine, pes, all, kernel) != Cutting::Whole {
        kernel.work = own;
        all.values.truncate(known);
        return Vec::new();
    }
    before
}

/// What comes before a chain that cannot be cut: moves of what it reads in another order, and if that is not
/// enough of all that it reads by strides.
fn untangled(machine: &Tcp, pes: u64, all: &mut Kernels, kernel: &mut Kernel) -> Vec<Kernel> {
    let mut before = Vec::new();
    for made in plain(all, &mut kernel.work, &is_turned) {
        before.extend(turned(machine, pes, all, made));
    }
    if cutting(machine, pes, all, kernel) == Cutting::None {
        for made in plain(all, &mut kernel.work, &|_| true) {
            before.extend(turned(machine, pes, all, made));
        }
    }
    before
}

/// Whether a view walks elements in another order than they lie in; what it spreads does not count.
pub(super) fn is_turned(view: &View) -> bool {
    let strides = view.axes.iter().filter(|(size, stride)| *size > 1 && *stride != 0).map(|axis| axis.1);
    !strides.is_sorted_by(|outer, inner| outer >= inner)
}

/// A move, or what does the same by rows if it is one that transfers take element by element.
fn turned(machine: &Tcp, pes: u64, all: &mut Kernels, made: Kernel) -> Vec<Kernel> {
    let chain = walked(all, &made).map(|work| Kernel { work, results: made.results.clone() });
    let Some(chain) = chain else { return vec![made] };
    let was = cutting(machine, pes, all, &chain);
    copied(machine, pes, all, (&chain, was), &mut Apart::default()).unwrap_or_else(|| vec![chain])
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
pub(super) fn moved(all: &Kernels, kernel: &Kernel) -> Option<Part> {
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

/// How a kernel can be cut, if it is a chain; kernels are empty before and after.
pub(super) fn cutting(machine: &Tcp, pes: u64, all: &mut Kernels, kernel: &Kernel) -> Cutting {
    let Work::Chain { inputs, .. } = &kernel.work else { return Cutting::Whole };
    if all.whole_inputs(inputs).is_some() {
        return Cutting::Whole;
    }
    let Some(plan) = planned(machine, pes, all, kernel) else { return Cutting::None };
    let is_long = kernel.results.first().is_some_and(|to| all.values[*to].count() >= LEAST_TORN);
    let result_bytes = kernel.results.first().map_or(4, |to| all.values[*to].element_bytes());
    if is_long && shortest_run_bytes(&plan, result_bytes) < LEAST_RUN_BYTES {
        Cutting::Torn
    } else {
        Cutting::Whole
    }
}

/// How a chain is cut; kernels are empty before and after.
fn planned(machine: &Tcp, pes: u64, all: &mut Kernels, kernel: &Kernel) -> Option<GroupPlan> {
    all.kernels.push(kernel.clone());
    let group = Group { kernels: 0..1, rows: 1, columns: 1 };
    let plan = plan_group(machine, all, &group, (pes, dm_bytes(machine) / 2), None);
    all.kernels.clear();
    plan
}

/// Bytes of the shortest run that shares bring or write, of those that have several.
fn shortest_run_bytes(plan: &GroupPlan, result_bytes: u64) -> u64 {
    let brought = plan.operands.iter().filter(|(_, _, hull)| hull.levels.len() > 1);
    let brought = brought.map(|(_, operand, hull)| hull.run() * operand.element_bytes);
    let mut written = result_bytes;
    for (inner, digit) in plan.cut.inner.iter().zip(&plan.cut.digits).rev() {
        written *= inner;
        if *digit > 1 {
            break;
        }
    }
    let written = if plan.cut.is_contiguous() { u64::MAX } else { written };
    brought.chain([written]).min().unwrap_or(u64::MAX)
}

/// Moves of views of a chain that are to be taken, so that it reads values as they are.
fn plain(all: &mut Kernels, work: &mut Work, takes: &dyn Fn(&View) -> bool) -> Vec<Kernel> {
    let Work::Chain { inputs, .. } = work else { return Vec::new() };
    let mut moves = Vec::new();
    for view in inputs {
        if all.is_whole(view) || !takes(view) {
            continue;
        }
        let dims = view.dims();
        let Value { name, dtype, packing, .. } = all.values[view.value].clone();
        let name = format!("{name}.moved");
        all.values.push(Value {
            name,
            dims: dims.clone(),
            dtype,
            packing,
            origin: Origin::Kernel,
            host: None,
        });
        let to = all.values.len() - 1;
        let loops =
            view.axes.iter().zip(strides(&dims)).map(|((size, from), to)| (*size, *from, to)).collect();
        let part = Part { from: view.value, from_first: view.first, to_first: 0, loops };
        moves.push(Kernel { work: Work::Move(vec![part]), results: vec![to] });
        *view = View::whole(to, &dims);
    }
    moves
}
