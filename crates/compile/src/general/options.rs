//! How to plan a graph: PEs, what is left out, and how tiles are weighed.

use super::issue_search::OrderSearch;
use super::link::MANY_PRODUCTS;
use super::parts::Parts;
use super::tiled::Room;
use super::without::{Choice, Without};

/// How tiles of contractions are weighed: one by one, each is part of a plan that does not exist yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weighing {
    /// As if nothing was there when a contraction begins, and nobody else needed the DMA engine.
    Cold,
    /// As if what the host gives had been brought before, while others compute.
    Warm,
    /// The same where the engine is what all wait for: one in so many of its cycles counts besides.
    Scarce(u64),
}

impl Weighing {
    /// All of them.
    pub(super) const ALL: [Weighing; 4] =
        [Weighing::Cold, Weighing::Warm, Weighing::Scarce(2), Weighing::Scarce(1)];

    /// Whether what the host gives is taken to be there.
    pub(super) fn is_warm(self) -> bool {
        self != Weighing::Cold
    }

    /// What its figures are.
    pub fn words(self) -> String {
        match self {
            Weighing::Cold => "estimated".to_string(),
            Weighing::Warm => "estimated with what the host gives there before".to_string(),
            Weighing::Scarce(1) => "estimated, with those of the DMA engine counted twice".to_string(),
            Weighing::Scarce(each) => {
                format!("estimated, with one in {each} of the DMA engine counted twice")
            }
        }
    }

    /// One in how many cycles of the engine counts besides, if it is what all wait for.
    pub(super) fn scarce(self) -> Option<u64> {
        match self {
            Weighing::Scarce(each) => Some(each.max(1)),
            Weighing::Cold | Weighing::Warm => None,
        }
    }
}

/// How to plan.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Tactics that are weighed for each contraction.
    pub tactics: usize,
    /// Whether results of contractions that are read in data memory are also written, so that they can be
    /// compared.
    pub keep: bool,
    /// PEs that may be used: a power of two.
    pub pes: u64,
    /// PEs that contractions in tiles fuse, where the chip can; `None` leaves it to cost.
    pub fused: Option<u64>,
    /// How tiles are weighed; `None` leaves it to cost.
    pub weighing: Option<Weighing>,
    /// Products from which on contractions read operands by strides.
    pub least_products: u64,
    /// Parts that sums are cut into; `None` leaves it to cost.
    pub parts: Option<Parts>,
    /// Parts of the compiler that are left out.
    pub without: Without,
    /// How hard the order of commands is looked for.
    pub search: OrderSearch,
    /// Whether the program is checked before it is given away.
    pub check: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            tactics: 12,
            keep: false,
            pes: 1,
            fused: None,
            weighing: None,
            least_products: MANY_PRODUCTS,
            parts: None,
            without: Without::default(),
            search: OrderSearch::default(),
            check: true,
        }
    }
}

impl Options {
    /// What a contraction in tiles may use, with operands that are there when it begins or not.
    pub(super) fn room(&self, warm: [bool; 2], scarce: Option<u64>) -> Room {
        let fused = if self.without.has(Choice::Fused) { Some(1) } else { self.fused };
        Room { pes: self.pes, fused, warm, scarce, refined: !self.without.has(Choice::Refine), blocks: true }
    }
}
