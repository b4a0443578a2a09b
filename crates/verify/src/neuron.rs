//! Candidates of a NeuronCore, run on its engines.

use tilewright_explore::neuron::program::run;
use tilewright_explore::neuron::{Candidate, Found, Task, Told};
use tilewright_runtime::einsum::ValueComparison;

use crate::{Check, Limits, NotRun};

/// Products that the comparison computes again.
const COMPARED_PRODUCTS: u64 = 1 << 24;
/// Matmuls up to which a program is built and placed in time.
const MOST_MATMULS: u64 = 1 << 19;

/// Runs the first of the best, until `stop` says so.
pub fn verify(task: &Task<'_>, found: &Found, limits: Limits, stop: &mut dyn FnMut() -> bool) -> Vec<Check> {
    let best = found.kept.best().iter().take(limits.candidates).take_while(|_| !stop());
    best.filter_map(|candidate| one(task, found, candidate, limits.products)).collect()
}

fn one(task: &Task<'_>, found: &Found, candidate: &Candidate, most_products: u128) -> Option<Check> {
    let told = Told::new(task, found, candidate)?;
    let (estimated, matmuls) = (candidate.ticks, told.totals.matmuls);
    if matmuls > MOST_MATMULS {
        return Some(Check::not_run(estimated, NotRun::Large { matmuls, most: MOST_MATMULS }));
    }
    let values = (task.macs() <= most_products).then_some(COMPARED_PRODUCTS);
    Some(match run(task, &told.plan, values) {
        Err(refusal) => Check::not_run(estimated, refusal.into()),
        Ok(ran) => Check {
            estimated,
            simulated: Ok(ran.picoseconds),
            values: ran.values.map(|[compared, results, different]| ValueComparison {
                compared,
                results,
                different,
            }),
            findings: ran.findings,
        },
    })
}
