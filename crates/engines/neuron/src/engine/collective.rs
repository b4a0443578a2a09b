//! Collectives between ranks: values, and times on the links between devices (neuron.md sections 3.6 and 5.5).
//!
//! A rank gives what it sends and takes what belongs to it of what all ranks of its group sent. Sums are taken in the
//! order of the group, so that every rank has the same bits. Time is steps times the latency of a step, plus bytes over
//! the rate of the links; the algorithm, and with it the number of steps, goes by the size of the message.

use crate::alu::AluOp;
use crate::chip::{bytes_ps, ns_ps};
use crate::convert;
use crate::pattern::as_u64;
use crate::program::{Cost, EngineKind, Instruction};
use crate::refusal::{Refusal, rule};
use crate::{Chip, Region, Tile};

/// A part of what a rank receives: the sources are copied, or combined if there are several.
#[derive(Clone, Debug)]
pub struct Part {
    /// Where it goes.
    pub dst: Tile,
    /// What it is made of, in the order of the group.
    pub sources: Vec<Tile>,
}

/// Which way messages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Everyone has the combination of all.
    AllReduce,
    /// Everyone has what all gave.
    AllGather,
    /// Everyone has a part of the combination.
    ReduceScatter,
    /// Everyone gives each a part.
    AllToAll,
    /// One message from neighbour to neighbour.
    Permute,
}

impl Kind {
    /// Its name in kernels.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::AllReduce => "all_reduce",
            Kind::AllGather => "all_gather",
            Kind::ReduceScatter => "reduce_scatter",
            Kind::AllToAll => "all_to_all",
            Kind::Permute => "collective_permute",
        }
    }

    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<Kind> {
        [Kind::AllReduce, Kind::AllGather, Kind::ReduceScatter, Kind::AllToAll, Kind::Permute]
            .into_iter()
            .find(|kind| kind.name() == name)
    }
}

/// One rank's share of a collective: `own` is what it sends, `parts` what it takes.
///
/// # Errors
/// If parts and sources differ in size, memories are mixed, or the operator cannot be done on the way.
pub fn collective(
    chip: &Chip,
    kind: Kind,
    own: &[Tile],
    parts: &[Part],
    op: Option<AluOp>,
    ranks: u64,
) -> Result<Instruction, Refusal> {
    let name = kind.name();
    check_memories(name, own, parts)?;
    rule(kind != Kind::AllToAll || own.iter().all(|tile| !tile.storage.memory.on_chip()), || {
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
    let bytes: u64 = parts.iter().map(|part| message_bytes(&part.dst)).sum();
    let dsts: Vec<&Tile> = parts.iter().map(|part| &part.dst).collect();
    let mut instruction = Instruction::new(name, EngineKind::Dma, cost(chip, kind, bytes, ranks), &dsts, &[])
        .reading(uninitialised);
    instruction.reads = own.iter().filter_map(Region::of).collect();
    let hbm = |tile: &Tile| if tile.storage.memory.on_chip() { 0 } else { message_bytes(tile) };
    instruction.hbm_read_bytes = own.iter().map(hbm).sum();
    instruction.hbm_written_bytes = dsts.iter().map(|tile| hbm(tile)).sum();
    Ok(instruction)
}

/// Writes one part; true if bytes were read that nobody wrote.
fn receive(chip: &Chip, name: &str, part: &Part, op: Option<AluOp>) -> Result<bool, Refusal> {
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

fn check_memories(name: &str, own: &[Tile], parts: &[Part]) -> Result<(), Refusal> {
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

/// Steps times latency, plus what crosses a link.
fn cost(chip: &Chip, kind: Kind, bytes: u64, ranks: u64) -> Cost {
    let figures = &chip.neuron.collectives;
    let ranks = ranks.max(1);
    let around = ranks - 1;
    let one_way = if bytes <= figures.mesh_max_bytes {
        around.min(1)
    } else if bytes <= figures.doubling_max_bytes {
        u64::from(ranks.ilog2()).max(around.min(1))
    } else {
        around
    };
    let shared = |times: u64| bytes.saturating_mul(times).saturating_mul(around) / ranks;
    let (steps, crossing) = match kind {
        Kind::AllReduce => (one_way.saturating_mul(2), shared(2)),
        Kind::AllGather | Kind::AllToAll => (one_way, shared(1)),
        // What a rank keeps is one of as many parts as there are ranks.
        Kind::ReduceScatter => (one_way, bytes.saturating_mul(around)),
        Kind::Permute => (around.min(1), if around > 0 { bytes } else { 0 }),
    };
    let rate = chip.neuron.link.links.max(1).saturating_mul(chip.neuron.link.link_bytes_per_s);
    let latency = ns_ps(figures.fixed_ns.saturating_add(steps.saturating_mul(figures.hop_ns)));
    Cost { busy_ps: bytes_ps(crossing, rate), latency_ps: latency }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for kind in [Kind::AllReduce, Kind::AllGather, Kind::ReduceScatter, Kind::AllToAll, Kind::Permute] {
            assert_eq!(Kind::from_name(kind.name()), Some(kind));
        }
    }
}
