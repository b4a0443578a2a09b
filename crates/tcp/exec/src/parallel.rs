//! The same on every slice, in parallel where a command is large enough to pay for handing it to other
//! threads. No result depends on the number of threads: of several faults, that of the lowest slice counts.

use rayon::prelude::*;
use tilewright_tcp_isa::capped::Capped;
use tilewright_tcp_isa::program::exec::Stream;

use super::ExecFault;

/// Host work, in steps of about a nanosecond, from which on threads share it: a hand-off within a pool takes
/// some thousands.
const SHARED_STEPS: u64 = 30_000;
/// Host work of a contraction on a slice whatever it multiplies: operands are found, accumulators and results
/// take room.
const CONTRACTION_STEPS: u64 = 1_000;
/// Host work of a result that leaves a lane, besides its products.
const RESULT_STEPS: u64 = 2;

/// Host work of a command's parts, over all slices, in steps of about a nanosecond: an estimate, which stops
/// at the largest number and changes no result.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HostWork {
    /// Fetch, switch and collect.
    pub(super) fetch: u64,
    /// The same and the contraction.
    pub(super) compute: u64,
    /// From cast to commit.
    pub(super) leave: u64,
}

impl HostWork {
    /// Of bytes fetched and bytes of results.
    pub(super) fn of(image: &Stream, fetched: u64, kept: u64, slices: u64) -> HostWork {
        let adapted = image.fetch.cast.is_some() || image.fetch.lookup.is_some();
        let fetch = if adapted { fetched / 2 } else { fetched / 8 };
        let products = image.contract.as_ref().map_or(0, |contract| {
            let walked = contract.loops.iter().map(|row| row.size.fixed()).fold(1, u64::capped_mul);
            let products = walked.capped_mul(contract.lanes) / 16;
            let left = contract.steps.iter().filter(|step| !step.summed).map(|step| step.size.fixed());
            let results = left.fold(contract.lanes, u64::capped_mul).capped_mul(RESULT_STEPS);
            products.capped_add(results).capped_add(CONTRACTION_STEPS).capped_mul(slices)
        });
        HostWork { fetch, compute: fetch.capped_add(products), leave: kept / 4 }
    }
}

/// Whether threads share so much work.
pub(super) fn is_shared(work: u64) -> bool {
    work >= SHARED_STEPS
}

/// The same on every slice.
pub(super) fn each<T: Send>(
    slices: usize,
    work: u64,
    run: impl Fn(usize) -> Result<T, ExecFault> + Sync + Send,
) -> Result<Vec<T>, ExecFault> {
    let on = |slice: usize| run(slice).map_err(|fault| fault.on(slice));
    if !is_shared(work) {
        return (0..slices).map(on).collect();
    }
    let all: Vec<Result<T, ExecFault>> = (0..slices).into_par_iter().map(on).collect();
    all.into_iter().collect()
}

/// [`each`], with something of the slice's own.
pub(super) fn each_of<I: Send, T: Send>(
    items: Vec<I>,
    work: u64,
    run: impl Fn(usize, I) -> Result<T, ExecFault> + Sync + Send,
) -> Result<Vec<T>, ExecFault> {
    let on = |(slice, item): (usize, I)| run(slice, item).map_err(|fault| fault.on(slice));
    if !is_shared(work) {
        return items.into_iter().enumerate().map(on).collect();
    }
    let all: Vec<Result<T, ExecFault>> = items.into_par_iter().enumerate().map(on).collect();
    all.into_iter().collect()
}

/// Something of every slice, in the order of slices.
pub(super) fn map<I: Send, T: Send>(
    items: Vec<I>,
    work: u64,
    run: impl Fn(usize, I) -> T + Sync + Send,
) -> Vec<T> {
    if !is_shared(work) {
        return items.into_iter().enumerate().map(|(slice, item)| run(slice, item)).collect();
    }
    items.into_par_iter().enumerate().map(|(slice, item)| run(slice, item)).collect()
}

/// [`each_of`] without faults.
pub(super) fn for_each<I: Send>(items: Vec<I>, work: u64, run: impl Fn(usize, I) + Sync + Send) {
    if !is_shared(work) {
        items.into_iter().enumerate().for_each(|(slice, item)| run(slice, item));
    } else {
        items.into_par_iter().enumerate().for_each(|(slice, item)| run(slice, item));
    }
}
