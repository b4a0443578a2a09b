//! The figures of a machine file that the rules of this crate ask for, and times in picoseconds.

use tilewright_base::invariant::to_index;
use tilewright_machine::Neuron;
use tilewright_num::RuleSet;

use crate::refusal::Refusal;

/// A chip of a machine file that comes with us.
#[cfg(test)]
pub(crate) fn tests_chip(name: &str) -> Chip {
    let mut sources = tilewright_base::Sources::default();
    let id = sources.add(name, tilewright_machine::builtin(name).unwrap());
    let bases = |name: &str| tilewright_machine::builtin(name).map(str::to_owned);
    let loaded = tilewright_machine::load(&mut sources, id, &bases).unwrap();
    Chip::new(name, loaded.machine.neuron().unwrap().clone())
}

/// Generation of the NeuronCore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Generation(pub u64);

impl Generation {
    /// Trn1 and Inf2.
    pub const V2: Generation = Generation(2);
    /// Trn2.
    pub const V3: Generation = Generation(3);
    /// Trn3.
    pub const V4: Generation = Generation(4);
}

/// A machine with its number rules.
#[derive(Clone, Debug)]
pub struct Chip {
    /// Its name, for messages.
    pub name: String,
    /// Its figures.
    pub neuron: Neuron,
    /// Its number rules.
    pub rules: RuleSet,
}

impl Chip {
    /// A chip from the figures of its machine file.
    pub fn new(name: impl Into<String>, neuron: Neuron) -> Chip {
        Chip { name: name.into(), neuron, rules: RuleSet::NEURON }
    }

    /// Its generation.
    pub fn generation(&self) -> Generation {
        Generation(self.neuron.chip.core_generation)
    }

    /// Refuses an instruction that only later generations have. The rule is the caller.
    ///
    /// # Errors
    /// If this chip is older than `least`.
    #[track_caller]
    pub fn needs(&self, instruction: &str, least: Generation) -> Result<(), Refusal> {
        if self.generation() >= least {
            return Ok(());
        }
        Err(Refusal::new(
            "neuron/generation",
            format!("{instruction} on {}, a NeuronCore-v{}", self.name, self.generation().0),
            format!("NeuronCore-v{} or later", least.0),
            "run with a newer chip, or use an instruction that this one has",
        ))
    }

    /// Refuses a launch on more cores than share their memory: two, from NeuronCore-v3 on
    /// (docs/hardware-rules.md#instances-and-logical-cores and #order-and-synchronisation).
    ///
    /// # Errors
    /// If there are others.
    pub fn check_launch(&self, cores: usize) -> Result<(), Refusal> {
        if cores == 2 {
            self.needs("a launch on 2 cores", Generation::V3)?;
        }
        let most = to_index(self.neuron.chip.logical_cores_max);
        crate::refusal::rule((1..=most).contains(&cores), || {
            Refusal::new(
                "neuron/launch",
                format!("a launch on {cores} cores"),
                "1 core, or the 2 of a logical core",
                "launch kernel[2], and go over the rest in a loop",
            )
        })
    }

    /// Partitions of the on-chip memories.
    pub fn partitions(&self) -> usize {
        to_index(self.neuron.sbuf.partitions)
    }

    /// Bytes of a partition of SBUF that a kernel may use.
    pub fn sbuf_usable_bytes(&self) -> u64 {
        self.neuron.sbuf.partition_bytes.saturating_sub(self.neuron.sbuf.reserved_bytes)
    }

    /// Bytes of HBM that a device has.
    pub fn hbm_bytes(&self) -> u64 {
        self.neuron.hbm.stacks.saturating_mul(self.neuron.hbm.stack_bytes)
    }

    /// Bytes of a partition of PSUM.
    pub fn psum_partition_bytes(&self) -> u64 {
        self.neuron.psum.banks.saturating_mul(self.neuron.psum.bank_bytes)
    }
}

/// Longest time that is told apart, two weeks: whatever takes longer is never best, and no program that does
/// is scheduled.
pub const LONGEST_PS: u64 = 1 << 60;

/// Picoseconds of so many cycles, [`LONGEST_PS`] at most.
pub fn cycles_ps(cycles: u64, clock_hz: u64) -> u64 {
    let ps = u128::from(cycles) * 1_000_000_000_000 / u128::from(clock_hz.max(1));
    u64::try_from(ps).map_or(LONGEST_PS, |ps| ps.min(LONGEST_PS))
}

/// Picoseconds that so many bytes take at a rate.
pub fn bytes_ps(bytes: u64, bytes_per_s: u64) -> u64 {
    cycles_ps(bytes, bytes_per_s)
}

/// Picoseconds of nanoseconds, [`LONGEST_PS`] at most.
pub const fn ns_ps(ns: u64) -> u64 {
    if ns < LONGEST_PS / 1000 { ns * 1000 } else { LONGEST_PS }
}

/// Time that HBM needs for so many bytes of one core.
pub fn hbm_ps(chip: &Chip, bytes: u64) -> u64 {
    bytes_ps(bytes, rate_of(chip.neuron.hbm.stack_bytes_per_s, chip.neuron.hbm.efficiency))
}

/// A part of a rate.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a positive rate times a part of one"
)]
pub fn rate_of(bytes_per_s: u64, part: f64) -> u64 {
    (bytes_per_s as f64 * part) as u64
}
