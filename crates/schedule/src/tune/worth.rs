//! What each part of the compiler is worth for a graph: simulated cycles with all of them, and with each left
//! out; and what searches for the order of commands gain.

use tilewright_compile::general::{Choice, Options, OrderSearch, Planned, Refusal};
use tilewright_machine::tcp::Tcp;

use super::TuneError;
use super::graph::cost;

/// What a graph takes without a part of the compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartWorth {
    /// The part.
    pub part: Choice,
    /// Cycles of a run without it; `None` if nothing else does what it does.
    pub cycles: Option<u64>,
}

/// What a graph takes with all parts, and without each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphWorth {
    /// Cycles of a run with all of them.
    pub cycles: u64,
    /// Without each, in the order in which they work.
    pub parts: Vec<PartWorth>,
}

/// Plans a graph with all parts and without each of some, and simulates them; `listener` is given how many of
/// all plans are done.
///
/// # Errors
/// A graph that is refused, or whose program cannot be timed without values.
pub fn worth(
    machine: &Tcp,
    rule: Options,
    parts: &[Choice],
    plan: &dyn Fn(&Options) -> Result<Planned, Refusal>,
    listener: &mut dyn FnMut(u64, u64),
) -> Result<GraphWorth, TuneError> {
    let of = parts.len() as u64 + 1;
    let taken = |planned: &Planned| cost(machine, planned).map(|cost| cost.millicycles / 1000);
    let cycles = taken(&plan(&rule)?).ok_or(TuneError::Untimed)?;
    listener(1, of);
    let mut all = Vec::new();
    for (done, part) in (2..).zip(parts) {
        let planned = plan(&Options { without: rule.without.and(*part), ..rule }).ok();
        all.push(PartWorth { part: *part, cycles: planned.as_ref().and_then(taken) });
        listener(done, of);
    }
    Ok(GraphWorth { cycles, parts: all })
}

/// What a graph takes with an order of commands that was searched for, and what the search itself says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderGain {
    /// Cycles of a run, simulated.
    pub cycles: u64,
    /// Cycles by the model that orders are compared on.
    pub model_cycles: u64,
}

/// Plans a graph with each of some searches for the order of commands, and simulates them; no choice among
/// the results is made.
///
/// # Errors
/// A graph that is refused, or whose program cannot be timed without values.
pub fn order_gains(
    machine: &Tcp,
    rule: Options,
    searches: &[OrderSearch],
    plan: &dyn Fn(&Options) -> Result<Planned, Refusal>,
) -> Result<Vec<OrderGain>, TuneError> {
    let gain = |search: &OrderSearch| {
        let planned = plan(&Options { search: *search, ..rule })?;
        let cycles = cost(machine, &planned).ok_or(TuneError::Untimed)?.millicycles / 1000;
        Ok(OrderGain { cycles, model_cycles: planned.cycles })
    };
    searches.iter().map(gain).collect()
}
