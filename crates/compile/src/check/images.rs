//! Executions and the images they run: the compiler loads each image right before it starts it, so that
//! neither is there without the other, and issues every command that it makes.

use std::collections::BTreeSet;

use tilewright_tcp_isa::program::control::StepKind;
use tilewright_tcp_isa::program::event::PeId;
use tilewright_tcp_isa::program::{Command, Program, Step};

use super::{CheckFault, FaultKind};

/// Loads that nothing starts, and starts of what was loaded for something else.
pub(super) fn unpaired(program: &Program) -> Vec<CheckFault> {
    let mut faults = Vec::new();
    for queue in &program.queues {
        let pe = PeId { chip: queue.chip, pe: queue.pe };
        for (step, message) in unpaired_steps(program, &queue.steps) {
            faults.push(CheckFault::new(FaultKind::NeverIssued, pe, step, message));
        }
    }
    faults
}

/// Steps of a body without their other half, those of bodies inside by the step that they are in.
fn unpaired_steps(program: &Program, steps: &[Step]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut loaded = None;
    for (at, step) in steps.iter().enumerate() {
        let before = loaded.take();
        match &step.kind {
            StepKind::Push(Command::Load(image)) => {
                found.extend(before.map(not_started));
                let Some(exec) = program.execs.get(image.0 as usize) else { continue };
                loaded = Some((at, exec.context, exec.name.as_str()));
                continue;
            }
            StepKind::Push(Command::Exec { context, .. }) => match before {
                Some((_, of, _)) if of == *context => continue,
                _ => found.push((at, "an `exec` without a load of its own".to_string())),
            },
            StepKind::For { body, .. } | StepKind::While { body, .. } => {
                found.extend(unpaired_steps(program, body).into_iter().map(|(_, why)| (at, why)));
            }
            StepKind::If { then, otherwise, .. } => {
                let both = [then, otherwise].into_iter().flat_map(|body| unpaired_steps(program, body));
                found.extend(both.map(|(_, why)| (at, why)));
            }
            _ => {}
        }
        found.extend(before.map(not_started));
    }
    found.extend(loaded.map(not_started));
    found
}

fn not_started<C>((at, _, name): (usize, C, &str)) -> (usize, String) {
    (at, format!("`{name}` is loaded and not started"))
}

/// The first transfer or image that no step issues, in words.
pub(super) fn never_issued(program: &Program) -> Option<String> {
    let mut issued = (BTreeSet::new(), BTreeSet::new());
    program.queues.iter().for_each(|queue| collect(&queue.steps, &mut issued));
    let (transfers, images) = issued;
    let transfer = (0_u32..).zip(&program.transfers).find(|(id, _)| !transfers.contains(id));
    let image = (0_u32..).zip(&program.execs).find(|(id, _)| !images.contains(id));
    let name = transfer.map(|(_, of)| &of.name).or_else(|| image.map(|(_, of)| &of.name))?;
    Some(format!("`{name}` is never issued"))
}

/// Numbers of transfers and of images that steps issue.
fn collect(steps: &[Step], issued: &mut (BTreeSet<u32>, BTreeSet<u32>)) {
    for step in steps {
        match &step.kind {
            StepKind::Push(Command::Dma { transfer, .. }) => _ = issued.0.insert(transfer.0),
            StepKind::Push(Command::Load(image)) => _ = issued.1.insert(image.0),
            StepKind::For { body, .. } | StepKind::While { body, .. } => collect(body, issued),
            StepKind::If { then, otherwise, .. } => {
                [then, otherwise].into_iter().for_each(|body| collect(body, issued));
            }
            _ => {}
        }
    }
}
