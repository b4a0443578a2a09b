//! Candidates of a NeuronCore, run on its engines.

use tilewright_explore::neuron::program::run;
use tilewright_explore::neuron::{NeuronCandidate, NeuronReport, NeuronSearchResult, NeuronTask};
use tilewright_runtime::einsum::ValueComparison;

use crate::{CandidateCheck, VerifyError, VerifyLimits};

/// Products that the comparison computes again.
const COMPARED_PRODUCTS: u64 = 1 << 24;
/// Matmuls up to which a program is built and placed in time.
const MOST_MATMULS: u64 = 1 << 19;

/// Runs the first of the best, until `stop` says so.
pub fn verify(
    task: &NeuronTask<'_>,
    found: &NeuronSearchResult,
    limits: VerifyLimits,
    stop: &mut dyn FnMut() -> bool,
) -> Vec<CandidateCheck> {
    let best = found.kept.best().iter().take(limits.candidates).take_while(|_| !stop());
    best.filter_map(|candidate| one(task, found, candidate, limits.products)).collect()
}

fn one(
    task: &NeuronTask<'_>,
    found: &NeuronSearchResult,
    candidate: &NeuronCandidate,
    most_products: u128,
) -> Option<CandidateCheck> {
    let told = NeuronReport::new(task, found, candidate)?;
    let (estimated, matmuls) = (candidate.ticks, told.totals.matmuls);
    if matmuls > MOST_MATMULS {
        return Some(CandidateCheck::not_run(estimated, VerifyError::Large { matmuls, most: MOST_MATMULS }));
    }
    let values = (task.macs() <= most_products).then_some(COMPARED_PRODUCTS);
    Some(match run(task, &told.plan, values) {
        Err(refusal) => CandidateCheck::not_run(estimated, refusal.into()),
        Ok(ran) => CandidateCheck {
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
