//! Images with control registers replaced by their values: what `load` copies to a context (paper section
//! V-A).

use super::exec::{Commit, Contract, Exec, ExecBody, Fetch, Loop};
use super::transfer::Transfer;
use super::vector::{OpKind, OperandSource, Vector};
use super::{Count, RegisterId};
use tilewright_base::invariant::OrBroken;

impl Count {
    /// The number, once it is one; 0 for a register.
    pub fn fixed(self) -> u64 {
        match self {
            Count::Fixed(value) => value,
            Count::Register(_) => 0,
        }
    }

    /// The number, with registers looked up; negative values count as 0.
    pub fn at(self, registers: &[i64]) -> u64 {
        match self {
            Count::Fixed(value) => value,
            Count::Register(RegisterId(id)) => {
                let value =
                    registers.get(id as usize).copied().or_broken("an image names registers that exist");
                u64::try_from(value.max(0)).or_broken("a value that is not negative")
            }
        }
    }
}

impl Exec {
    /// The image with every size a number.
    #[must_use]
    pub fn resolved(&self, registers: &[i64]) -> Exec {
        let mut exec = self.clone();
        exec.each_count(&mut |count| *count = Count::Fixed(count.at(registers)));
        exec
    }

    /// Calls `visit` with every size of the image.
    pub fn each_count(&mut self, visit: &mut dyn FnMut(&mut Count)) {
        match &mut self.body {
            ExecBody::Stream(stream) => {
                fetch(&mut stream.fetch, visit);
                stream.contract.iter_mut().for_each(|contract| self::contract(contract, visit));
                stream.vector.iter_mut().for_each(|vector| self::vector(vector, visit));
                commit(&mut stream.commit, visit);
            }
            ExecBody::Fill(fill) => commit(&mut fill.commit, visit),
            ExecBody::Short(_) => {}
        }
    }
}

impl Transfer {
    /// The transfer with every size a number.
    #[must_use]
    pub fn resolved(&self, registers: &[i64]) -> Transfer {
        let mut transfer = self.clone();
        transfer.loops.iter_mut().for_each(|row| row.size = Count::Fixed(row.size.at(registers)));
        transfer
    }
}

fn loops(loops: &mut [Loop], visit: &mut dyn FnMut(&mut Count)) {
    loops.iter_mut().for_each(|row| visit(&mut row.size));
}

fn fetch(fetch: &mut Fetch, visit: &mut dyn FnMut(&mut Count)) {
    loops(&mut fetch.loops, visit);
    fetch.limits.iter_mut().for_each(|limit| visit(&mut limit.extent));
}

fn contract(contract: &mut Contract, visit: &mut dyn FnMut(&mut Count)) {
    visit(&mut contract.repeats);
    loops(&mut contract.loops, visit);
    contract.steps.iter_mut().for_each(|step| visit(&mut step.size));
}

fn vector(vector: &mut Vector, visit: &mut dyn FnMut(&mut Count)) {
    for op in &mut vector.ops {
        if let OpKind::Reduce(reduce) = &mut op.kind {
            reduce.steps.iter_mut().for_each(|step| visit(&mut step.size));
            reduce.limits.iter_mut().for_each(|limit| visit(&mut limit.extent));
        }
        for guarded in op.operands.iter_mut().flat_map(|choice| &mut choice.sources) {
            if let OperandSource::Vrf { loops: walk, .. } = &mut guarded.source {
                loops(walk, visit);
            }
        }
    }
}

fn commit(commit: &mut Commit, visit: &mut dyn FnMut(&mut Count)) {
    loops(&mut commit.loops, visit);
}
