//! `tilewright sweep`: its help; the work is done in Python, which has Ray.

use clap::Args;

use crate::nki::module;
use crate::{Host, Outcome};

/// Runs `python3 -m tilewright.sweeps` with the arguments.
pub(crate) fn run(args: &SweepArgs, host: &mut dyn Host) -> Outcome {
    module("tilewright.sweeps", &args.arguments, host)
}

pub(crate) const EXAMPLES: &str = "\
A table [space] of lists is multiplied out, every point is checked before the first one runs, and all cores \
work on them. Runs in Python, after
`pip install ./python`.

Options, before or after FILE:
  --out DIR        keep answers here: the same sweep goes on where it stopped, even by kill -9, and asks \
  nothing twice
  --workers N      processes, or workers of a Ray cluster; all cores if not given
  --engine NAME    local, serial (one process) or ray
  --address HOST   a Ray cluster; without it one is started here
  --save FILE      write the rows as .parquet or .csv
  --json           print data as JSON on standard output, and nothing else there

Examples:
  tilewright sweep docs/examples/projection.sweep.toml
  tilewright sweep docs/examples/projection.sweep.toml --out results/ --save rows.parquet";

/// A sweep.
#[derive(Args, Debug)]
pub(crate) struct SweepArgs {
    /// FILE.toml with a table [space], and the options below
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "FILE")]
    pub(crate) arguments: Vec<std::ffi::OsString>,
}
