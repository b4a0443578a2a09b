//! Sums in blocks, one after the other in time: a tile brings a block of its rows and columns while it
//! multiplies the one before, and needs room for two blocks instead of all of its sum. Sums of a block are
//! added to those before it where the contraction leaves them; what runs on them follows the last one.

use tilewright_base::invariant::OrBroken;
use tilewright_machine::tcp::Tcp;
use tilewright_tcp_isa::program::exec::Exec;
use tilewright_tcp_isa::program::vector::{Vector, Word};

use super::super::commands_chain::command;
use super::super::kernel::Sizes;
use super::super::passes::passes;
use super::super::words::{Arith, Line, Other, Step};
use super::tile::TileShape;

/// Elements of a sum from which on blocks are looked at.
const LONG_SUM: u64 = 512;
/// Products below which a sum stays whole.
const MANY_PRODUCTS: u64 = 1 << 26;
/// Numbers of blocks that are tried.
const BLOCKS: [u64; 8] = [2, 3, 4, 6, 8, 12, 16, 24];
/// Elements that blocks have a multiple of.
const GRANULE: u64 = 128;

/// Sizes of blocks that a sum may be cut into, itself the first.
pub(super) fn block_sizes(sizes: Sizes) -> Vec<u64> {
    let Sizes { batch, rows, columns, summed, .. } = sizes;
    let mut all = vec![summed];
    if summed >= LONG_SUM && batch * rows * columns * summed >= MANY_PRODUCTS {
        let blocks = BLOCKS.map(|blocks| summed.div_ceil(blocks).next_multiple_of(GRANULE));
        all.extend(blocks.into_iter().filter(|block| *block < summed));
        all.dedup();
    }
    all
}

/// The vector engine's command that adds two streams of sums.
fn addition(machine: &Tcp, word: Word) -> Vector {
    let arith = if word == Word::I32 { Arith::Add } else { Arith::FAdd };
    let step = Step::With { arith, other: Other::Stream(1), reversed: false };
    let made = passes(machine, 2, &[Line { input: 0, step }], &[2]);
    let pass = made.and_then(|all| all.into_iter().next());
    pass.or_broken("the vector engine adds two streams").vector
}

impl TileShape {
    /// Sums at two places, added.
    pub(super) fn add(&self, machine: &Tcp, [from, other]: [u64; 2], to: u64) -> Exec {
        let words = self.kept_rows() * self.columns;
        let vector = addition(machine, self.sum_word());
        Exec { name: "add".to_string(), ..command(&vector, from, Some(other), words, (to, None)) }
    }
}
