//! What was written, with its place: einsum, size table, lowered shapes, tactic, and the file that holds
//! them.
//!
//! Equality ignores spans, so `parse(print(x)) == x` can be stated. Printing is canonical: one spelling for
//! each tree.

use std::fmt;

use smallvec::SmallVec;
use tilewright_base::{Name, Span};

use super::expr::Expr;

/// Most axes of one einsum, and most terms on one side of a `|`.
pub const MAX_TERMS: usize = 16;

/// A short list: most shapes and tactics have few terms on a side.
pub type Terms<T> = SmallVec<[T; 4]>;

/// One axis of one tensor of the einsum, perhaps split over PEs: `E_8`.
#[derive(Clone, Debug)]
pub struct EinsumAxis {
    /// The axis.
    pub name: Name,
    /// How many PE groups share it, as written behind `_`.
    pub pes: Option<Expr>,
    /// Loops whose sum is the position on it: `(y=2x+r-1)`.
    pub window: Option<WindowSum>,
    /// Where it stands.
    pub span: Span,
}

/// A position as a sum of loops, less the positions before the start: `2x+r-1`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WindowSum {
    /// Factor and loop of each term.
    pub terms: Vec<(u64, Name)>,
    /// Positions before the start, which read as zero.
    pub before: u64,
}

/// The axes of one tensor in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TensorAxes {
    /// Outermost first.
    pub axes: Vec<EinsumAxis>,
    /// The whole of it.
    pub span: SyntaxSpan,
}

/// `ble, ef -> blf`, or a lone tensor `ble`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Einsum {
    /// First input.
    pub in0: TensorAxes,
    /// Second input, if there are two.
    pub in1: Option<TensorAxes>,
    /// Output; a lone tensor has none.
    pub out: Option<TensorAxes>,
    /// `where K=V`: pairs of names for one index.
    pub same: Vec<(Name, Name)>,
    /// The whole of it.
    pub span: SyntaxSpan,
}

/// One line of the size table: `e=64`, or `l=1..4096` for an axis whose size is known only at run time.
#[derive(Clone, Debug)]
pub struct Dim {
    /// Axis or free symbol.
    pub name: Name,
    /// Least size; equal to `most` unless dynamic.
    pub least: Expr,
    /// Largest size.
    pub most: Expr,
    /// Written as a range.
    pub dynamic: bool,
    /// Where it stands.
    pub span: Span,
}

/// A digit as written: `e^{E/4}[4]`, `f^1[24#32]`, `_[4]`.
#[derive(Clone, Debug)]
pub struct Term {
    /// The axis; `None` for `_`, a digit that no coordinate depends on (copies).
    pub axis: Option<Name>,
    /// Weight of the digit on its axis.
    pub stride: Expr,
    /// How many values the digit takes.
    pub size: Expr,
    /// Places kept for it, if declared with `#`; at least `size`.
    pub slots: Option<Expr>,
    /// The whole term.
    pub span: Span,
}

/// Which memory a lowered shape lives in, as written after `@`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// `@dm`: data memory of the slices.
    Dm,
    /// `@trf`: the register files of the contraction engine.
    Trf,
    /// `@trf/2`: one half of them, the other being loaded meanwhile.
    TrfHalf,
    /// `@vrf`: the vector engine's register file.
    Vrf,
}

/// `inter | intra`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoweredShape {
    /// Memory, if stated.
    pub place: Option<Place>,
    /// Slice number, most significant first.
    pub inter: Vec<Term>,
    /// Offset within a slice, outermost first.
    pub intra: Vec<Term>,
    /// The whole of it.
    pub span: SyntaxSpan,
}

/// `parallel | slice tactic`, or with every role stated `parallel | time | lanes | packet`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tactic {
    /// Loops that run on different slices at once.
    pub parallel: Vec<Term>,
    /// Loops of each slice, outermost first; with stated roles only those that run in time.
    pub slice: Vec<Term>,
    /// Lanes and packet, if stated.
    pub roles: Option<(Vec<Term>, Vec<Term>)>,
    /// The whole of it.
    pub span: SyntaxSpan,
}

/// Everything that one file or one command line says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// The einsum.
    pub einsum: Einsum,
    /// The size table in the order written.
    pub dims: Vec<Dim>,
    /// Lowered shape of the first input.
    pub in0: Option<LoweredShape>,
    /// Lowered shape of the second input.
    pub in1: Option<LoweredShape>,
    /// Lowered shape of the output.
    pub out: Option<LoweredShape>,
    /// The tactic.
    pub tactic: Option<Tactic>,
    /// Element type of the inputs, a name that the caller resolves.
    pub dtype: Option<(String, SyntaxSpan)>,
    /// The operand held in the register files; `in1` unless stated.
    pub stationary: Option<(Operand, SyntaxSpan)>,
}

/// A tensor of the einsum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operand {
    /// First input.
    In0,
    /// Second input.
    In1,
    /// Output.
    Out,
}

impl Operand {
    /// All three, in order.
    pub const ALL: [Operand; 3] = [Operand::In0, Operand::In1, Operand::Out];

    /// As the command line and the file form spell it.
    pub fn name(self) -> &'static str {
        match self {
            Operand::In0 => "in0",
            Operand::In1 => "in1",
            Operand::Out => "out",
        }
    }
}

/// A span that takes no part in equality.
#[derive(Clone, Copy, Debug, Default)]
pub struct SyntaxSpan(pub Span);

impl PartialEq for SyntaxSpan {
    fn eq(&self, _: &SyntaxSpan) -> bool {
        true
    }
}

impl PartialEq for EinsumAxis {
    fn eq(&self, other: &EinsumAxis) -> bool {
        self.name == other.name && self.pes == other.pes && self.window == other.window
    }
}

impl PartialEq for Dim {
    fn eq(&self, other: &Dim) -> bool {
        (self.name, self.dynamic, &self.least, &self.most)
            == (other.name, other.dynamic, &other.least, &other.most)
    }
}

impl PartialEq for Term {
    fn eq(&self, other: &Term) -> bool {
        (self.axis, &self.stride, &self.size, &self.slots)
            == (other.axis, &other.stride, &other.size, &other.slots)
    }
}

impl Program {
    /// The value of a size expression under the size table alone.
    pub fn size_value(&self, size: &Expr) -> Option<u64> {
        let lookup = |name: Name| {
            self.dims.iter().find(|dim| dim.name.same_letters(&name))?.most.value(&|_| None).ok()
        };
        size.value(&lookup).ok()
    }

    /// The lowered shape of an operand, if given.
    pub fn shape(&self, operand: Operand) -> Option<&LoweredShape> {
        match operand {
            Operand::In0 => self.in0.as_ref(),
            Operand::In1 => self.in1.as_ref(),
            Operand::Out => self.out.as_ref(),
        }
    }
}

impl Einsum {
    /// The axes of an operand, if the einsum has it.
    pub fn tensor(&self, operand: Operand) -> Option<&TensorAxes> {
        match operand {
            Operand::In0 => Some(&self.in0),
            Operand::In1 => self.in1.as_ref(),
            Operand::Out => self.out.as_ref(),
        }
    }
}

impl Place {
    /// As written after `@`.
    pub fn name(self) -> &'static str {
        match self {
            Place::Dm => "dm",
            Place::Trf => "trf",
            Place::TrfHalf => "trf/2",
            Place::Vrf => "vrf",
        }
    }
}

/// A subscript or superscript: one character stands bare, anything longer in braces.
struct ScriptExpr<'a>(&'a Expr);

impl fmt::Display for ScriptExpr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Expr::Int(value @ 0..=9) => write!(f, "{value}"),
            Expr::Symbol(name) if name.len() == 1 => write!(f, "{name}"),
            other => write!(f, "{{{other}}}"),
        }
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.axis {
            Some(axis) => write!(f, "{axis}^{}[{}", ScriptExpr(&self.stride), self.size)?,
            None => write!(f, "_[{}", self.size)?,
        }
        match &self.slots {
            Some(slots) if *slots == self.size => f.write_str("#]"),
            Some(slots) => write!(f, "#{slots}]"),
            None => f.write_str("]"),
        }
    }
}

/// Terms with single spaces between.
pub(crate) fn print_terms(f: &mut fmt::Formatter<'_>, terms: &[Term]) -> fmt::Result {
    for (index, term) in terms.iter().enumerate() {
        if index > 0 {
            f.write_str(" ")?;
        }
        write!(f, "{term}")?;
    }
    Ok(())
}

fn print_sections(f: &mut fmt::Formatter<'_>, sections: &[&[Term]]) -> fmt::Result {
    for (index, terms) in sections.iter().enumerate() {
        if index > 0 {
            f.write_str(if sections[index - 1].is_empty() { "| " } else { " | " })?;
        }
        print_terms(f, terms)?;
    }
    Ok(())
}

impl fmt::Display for LoweredShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = self.place {
            write!(f, "@{} ", place.name())?;
        }
        print_sections(f, &[&self.inter, &self.intra])
    }
}

impl fmt::Display for Tactic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.roles {
            Some((lanes, packet)) => print_sections(f, &[&self.parallel, &self.slice, lanes, packet]),
            None => print_sections(f, &[&self.parallel, &self.slice]),
        }
    }
}

impl fmt::Display for WindowSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (factor, name)) in self.terms.iter().enumerate() {
            let plus = if index > 0 { "+" } else { "" };
            match factor {
                1 => write!(f, "{plus}{name}")?,
                _ => write!(f, "{plus}{factor}{name}")?,
            }
        }
        if self.before > 0 { write!(f, "-{}", self.before) } else { Ok(()) }
    }
}

impl fmt::Display for TensorAxes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for axis in &self.axes {
            match (&axis.window, axis.name.len()) {
                (Some(window), _) => write!(f, "({}={window})", axis.name)?,
                (None, 1) => write!(f, "{}", axis.name)?,
                (None, _) => write!(f, "({})", axis.name)?,
            }
            if let Some(pes) = &axis.pes {
                write!(f, "_{}", ScriptExpr(pes))?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Einsum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.in0)?;
        if let Some(in1) = &self.in1 {
            write!(f, ", {in1}")?;
        }
        if let Some(out) = &self.out {
            if out.axes.is_empty() { f.write_str(" -> ()") } else { write!(f, " -> {out}") }?;
        }
        for (index, (a, b)) in self.same.iter().enumerate() {
            write!(f, "{}{a}={b}", if index == 0 { " where " } else { ", " })?;
        }
        Ok(())
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.dynamic {
            write!(f, "{}={}..{}", self.name, self.least, self.most)
        } else {
            write!(f, "{}={}", self.name, self.most)
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{};", self.einsum)?;
        for (index, dim) in self.dims.iter().enumerate() {
            write!(f, "{}{dim}", if index == 0 { "dims " } else { ", " })?;
        }
        if !self.dims.is_empty() {
            writeln!(f, ";")?;
        }
        if let Some((dtype, _)) = &self.dtype {
            writeln!(f, "dtype = {dtype};")?;
        }
        if let Some((operand, _)) = self.stationary {
            writeln!(f, "stationary = {};", operand.name())?;
        }
        for operand in Operand::ALL {
            if let Some(shape) = self.shape(operand) {
                writeln!(f, "{} = {shape};", operand.name())?;
            }
        }
        match &self.tactic {
            Some(tactic) => writeln!(f, "tactic = {tactic};"),
            None => Ok(()),
        }
    }
}
