//! Programs of the layers that transformers are made of, built from register images (paper section VI; chains
//! of the vISA book).
//!
//! Each function gives a whole program of one PE whose tensors start and end in data memory. `kernels/*.tcp`
//! holds their texts.
//!
//! | file | owns |
//! |---|---|
//! | [`softmax`](mod@softmax) | softmax over an axis that is spread over slices, in three passes (E8) |
//! | [`attention`](mod@attention) | a head group: scores, softmax, values (E7 to E9) |
//! | [`rmsnorm`](mod@rmsnorm) | root-mean-square norm over all slices |
//! | [`activation`] | `SiLU`, gated `SiLU` and `GELU` |
//! | [`rope`](mod@rope) | rotary position embedding |
//! | [`residual`](mod@residual) | residual sum |
//! | [`quantise`](mod@quantise) | quantisation, its inverse, and requantisation of sums |
//! | `builder`, `rows`, `pass`, `chain` | tensors and queues, a layout, images, chains |

pub mod activation;
pub mod attention;
mod builder;
pub mod chain;
pub mod pass;
pub mod quantise;
pub mod residual;
pub mod rmsnorm;
pub mod rope;
mod rows;
pub mod softmax;

use std::fmt;

use tilewright_machine::tcp::Tcp;

use tilewright_tcp_isa::program::Program;

pub use activation::{gelu, silu};
pub use attention::{AttentionHeads, attention};
pub use quantise::quantise;
pub use residual::residual;
pub use rmsnorm::rmsnorm;
pub use rope::rope;
pub use softmax::softmax;

/// Why a layer has no program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelError {
    /// A size that the layer's commands cannot have.
    Size {
        /// Name of the size.
        what: &'static str,
        /// The size that was given.
        found: u64,
        /// Sizes that the layer allows.
        allowed: &'static str,
    },
    /// The notation refuses a shape.
    Shape {
        /// Tensor that has the shape.
        tensor: String,
        /// Reason that the notation gives.
        why: String,
    },
    /// Tensors do not fit the data memory of a slice.
    Room {
        /// Bytes of it.
        capacity: u64,
    },
    /// More commands than ids.
    Commands {
        /// Ids.
        most: u64,
    },
}

impl fmt::Display for KernelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KernelError::Size { what, found, allowed } => write!(f, "{what} is {found}; allowed: {allowed}"),
            KernelError::Shape { tensor, why } => write!(f, "tensor `{tensor}`: {why}"),
            KernelError::Room { capacity } => {
                write!(f, "tensors take more than {capacity} B of a slice's data memory")
            }
            KernelError::Commands { most } => write!(f, "more than {most} commands"),
        }
    }
}

impl std::error::Error for KernelError {}

/// A size that must be a positive multiple of another.
fn multiple(what: &'static str, found: u64, of: u64, allowed: &'static str) -> Result<(), KernelError> {
    let fits = found > 0 && of > 0 && found.is_multiple_of(of);
    if fits { Ok(()) } else { Err(KernelError::Size { what, found, allowed }) }
}

/// All layers at the sizes of `kernels/NAME.tcp`, by name.
///
/// # Errors
/// A machine that the sizes do not fit.
pub fn all(machine: &Tcp) -> Result<Vec<(&'static str, Program)>, KernelError> {
    Ok(vec![
        ("attention", attention(machine, &AttentionHeads::default())?),
        ("gelu", gelu(machine, 256, 128)?),
        ("quantise", quantise(machine, 256, 128)?),
        ("residual", residual(machine, 256, 128)?),
        ("rmsnorm", rmsnorm(machine, 64, 4096)?),
        ("rope", rope(machine, 4, 128, 128)?),
        ("silu", silu(machine, 256, 128)?),
        ("softmax", softmax(machine, 4, 64, 256)?),
    ])
}
