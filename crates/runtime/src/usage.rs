//! What many runs took together: cycles, energy, how busy engines were, and which kinds of commands the time
//! went to.

use std::collections::BTreeMap;
use tilewright_base::invariant::Exact;

use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;
use tilewright_tcp_cost::Setup;
use tilewright_tcp_cost::energy::EnergyCounts;
use tilewright_tcp_sim::{EngineUse, SimOutcome};

/// Sums over runs.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    /// Runs.
    pub runs: u64,
    /// Tokens that they took.
    pub tokens: u64,
    /// Cycles from launch to finish, one run after the other.
    pub cycles: u64,
    /// Energy of all components, standing power included.
    pub energy_fj: u128,
    /// Engines, in the order of the simulator.
    pub engines: Vec<EngineUse>,
    /// Kinds of commands, by name and unit.
    pub kinds: BTreeMap<(String, &'static str), KindUse>,
    /// Events.
    pub counts: EnergyCounts,
}

/// All commands of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindUse {
    /// Commands.
    pub runs: u64,
    /// From start to end; commands of different units overlap.
    pub busy_cycles: u128,
    /// Without what slices and chips take in any case.
    pub energy_fj: u128,
}

impl Usage {
    /// Adds a run that took some tokens.
    pub fn add(&mut self, outcome: &SimOutcome, tokens: u64) {
        self.runs += 1;
        self.tokens = self.tokens.exact_add(tokens);
        self.cycles = self.cycles.exact_add(outcome.cycles);
        let energy: u128 = outcome.energy_fj.iter().sum();
        self.energy_fj = self.energy_fj.exact_add(energy);
        self.counts.add(&outcome.counts, 1);
        for used in &outcome.utilisation {
            match self.engines.iter_mut().find(|known| known.engine == used.engine) {
                Some(known) => {
                    known.busy_cycles = known.busy_cycles.exact_add(used.busy_cycles);
                    known.available_cycles = known.available_cycles.exact_add(used.available_cycles);
                }
                None => self.engines.push(*used),
            }
        }
        for image in outcome.images.iter().filter(|image| image.runs > 0) {
            let kind = self.kinds.entry((kind(&image.name).to_string(), image.unit.name())).or_default();
            kind.runs = kind.runs.exact_add(image.runs);
            kind.busy_cycles = kind.busy_cycles.exact_add(image.busy_cycles);
            kind.energy_fj = kind.energy_fj.exact_add(image.energy_fj);
        }
    }

    /// Kinds of commands, the longest first.
    pub fn longest(&self) -> Vec<(&str, &'static str, KindUse)> {
        let mut kinds: Vec<_> =
            self.kinds.iter().map(|((name, unit), used)| (name.as_str(), *unit, *used)).collect();
        kinds.sort_by_key(|(name, unit, used)| (std::cmp::Reverse(used.busy_cycles), *name, *unit));
        kinds
    }

    /// Products that commands make, as a part of what the engines of so many PEs could have made. Empty
    /// elements of packets are left out; rows and columns that templates pad are elements like others.
    pub fn mac_use(&self, machine: &Tcp, pes: u64, dtype: Dtype) -> f64 {
        let each = Setup::new(machine, 1, dtype).map_or(0, |setup| setup.packet_elements());
        let slices = machine.pe.slices.exact_mul(pes);
        let products = slices.exact_mul(machine.ce.lanes).exact_mul(each);
        let most = real(u128::from(self.cycles)) * real(u128::from(products));
        part(real(u128::from(self.counts.macs_useful)), most)
    }

    /// What the interface of off-chip memory moved, as a part of the peak of so many whole chips.
    pub fn hbm_use(&self, machine: &Tcp, chips: u64) -> f64 {
        let peak = machine.hbm_bytes_per_s() * real(u128::from(chips));
        part(real(u128::from(self.counts.hbm_bits)) / 8.0, peak * self.seconds(machine))
    }

    /// Simulated time.
    pub fn seconds(&self, machine: &Tcp) -> f64 {
        part(real(u128::from(self.cycles)), real(u128::from(machine.chip.clock_hz)))
    }

    /// Simulated milliseconds of each token.
    pub fn ms_per_token(&self, machine: &Tcp) -> Option<f64> {
        (self.tokens > 0).then(|| self.seconds(machine) * 1e3 / real(u128::from(self.tokens)))
    }

    /// Millijoules of each token.
    pub fn mj_per_token(&self) -> Option<f64> {
        (self.tokens > 0).then(|| self.energy_mj() / real(u128::from(self.tokens)))
    }

    /// Millijoules of all runs, whether they gave tokens or not.
    pub fn energy_mj(&self) -> f64 {
        real(self.energy_fj) / 1e12
    }
}

/// The name of an image without the number that tells it from others of its kind.
fn kind(name: &str) -> &str {
    match name.rsplit_once('_') {
        Some((kind, number)) if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => {
            kind
        }
        _ => name,
    }
}

fn part(of: f64, all: f64) -> f64 {
    if all > 0.0 { of / all } else { 0.0 }
}

#[expect(clippy::cast_precision_loss, reason = "figures for people; the sums are exact")]
fn real(value: u128) -> f64 {
    value as f64
}
