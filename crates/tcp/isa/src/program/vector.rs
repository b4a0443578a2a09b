//! The vector engine's registers: a chain of units in fixed stage order, and the reducer between slices (vISA
//! book, vector engine).
//!
//! Elements are 32-bit words, 8 to a flit. Each unit is used at most once in a command; within the float
//! stage they may come in any order (an assumption: the book's example needs multiplications both before and
//! after others).

use super::Count;
use super::loops::{Loop, SliceDigit, StepLoop};

/// The type of the words in a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// Integers and fixed point.
    I32,
    /// Floats.
    F32,
}

/// What the vector engine does to the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vector {
    /// Type of the words that enter.
    pub input: Word,
    /// The upper half of every flit is padding, so that narrow stages need no split.
    pub trim: bool,
    /// Flits alternate between two groups (an interleaved fetch); the op with a [`OperandSource::Pair`]
    /// operand joins them.
    pub pair: bool,
    /// Comparisons that set tag bits 0.. of every element, at most four; in pair mode bit 3 is the group.
    pub tags: Vec<Comparison>,
    /// Units in stage order.
    pub ops: Vec<Op>,
    /// The reducer between slices.
    pub between: Option<InterSliceReduce>,
    /// The reducer comes before the chain.
    pub between_first: bool,
}

impl Vector {
    /// This chain on two groups of flits (pair mode).
    pub fn paired(self) -> Vector {
        Vector { pair: true, ..self }
    }

    /// This chain, followed by a reduction between slices.
    pub fn then_between(self, op: ReduceOp, slices: u64, gives: ReduceOutput) -> Vector {
        Vector { between: Some(InterSliceReduce { op, slices, gives }), ..self }
    }

    /// This chain, preceded by a reduction between slices.
    pub fn after_between(self, op: ReduceOp, slices: u64, gives: ReduceOutput) -> Vector {
        Vector { between_first: true, ..self.then_between(op, slices, gives) }
    }
}

/// Compares an element with a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// Order that the comparison asks for.
    pub relation: Relation,
    /// A word of the input type.
    pub word: u32,
}

/// Orders; floats compare as IEEE 754 says, NaN is unequal to everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Less.
    Lt,
    /// Less or equal.
    Le,
    /// Greater.
    Gt,
    /// Greater or equal.
    Ge,
}

/// One unit at work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    /// The unit and its operation.
    pub kind: OpKind,
    /// Operands after the stream's element: one for most, two for fused multiply-add, none for functions.
    pub operands: Vec<OperandChoice>,
    /// The stream's element is the second operand of a subtraction or division.
    pub reversed: bool,
    /// Elements that enter this op are kept as the stash.
    pub stash: bool,
}

impl Op {
    /// This operation, with its input kept as the stash.
    pub fn keep(self) -> Op {
        Op { stash: true, ..self }
    }
}

/// An operand by tag: the first choice whose pattern matches is taken; with none, the element passes
/// unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperandChoice {
    /// Guarded sources, in order.
    pub sources: Vec<GuardedSource>,
}

/// A source for elements with certain tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardedSource {
    /// Bits of the tag that count.
    pub mask: u8,
    /// Value that the bits under the mask must have.
    pub value: u8,
    /// The operand.
    pub source: OperandSource,
}

/// Where an operand comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperandSource {
    /// A word.
    Immediate(u32),
    /// The vector register file: one word an element, by its own loops over all elements of the stream
    /// (strides in words).
    Vrf {
        /// Byte offset.
        base: u64,
        /// Outermost first; their product is the number of elements that enter the op.
        loops: Vec<Loop>,
    },
    /// What was kept by the op marked `stash`.
    Stash,
    /// The element of the other group: joins the two groups of pair mode.
    Pair,
}

/// Units, by stage.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the units' own; see the book's table")]
pub enum OpKind {
    // Logic.
    And,
    Or,
    Xor,
    Shl,
    Shr,
    // Fixed point: adder, left shifter, multiplier, right shifter.
    Add,
    AddSat,
    Sub,
    SubSat,
    ShlSat,
    Mul,
    MulQ31,
    ShrLogic,
    ShrArith,
    ShrRound,
    /// i32 with so many integer bits to f32.
    ToFloat {
        int_width: u32,
    },
    // Float: FMA unit.
    FAdd,
    FSub,
    FMul,
    Fma,
    // Float: function unit.
    Sqrt,
    Tanh,
    Sigmoid,
    Erf,
    Log,
    Sin,
    Cos,
    FpuDiv,
    // Float: exponential.
    Exp,
    ExpNeg,
    // Float: the two multipliers.
    Mul0,
    Mul1,
    /// Reduction within the slice.
    Reduce(Reduce),
    /// The divider.
    Div,
    /// f32 to i32 with so many integer bits.
    ToFixed {
        int_width: u32,
    },
    // Clip.
    ClipAdd,
    ClipMax,
    ClipAbsMax,
    ClipMin,
    ClipAbsMin,
    /// Keeps the elements whose tag matches, packed; the count of the rest is padding at the end of each
    /// flit.
    Filter {
        mask: u8,
        value: u8,
    },
}

/// How values combine in a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceOp {
    /// Sum: integers saturate within a slice.
    Add,
    /// Sum of integers that wraps; between slices only.
    AddWrap,
    /// Maximum.
    Max,
    /// Minimum.
    Min,
    /// Product of floats; between slices only.
    Mul,
}

/// Reduction within a slice: 4 elements enter at a time (low half of a flit, then high half unless trimmed).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reduce {
    /// Operation that combines values.
    pub op: ReduceOp,
    /// The 4 elements are combined too; each result is then one element in a flit of its own.
    pub tree: bool,
    /// Loops over what enters, outermost first; at most 8 results are open at once.
    pub steps: Vec<StepLoop>,
    /// Elements past any of these take no part.
    pub limits: Vec<ReduceLimit>,
}

/// A valid count: position over slices, steps and the 4 elements must stay below an extent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReduceLimit {
    /// Live below it.
    pub extent: Count,
    /// Digits of the slice number that count.
    pub slices: Vec<SliceDigit>,
    /// The weight of an iteration of each step loop.
    pub weights: Vec<u64>,
    /// The weight of the next of the 4 elements.
    pub element: u64,
}

/// Reduction between neighbouring slices: in ring order, lowest slice first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterSliceReduce {
    /// Operation that combines values.
    pub op: ReduceOp,
    /// Slices of a group: the innermost `slices` of the slice number.
    pub slices: u64,
    /// Who gets the results.
    pub gives: ReduceOutput,
}

/// What the slices of a group hold after the reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceOutput {
    /// The first has the results, the others zeros.
    First,
    /// All have them.
    Broadcast,
    /// Flits are `outer x slices x inner` in time; slice `i` keeps those of index `i`.
    Scatter {
        /// Flits inside the promoted digit.
        inner: u64,
    },
}
