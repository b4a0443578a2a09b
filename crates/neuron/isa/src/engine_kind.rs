//! The engines of a core, each with its own in-order stream.

/// An engine with its own in-order stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EngineKind {
    /// Tensor: the systolic array.
    Tensor,
    /// Vector.
    Vector,
    /// Scalar.
    Scalar,
    /// GpSimd.
    Gpsimd,
    /// DMA engines and their queues.
    Dma,
    /// Sync: registers, semaphores, triggers.
    Sync,
}

impl EngineKind {
    /// Every engine, in the order of reports.
    pub const ALL: [EngineKind; 6] = [
        EngineKind::Tensor,
        EngineKind::Vector,
        EngineKind::Scalar,
        EngineKind::Gpsimd,
        EngineKind::Dma,
        EngineKind::Sync,
    ];

    /// Its name in kernels and reports.
    pub const fn name(self) -> &'static str {
        match self {
            EngineKind::Tensor => "tensor",
            EngineKind::Vector => "vector",
            EngineKind::Scalar => "scalar",
            EngineKind::Gpsimd => "gpsimd",
            EngineKind::Dma => "dma",
            EngineKind::Sync => "sync",
        }
    }

    /// The engine of that name.
    pub fn from_name(name: &str) -> Option<EngineKind> {
        EngineKind::ALL.into_iter().find(|engine| engine.name() == name)
    }
}
