//! Runs of one program on several chips that began at the same time and have nothing to say to each other, as
//! one outcome.

use tilewright_base::invariant::Exact;
use tilewright_tcp_sim::{ImageUse, SimOutcome};

/// Adds the run of another chip: cycles are those of the slower one, all else is that of both. The record
/// stays that of the first.
pub(crate) fn add_chip(all: &mut SimOutcome, other: SimOutcome) {
    all.cycles = all.cycles.max(other.cycles);
    all.commands = all.commands.exact_add(other.commands);
    all.execs = all.execs.exact_add(other.execs);
    all.transfers = all.transfers.exact_add(other.transfers);
    all.steps = all.steps.exact_add(other.steps);
    all.counts.add(&other.counts, 1);
    all.lost_commands = all.lost_commands.exact_add(other.lost_commands);
    all.latency_cycles = all.latency_cycles.exact_add(other.latency_cycles);
    for (own, its) in all.energy_fj.iter_mut().zip(&other.energy_fj) {
        *own = own.exact_add(*its);
    }
    for its in other.images {
        match all.images.iter_mut().find(|own| own.name == its.name && own.unit == its.unit) {
            Some(own) => add_image(own, &its),
            None => all.images.push(its),
        }
    }
    for its in other.utilisation {
        match all.utilisation.iter_mut().find(|own| own.engine == its.engine) {
            Some(own) => {
                own.busy_cycles = own.busy_cycles.exact_add(its.busy_cycles);
                own.available_cycles = own.available_cycles.exact_add(its.available_cycles);
            }
            None => all.utilisation.push(its),
        }
    }
    all.overflows.extend(other.overflows);
    all.violations.extend(other.violations);
}

fn add_image(own: &mut ImageUse, its: &ImageUse) {
    own.runs = own.runs.exact_add(its.runs);
    own.first_cycles = own.first_cycles.min(its.first_cycles);
    own.last_cycles = own.last_cycles.max(its.last_cycles);
    own.busy_cycles = own.busy_cycles.exact_add(its.busy_cycles);
    own.worst_cycles = own.worst_cycles.exact_add(its.worst_cycles);
    own.energy_fj = own.energy_fj.exact_add(its.energy_fj);
}
