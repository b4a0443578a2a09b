//! Weights and tables of a compiled model as bytes of HBM, for each chip.

use thiserror::Error;
use tilewright_base::invariant::{Exact, OrBroken, broken, to_index};
use tilewright_compile::tcp::pack::Constants;
use tilewright_compile::{CompileError, Compiled};

/// Why weights are not packed.
#[derive(Debug, Error)]
pub enum PackError {
    /// A constant that cannot be had.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// The host has too little memory.
    #[error("the packed weights need up to {most_bytes} B of this machine's memory for each chip")]
    Memory {
        /// Bytes that the plan gives a chip.
        most_bytes: u64,
    },
}

/// HBM of each chip from its first byte to the last that is packed.
///
/// # Errors
/// A constant that cannot be had; more bytes than the plan has or the host can hold.
pub fn pack_hbm(compiled: &Compiled, constants: &Constants<'_>) -> Result<Vec<Vec<u8>>, PackError> {
    let most_bytes = compiled.plan.end;
    let most = to_index(most_bytes);
    let chips = to_index(compiled.plan.options.chips);
    let mut all: Vec<Vec<u8>> = vec![Vec::new(); chips];
    let mut short = false;
    compiled.pack(constants, &mut |chip, at, bytes| {
        let hbm = all.get_mut(to_index(chip)).or_broken("weights are packed for chips that there are");
        let start = to_index(at);
        let end = start.exact_add(bytes.len());
        if end > most {
            broken(format_args!("weights are packed to {end}, and the plan ends at {most}"));
        }
        let more = end.saturating_sub(hbm.len());
        if hbm.try_reserve(more).is_err() {
            short = true;
            return;
        }
        hbm.resize(hbm.len() + more, 0);
        hbm[start..end].copy_from_slice(bytes);
    })?;
    if short { Err(PackError::Memory { most_bytes }) } else { Ok(all) }
}
