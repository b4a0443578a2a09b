//! A candidate as text: lowered shapes of all operands and a tactic with every role stated (paper section
//! II).
//!
//! Digits over slices stand in one order for all operands: batch, streamed, held, summed, the last on
//! neighbouring slices so that the reducer can add them. Within a slice each operand lies in the order in
//! which the loops run, so that walks join.

use tilewright_base::invariant::OrBroken;
use tilewright_base::{Name, Span};
use tilewright_notation::syntax::ast::{
    Dim, LoweredShape, Operand, Place, Program, SyntaxSpan, Tactic, Term,
};
use tilewright_notation::syntax::expr::Expr;

use crate::tcp::cost::{CandidateCommands, access_bytes};
use crate::tcp::nest::FrameContext;
use crate::tcp::point::{AxisRole, LoopNest, ORDERS, StreamSupply, TcpChoice, TimeLoop};
use crate::tcp::task::TcpTask;
use tilewright_tcp_isa::program::exec::Drain;

/// The program of one command of a candidate; `None` if the candidate is not legal.
pub fn spell(task: &TcpTask<'_>, framed: &FrameContext, choice: &TcpChoice) -> Option<Program> {
    let nest = framed.nest(choice).ok()?;
    let commands = CandidateCommands::new(&task.setup, &nest, choice).ok()?;
    let speller = Speller { task, framed, nest: &nest, choice };
    let (held, streamed) = (speller.held_shape(), speller.streamed_shape());
    let out = speller.out_shape(commands.drain());
    let (in0, in1) = if framed.stationary() == Operand::In0 { (held, streamed) } else { (streamed, held) };
    Some(Program {
        dims: speller.dims(),
        in0: Some(in0),
        in1: Some(in1),
        out: Some(out),
        tactic: Some(speller.tactic()),
        stationary: Some((framed.stationary(), SyntaxSpan::default())),
        ..task.program.clone()
    })
}

struct Speller<'a> {
    task: &'a TcpTask<'a>,
    framed: &'a FrameContext,
    nest: &'a LoopNest,
    choice: &'a TcpChoice,
}

/// A digit with numbers: axis, weight, values, places.
fn term(axis: Option<Name>, stride: u64, size: u64, slots: Option<u64>) -> Term {
    Term {
        axis,
        stride: Expr::Int(stride),
        size: Expr::Int(size),
        slots: slots.map(Expr::Int),
        span: Span::default(),
    }
}

impl Speller<'_> {
    fn name(&self, axis: usize) -> Name {
        self.task.axes[axis].name
    }

    fn axes(&self, role: AxisRole) -> impl Iterator<Item = usize> + '_ {
        (0..self.task.axes.len()).filter(move |axis| self.framed.role(*axis) == role)
    }

    fn slices(&self, axis: usize) -> u64 {
        1 << self.framed.frame.slices_log2[axis]
    }

    fn extent(&self, axis: usize) -> u64 {
        self.framed.frame.extents[axis]
    }

    /// Sizes of one command: what a part has of each axis.
    fn dims(&self) -> Vec<Dim> {
        let mut dims = self.task.program.dims.clone();
        for axis in 0..self.task.axes.len() {
            let parts = self.framed.frame.parts[axis];
            for dim in dims.iter_mut().filter(|dim| parts > 1 && dim.name.same_letters(&self.name(axis))) {
                let groups = self
                    .task
                    .program
                    .size_value(&dim.most)
                    .or_broken("a dimension of a checked einsum has a size")
                    / self.task.axes[axis].extent.max(1);
                dim.most = Expr::Int(self.extent(axis) * groups.max(1));
                dim.least = dim.most.clone();
            }
        }
        dims
    }

    /// The digit of an axis over slices, if it has one.
    fn over_slices(&self, axis: usize) -> Option<Term> {
        let (slices, live, share) = (self.slices(axis), self.nest.live[axis], self.nest.share[axis]);
        let padded = live < slices || share * live > self.extent(axis);
        (slices > 1).then(|| term(Some(self.name(axis)), share, live, padded.then_some(slices)))
    }

    /// A digit within a slice; the outermost of an axis that is not over slices may run past the end.
    fn within(&self, axis: usize, stride: u64, size: u64) -> Option<Term> {
        let outermost = self.slices(axis) == 1 && stride * size >= self.extent(axis);
        let padded = outermost && stride * size > self.extent(axis);
        (size > 1).then(|| term(Some(self.name(axis)), stride, size, padded.then_some(size)))
    }

    /// The loops of a role in time: outer axes first, then what lanes, repeats and packets leave of the inner
    /// one.
    fn time(&self, role: AxisRole) -> Vec<Term> {
        let mut terms = Vec::new();
        let inner = self.framed.inner(role);
        for axis in self.axes(role).filter(|axis| Some(*axis) != inner) {
            terms.extend(self.within(axis, 1, self.nest.share[axis]));
        }
        if let Some(axis) = inner {
            let unit = match role {
                AxisRole::Batch => 1,
                AxisRole::Held => self.nest.lanes * self.nest.repeats,
                AxisRole::Streamed => self.nest.columns,
                AxisRole::Summed => self.nest.tree,
            };
            let ring = if role == AxisRole::Streamed { self.nest.ring } else { 1 };
            terms.extend(self.within(axis, unit, self.nest.share[axis].div_ceil(unit * ring)));
        }
        terms
    }

    /// The digit whose values lie on the slices of a ring.
    fn ring(&self) -> Option<Term> {
        let axis = self.framed.inner(AxisRole::Streamed).filter(|_| self.nest.ring > 1)?;
        let stride = self.nest.share[axis] / self.nest.ring;
        self.within(axis, stride, self.nest.ring)
    }

    fn repeats(&self) -> Option<Term> {
        let axis = self.framed.inner(AxisRole::Held)?;
        self.within(axis, self.nest.lanes, self.nest.repeats)
    }

    fn lanes(&self) -> Option<Term> {
        let axis = self.framed.inner(AxisRole::Held)?;
        self.within(axis, 1, self.nest.lanes)
    }

    fn columns(&self) -> Option<Term> {
        let axis = self.framed.inner(AxisRole::Streamed)?;
        self.within(axis, 1, self.nest.columns)
    }

    /// Summed elements of a packet: fewer values than places if the sum is shorter.
    fn tree(&self) -> Option<Term> {
        let axis = self.framed.inner(AxisRole::Summed)?;
        let (tree, share) = (self.nest.tree, self.nest.share[axis]);
        let values = tree.min(share);
        (tree > 1).then(|| term(Some(self.name(axis)), 1, values, (values < tree).then_some(tree)))
    }

    /// Loops in time, outermost first, of those roles that an operand has.
    fn turns(&self, has: impl Fn(TimeLoop) -> bool, with_ring: bool) -> Vec<Term> {
        let mut terms = Vec::new();
        for turn in ORDERS[usize::from(self.choice.order)].into_iter().filter(|turn| has(*turn)) {
            let role = match turn {
                TimeLoop::Batch => AxisRole::Batch,
                TimeLoop::Passes => AxisRole::Held,
                TimeLoop::Rows => AxisRole::Streamed,
                TimeLoop::Chunks => AxisRole::Summed,
            };
            if with_ring && turn == TimeLoop::Rows && self.choice.supply == StreamSupply::RingOuter {
                terms.extend(self.ring());
            }
            terms.extend(self.time(role));
        }
        if with_ring && self.choice.supply == StreamSupply::RingInner {
            terms.extend(self.ring());
        }
        terms
    }

    fn parallel(&self, roles: &[AxisRole]) -> Vec<Term> {
        roles.iter().flat_map(|role| self.axes(*role).filter_map(|axis| self.over_slices(axis))).collect()
    }

    fn tactic(&self) -> Tactic {
        let mut slice = self.turns(|_| true, true);
        slice.extend(self.repeats());
        let lanes = self.lanes().into_iter().collect();
        let packet = self.columns().into_iter().chain(self.tree()).collect();
        Tactic {
            parallel: self.parallel(&[AxisRole::Batch, AxisRole::Streamed, AxisRole::Held, AxisRole::Summed]),
            slice,
            roles: Some((lanes, packet)),
            span: SyntaxSpan::default(),
        }
    }

    /// The operand in the register files, as it lies in data memory before: copies for every slice that uses
    /// it.
    fn held_shape(&self) -> LoweredShape {
        let mut inter = self.parallel(&[AxisRole::Batch]);
        inter.extend(copies(self.nest.streamed_slices));
        inter.extend(self.parallel(&[AxisRole::Held, AxisRole::Summed]));
        let mut intra: Vec<Term> = self.lanes().into_iter().collect();
        intra.extend(self.turns(|turn| turn != TimeLoop::Rows, false));
        intra.extend(self.repeats());
        intra.extend(self.tree());
        LoweredShape { place: Some(Place::Dm), inter, intra, span: SyntaxSpan::default() }
    }

    fn streamed_shape(&self) -> LoweredShape {
        let mut inter = self.parallel(&[AxisRole::Batch, AxisRole::Streamed]);
        if self.nest.ring > 1 {
            inter.extend(self.ring());
        } else {
            inter.extend(copies(self.nest.held_slices));
        }
        inter.extend(self.parallel(&[AxisRole::Summed]));
        let mut intra = Vec::new();
        let tree = self.tree();
        let (outermost, innermost) = self.cut_tree(tree);
        intra.extend(outermost);
        intra.extend(self.turns(|turn| turn != TimeLoop::Passes, false));
        intra.extend(self.columns());
        intra.extend(innermost);
        LoweredShape { place: Some(Place::Dm), inter, intra, span: SyntaxSpan::default() }
    }

    /// Where fetches are narrower than a packet, the sum's elements lie in runs of that width, far apart.
    fn cut_tree(&self, tree: Option<Term>) -> (Option<Term>, Option<Term>) {
        let setup = &self.task.setup;
        let bits = setup.element_bits();
        let packet = self.nest.columns * self.nest.tree * bits / 8;
        let narrow = self.choice.fetch_bytes < access_bytes(setup, packet, packet);
        let run = self.choice.fetch_bytes * 8 / bits;
        let Some(axis) = self.framed.inner(AxisRole::Summed).filter(|_| narrow) else { return (None, tree) };
        let name = Some(self.name(axis));
        let share = self.nest.tree.min(self.nest.share[axis]);
        let runs = share.div_ceil(run);
        let slots = (self.nest.tree / run > runs || runs * run > share).then_some(self.nest.tree / run);
        (Some(term(name, run, runs, slots)), Some(term(name, 1, run, None)))
    }

    fn out_shape(&self, drain: Drain) -> LoweredShape {
        let mut inter = self.parallel(&[AxisRole::Batch, AxisRole::Streamed, AxisRole::Held]);
        let freed = self.nest.summed_slices;
        inter.extend((freed > 1).then(|| term(None, 1, 1, Some(freed))));
        let mut intra = self.turns(|turn| turn != TimeLoop::Chunks, true);
        intra.extend(self.repeats());
        match drain {
            Drain::Interleaved => intra.extend(self.columns().into_iter().chain(self.lanes())),
            Drain::Sequential => intra.extend(self.lanes().into_iter().chain(self.columns())),
        }
        LoweredShape { place: None, inter, intra, span: SyntaxSpan::default() }
    }
}

fn copies(count: u64) -> Option<Term> {
    (count > 1).then(|| term(None, 1, count, None))
}
