//! Which instructions compute: a choice of speed only, since every path gives the same bits.

use std::sync::OnceLock;

use super::kernel_portable;
use super::shape::{ContractError, TreeReduce};
use super::words::{OperandWord, WordForm};

#[cfg(target_arch = "x86_64")]
use super::{kernel_avx2, kernel_avx512};

/// A family of instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SimdPath {
    /// What every host has.
    Portable,
    /// x86-64 with AVX2 and FMA.
    Avx2,
    /// x86-64 with AVX-512 F, BW, DQ and VNNI.
    Avx512,
}

impl SimdPath {
    /// Every path, slow ones first.
    pub const ALL: [Self; 3] = [Self::Portable, Self::Avx2, Self::Avx512];

    /// The fastest path of this host.
    #[must_use]
    pub fn best() -> Self {
        static BEST: OnceLock<SimdPath> = OnceLock::new();
        *BEST
            .get_or_init(|| Self::ALL.into_iter().rfind(|path| path.is_available()).unwrap_or(Self::Portable))
    }

    /// Whether this host has the instructions.
    #[must_use]
    pub fn is_available(self) -> bool {
        self.float_kernel(TreeReduce::Add).is_ok()
    }

    pub(super) fn float_kernel(self, reduce: TreeReduce) -> Result<TileKernel<f32>, ContractError> {
        let kernel = match self {
            Self::Portable => Some(kernel_portable::float(reduce)),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => kernel_avx2::float(reduce),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => kernel_avx512::float(reduce),
            #[cfg(not(target_arch = "x86_64"))]
            _ => None,
        };
        kernel.ok_or(ContractError::NoPath)
    }

    /// The kernel for integers, of 8 bits at most if `narrow`.
    pub(super) fn int_kernel(
        self,
        reduce: TreeReduce,
        narrow: bool,
    ) -> Result<TileKernel<i32>, ContractError> {
        let kernel = match self {
            Self::Portable => Some(kernel_portable::int(reduce)),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => kernel_avx2::int(reduce),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => kernel_avx512::int(reduce, narrow),
            #[cfg(not(target_arch = "x86_64"))]
            _ => None,
        };
        kernel.ok_or(ContractError::NoPath)
    }
}

/// A kernel, the tile of outputs that it computes, and how it wants its operands.
#[derive(Clone, Copy, Debug)]
pub(super) struct TileKernel<W: OperandWord> {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) form_a: WordForm,
    pub(super) form_b: WordForm,
    pub(super) run: TileKernelFn<W>,
}

/// Takes the products of a tile into its accumulators.
pub(super) type TileKernelFn<W> = fn(&KernelTile<'_, W>, &mut [W]);

/// The inputs of one tile; outputs are `rows * columns` accumulators.
#[derive(Clone, Copy, Debug)]
pub(super) struct KernelTile<'a, W: OperandWord> {
    /// Rows one after the other.
    pub(super) a: &'a [W],
    /// Words one after the other, each of all columns.
    pub(super) b: &'a [W],
    pub(super) range_a: W::Range,
    pub(super) range_b: W::Range,
    /// Words that the tree reduces in one step; for floats.
    pub(super) tree_elements: usize,
}

/// Most rows of a tile.
pub(super) const MAX_TILE_ROWS: usize = 8;
/// Most columns of a tile.
pub(super) const MAX_TILE_COLUMNS: usize = 16;
