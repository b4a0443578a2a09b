//! Programs without their places, so that two texts of one program can be compared.

use tilewright_base::Span;

use crate::program::Program;
use crate::program::control::{Step, StepKind};

/// Sets every span of a program to the empty one.
pub fn erase_spans(program: &mut Program) {
    program.registers.iter_mut().for_each(|register| register.span = Span::default());
    program.tensors.iter_mut().for_each(|tensor| tensor.span = Span::default());
    program.grants.iter_mut().for_each(|grant| grant.span = Span::default());
    program.transfers.iter_mut().for_each(|transfer| transfer.span = Span::default());
    program.execs.iter_mut().for_each(|exec| exec.span = Span::default());
    for queue in &mut program.queues {
        queue.span = Span::default();
        erase_steps(&mut queue.steps);
    }
}

fn erase_steps(steps: &mut [Step]) {
    for step in steps {
        step.span = Span::default();
        match &mut step.kind {
            StepKind::For { body, .. } | StepKind::While { body, .. } => erase_steps(body),
            StepKind::If { then, otherwise, .. } => {
                erase_steps(then);
                erase_steps(otherwise);
            }
            _ => {}
        }
    }
}
