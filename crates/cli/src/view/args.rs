//! Arguments of `tilewright view`.

use clap::Args;

pub(crate) const EXAMPLES: &str = "\
A RUN is a program, text or binary, of either chip family, which is simulated now with all its findings; or \
a trace that `--trace` of any verb
wrote; or what `explore --json` printed, with its front; or a language model, which is compiled as \
`compile` does without options and timed
without weights. The page shows the timeline (zoom to the cycle, \
arrows, critical path), what commands took and what decided it, memory, energy, the
roofline, findings with their lines, and with two runs what became faster and where the time went. It needs \
no network, and runs nothing but
its own script.

Examples:
  tilewright view kernels/attention.tcp
  tilewright run --prompt 'Once' --trace before.pftrace && tilewright view before.pftrace
  tilewright view before.pftrace after.pftrace --html difference.html
  tilewright view llama2-7b                                    its graph with times of operators
  tilewright view before.tcp after.tcp --svg timelines.svg     their units over time, below each other
  tilewright explore 'HQD,HKD->HQK' --dims H=4,Q=256,K=256,D=128 --json > qk.json && tilewright view qk.json";

/// Which runs, and where the page goes.
#[derive(Args, Debug)]
pub(crate) struct ViewArgs {
    /// Programs, which are simulated, traces that `--trace` wrote, two of them compared; what `explore
    /// --json` printed; language models, which are compiled and timed
    #[arg(value_name = "RUN", required = true)]
    pub(crate) runs: Vec<String>,
    /// Write the page to one file that opens without a network, and serve nothing
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<String>,
    /// Write the timelines of programs as one picture, on one axis of time, and serve nothing
    #[arg(long, value_name = "FILE.svg", conflicts_with = "html")]
    pub(crate) svg: Option<String>,
    /// The loopback port that the page is served on; 0 for any that is free
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) port: u16,
    /// A machine by name, or a machine file, for programs and models; the one that the program names if it is
    /// not given
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) chip: Option<String>,
    /// Change a figure of the machine: hbm.efficiency=0.9
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}
