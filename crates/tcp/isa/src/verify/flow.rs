//! Conservation: packets and flits from engine to engine, until as many arrive at the commit unit as it makes
//! addresses.
//!
//! Every engine takes whole flits, one a cycle (vISA book, collect engine). In convolution mode the buffer
//! takes `pop` flits at a time and gives `shifts` windows for them; what the first windows see before any
//! flit arrived is zero.

use super::context::VerifyContext;
use super::transpose;
use crate::capped::Capped;
use crate::contraction::StepGroups;
use crate::flow::{FlowCounts, flow};
use crate::program::exec::Stream;
use crate::transpose::tile_flits;

pub(super) fn check(cx: &mut VerifyContext<'_>, stream: &Stream) {
    let flow = flow(cx.machine, stream);
    let Some(flits) = contracted(cx, stream, &flow) else { return };
    let Some(flits) = worked(cx, stream, flits) else { return };
    let Some(flits) = transposed(cx, stream, flits) else { return };
    let addresses = stream.commit.loops.iter().fold(1_u64, |all, row| all.capped_mul(row.size.fixed()));
    if flits != addresses {
        cx.refuse(
            "tcp/commit-flits",
            format!("{flits} flits arrive at a commit unit that makes {addresses} addresses"),
            "as many addresses as flits".into(),
            format!("commit loops whose sizes multiply to {flits}"),
        );
    }
}

fn contracted(cx: &mut VerifyContext<'_>, stream: &Stream, flow: &FlowCounts) -> Option<u64> {
    let flits = flow.flits;
    let Some(contract) = &stream.contract else { return Some(flits) };
    let taken = contract.shift.map_or(contract.flits, |shift| shift.pop);
    if taken == 0 || !flits.is_multiple_of(taken) {
        cx.refuse(
            "tcp/flow-contract",
            format!("{flits} flits arrive at a contraction engine that takes {taken} at a time"),
            format!("a multiple of {taken} flits"),
            "packets of one flit, or padding".into(),
        );
        return None;
    }
    let windows = contract.shift.map_or(1, |shift| shift.shifts);
    let packets = (flits / taken).capped_mul(windows);
    let wanted = packets.capped_mul(contract.repeats.fixed());
    let steps = StepGroups::of(&contract.steps).all_steps();
    if steps != wanted {
        cx.refuse(
            "tcp/flow-contract",
            format!("{steps} steps for {packets} packets held {} times", contract.repeats.fixed()),
            format!("{wanted} steps"),
            format!("step loops whose sizes multiply to {wanted}"),
        );
        return None;
    }
    Some(flow.vector_flits)
}

fn worked(cx: &mut VerifyContext<'_>, stream: &Stream, flits: u64) -> Option<u64> {
    let Some(vector) = &stream.vector else { return Some(flits) };
    let out = crate::vector::flits_out(vector, flits);
    if out.is_none() {
        cx.refuse(
            "tcp/flow-vector",
            format!("{flits} flits enter a vector engine whose pairs, steps or slices take another number"),
            "pairs of flits, reduction steps for every half flit, a part for each slice".into(),
            "reduction steps that multiply to the halves that enter".into(),
        );
    }
    out
}

fn transposed(cx: &mut VerifyContext<'_>, stream: &Stream, flits: u64) -> Option<u64> {
    let Some(transpose) = stream.transpose else { return Some(flits) };
    let tile = tile_flits(&transpose::tile(stream, transpose));
    if tile == 0 || !flits.is_multiple_of(tile) {
        cx.refuse(
            "tcp/flow-transpose",
            format!("{flits} flits arrive at a transpose engine whose tiles take {tile}"),
            format!("a multiple of {tile} flits"),
            "padding to whole tiles".into(),
        );
        return None;
    }
    Some((flits / tile).capped_mul(transpose.kept))
}
