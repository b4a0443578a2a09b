//! Collectives between ranks: values (docs/hardware-rules.md#transfers-and-communication). Times on the links
//! are in [`tilewright_neuron_isa::cost::collective`].
//!
//! A rank gives what it sends and takes what belongs to it of what all ranks of its group sent. Sums are
//! taken in the order of the group, so that every rank has the same bits.

use tilewright_base::invariant::Exact;
use tilewright_neuron_isa::alu::AluOp;
use tilewright_neuron_isa::cost::collective::{CollectiveKind, CollectiveRequest, collective_cost};
use tilewright_neuron_isa::network::Network;
use tilewright_neuron_isa::pattern::as_u64;
use tilewright_neuron_isa::program::{CollectiveInfo, EngineKind, Instruction};
use tilewright_neuron_isa::refusal::{Refusal, rule};
use tilewright_neuron_isa::{Chip, TensorAccess, TensorRegion};

use crate::Tile;
use crate::convert;

/// A part of what a rank receives: the sources are copied, or combined if there are several.
#[derive(Clone, Debug)]
pub struct ReceivedChunk {
    /// Where it goes.
    pub dst: Tile,
    /// What it is made of, in the order of the group.
    pub sources: Vec<Tile>,
}

/// Who takes part.
#[derive(Clone, Debug)]
pub struct RankGroup<'a> {
    /// Where the ranks are.
    pub network: &'a Network,
    /// The ranks, in order.
    pub ranks: &'a [u32],
    /// From whom to whom a permutation goes.
    pub pairs: &'a [(u32, u32)],
}

/// One rank's share of a collective: `own` is what it sends, `parts` what it takes.
///
/// # Errors
/// If parts and sources differ in size, memories are mixed, or the operator cannot be done on the way.
pub fn collective(
    chip: &Chip,
    kind: CollectiveKind,
    group: &RankGroup<'_>,
    own: &[Tile],
    parts: &[ReceivedChunk],
    op: Option<AluOp>,
) -> Result<Instruction, Refusal> {
    let name = kind.name();
    check_memories(name, own, parts)?;
    rule(kind != CollectiveKind::AllToAll || own.iter().all(|tile| !tile.storage.memory.on_chip()), || {
        Refusal::new(
            "neuron/memory",
            format!("{name} with tensors in SBUF"),
            "tensors in HBM",
            "store the tiles to HBM first",
        )
    })?;
    rule(op.is_none_or(|op| matches!(op, AluOp::Add | AluOp::Minimum | AluOp::Maximum)), || {
        Refusal::new(
            "neuron/operator",
            format!("{name} with {}", op.map_or("", AluOp::name)),
            "add, minimum or maximum",
            "gather, then combine on the Vector engine",
        )
    })?;
    let mut uninitialised = false;
    for part in parts {
        uninitialised |= receive(chip, name, part, op)?;
    }
    let dsts: Vec<&Tile> = parts.iter().map(|part| &part.dst).collect();
    let request = CollectiveRequest {
        kind,
        ranks: group.ranks.to_vec(),
        pairs: group.pairs.to_vec(),
        bytes: request_bytes(kind, own, &dsts, as_u64(group.ranks.len())),
    };
    let found = collective_cost(chip, group.network, request);
    let mut instruction =
        Instruction::new(name, EngineKind::Dma, found.cost, &dsts, &[]).reading(uninitialised);
    let mut members = group.ranks.to_vec();
    members.sort_unstable();
    members.dedup();
    instruction.collective =
        Some(Box::new(CollectiveInfo { members, links: found.links, number: 0, start_ps: 0 }));
    instruction.reads = own.iter().filter_map(TensorRegion::of).collect();
    let hbm = |tile: &Tile| if tile.storage.memory.on_chip() { 0 } else { message_bytes(tile) };
    instruction.hbm_read_bytes = own.iter().map(hbm).sum();
    instruction.hbm_written_bytes = dsts.iter().map(|tile| hbm(tile)).sum();
    Ok(instruction)
}

/// Writes one part; true if bytes were read that nobody wrote.
fn receive(chip: &Chip, name: &str, part: &ReceivedChunk, op: Option<AluOp>) -> Result<bool, Refusal> {
    let dst = &part.dst;
    dst.check_bounds()?;
    for source in &part.sources {
        source.check_bounds()?;
        rule(source.elements() == dst.elements() && source.view.dtype == dst.view.dtype, || {
            Refusal::new(
                "neuron/shape",
                format!(
                    "{name} of {:?} {} into {:?} {}",
                    source.view.shape(),
                    source.view.type_name(),
                    dst.view.shape(),
                    dst.view.type_name()
                ),
                "as many elements of the same type on every rank",
                "check shapes, types and the dimension that is split",
            )
        })?;
    }
    let Some((first, rest)) = part.sources.split_first() else { return Ok(false) };
    let Some(op) = op else { return Ok(convert::copy(&chip.rules, dst, first)) };
    if !dst.view.dtype.is_float() {
        let read = first.read_integers(&chip.rules);
        let (mut values, mut uninitialised) = (read.values, read.uninitialised);
        for source in rest {
            let read = source.read_integers(&chip.rules);
            op.combine_integers(&mut values, &read.values, dst.view.dtype.bits());
            uninitialised |= read.uninitialised;
        }
        dst.write_integers(&chip.rules, &values);
        return Ok(uninitialised);
    }
    let read = first.read(&chip.rules);
    let (mut values, mut uninitialised) = (read.values, read.uninitialised);
    for source in rest {
        let read = source.read(&chip.rules);
        op.combine(&mut values, &read.values, false);
        uninitialised |= read.uninitialised;
    }
    dst.write(&chip.rules, &values);
    Ok(uninitialised)
}

fn check_memories(name: &str, own: &[Tile], parts: &[ReceivedChunk]) -> Result<(), Refusal> {
    let mut on_chip =
        own.iter().chain(parts.iter().map(|part| &part.dst)).map(|t| t.storage.memory.on_chip());
    let first = on_chip.next().unwrap_or(false);
    rule(on_chip.all(|one| one == first), || {
        Refusal::new(
            "neuron/memory",
            format!("{name} between HBM and SBUF"),
            "all tensors in HBM, or all in SBUF",
            "copy one side first",
        )
    })
}

fn message_bytes(tile: &Tile) -> u64 {
    as_u64(tile.view.dtype.size_bytes(tile.elements()))
}

/// Bytes of the whole that ranks contribute to; of one message, if it is a permutation.
fn request_bytes(kind: CollectiveKind, own: &[Tile], dsts: &[&Tile], ranks: u64) -> u64 {
    let received = || dsts.iter().map(|tile| message_bytes(tile)).fold(0, u64::exact_add);
    match kind {
        CollectiveKind::AllReduce | CollectiveKind::AllGather | CollectiveKind::AllToAll => received(),
        // What a rank keeps is one of as many parts as there are ranks.
        CollectiveKind::ReduceScatter => received().exact_mul(ranks),
        CollectiveKind::Permute => own.iter().map(message_bytes).fold(0, u64::exact_add),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for kind in [
            CollectiveKind::AllReduce,
            CollectiveKind::AllGather,
            CollectiveKind::ReduceScatter,
            CollectiveKind::AllToAll,
            CollectiveKind::Permute,
        ] {
            assert_eq!(CollectiveKind::from_name(kind.name()), Some(kind));
        }
    }
}
