//! Arguments of `tilewright explore`.

use clap::Args;

use crate::args::TargetArgs;

pub(crate) const EXAMPLES: &str = "\
A candidate covers the whole einsum on one group of PEs: a load of the register files and a contraction, repeated as often as
memories ask for (\"commands\"). Operands lie in data memory in the lowered shapes that are printed. Cycles are those of the commands, with their
overhead; energy is that of their events and of the clock of the group's slices. Launch and end of a program are not counted,
but are part of what --verify compares.

Examples:
  tilewright explore 'HQD,HKD->HQK' --dims H=4,Q=256,K=256,D=128 --dtype int8
  tilewright explore 'HQD,HKD->HQK' --dims H=4,Q=256,K=256,D=128 --goal energy --explain 1
  tilewright explore 'MK,N_8K->MN_8' --dims M=16,N=4096,K=4096 --json
  tilewright explore 'HQD,HKD->HQK' --dims H=4,Q=256,K=256,D=128 --plot qk.svg";

/// What to explore, for what, and how to answer.
#[derive(Args, Debug)]
pub(crate) struct ExploreArgs {
    /// An einsum of two inputs such as 'HQD,HKD->HQK'
    #[arg(value_name = "EINSUM")]
    pub(crate) einsum: String,
    /// Sizes of axes: H=4,Q=256
    #[arg(long, value_name = "SIZES")]
    pub(crate) dims: Option<String>,
    /// Element type of the inputs: int8, int4, bf16, f8e4m3, f8e5m2
    #[arg(long, value_name = "TYPE")]
    pub(crate) dtype: Option<String>,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// What is to be least: time, energy, edp, or time@WATTS for the fastest below a power
    #[arg(long, value_name = "GOAL", default_value = "time")]
    pub(crate) goal: String,
    /// How many of the best to keep
    #[arg(short = 'k', long, value_name = "K", default_value_t = 5)]
    pub(crate) keep: usize,
    /// Lower and simulate so many of the best, and compare values and cycles
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) verify: usize,
    /// Print data as JSON on standard output, and nothing else there
    #[arg(long)]
    pub(crate) json: bool,
}
