//! What holds for one contraction of a graph whatever is chosen for it: its operands, when they are there,
//! what it may use, what its neighbours take apart from it.

use tilewright_machine::tcp::Tcp;

use super::kernel::{Kernels, Sizes, Work};
use super::options::{Options, Weighing};
use super::tiled::{Room, TileSearches};
use super::without::Choice;

/// Rows of a contraction as windows of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Looked {
    /// The chain that says which elements they are.
    pub chain: usize,
    /// The value that windows look at.
    pub source: usize,
}

/// A result that is written inside of padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inside {
    /// The move that would take it there.
    pub mover: usize,
    /// The result.
    pub value: usize,
    /// The value with padding.
    pub target: usize,
}

/// A contraction's kernel.
pub(super) fn contraction(all: &Kernels, number: usize) -> Option<([usize; 2], Sizes)> {
    match all.kernels.get(number)?.work {
        Work::Contract { a, b, sizes } => Some(([a, b], sizes)),
        _ => None,
    }
}

/// Sizes of an operand as batch, own and summed.
pub(super) fn operand_sizes(sizes: Sizes, operand: usize) -> [u64; 3] {
    [sizes.batch, if operand == 0 { sizes.rows } else { sizes.columns }, sizes.summed]
}

/// Letters of an operand, and of a result.
pub(super) const LETTERS: [[&str; 3]; 3] = [["b", "m", "k"], ["b", "n", "k"], ["b", "m", "n"]];

/// Whether rows and columns of a contraction come from the host and contractions before it compute while they
/// are brought.
pub(super) fn is_early(all: &Kernels, number: usize) -> [bool; 2] {
    let Some((operands, _)) = contraction(all, number) else { return [false; 2] };
    let before = all.kernels[..number].iter().any(|kernel| matches!(kernel.work, Work::Contract { .. }));
    operands.map(|value| before && !all.values[value].origin.is_made())
}

/// Whether rows and columns are taken to be there when a contraction begins.
pub(super) fn is_warm(all: &Kernels, number: usize, options: &Options) -> [bool; 2] {
    is_early(all, number).map(|early| early && options.weighing.is_some_and(Weighing::is_warm))
}

/// What a contraction of a plan may use, and behind that what it may use in other plans.
pub(super) fn rooms(
    searches: &TileSearches<'_>,
    all: &Kernels,
    number: usize,
    options: &Options,
) -> Vec<Room> {
    let early = is_early(all, number);
    // What may come long before a contraction begins is not brought block by block.
    let blocks = early == [false; 2] && !options.without.has(Choice::Blocks);
    let room = |warm: [bool; 2], scarce: Option<u64>| Room { blocks, ..options.room(warm, scarce) };
    let scarce = options.weighing.and_then(Weighing::scarce);
    let mut rooms = vec![room(is_warm(all, number, options), scarce)];
    if searches.both {
        for weighing in Weighing::ALL {
            let other = room(early.map(|early| early && weighing.is_warm()), weighing.scarce());
            if !rooms.contains(&other) {
                rooms.push(other);
            }
        }
    }
    rooms
}

/// What a kernel beside a contraction takes besides its commands if it does not run with it: so many bytes
/// cross HBM.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate"
)]
pub(super) fn apart_cycles(machine: &Tcp, bytes: u64, pes: u64) -> u64 {
    let per_cycle = machine.hbm_bytes_per_s() * machine.hbm.efficiency / machine.chip.clock_hz as f64;
    let per_pe = (machine.tdma.bandwidth_bytes_per_cycle * pes) as f64;
    let moved = bytes as f64 / per_cycle.min(per_pe);
    moved as u64 + machine.tdma.startup_cycles
}
