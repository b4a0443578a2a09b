//! The memories of a core and of its device.

/// Where a tensor lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemorySpace {
    /// State buffer of a core.
    Sbuf,
    /// Partial-sum buffer of a core.
    Psum,
    /// Off-chip memory of one program.
    Hbm,
    /// Off-chip memory that every program of a launch sees.
    SharedHbm,
}

impl MemorySpace {
    /// True for SBUF and PSUM.
    pub const fn on_chip(self) -> bool {
        matches!(self, MemorySpace::Sbuf | MemorySpace::Psum)
    }

    /// Its name in kernels.
    pub const fn name(self) -> &'static str {
        match self {
            MemorySpace::Sbuf => "sbuf",
            MemorySpace::Psum => "psum",
            MemorySpace::Hbm => "private_hbm",
            MemorySpace::SharedHbm => "shared_hbm",
        }
    }
}
