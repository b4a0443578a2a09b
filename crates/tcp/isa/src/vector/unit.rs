//! Stages, units, word types and operand counts of the vector engine's operations (vISA book, vector engine).

use crate::program::vector::{OpKind, Word};

/// Stages in the order in which elements pass them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VeStage {
    /// Bits.
    Logic,
    /// Integers and fixed point.
    Fxp,
    /// Fixed point to float.
    ToFloat,
    /// Floats.
    Float,
    /// Reduction within the slice.
    Reduce,
    /// Division.
    Div,
    /// Float to fixed point.
    ToFixed,
    /// Bounds.
    Clip,
    /// Choice by tag.
    Filter,
}

impl VeStage {
    /// Whether it takes half a flit at a time.
    pub fn narrow(self) -> bool {
        matches!(self, VeStage::Float | VeStage::Reduce | VeStage::Div)
    }
}

/// Units, each usable once in a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names are the units' own; see the book's table")]
pub enum VeUnit {
    LogicAnd,
    LogicOr,
    LogicXor,
    LogicShl,
    LogicShr,
    FxpAdd,
    FxpShl,
    FxpMul,
    FxpShr,
    ToFloat,
    Fma,
    Fpu,
    Exp,
    Mul0,
    Mul1,
    Reduce,
    Div,
    ToFixed,
    ClipAdd,
    ClipMax,
    ClipMin,
    Filter,
}

impl VeUnit {
    /// Its stage.
    pub fn stage(self) -> VeStage {
        match self {
            VeUnit::LogicAnd | VeUnit::LogicOr | VeUnit::LogicXor | VeUnit::LogicShl | VeUnit::LogicShr => {
                VeStage::Logic
            }
            VeUnit::FxpAdd | VeUnit::FxpShl | VeUnit::FxpMul | VeUnit::FxpShr => VeStage::Fxp,
            VeUnit::ToFloat => VeStage::ToFloat,
            VeUnit::Fma | VeUnit::Fpu | VeUnit::Exp | VeUnit::Mul0 | VeUnit::Mul1 => VeStage::Float,
            VeUnit::Reduce => VeStage::Reduce,
            VeUnit::Div => VeStage::Div,
            VeUnit::ToFixed => VeStage::ToFixed,
            VeUnit::ClipAdd | VeUnit::ClipMax | VeUnit::ClipMin => VeStage::Clip,
            VeUnit::Filter => VeStage::Filter,
        }
    }

    /// Whether it counts towards the latency of a chain; the book's list of units has no conversions and no
    /// filter.
    pub fn delays(self) -> bool {
        !matches!(self, VeUnit::ToFloat | VeUnit::ToFixed | VeUnit::Filter)
    }
}

/// The unit that an operation runs on.
pub fn unit(kind: &OpKind) -> VeUnit {
    match kind {
        OpKind::And => VeUnit::LogicAnd,
        OpKind::Or => VeUnit::LogicOr,
        OpKind::Xor => VeUnit::LogicXor,
        OpKind::Shl => VeUnit::LogicShl,
        OpKind::Shr => VeUnit::LogicShr,
        OpKind::Add | OpKind::AddSat | OpKind::Sub | OpKind::SubSat => VeUnit::FxpAdd,
        OpKind::ShlSat => VeUnit::FxpShl,
        OpKind::Mul | OpKind::MulQ31 => VeUnit::FxpMul,
        OpKind::ShrLogic | OpKind::ShrArith | OpKind::ShrRound => VeUnit::FxpShr,
        OpKind::ToFloat { .. } => VeUnit::ToFloat,
        OpKind::FAdd | OpKind::FSub | OpKind::FMul | OpKind::Fma => VeUnit::Fma,
        OpKind::Sqrt | OpKind::Tanh | OpKind::Sigmoid | OpKind::Erf | OpKind::Log => VeUnit::Fpu,
        OpKind::Sin | OpKind::Cos | OpKind::FpuDiv => VeUnit::Fpu,
        OpKind::Exp | OpKind::ExpNeg => VeUnit::Exp,
        OpKind::Mul0 => VeUnit::Mul0,
        OpKind::Mul1 => VeUnit::Mul1,
        OpKind::Reduce(_) => VeUnit::Reduce,
        OpKind::Div => VeUnit::Div,
        OpKind::ToFixed { .. } => VeUnit::ToFixed,
        OpKind::ClipAdd => VeUnit::ClipAdd,
        OpKind::ClipMax | OpKind::ClipAbsMax => VeUnit::ClipMax,
        OpKind::ClipMin | OpKind::ClipAbsMin => VeUnit::ClipMin,
        OpKind::Filter { .. } => VeUnit::Filter,
    }
}

/// The stage of an operation.
pub fn stage(kind: &OpKind) -> VeStage {
    unit(kind).stage()
}

/// The word type that an operation needs; `None` takes either.
pub fn takes(kind: &OpKind) -> Option<Word> {
    match unit(kind) {
        VeUnit::LogicShl | VeUnit::LogicShr => Some(Word::I32),
        unit => match unit.stage() {
            VeStage::Fxp | VeStage::ToFloat => Some(Word::I32),
            VeStage::Float | VeStage::Div | VeStage::ToFixed => Some(Word::F32),
            VeStage::Logic | VeStage::Reduce | VeStage::Clip | VeStage::Filter => None,
        },
    }
}

/// The word type that leaves an operation.
pub fn gives(kind: &OpKind, word: Word) -> Word {
    match kind {
        OpKind::ToFloat { .. } => Word::F32,
        OpKind::ToFixed { .. } => Word::I32,
        _ => takes(kind).unwrap_or(word),
    }
}

/// Operands besides the stream's element.
pub fn operand_count(kind: &OpKind) -> usize {
    match kind {
        OpKind::Fma => 2,
        OpKind::FpuDiv => 1,
        _ => match unit(kind) {
            VeUnit::Fpu
            | VeUnit::Exp
            | VeUnit::ToFloat
            | VeUnit::Reduce
            | VeUnit::ToFixed
            | VeUnit::Filter => 0,
            _ => 1,
        },
    }
}

/// Whether the stream's element may be the second operand.
pub fn reversible(kind: &OpKind) -> bool {
    matches!(kind, OpKind::Sub | OpKind::SubSat | OpKind::FSub | OpKind::FpuDiv | OpKind::Div)
}
