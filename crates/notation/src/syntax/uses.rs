//! Which symbols what is written uses: axes of the einsum, names for them, and symbols of expressions.

use tilewright_base::Name;

use super::ast::{Einsum, EinsumAxis, LoweredShape, Operand, Program, Tactic, Term};
use super::expr::Expr;

impl Expr {
    fn uses(&self, name: Name) -> bool {
        match self {
            Expr::Int(_) => false,
            Expr::Symbol(symbol) => symbol.same_letters(&name),
            Expr::Binary(parts) => parts.1.uses(name) || parts.2.uses(name),
        }
    }
}

impl Term {
    fn uses(&self, name: Name) -> bool {
        let axis = self.axis.is_some_and(|axis| axis.same_letters(&name));
        let slots = self.slots.as_ref().is_some_and(|slots| slots.uses(name));
        axis || slots || self.stride.uses(name) || self.size.uses(name)
    }
}

impl LoweredShape {
    fn uses(&self, name: Name) -> bool {
        self.inter.iter().chain(&self.intra).any(|term| term.uses(name))
    }
}

impl Tactic {
    fn uses(&self, name: Name) -> bool {
        let roles = self.roles.iter().flat_map(|(lanes, packet)| lanes.iter().chain(packet));
        self.parallel.iter().chain(&self.slice).chain(roles).any(|term| term.uses(name))
    }
}

impl EinsumAxis {
    fn uses(&self, name: Name) -> bool {
        let terms = self.window.iter().flat_map(|window| &window.terms);
        let loops = terms.into_iter().any(|(_, term)| term.same_letters(&name));
        self.name.same_letters(&name) || loops || self.pes.as_ref().is_some_and(|pes| pes.uses(name))
    }
}

impl Einsum {
    /// Its axes by name, each once, in the order written.
    pub fn axis_names(&self) -> Vec<Name> {
        let mut names: Vec<Name> = Vec::new();
        for tensor in Operand::ALL.into_iter().filter_map(|operand| self.tensor(operand)) {
            for axis in &tensor.axes {
                let loops = axis.window.iter().flat_map(|window| window.terms.iter().map(|(_, name)| *name));
                for name in std::iter::once(axis.name).chain(loops) {
                    if !names.iter().any(|known| known.same_letters(&name)) {
                        names.push(name);
                    }
                }
            }
        }
        names
    }

    fn uses(&self, name: Name) -> bool {
        let mut tensors = Operand::ALL.into_iter().filter_map(|operand| self.tensor(operand));
        let same = self.same.iter().any(|(one, other)| one.same_letters(&name) || other.same_letters(&name));
        same || tensors.any(|tensor| tensor.axes.iter().any(|axis| axis.uses(name)))
    }
}

impl Program {
    /// Whether anything besides the entry of a symbol itself uses it, in either case.
    pub fn uses(&self, name: Name) -> bool {
        let others = self.dims.iter().filter(|dim| !dim.name.same_letters(&name));
        let mut shapes = Operand::ALL.into_iter().filter_map(|operand| self.shape(operand));
        self.einsum.uses(name)
            || others.into_iter().any(|dim| dim.least.uses(name) || dim.most.uses(name))
            || shapes.any(|shape| shape.uses(name))
            || self.tactic.as_ref().is_some_and(|tactic| tactic.uses(name))
    }
}
