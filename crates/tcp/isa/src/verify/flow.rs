//! Conservation: packets and flits from engine to engine, until as many arrive at the commit unit as it makes addresses.
//!
//! Every engine takes whole flits, one a cycle (vISA book, collect engine). In convolution mode the buffer takes `pop` flits at a time
//! and gives `shifts` windows for them; what the first windows see before any flit arrived is zero.

use tilewright_num::Dtype;

use super::{Desk, transpose, vector};
use crate::contraction::StepGroups;
use crate::flow::{Flow, flow};
use crate::program::exec::Stream;
use crate::transpose::tile_flits;

/// The type behind the contraction engine, used or not.
pub(super) fn leaves_contract(stream: &Stream) -> Dtype {
    match &stream.contract {
        Some(contract) if contract.dtype.is_float() => Dtype::F32,
        Some(_) => Dtype::I32,
        None => stream.fetch.leaves(),
    }
}

/// The type behind the vector engine, used or not.
pub(super) fn leaves_vector(stream: &Stream) -> Dtype {
    stream.vector.as_ref().map_or(leaves_contract(stream), vector::leaves)
}

/// The type behind cast and transpose engine, used or not.
pub(super) fn leaves_transpose(stream: &Stream) -> Dtype {
    stream.cast.unwrap_or(leaves_vector(stream))
}

pub(super) fn check(desk: &mut Desk<'_>, stream: &Stream) {
    let flow = flow(desk.machine, stream);
    let Some(flits) = contracted(desk, stream, &flow) else { return };
    let Some(flits) = worked(desk, stream, flits) else { return };
    let Some(flits) = transposed(desk, stream, flits) else { return };
    let addresses = stream.commit.loops.iter().fold(1_u64, |all, row| all.saturating_mul(row.size.fixed()));
    if flits != addresses {
        desk.refuse(
            "tcp/commit-flits",
            format!("{flits} flits arrive at a commit unit that makes {addresses} addresses"),
            "as many addresses as flits".into(),
            format!("commit loops whose sizes multiply to {flits}"),
        );
    }
}

fn contracted(desk: &mut Desk<'_>, stream: &Stream, flow: &Flow) -> Option<u64> {
    let flits = flow.flits;
    let Some(contract) = &stream.contract else { return Some(flits) };
    let taken = contract.shift.map_or(contract.flits, |shift| shift.pop);
    if taken == 0 || !flits.is_multiple_of(taken) {
        desk.refuse(
            "tcp/flow-contract",
            format!("{flits} flits arrive at a contraction engine that takes {taken} at a time"),
            format!("a multiple of {taken} flits"),
            "packets of one flit, or padding".into(),
        );
        return None;
    }
    let windows = contract.shift.map_or(1, |shift| shift.shifts);
    let packets = (flits / taken).saturating_mul(windows);
    let wanted = packets.saturating_mul(contract.repeats.fixed());
    let steps = StepGroups::of(&contract.steps).all_steps();
    if steps != wanted {
        desk.refuse(
            "tcp/flow-contract",
            format!("{steps} steps for {packets} packets held {} times", contract.repeats.fixed()),
            format!("{wanted} steps"),
            format!("step loops whose sizes multiply to {wanted}"),
        );
        return None;
    }
    Some(flow.vector_flits)
}

fn worked(desk: &mut Desk<'_>, stream: &Stream, flits: u64) -> Option<u64> {
    let Some(vector) = &stream.vector else { return Some(flits) };
    let out = crate::vector::flits_out(vector, flits);
    if out.is_none() {
        desk.refuse(
            "tcp/flow-vector",
            format!("{flits} flits enter a vector engine whose pairs, steps or slices take another number"),
            "pairs of flits, reduction steps for every half flit, a part for each slice".into(),
            "reduction steps that multiply to the halves that enter".into(),
        );
    }
    out
}

fn transposed(desk: &mut Desk<'_>, stream: &Stream, flits: u64) -> Option<u64> {
    let Some(transpose) = stream.transpose else { return Some(flits) };
    let tile = tile_flits(&transpose::tile(stream, transpose));
    if tile == 0 || !flits.is_multiple_of(tile) {
        desk.refuse(
            "tcp/flow-transpose",
            format!("{flits} flits arrive at a transpose engine whose tiles take {tile}"),
            format!("a multiple of {tile} flits"),
            "padding to whole tiles".into(),
        );
        return None;
    }
    Some((flits / tile).saturating_mul(transpose.kept))
}
