//! Sizes that bounds and uses follow from: bytes of weights and caches, products of a pass.

use tilewright_compile::kernel::{Kernel, Kernels};
use tilewright_num::Dtype;

use crate::measure::real;

/// Sizes that bounds and uses follow from.
pub(crate) struct BlockSizes {
    pub(crate) weight_bytes: f64,
    pub(crate) linear_macs: f64,
    pub(crate) head_macs: f64,
    /// Of one token in all caches.
    pub(crate) kv_bytes: f64,
    /// Of one query and one key.
    pub(crate) pair_macs: f64,
}

impl BlockSizes {
    pub(crate) fn new(kernels: &Kernels, dtype: Dtype, cache: Dtype) -> BlockSizes {
        let bytes = |dtype: Dtype| f64::from(dtype.storage_bits()) / 8.0;
        let (mut macs, mut head, mut kv, mut pairs) = (0.0, 0.0, 0.0, 0.0);
        for kernel in &kernels.kernels {
            match kernel {
                Kernel::Head { weight, .. } => head += size(weight.rows.size) * size(weight.columns.size),
                Kernel::Attend { heads, .. } => {
                    kv += 2.0 * size(heads.kv_width());
                    pairs += 2.0 * size(heads.kv * heads.group * heads.depth);
                }
                _ => {}
            }
        }
        for weight in kernels.weights() {
            macs += size(weight.rows.size) * size(weight.columns.size);
        }
        BlockSizes {
            weight_bytes: macs * bytes(dtype),
            linear_macs: macs - head,
            head_macs: head,
            kv_bytes: kv * bytes(cache),
            pair_macs: pairs,
        }
    }

    /// Of a prompt, with every pair of a query and a key.
    pub(crate) fn prefill_macs(&self, tokens: f64) -> f64 {
        tokens * self.linear_macs + self.head_macs + self.pair_macs * tokens * tokens
    }

    /// Of a prompt, with the pairs that a causal mask keeps.
    pub(crate) fn causal_macs(&self, tokens: f64) -> f64 {
        self.prefill_macs(tokens) - self.pair_macs * tokens * (tokens - 1.0) / 2.0
    }

    pub(crate) fn decode_macs(&self, batch: f64, context: f64) -> f64 {
        batch * (self.linear_macs + self.head_macs + self.pair_macs * context)
    }
}

/// A count as a real number.
pub(crate) fn size(count: u64) -> f64 {
    real(u128::from(count))
}
