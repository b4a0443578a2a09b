//! What the closed form of the vector engine needs of its registers (vISA book, vector engine).

use crate::cost::vector::Vector as Stage;
use crate::program::vector::{OpKind, Vector};

/// Flits, width and units of a chain.
pub(super) fn cost(vector: &Vector, flits: u64) -> Stage {
    Stage {
        flits,
        narrow: vector.ops.iter().any(|op| is_narrow(&op.kind)),
        upper_half_padding: vector.trim,
        units: vector.ops.iter().filter(|op| is_unit(&op.kind)).count() as u64,
        reduced_slices: vector.between.map_or(1, |between| between.slices),
    }
}

/// Runs between narrow and widen.
fn is_narrow(kind: &OpKind) -> bool {
    use OpKind::{
        Cos, Div, Erf, Exp, ExpNeg, FAdd, FMul, FSub, Fma, FpuDiv, Log, Mul0, Mul1, Reduce, Sigmoid, Sin,
        Sqrt, Tanh,
    };
    matches!(
        kind,
        FAdd | FSub
            | FMul
            | Fma
            | Sqrt
            | Tanh
            | Sigmoid
            | Erf
            | Log
            | Sin
            | Cos
            | FpuDiv
            | Exp
            | ExpNeg
            | Mul0
            | Mul1
            | Reduce(_)
            | Div
    )
}

/// Conversions and the filter are stages of the pipeline, not units of their own.
fn is_unit(kind: &OpKind) -> bool {
    !matches!(kind, OpKind::ToFloat { .. } | OpKind::ToFixed { .. } | OpKind::Filter { .. })
}
