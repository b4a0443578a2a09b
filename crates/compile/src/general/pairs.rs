//! Weights of four bits: two to a byte in HBM and in data memory, widened to bytes on the way to the register
//! files.
//!
//! The contraction engine takes two operands of one kind, and the fetch engine widens integers to words alone
//! (vISA book, contraction and fetch engines). So such weights pass the cast engine where the columns of a
//! tile are loaded, as those of language models do; tactics of the explorer have no such command. Weights
//! that no tile takes so lie in bytes: the numbers are the same.

use std::collections::{BTreeMap, BTreeSet};

use tilewright_graph::Dtype;

use super::kernel::{Kernels, Origin, Packing, Sizes, Value, Work};
use super::options::Options;
use super::plan::readers;
use super::tiled::TileSearches;
use super::without::Choice;

/// Contractions whose weights are integers of four bits, by the names of their results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FourBits {
    /// Weights lie in four bits.
    pub paired: BTreeSet<String>,
    /// Weights lie in bytes, since no tile takes them otherwise.
    pub in_bytes: BTreeSet<String>,
}

/// How weights of four bits lie.
pub fn four_bits(all: &Kernels) -> FourBits {
    let mut found = FourBits::default();
    for kernel in &all.kernels {
        let Work::Contract { b, sizes, .. } = kernel.work else { continue };
        let (Some(value), Some(result)) = (all.values.get(b), kernel.results.first()) else { continue };
        let Some(name) = all.values.get(*result).map(|value| value.name.as_str()) else { continue };
        // As quantisation calls what becomes the result.
        let name = name.strip_suffix(".sums").unwrap_or(name).to_string();
        if sizes.held == Packing::Pairs {
            found.paired.insert(name);
        } else if value.dtype == Dtype::I4 {
            found.in_bytes.insert(name);
        }
    }
    found
}

/// The same kernels with constants of four bits in pairs, where all contractions that read them have tiles.
#[must_use]
pub(super) fn paired_columns(searches: &TileSearches<'_>, options: &Options, mut all: Kernels) -> Kernels {
    if options.without.has(Choice::Tiled) {
        return all;
    }
    let uses = readers(&all);
    let mut known = BTreeMap::new();
    for (value, readers) in uses.iter().enumerate() {
        let Some(patterns) = pairs(&all.values[value]) else { continue };
        let paired: Option<Vec<(usize, Sizes)>> =
            readers.iter().map(|reader| Some((*reader, paired(&all, *reader, value)?))).collect();
        let Some(paired) = paired.filter(|all| !all.is_empty()) else { continue };
        let mut is_tiled = |sizes: Sizes| {
            let room = options.room([false; 2], None);
            *known
                .entry(sizes)
                .or_insert_with(|| searches.candidate(sizes, &[room], (None, None), false).is_ok())
        };
        if !paired.iter().all(|(_, sizes)| is_tiled(*sizes)) {
            continue;
        }
        for (reader, sizes) in paired {
            if let Work::Contract { a, b, .. } = all.kernels[reader].work {
                all.kernels[reader].work = Work::Contract { a, b, sizes };
            }
        }
        let one = &mut all.values[value];
        one.packing = Packing::Pairs;
        one.dims = vec![patterns.len() as u64];
        one.origin = Origin::Constant(patterns);
    }
    all
}

/// A contraction whose columns are a value, with the value in pairs.
fn paired(all: &Kernels, number: usize, value: usize) -> Option<Sizes> {
    let Work::Contract { a, b, sizes } = all.kernels.get(number)?.work else { return None };
    (a != value && b == value && sizes.operands == Packing::Byte)
        .then_some(Sizes { held: Packing::Pairs, ..sizes })
}

/// Bytes of two integers each, of a constant of four bits.
fn pairs(value: &Value) -> Option<Vec<u32>> {
    let Origin::Constant(patterns) = &value.origin else { return None };
    let is_narrow = value.dtype == Dtype::I4 && value.packing == Packing::Byte;
    let pair = |two: &[u32]| two.iter().rev().fold(0, |byte, one| byte << 4 | one & 0xF);
    (is_narrow && patterns.len().is_multiple_of(2)).then(|| patterns.chunks(2).map(pair).collect())
}
