//! The memories of a core and of its device.

/// Where a tensor lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Memory {
    /// State buffer of a core.
    Sbuf,
    /// Partial-sum buffer of a core.
    Psum,
    /// Off-chip memory of one program.
    Hbm,
    /// Off-chip memory that every program of a launch sees.
    SharedHbm,
}

impl Memory {
    /// True for SBUF and PSUM.
    pub const fn on_chip(self) -> bool {
        matches!(self, Memory::Sbuf | Memory::Psum)
    }

    /// Its name in kernels.
    pub const fn name(self) -> &'static str {
        match self {
            Memory::Sbuf => "sbuf",
            Memory::Psum => "psum",
            Memory::Hbm => "private_hbm",
            Memory::SharedHbm => "shared_hbm",
        }
    }
}
