//! Branches and loops: of a condition that is known one branch is read, of another both, and each result is
//! chosen; loops whose number of turns is known are written out.

use tilewright_base::invariant::OrBroken;
use tilewright_graph::{Data, Dim, Dtype, Type, ValueId};

use crate::error::ImportResult;
use crate::onnx::node::Call;
use crate::onnx::ops::Outputs;
use crate::onnx::proto::GraphProto;

/// Turns of a loop, at most.
const MOST_TURNS: i64 = 1024;

/// The graph of an attribute.
fn body_of<'c>(call: &Call<'c, '_>, name: &str) -> ImportResult<&'c GraphProto> {
    let node = call.node;
    let found = node.attributes.iter().find(|attribute| attribute.name == name);
    let found = found.and_then(|attribute| attribute.g.as_deref());
    found.ok_or_else(|| call.refuse(format!("attribute `{name}` is missing")).allowed("a graph"))
}

/// Whether a scalar is known to be true or false.
fn known_flag(call: &Call<'_, '_>, id: ValueId) -> ImportResult<Option<bool>> {
    match call.reader.b.numbers(id).as_deref() {
        None => Ok(None),
        Some([one]) => Ok(Some(*one != 0)),
        Some(several) => {
            Err(call.refuse(format!("a condition of {} elements", several.len())).allowed("one"))
        }
    }
}

fn run(call: &mut Call<'_, '_>, body: &GraphProto, inputs: &[ValueId]) -> Outputs {
    let item = call.item().to_string();
    call.reader.body(&item, body, inputs)
}

pub(super) fn branch(call: &mut Call<'_, '_>) -> Outputs {
    let condition = call.input(0)?;
    let (yes, no) = (body_of(call, "then_branch")?, body_of(call, "else_branch")?);
    if let Some(holds) = known_flag(call, condition)? {
        return run(call, if holds { yes } else { no }, &[]);
    }
    let (yes, no) = (run(call, yes, &[])?, run(call, no, &[])?);
    let mut chosen = Vec::new();
    for (yes, no) in yes.into_iter().zip(no) {
        let b = &call.reader.b;
        if b.ty(yes) != b.ty(no) {
            let (yes, no) = (b.ty(yes).text(b.axes()), b.ty(no).text(b.axes()));
            return Err(call
                .refuse(format!("branches that give {yes} and {no}, by a condition of the run"))
                .allowed("equal types and sizes, or a condition that is known"));
        }
        chosen.push(call.build(|b| {
            let condition = b.reshape(condition, &[])?;
            b.select(condition, yes, no)
        })?);
    }
    Ok(chosen)
}

/// What each turn adds to a result, along an axis.
fn stacked(
    call: &mut Call<'_, '_>,
    parts: &[ValueId],
    (axis, is_backwards): (i64, bool),
) -> ImportResult<ValueId> {
    let Some(first) = parts.first() else {
        return Err(call
            .refuse("no turn, of which the type of a result would follow")
            .allowed("one or more"));
    };
    let rank = i64::try_from(call.reader.b.rank(*first) + 1).or_broken("ranks fit 64 bits");
    let from_front = if axis < 0 { axis + rank } else { axis };
    let at = usize::try_from(from_front).ok().filter(|_| from_front < rank);
    let at = at.ok_or_else(|| call.refuse(format!("axis {axis} of {rank}")))?;
    let mut parts = parts.to_vec();
    if is_backwards {
        parts.reverse();
    }
    call.build(|b| {
        let mut apart = Vec::with_capacity(parts.len());
        for part in parts {
            apart.push(b.unsqueeze(part, at)?);
        }
        b.concat(at, &apart)
    })
}

pub(super) fn repeat(call: &mut Call<'_, '_>) -> Outputs {
    let body = body_of(call, "body")?;
    let wanted = match call.numbers(0, "numbers of turns")?.as_deref() {
        None => i64::MAX,
        Some([one]) => *one,
        Some(several) => {
            return Err(call.refuse(format!("{} numbers of turns", several.len())).allowed("one"));
        }
    };
    let mut state: Vec<ValueId> = Vec::new();
    for at in 2..call.inputs.len() {
        state.push(call.input(at)?);
    }
    let mut condition = match call.maybe(1) {
        Some(condition) => condition,
        None => call.build(|b| b.constant(Type::new(Dtype::Bool, []), Data::Ints(vec![1])))?,
    };
    let results = body.outputs.len().checked_sub(state.len() + 1);
    let results = results.ok_or_else(|| {
        call.refuse(format!("a body of {} outputs for {} states", body.outputs.len(), state.len()))
            .allowed("a condition, all states, then results of each turn")
    })?;
    let mut parts: Vec<Vec<ValueId>> = vec![Vec::new(); results];
    let mut turn = 0;
    loop {
        let goes_on = turn < wanted
            && known_flag(call, condition)?.ok_or_else(|| {
                call.refuse("a condition that is known only when the model runs")
                    .allowed("a number of turns that is known, with a condition that stays true")
            })?;
        if !goes_on {
            break;
        }
        if turn >= MOST_TURNS {
            return Err(call
                .refuse(format!("more than {MOST_TURNS} turns, which are written out"))
                .allowed(format!("{MOST_TURNS} turns")));
        }
        let number = call.build(|b| b.number(Dim::fixed(turn), Dtype::I64))?;
        let inputs = [&[number, condition][..], &state].concat();
        let mut outputs = run(call, body, &inputs)?.into_iter();
        condition = outputs.next().or_broken("bodies give what their outputs name");
        state = outputs.by_ref().take(state.len()).collect();
        parts.iter_mut().zip(outputs).for_each(|(parts, part)| parts.push(part));
        turn += 1;
    }
    for parts in parts {
        state.push(stacked(call, &parts, (0, false))?);
    }
    Ok(state)
}

/// Before, a batch axis was scanned too.
const FIRST_SCAN: i64 = 9;

/// An attribute of a scan with a number for each operand or result; zeros if it is left out.
fn scan_numbers(call: &Call<'_, '_>, name: &str, count: usize) -> ImportResult<Vec<i64>> {
    match call.ints(name) {
        None | Some([]) => Ok(vec![0; count]),
        Some(all) if all.len() == count => Ok(all.to_vec()),
        Some(all) => {
            Err(call.refuse(format!("`{name}` of {} numbers", all.len())).allowed(count.to_string()))
        }
    }
}

pub(super) fn scan(call: &mut Call<'_, '_>) -> Outputs {
    let body = body_of(call, "body")?;
    if call.reader.opset < FIRST_SCAN {
        let what = format!("is of opset {}, whose Scan has other operands", call.reader.opset);
        return Err(call.refuse(what).allowed(format!("Scan from opset {FIRST_SCAN} on")));
    }
    let said = call.int("num_scan_inputs", 0);
    let count = usize::try_from(said).ok().filter(|count| *count > 0);
    let states = count.and_then(|count| call.inputs.len().checked_sub(count));
    let results = states.and_then(|states| body.outputs.len().checked_sub(states));
    let (Some(count), Some(states), Some(results)) = (count, states, results) else {
        return Err(call
            .refuse(format!("{} operands, {said} of them scanned", call.inputs.len()))
            .allowed("states, then at least one that is scanned; a body that gives as many states"));
    };
    let mut state: Vec<ValueId> = Vec::new();
    for at in 0..states {
        state.push(call.input(at)?);
    }
    let axes = scan_numbers(call, "scan_input_axes", count)?;
    let directions = scan_numbers(call, "scan_input_directions", count)?;
    let mut scanned = Vec::new();
    let mut turns = None;
    for at in 0..count {
        let x = call.input(states + at)?;
        let axis = call.axis_of(x, axes[at])?;
        let size = call.built(call.reader.b.dim(x, axis))?.as_fixed();
        let size =
            size.filter(|size| (1..=MOST_TURNS).contains(size) && *turns.get_or_insert(*size) == *size);
        if size.is_none() {
            return Err(call
                .refuse("scanned axes that are open, of different sizes, or too long")
                .allowed(format!("one size, 1 to {MOST_TURNS}: turns are written out")));
        }
        scanned.push((x, axis, directions[at] != 0));
    }
    let axes = scan_numbers(call, "scan_output_axes", results)?;
    let directions = scan_numbers(call, "scan_output_directions", results)?;
    let outputs = axes.into_iter().zip(directions.into_iter().map(|direction| direction != 0));
    let turns = turns.or_broken("one operand is scanned at least");
    let mut parts: Vec<Vec<ValueId>> = vec![Vec::new(); results];
    for turn in 0..turns {
        let mut inputs = state.clone();
        for (x, axis, is_backwards) in &scanned {
            let at = if *is_backwards { turns - 1 - turn } else { turn };
            inputs.push(call.build(|b| {
                let mut dims = b.dims(*x).to_vec();
                dims.remove(*axis);
                let one = b.slice(*x, *axis, at.into(), 1.into(), 1)?;
                b.reshape(one, &dims)
            })?);
        }
        let mut given = run(call, body, &inputs)?.into_iter();
        state = given.by_ref().take(states).collect();
        parts.iter_mut().zip(given).for_each(|(parts, part)| parts.push(part));
    }
    for (parts, how) in parts.iter().zip(outputs) {
        state.push(stacked(call, parts, how)?);
    }
    Ok(state)
}
