//! What a contraction runs on: a machine, a number of fused PEs, an element type.
//!
//! Slices of fused PEs form one ring, so a fused group is the unit that lowered shapes describe (paper
//! section III). Fusion never crosses a cluster; eight PEs of the paper's chip are two groups of four (vISA
//! book).

use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;

use tilewright_tcp_isa::contraction::full_packet_elements;
use tilewright_tcp_isa::memory::payload_bits;

/// The target of one low-level einsum.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'m> {
    /// The machine.
    pub machine: &'m Tcp,
    /// PEs fused into one.
    pub fused_pes: u64,
    /// Element type of both inputs.
    pub dtype: Dtype,
}

/// Why a setup is impossible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetupError {
    /// The number of PEs cannot be fused.
    FusedPes {
        /// Requested number of PEs.
        asked: u64,
        /// Possible.
        allowed: Vec<u64>,
    },
    /// The contraction engine does not multiply this type.
    Dtype(Dtype),
}

impl<'m> Setup<'m> {
    /// Checks that the PEs can be fused and the type contracted.
    pub fn new(machine: &'m Tcp, fused_pes: u64, dtype: Dtype) -> Result<Setup<'m>, SetupError> {
        let setup = Setup { machine, fused_pes, dtype };
        if !machine.chip.fused_pes.contains(&fused_pes) {
            return Err(SetupError::FusedPes { asked: fused_pes, allowed: machine.chip.fused_pes.to_vec() });
        }
        if setup.packet_elements() == 0 {
            return Err(SetupError::Dtype(dtype));
        }
        Ok(setup)
    }

    /// Slices of the fused group.
    pub fn slices(&self) -> u64 {
        self.machine.fused_slices(self.fused_pes)
    }

    /// Elements of a full packet, and multiplications of a lane in one cycle (paper section IV-C); 0 for a
    /// type that the contraction engine does not multiply.
    pub fn packet_elements(&self) -> u64 {
        full_packet_elements(self.machine, self.dtype)
    }

    /// Bits that an input element takes in memory; i5 and i9 exist only behind the fetch unit.
    pub fn element_bits(&self) -> u64 {
        payload_bits(self.dtype)
    }

    /// Bits of an output element as the accumulators give it, before any cast.
    pub fn output_bits(&self) -> u64 {
        self.machine.ce.accumulator_bits
    }

    /// The type that sums have.
    pub fn accumulator_dtype(&self) -> Dtype {
        if self.dtype.is_float() { Dtype::F32 } else { Dtype::I32 }
    }
}
