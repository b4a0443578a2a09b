//! What a model is compiled for: `--chip`, `--set`, `--dtype`, `--pes`, `--chips`, `--context`, for all verbs
//! that compile.

use clap::Args;
use tilewright_base::{Diagnostic, Sources};
use tilewright_compile::tcp::choices::Solver;
use tilewright_compile::{Named, Options};
use tilewright_machine::{Tcp, builtin};
use tilewright_num::Dtype;

use crate::chip::load_chip;
use crate::host::Host;
use crate::outcome::{FAILED, OUR_FAULT, Outcome};

/// The chip and the arithmetic.
#[derive(Args, Clone, Debug)]
pub(crate) struct ModelTarget {
    /// A machine by name, or a machine file
    #[arg(long, value_name = "NAME|FILE", default_value = "tcp")]
    pub(crate) chip: String,
    /// Change a figure of the machine: hbm.efficiency=0.9
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Types of weights and activations that are multiplied: bf16, int8, w8a8, w8a16, w4a8 or w4a16, or class
    /// by class (int8,weights=int4; int8,activated=int8). Of a graph that takes arrays: bf16, int8, f8e4m3 or
    /// w4a8 for contractions with constants, or w8a8 for those of two computed values too; then CLASS=TYPE or
    /// NAME=TYPE, of classes weights, convolution, attention and head: int8,head=bf16,conv1*=w4a8
    #[arg(long, value_name = "TYPES", default_value = "bf16")]
    pub(crate) dtype: String,
    /// Type of the keys and values that are kept: bf16 or int8
    #[arg(long, value_name = "TYPE", default_value = "bf16")]
    pub(crate) cache: String,
    /// Find the scales of integer activations, and the ranges of an int8 cache, on this text beforehand, a
    /// line at a time; without it each token has its own scales, and every cache the same range. Of a graph
    /// that takes arrays: a folder with NAME.npy for each input, or with such folders 0, 1, ...; without it
    /// `run` takes its own inputs
    #[arg(long, value_name = "FILE|DIR")]
    pub(crate) calibrate: Option<String>,
    /// PEs of a chip that share the work: 1, 2, 4 or 8
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) pes: u64,
    /// Chips that share the weights, joined by PCIe: 1, 2, 4 or 8. Of a graph that takes arrays: chips that
    /// share its batch, each with all constants
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) chips: u64,
    /// Longest context in tokens, prompt included; rounded up to a position for every slice
    #[arg(long, value_name = "N")]
    pub(crate) context: Option<u64>,
    /// Who puts commands in order with `--effort` 1 and more: microlp, or highs or cbc if this was built with
    /// them
    #[arg(long, value_name = "NAME", default_value = "microlp")]
    pub(crate) solver: String,
    /// Leave parts of the compiler out of a graph that takes arrays: padded, host, early, merge, shared,
    /// turned, strided, parts, blocks, runs, depthwise, copies, groups, tiled, explorer, windows, inside,
    /// epilogue, fused, refine, bridges, warm, signals, order, rules; what they do is done another way. With
    /// `templates` a language model is such a graph
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) without: Vec<String>,
}

impl Default for ModelTarget {
    fn default() -> ModelTarget {
        let (chip, dtype) = ("tcp".to_string(), "bf16".to_string());
        let cache = dtype.clone();
        let solver = Solver::Microlp.name().to_string();
        let (set, calibrate, context) = (Vec::new(), None, None);
        let without = Vec::new();
        ModelTarget { chip, set, dtype, cache, calibrate, pes: 1, chips: 1, context, solver, without }
    }
}

/// Programs of the compiler that a machine refuses: a limit of the compiler where the machine has figures of
/// its own, a fault of ours on machines that come with the binary.
pub(crate) fn refused_programs(chip: &str, set: &[String], complaints: &[Diagnostic]) -> Outcome {
    let why = complaints.first().map_or(String::new(), |first| format!("{} ({})", first.message, first.code));
    if set.is_empty() && builtin(chip).is_some() {
        let message = format!("the compiled program is refused: {why}");
        return Outcome { code: OUR_FAULT, ..Outcome::usage(&message) };
    }
    let figures = if set.is_empty() { format!("the figures of `{chip}`") } else { set.join(", ") };
    let message = format!(
        "the compiler writes no programs for a machine with {figures}: {why}\n  \
         = allowed: figures that its programs keep to, as those of tcp\n  \
         = instead: the figure as `tilewright machine show tcp` prints it"
    );
    Outcome { code: FAILED, ..Outcome::usage(&message) }
}

impl ModelTarget {
    /// The machine, which must be one that models are compiled for.
    pub(crate) fn machine(&self, host: &mut dyn Host) -> Result<Tcp, Outcome> {
        Ok(self.identified_machine(host)?.0)
    }

    /// The machine, and the fingerprint of its figures.
    pub(crate) fn identified_machine(&self, host: &mut dyn Host) -> Result<(Tcp, u64), Outcome> {
        let loaded = load_chip(&mut Sources::default(), &self.chip, &self.set, host)?;
        let fingerprint = loaded.fingerprint();
        loaded.machine.tcp().cloned().map(|machine| (machine, fingerprint)).ok_or_else(|| {
            Outcome::usage(&format!(
                "models are not compiled for `{}`\n  = allowed: machines of architecture tcp\n  = instead: \
                 --chip tcp",
                self.chip
            ))
        })
    }

    /// PEs that a general graph is sharded over: a power of two, as many as the chip has at most.
    pub(crate) fn general_pes(&self, machine: &Tcp) -> Result<u64, Outcome> {
        if self.pes.is_power_of_two() && self.pes <= machine.pes() {
            return Ok(self.pes);
        }
        let (pes, most) = (self.pes, machine.pes());
        Err(Outcome::usage(&format!(
            "--pes {pes}\n  = allowed: a power of two up to {most}, the PEs of the chip"
        )))
    }

    /// The types, if models are compiled in them and for as many PEs.
    pub(crate) fn check(&self) -> Result<Named, Outcome> {
        let named = Named::read(&self.dtype).map_err(|allowed| {
            Outcome::usage(&format!(
                "--dtype {}\n  = allowed: {allowed}\n  = instead: --dtype bf16",
                self.dtype
            ))
        })?;
        for (what, count) in [("pes", self.pes), ("chips", self.chips)] {
            if ![1, 2, 4, 8].contains(&count) {
                return Err(Outcome::usage(&format!(
                    "--{what} {count}\n  = allowed: 1, 2, 4, 8\n  = instead: --{what} 1"
                )));
            }
        }
        self.cache_type()?;
        if self.context == Some(0) {
            return Err(Outcome::usage("--context 0\n  = allowed: 1 or more\n  = instead: leave it out"));
        }
        Ok(named)
    }

    /// Refuses a context that the model has no positions for.
    pub(crate) fn check_context(&self, positions: u64) -> Result<(), Outcome> {
        match self.context {
            Some(context) if context > positions => Err(Outcome::usage(&format!(
                "--context {context}\n  = allowed: 1 to {positions}, the positions of the model\n  \
                 = instead: --context {positions}"
            ))),
            _ => Ok(()),
        }
    }

    /// The type of keys and values.
    pub(crate) fn cache_type(&self) -> Result<Dtype, Outcome> {
        match self.cache.as_str() {
            "bf16" => Ok(Dtype::Bf16),
            "int8" => Ok(Dtype::I8),
            other => Err(Outcome::usage(&format!(
                "--cache {other}\n  = allowed: bf16, int8\n  = instead: --cache bf16"
            ))),
        }
    }

    /// Who puts commands in order, if it is here.
    pub(crate) fn solver(&self, host: &dyn Host) -> Result<Solver, Outcome> {
        let Some(solver) = Solver::find(&self.solver) else {
            return Err(Outcome::usage(&format!(
                "--solver {}\n  = allowed: {}\n  = instead: --solver microlp",
                self.solver,
                Solver::ALL.map(Solver::name).join(", ")
            )));
        };
        here(solver, host)?;
        Ok(solver)
    }

    /// How to compile. Without `--context` the context is `context`; either is rounded up to a position for
    /// every slice, because caches are read in whole rows of them.
    pub(crate) fn options(&self, machine: &Tcp, context: u64) -> Result<Options, Outcome> {
        self.check_templates()?;
        let (Named { dtype, mixed, .. }, context) = (self.check()?, self.context.unwrap_or(context));
        let slices = machine.pe.slices.max(1);
        let context = context.checked_next_multiple_of(slices).unwrap_or(context);
        let (cache, pes, chips) = (self.cache_type()?, self.pes, self.chips);
        Ok(Options { dtype, mixed, cache, context, pes, chips, batch: 1 })
    }
}

/// Refuses a solver that is not part of this build, or whose program is not found.
pub(crate) fn here(solver: Solver, host: &dyn Host) -> Result<(), Outcome> {
    let name = solver.name();
    if !solver.is_built() {
        let built: Vec<&str> = Solver::ALL.into_iter().filter(|s| s.is_built()).map(Solver::name).collect();
        return Err(Outcome::usage(&format!(
            "the solver `{name}` is not part of this build\n  = allowed: {}\n  \
             = instead: --solver microlp, or build with --features {name}",
            built.join(", ")
        )));
    }
    match solver.program().filter(|program| !host.has_program(program)) {
        None => Ok(()),
        Some(program) => Err(Outcome::usage(&format!(
            "the solver `{name}` calls a program `{program}`, which the shell does not find\n  \
             = instead: install it, or --solver microlp"
        ))),
    }
}
