//! A program with its symbols replaced by numbers: axes with extents, shapes and tactic as digits.
//!
//! Resolving settles names and sizes only; whether the digits form a mixed radix is asked in
//! [`crate::radix`], whether a machine can do it in the machine's engine.

use tilewright_base::{Diagnostic, Name, Span};

use crate::sizes::Sizes;
use crate::syntax::ast::{
    Einsum, EinsumAxis, LoweredShape, MAX_TERMS, Operand, Place, Program, Tactic, Term, Terms,
};
use crate::window::Window;

/// Index into [`Problem::axes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AxisId(pub u8);

/// An index of the einsum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Its name; the first of the two if `where` joined a pair.
    pub name: Name,
    /// The other name after `where`.
    pub alias: Option<Name>,
    /// Extent of the loop over it on one PE group.
    pub extent: u64,
    /// Extent in each of in0, in1, out on one PE group; zero where the tensor lacks it.
    pub extent_in: [u64; 3],
    /// Size over all PE groups.
    pub whole: u64,
    /// PE groups that share it, 1 if it is not split.
    pub pes: u64,
    /// Known only at run time.
    pub dynamic: bool,
    /// Least size over all PE groups; below `whole` only if it is dynamic.
    pub least: u64,
    /// Where it first stands.
    pub span: Span,
}

/// A digit with its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digit {
    /// Its axis; `None` for copies.
    pub axis: Option<AxisId>,
    /// Weight on the axis.
    pub stride: u64,
    /// Values that hold data.
    pub live: u64,
    /// Places kept, at least `live`.
    pub slots: u64,
    /// Written with `#`: may run past the end of its axis.
    pub padded: bool,
    /// The term.
    pub span: Span,
}

/// A lowered shape as digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Whose shape.
    pub operand: Operand,
    /// Memory, if stated.
    pub place: Option<Place>,
    /// Digits of the slice number, most significant first.
    pub inter: Terms<Digit>,
    /// Digits of the offset, outermost first.
    pub intra: Terms<Digit>,
    /// The whole of it.
    pub span: Span,
}

/// Lanes and packet of a tactic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roles {
    /// Digits on the lanes.
    pub lanes: Terms<Digit>,
    /// Digits in the packet.
    pub packet: Terms<Digit>,
}

/// A tactic as digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loops {
    /// Digits over slices.
    pub parallel: Terms<Digit>,
    /// Digits of each slice, outermost first; without lanes and packet if `roles` states them.
    pub slice: Terms<Digit>,
    /// Lanes and packet, if stated.
    pub roles: Option<Box<Roles>>,
    /// The whole of it.
    pub span: Span,
}

/// An einsum with all of its sizes resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The indices.
    pub axes: Terms<Axis>,
    /// Axes of in0, in1, out in the order written; empty where there is no such tensor.
    pub tensors: [Terms<AxisId>; 3],
    /// Lowered shapes of in0, in1, out where given.
    pub shapes: [Option<Shape>; 3],
    /// The tactic, if given.
    pub tactic: Option<Loops>,
    /// Stored axes whose positions are sums of loops.
    pub windows: Vec<Window>,
    /// The operand in the register files.
    pub stationary: Operand,
    /// There is an output; a lone tensor has none, a scalar output has no axes.
    pub has_out: bool,
    /// The einsum.
    pub span: Span,
}

impl Problem {
    /// Settles names and sizes.
    pub fn new(program: &Program) -> Result<Problem, Vec<Diagnostic>> {
        let sizes = Sizes::new(&program.dims)?;
        let mut problem = Problem {
            axes: Terms::new(),
            tensors: Default::default(),
            shapes: [None, None, None],
            tactic: None,
            windows: Vec::new(),
            stationary: program.stationary.map_or(Operand::In1, |(operand, _)| operand),
            has_out: program.einsum.out.is_some(),
            span: program.einsum.span.0,
        };
        let mut complaints = check_joined_names(&program.einsum);
        problem.collect_axes(&program.einsum, &sizes, &mut complaints);
        if complaints.is_empty() {
            problem.settle_windows(&sizes, &mut complaints);
        }
        if !complaints.is_empty() {
            return Err(complaints);
        }
        for operand in Operand::ALL {
            if let Some(shape) = program.shape(operand) {
                problem.resolve_shape(program, operand, shape, &sizes, &mut complaints);
            }
        }
        if let Some(tactic) = &program.tactic {
            problem.tactic = problem.resolve_tactic(tactic, &sizes, &mut complaints);
        }
        if complaints.is_empty() { Ok(problem) } else { Err(complaints) }
    }

    /// The axis behind an id.
    pub fn axis(&self, id: AxisId) -> &Axis {
        &self.axes[usize::from(id.0)]
    }

    /// All axes.
    pub fn axis_ids(&self) -> impl Iterator<Item = AxisId> + use<> {
        (0..self.axes.len()).filter_map(|index| u8::try_from(index).ok()).map(AxisId)
    }

    /// The axes of a tensor.
    pub fn tensor(&self, operand: Operand) -> &[AxisId] {
        &self.tensors[operand as usize]
    }

    /// The shape of a tensor, if given.
    pub fn shape(&self, operand: Operand) -> Option<&Shape> {
        self.shapes[operand as usize].as_ref()
    }

    /// Whether a tensor has an axis, or a window that the axis moves.
    pub fn has(&self, operand: Operand, axis: AxisId) -> bool {
        self.axis(axis).extent_in[operand as usize] > 0
    }

    /// Whether a tensor stores an axis: loops that only move a window of it are not stored.
    pub fn stores(&self, operand: Operand, axis: AxisId) -> bool {
        self.has(operand, axis) && self.windows_of(operand).all(|window| window.factor(axis) == 0)
    }

    /// Summed over: not in the output.
    pub fn contracted(&self, axis: AxisId) -> bool {
        self.has_out && !self.has(Operand::Out, axis) && self.window(axis).is_none()
    }

    /// Two inputs, so the contraction engine is used.
    pub fn contracts_two(&self) -> bool {
        !self.tensor(Operand::In1).is_empty()
    }

    /// The operand that is streamed past the register files.
    pub fn streamed(&self) -> Operand {
        if self.stationary == Operand::In0 { Operand::In1 } else { Operand::In0 }
    }

    /// Finds an axis by any of its names, in either case.
    pub fn find(&self, name: Name) -> Option<AxisId> {
        let named = |axis: &Axis| {
            axis.name.same_letters(&name) || axis.alias.is_some_and(|alias| alias.same_letters(&name))
        };
        self.axes.iter().position(named).and_then(|index| u8::try_from(index).ok()).map(AxisId)
    }

    fn collect_axes(&mut self, einsum: &Einsum, sizes: &Sizes, complaints: &mut Vec<Diagnostic>) {
        // An axis without a size is told once, and nothing that follows from it.
        let mut without_size: Vec<Name> = Vec::new();
        for operand in Operand::ALL {
            let Some(tensor) = einsum.tensor(operand) else { continue };
            for axis in &tensor.axes {
                if without_size.iter().any(|name| name.same_letters(&axis.name)) {
                    continue;
                }
                let added = match &axis.window {
                    Some(sum) => self.add_window(einsum, operand, axis, sum, sizes),
                    None => self.add_axis(einsum, operand, axis, sizes),
                };
                if let Err(complaint) = added {
                    if complaint.code == UNBOUND && axis.window.is_none() {
                        without_size.push(axis.name);
                    }
                    complaints.push(*complaint);
                }
            }
        }
    }

    fn add_axis(
        &mut self,
        einsum: &Einsum,
        operand: Operand,
        written: &EinsumAxis,
        sizes: &Sizes,
    ) -> Result<(), Box<Diagnostic>> {
        let id = match self.find(written.name) {
            Some(id) => id,
            None if operand == Operand::Out => return Err(Box::new(not_an_input(written))),
            None => self.new_axis(einsum, written, sizes)?,
        };
        self.refuse_window(id, written)?;
        let known = self.axis(id);
        let (whole, pes_before, name) = (known.whole, known.pes, known.name);
        if name != written.name && known.alias != Some(written.name) && name.same_letters(&written.name) {
            return Err(Box::new(differs_in_case(name, written, known.span)));
        }
        if self.tensors[operand as usize].contains(&id) {
            return Err(Box::new(repeated_axis(written, operand)));
        }
        let pes = match &written.pes {
            Some(expr) => pe_groups(sizes.value(expr, written.span)?, pes_before, whole, written)?,
            None => 1,
        };
        let part = whole / pes;
        let axis = &mut self.axes[usize::from(id.0)];
        axis.extent_in[operand as usize] = part;
        if operand != Operand::Out {
            axis.extent = axis.extent.min(part);
        }
        axis.pes = axis.pes.max(pes);
        self.tensors[operand as usize].push(id);
        Ok(())
    }

    pub(crate) fn new_axis(
        &mut self,
        einsum: &Einsum,
        written: &EinsumAxis,
        sizes: &Sizes,
    ) -> Result<AxisId, Box<Diagnostic>> {
        let other_name = einsum.same.iter().find_map(|(a, b)| {
            if a.same_letters(&written.name) {
                Some(*b)
            } else if b.same_letters(&written.name) {
                Some(*a)
            } else {
                None
            }
        });
        let size = sizes
            .get(written.name)
            .or_else(|| sizes.get(other_name?))
            .ok_or_else(|| Box::new(no_size(written.name, written.span)))?;
        if let Some(other) =
            other_name.and_then(|name| sizes.get(name)).filter(|other| other.most != size.most)
        {
            return Err(Box::new(alias_sizes_differ(written, size, other)));
        }
        let axis = Axis {
            name: written.name,
            alias: other_name,
            extent: size.most,
            extent_in: [0; 3],
            whole: size.most,
            pes: 1,
            dynamic: size.dynamic,
            least: size.least,
            span: written.span,
        };
        let id = AxisId(u8::try_from(self.axes.len()).unwrap_or(u8::MAX));
        if self.axes.len() == MAX_TERMS {
            return Err(Box::new(too_many_axes(written)));
        }
        self.axes.push(axis);
        Ok(id)
    }

    /// Symbols of one tensor: axes mean what one PE group holds of them.
    fn lookup<'a>(&'a self, operand: Option<Operand>, sizes: &'a Sizes) -> impl Fn(Name) -> Option<u64> + 'a {
        move |name| match (self.find(name), operand) {
            (Some(id), Some(operand)) if self.has(operand, id) => {
                Some(self.axis(id).extent_in[operand as usize])
            }
            (Some(id), _) => Some(self.axis(id).extent),
            (None, _) => sizes.get(name).map(|size| size.most),
        }
    }

    fn resolve_shape(
        &mut self,
        program: &Program,
        operand: Operand,
        written: &LoweredShape,
        sizes: &Sizes,
        complaints: &mut Vec<Diagnostic>,
    ) {
        if program.einsum.tensor(operand).is_none() {
            let what = format!(
                "a shape for {}, but the einsum `{}` has no such tensor",
                operand.name(),
                program.einsum
            );
            complaints.push(
                Diagnostic::error("notation/operand", what)
                    .at(written.span.0, "")
                    .allowed("shapes for the tensors of the einsum")
                    .instead("extend the einsum, or leave the shape out"),
            );
            return;
        }
        let mut digits = |terms: &[Term]| self.digits(terms, Some(operand), sizes, complaints);
        let (inter, intra) = (digits(&written.inter), digits(&written.intra));
        let shape = Shape { operand, place: written.place, inter, intra, span: written.span.0 };
        self.shapes[operand as usize] = Some(shape);
    }

    fn resolve_tactic(
        &self,
        written: &Tactic,
        sizes: &Sizes,
        complaints: &mut Vec<Diagnostic>,
    ) -> Option<Loops> {
        let before = complaints.len();
        let mut digits = |terms: &[Term]| self.digits(terms, None, sizes, complaints);
        let (parallel, slice) = (digits(&written.parallel), digits(&written.slice));
        let roles = written.roles.as_ref().map(|(lanes, packet)| {
            let (lanes, packet) = (digits(lanes), digits(packet));
            Box::new(Roles { lanes, packet })
        });
        (complaints.len() == before).then_some(Loops { parallel, slice, roles, span: written.span.0 })
    }

    fn digits(
        &self,
        terms: &[Term],
        operand: Option<Operand>,
        sizes: &Sizes,
        complaints: &mut Vec<Diagnostic>,
    ) -> Terms<Digit> {
        let mut digits = Terms::new();
        for term in terms {
            match self.digit(term, operand, sizes) {
                Ok(digit) => digits.push(digit),
                Err(complaint) => complaints.push(*complaint),
            }
        }
        digits
    }

    fn digit(&self, term: &Term, operand: Option<Operand>, sizes: &Sizes) -> Result<Digit, Box<Diagnostic>> {
        let axis = term.axis.map(|name| self.axis_of_term(name, operand, term)).transpose()?;
        let lookup = self.lookup(operand, sizes);
        let value = |expr| sizes.value_with(expr, term.span, &lookup);
        let (stride, live) = (value(&term.stride)?, value(&term.size)?);
        let slots = term.slots.as_ref().map_or(Ok(live), value)?;
        if stride == 0 || live == 0 || slots < live || stride.max(slots) > crate::sizes::MAX_EXTENT {
            return Err(Box::new(bad_numbers(term, stride, live, slots)));
        }
        Ok(Digit { axis, stride, live, slots, padded: term.slots.is_some(), span: term.span })
    }

    fn axis_of_term(
        &self,
        name: Name,
        operand: Option<Operand>,
        term: &Term,
    ) -> Result<AxisId, Box<Diagnostic>> {
        let id = self.find(name);
        match (id, operand) {
            (Some(id), None) if self.window(id).is_none() => return Ok(id),
            (Some(id), Some(operand)) if self.tensor(operand).contains(&id) => return Ok(id),
            _ => {}
        }
        let (who, axes) = match operand {
            Some(operand) => (operand.name(), self.tensors[operand as usize].clone()),
            None => ("the einsum's loops", self.axis_ids().filter(|id| self.window(*id).is_none()).collect()),
        };
        let axes: String =
            axes.iter().map(|id| self.axis(*id).name.to_string()).collect::<Vec<_>>().join(", ");
        Err(Box::new(
            Diagnostic::error("notation/axis", format!("axis `{name}` is not an axis of {who}"))
                .at(term.span, "")
                .allowed(format!("the axes of {who}: {axes}"))
                .instead(match operand {
                    Some(_) => "one of these axes, or _[n] for n copies of the same data",
                    None => "one of these axes",
                }),
        ))
    }
}

fn pe_groups(pes: u64, before: u64, whole: u64, written: &EinsumAxis) -> Result<u64, Box<Diagnostic>> {
    let refuse = |message: String, allowed: String, instead: String| {
        let refused = Diagnostic::error("notation/pe-split", message);
        Err(Box::new(refused.at(written.span, "").allowed(allowed).instead(instead)))
    };
    let name = written.name;
    if pes == 0 {
        return refuse(
            format!("axis `{name}` is split over 0 PEs"),
            "1 or more".to_string(),
            format!("{name} without a subscript"),
        );
    }
    if !whole.is_multiple_of(pes) {
        return refuse(
            format!("axis `{name}` of size {whole} is split over {pes} PEs"),
            format!("divisors of {whole}"),
            format!("pad `{name}` to {} in the dims", whole.next_multiple_of(pes)),
        );
    }
    if before > 1 && before != pes {
        return refuse(
            format!("axis `{name}` is split over {before} PEs in one tensor and over {pes} in another"),
            "one split of an axis in one einsum".to_string(),
            format!("{name}_{before} in both, with a bridge for the other tensor"),
        );
    }
    Ok(pes)
}

/// Names joined by `where` must be two different axes, and each of them joined once.
fn check_joined_names(einsum: &Einsum) -> Vec<Diagnostic> {
    if einsum.same.is_empty() {
        return Vec::new();
    }
    let tensors = Operand::ALL.into_iter().filter_map(|operand| einsum.tensor(operand));
    let axes: Vec<Name> = tensors.flat_map(|tensor| &tensor.axes).map(|axis| axis.name).collect();
    let mut seen: Vec<Name> = Vec::new();
    let mut complaints = Vec::new();
    for (one, other) in &einsum.same {
        let known = |name: &Name| axes.iter().any(|axis| axis.same_letters(name));
        let twice = |name: &Name| seen.iter().any(|before| before.same_letters(name));
        if one.same_letters(other) || !known(one) || !known(other) || twice(one) || twice(other) {
            complaints.push(
                Diagnostic::error("notation/einsum", format!("`where {one}={other}` joins no pair of axes"))
                    .at(einsum.span.0, "")
                    .allowed("two different axes of the einsum, each joined once")
                    .instead("where K=V, with K in one tensor and V in another"),
            );
        }
        seen.extend([*one, *other]);
    }
    complaints
}

/// The code of an axis without a size.
const UNBOUND: &str = "notation/unbound";

fn no_size(name: Name, span: Span) -> Diagnostic {
    Diagnostic::error(UNBOUND, format!("axis `{name}` has no size"))
        .at(span, "")
        .allowed("a size for every axis, in either case")
        .instead(format!("--dims {name}=64, or {name}=1..64 if it is known only at run time"))
}

fn not_an_input(written: &EinsumAxis) -> Diagnostic {
    let name = written.name;
    Diagnostic::error("notation/einsum", format!("the output has axis `{name}`, which no input has"))
        .at(written.span, "")
        .allowed("axes of the inputs")
        .instead(format!("give an input the axis `{name}`, or drop it"))
}

fn differs_in_case(name: Name, written: &EinsumAxis, first: Span) -> Diagnostic {
    let what = format!("axes `{name}` and `{}` differ only in case", written.name);
    Diagnostic::error("notation/einsum", what)
        .at(written.span, "")
        .also(first, "")
        .allowed("one case for an axis within an einsum; its size may have the other")
        .instead(format!("`{name}` in both places, or another letter"))
}

fn repeated_axis(written: &EinsumAxis, operand: Operand) -> Diagnostic {
    let what = format!("axis `{}` stands twice in {}", written.name, operand.name());
    Diagnostic::error("notation/einsum", what)
        .at(written.span, "second time")
        .allowed("each axis once in a tensor; diagonals are not contractions")
        .instead("another letter")
}

fn alias_sizes_differ(
    written: &EinsumAxis,
    size: &crate::sizes::Size,
    other: &crate::sizes::Size,
) -> Diagnostic {
    let what = format!(
        "`{}` and `{}` are one index but have sizes {} and {}",
        size.name, other.name, size.most, other.most
    );
    Diagnostic::error("notation/einsum", what)
        .at(written.span, "")
        .also(size.span, "")
        .also(other.span, "")
        .allowed("equal sizes")
        .instead(format!("{0}={1}, or leave {0} out", other.name, size.most))
}

fn too_many_axes(written: &EinsumAxis) -> Diagnostic {
    let most = MAX_TERMS;
    Diagnostic::error("notation/too-many", format!("more than {most} axes"))
        .at(written.span, "one too many")
        .allowed(format!("{most}"))
        .instead("merge neighbouring axes")
}

fn bad_numbers(term: &Term, stride: u64, live: u64, slots: u64) -> Diagnostic {
    let what = format!("`{term}` is a digit of stride {stride} with {live} values in {slots} places");
    Diagnostic::error("notation/size", what)
        .at(term.span, "")
        .allowed(format!(
            "stride and size from 1 to {}, and no fewer places than values",
            crate::sizes::MAX_EXTENT
        ))
        .instead("[values#places] with places >= values >= 1")
}
