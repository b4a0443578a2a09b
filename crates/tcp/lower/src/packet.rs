//! The packet of a contraction: which elements meet in one step, padded to what the network carries (vISA
//! book: packets are whole 8-byte words, the feed unit joins one or two flits).

use tilewright_notation::problem::Problem;
use tilewright_tcp_cost::setup::Setup;

use super::limits::FetchLoop;
use super::view::{CutMismatch, LoopPiece, SliceView, steps};

/// A packet with its padding.
#[derive(Clone, Debug)]
pub(super) struct PaddedPacket {
    /// Copies around the pieces, all but the first masked.
    pad: u64,
    /// Pieces outermost first; one of them may be larger than what it counts.
    pieces: Vec<(LoopPiece, u64)>,
    /// Elements that meet register file elements: a prefix of the packet.
    pub(super) active: u64,
    /// Neighbours that the tree sums.
    pub(super) tree: u64,
    /// Sums that leave each lane.
    pub(super) columns: u64,
    /// Flits of the packet.
    pub(super) flits: u64,
    /// Trailing pieces that are summed.
    summed: usize,
}

/// No padding makes the packet whole words within its width.
pub(super) struct NoPadding;

impl PaddedPacket {
    pub(super) fn new(
        setup: &Setup<'_>,
        problem: &Problem,
        pieces: &[LoopPiece],
    ) -> Result<PaddedPacket, NoPadding> {
        let summed = pieces.iter().rev().take_while(|piece| problem.contracted(piece.axis)).count();
        let sizes: Vec<u64> = pieces.iter().map(|piece| piece.size).collect();
        let best = candidates(setup, &sizes, summed).into_iter().min_by_key(|candidate| candidate.elements);
        let PaddingCandidate { pad, sizes, elements } = best.ok_or(NoPadding)?;
        let outermost = sizes.first().zip(pieces.first()).is_some_and(|(size, piece)| *size != piece.size);
        // Padding of the outermost piece lies behind everything else, so it need not meet the register file.
        let active: u64 = if outermost { steps(pieces) } else { sizes.iter().product::<u64>().max(1) };
        let tree: u64 = sizes[sizes.len() - summed..].iter().product();
        let tree = if summed == sizes.len() { active.next_power_of_two() } else { tree };
        let flit_elements = setup.machine.network.flit_bytes * 8 / setup.element_bits();
        Ok(PaddedPacket {
            pad,
            pieces: pieces.iter().copied().zip(sizes).collect(),
            active,
            tree,
            columns: active.div_ceil(tree),
            flits: elements.div_ceil(flit_elements),
            summed,
        })
    }

    /// The piece of a packet that is one piece and met as it is.
    pub(super) fn only(&self) -> Option<LoopPiece> {
        match self.pieces.as_slice() {
            [(piece, _)] if piece.size == self.active => Some(*piece),
            _ => None,
        }
    }

    /// Elements that are fetched for a packet.
    pub(super) fn elements(&self) -> u64 {
        self.pieces.iter().fold(self.pad, |all, (_, size)| all * size)
    }

    /// The loops of the packet over a view.
    pub(super) fn rows(&self, view: &SliceView) -> Result<Vec<FetchLoop>, CutMismatch> {
        let mut rows = Vec::new();
        if self.pad > 1 {
            rows.push(FetchLoop::plain(self.pad, 0, 1));
        }
        for (piece, size) in &self.pieces {
            let stride = view.stride(piece)?.unwrap_or(0);
            rows.push(FetchLoop { size: *size, ..FetchLoop::of(*piece, stride) });
        }
        Ok(rows)
    }

    /// The pieces that meet the register file, with the sizes that they have there.
    pub(super) fn met(&self) -> Vec<(LoopPiece, u64)> {
        let mut met = self.pieces.clone();
        if let Some((piece, size)) = met.first_mut()
            && self.active < self.elements() / self.pad
        {
            *size = piece.size;
        }
        met
    }

    /// Pieces that survive, with the sizes that count columns.
    pub(super) fn surviving(&self) -> Vec<(LoopPiece, u64)> {
        let met = self.met();
        met[..met.len() - self.summed].to_vec()
    }
}

struct PaddingCandidate {
    pad: u64,
    sizes: Vec<u64>,
    elements: u64,
}

/// Ways to make a packet whole words: copies around it, or one piece enlarged.
fn candidates(setup: &Setup<'_>, sizes: &[u64], summed: usize) -> Vec<PaddingCandidate> {
    let word = setup.machine.fetch.packet_granule_bytes * 8;
    let whole = |elements: u64| (elements * setup.element_bits()).is_multiple_of(word);
    let most = setup.packet_elements();
    let product: u64 = sizes.iter().product();
    let mut found = Vec::new();
    if let Some(pad) = (1..=word).find(|pad| whole(product * pad)) {
        found.push(PaddingCandidate { pad, sizes: sizes.to_vec(), elements: product * pad });
    }
    for index in 0..sizes.len() {
        let others = product / sizes[index];
        let Some(size) = (sizes[index]..=sizes[index] + word).find(|size| whole(others * size)) else {
            continue;
        };
        let mut enlarged = sizes.to_vec();
        enlarged[index] = size;
        let tree: u64 = enlarged[sizes.len() - summed..].iter().product();
        let columns: u64 = enlarged[..sizes.len() - summed].iter().product();
        let fits =
            (summed == sizes.len() || tree.is_power_of_two()) && columns <= setup.machine.ce.outputs_per_lane;
        if fits {
            found.push(PaddingCandidate { pad: 1, sizes: enlarged, elements: others * size });
        }
    }
    found.retain(|candidate| candidate.elements <= most);
    found
}
