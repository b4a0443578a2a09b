//! Images that are loaded and never run: a warning, since nothing is wrong but time is lost, and more often
//! than not an `exec` is missing.
//!
//! Blocks of steps are read in their order. A load is idle if the next load of its context comes in the same
//! block with no `exec` of the context between them, or if the queue ends without one. Where a loop or a
//! branch loads the same context, nothing is said.

use tilewright_base::{Diagnostic, Span};

use super::queue_occupancy::MAX_NESTING;
use crate::program::control::StepKind;
use crate::program::exec::Context;
use crate::program::{Command, Program, Step};

pub(super) fn check(program: &Program, found: &mut Vec<Diagnostic>) {
    for queue in &program.queues {
        let mut loads = IdleLoads { program, pending: [None; 2], found };
        loads.block(&queue.steps, 0);
        for context in 0..2 {
            loads.report(context);
        }
    }
}

struct IdleLoads<'a> {
    program: &'a Program,
    /// The last image and step that loaded a context, if nothing ran it yet: main, sub.
    pending: [Option<(u32, Span)>; 2],
    found: &'a mut Vec<Diagnostic>,
}

impl IdleLoads<'_> {
    fn block(&mut self, steps: &[Step], depth: usize) {
        if depth > MAX_NESTING {
            self.pending = [None; 2];
            return;
        }
        for step in steps {
            match &step.kind {
                StepKind::Push(command) | StepKind::PushUnchecked(command) => {
                    self.command(*command, step.span);
                }
                StepKind::For { body, .. } | StepKind::While { body, .. } => self.inner(&[body], depth),
                StepKind::If { then, otherwise, .. } => self.inner(&[then, otherwise], depth),
                _ => {}
            }
        }
    }

    /// What may or may not run says nothing of loads before it that it touches, and leaves none behind.
    fn inner(&mut self, bodies: &[&Vec<Step>], depth: usize) {
        let before = std::mem::take(&mut self.pending);
        let mut touched = [false; 2];
        for body in bodies {
            touches(body, self.program, depth + 1, &mut touched);
            self.block(body, depth + 1);
            self.pending = [None; 2];
        }
        for (context, touched) in touched.into_iter().enumerate() {
            self.pending[context] = before[context].filter(|_| !touched);
        }
    }

    fn command(&mut self, command: Command, span: Span) {
        match command {
            Command::Load(id) => {
                let Some(image) = self.program.execs.get(id.0 as usize) else { return };
                let context = at(image.context);
                self.report(context);
                self.pending[context] = Some((id.0, span));
            }
            Command::Exec { context, .. } => self.pending[at(context)] = None,
            Command::Dma { .. } | Command::WaitD(_) | Command::WaitE(_) => {}
        }
    }

    fn report(&mut self, context: usize) {
        let Some((id, span)) = self.pending[context].take() else { return };
        let name = self.program.execs.get(id as usize).map_or("", |image| image.name.as_str());
        let text = format!("`{name}` is loaded and never runs");
        let warning = Diagnostic::warning("tcp/queue-idle-load", text.clone()).at(span, text);
        let warning = warning.allowed("an `exec` of the context behind each `load`");
        self.found.push(warning.instead("`exec` after it, or leave the load out"));
    }
}

/// Contexts that steps load or run, at any depth.
fn touches(steps: &[Step], program: &Program, depth: usize, found: &mut [bool; 2]) {
    if depth > MAX_NESTING {
        *found = [true; 2];
        return;
    }
    for step in steps {
        match &step.kind {
            StepKind::Push(command) | StepKind::PushUnchecked(command) => match command {
                Command::Load(id) => {
                    let image = program.execs.get(id.0 as usize);
                    image.iter().for_each(|image| found[at(image.context)] = true);
                }
                Command::Exec { context, .. } => found[at(*context)] = true,
                _ => {}
            },
            StepKind::For { body, .. } | StepKind::While { body, .. } => {
                touches(body, program, depth + 1, found);
            }
            StepKind::If { then, otherwise, .. } => {
                touches(then, program, depth + 1, found);
                touches(otherwise, program, depth + 1, found);
            }
            _ => {}
        }
    }
}

fn at(context: Context) -> usize {
    match context {
        Context::Main => 0,
        Context::Sub => 1,
    }
}
