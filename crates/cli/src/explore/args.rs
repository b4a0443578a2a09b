//! Arguments of `tilewright explore`.

use clap::Args;
use tilewright_verify::VerifyLimits;

use crate::args::TargetArgs;

pub(crate) const EXAMPLES: &str = "\
On the TCP a candidate covers the whole einsum on one group of PEs: a load of the register files and a \
contraction. Where its operands do not
fit the register files or data memory at once, the two are repeated for parts of an axis (\"commands\"), and \
the estimate is that of one
part times their number. Operands lie in data memory in the lowered shapes that are printed; how they came \
there is not counted,
unless --in0, --in1 or --out say where they come from or go to, or --from hbm says that inputs start off the \
chip: packed as slices take them,
brought by one DMA engine before the commands, copies included, once for all parts if all parts take the \
same. Cycles are those of the commands with their overhead. Energy is that of their
events, and of the clock of the group's slices. Launch and end of a program are not counted, but --verify \
compares whole programs.

On a NeuronCore (--chip trainium1, trainium2, trainium3, inferentia2) a candidate is a tiling of the einsum \
onto the tensor engine: which input is
stationary, tiles, blocks in SBUF, the order of loops, where sums are added, copies and buffers, and who \
empties PSUM. Inputs start in HBM
with the contracted axis outermost, results end there. Times are those of the whole program.

Examples:
  tilewright explore 'HQD,HKD->HQK' --dims H=4,Q=256,K=256,D=128 --dtype int8
  tilewright explore 'HQD,HKD->HQK' --dims H=4,Q=256,K=256,D=128 --goal energy --explain 1
  tilewright explore 'HQD,HKD->HQK' --dims H=4,Q=256,K=256,D=128 --plot qk.svg
  tilewright explore 'MK,N_8K->MN_8' --dims M=16,N=4096,K=4096 --from in1=hbm --explain 1
  tilewright explore 'MK,N_8K->MN_8' --dims M=16,N=4096,K=4096 --set pe.slices=32..128:x2
  tilewright explore 'MK,N_8K->MN_8' --dims M=1..2048:x2,N=4096,K=4096 --out results/
  tilewright explore 'mk,kn->mn' --dims m=4096,k=4096,n=4096 --chip trainium1 --dtype bf16 --explain 1";

/// What to explore, for what, and how to answer.
#[derive(Args, Debug)]
pub(crate) struct ExploreArgs {
    /// An einsum of two inputs such as 'HQD,HKD->HQK'; N_8 splits an axis over 8 groups of PEs
    #[arg(value_name = "EINSUM")]
    pub(crate) einsum: String,
    /// Sizes of axes: H=4,Q=256; a sweep: L=128..4096:x2 or L=128..512:+128
    #[arg(long, value_name = "SIZES")]
    pub(crate) dims: Option<String>,
    /// Element type of the inputs: int8, int4, bf16, f8e4m3, f8e5m2; on a NeuronCore bf16, f16, f32, f8e4m3,
    /// f8e5m2
    #[arg(long, value_name = "TYPE")]
    pub(crate) dtype: Option<String>,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// What is to be least: time, energy, edp, or time@WATTS for the fastest below a power
    #[arg(long, value_name = "GOAL", default_value = "time")]
    pub(crate) goal: String,
    /// Where inputs start: `hbm` for both, in0=hbm or in1=hbm for one; the transfers that bring them to the
    /// slices are counted. On the TCP they start in data memory if nothing is said, on a NeuronCore always in
    /// HBM
    #[arg(long, value_name = "[INPUT=]MEMORY", value_delimiter = ',')]
    pub(crate) from: Vec<String>,
    /// Lowered shape in which in0 lies: what brings it to where it is needed is counted
    #[arg(long, value_name = "SHAPE")]
    pub(crate) in0: Option<String>,
    /// Lowered shape in which in1 lies
    #[arg(long, value_name = "SHAPE")]
    pub(crate) in1: Option<String>,
    /// Lowered shape in which results are wanted; or, without a `|`, a folder: results are added to it as
    /// they come, and the same command goes on where it stopped
    #[arg(long, value_name = "SHAPE|DIR")]
    pub(crate) out: Vec<String>,
    /// How many of the best to keep
    #[arg(short = 'k', long, value_name = "K", default_value_t = 5)]
    pub(crate) keep: usize,
    /// Lower and simulate so many of the best, and compare cycles, and values where there are at most 2^32
    /// products; the winner if nothing is said, and its values up to 2^28 products
    #[arg(long, value_name = "N")]
    pub(crate) verify: Option<usize>,
    /// Stop after so many seconds with the best so far, and say how far it may be from the optimum
    #[arg(long, value_name = "SECONDS")]
    pub(crate) budget: Option<f64>,
    /// Look at so many candidates at most: parts of all promising frames first, larger parts then; the same
    /// on every machine
    #[arg(long, value_name = "N")]
    pub(crate) evaluations: Option<u64>,
    /// Say in words what the K-th best does, and why it takes so long
    #[arg(long, value_name = "K")]
    pub(crate) explain: Option<usize>,
    /// Draw performance against power, energy by component and a roofline, as .svg or .html; looks at the
    /// whole space
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<String>,
    /// Print data as JSON on standard output, and nothing else there
    #[arg(long)]
    pub(crate) json: bool,
}

impl ExploreArgs {
    /// How many of the best to run.
    pub(crate) fn verified(&self) -> usize {
        self.verify.unwrap_or(1)
    }

    /// How much is verified: values are computed where that takes a moment, or if it was asked for, a minute.
    pub(crate) fn limits(&self) -> VerifyLimits {
        let products = if self.verify.is_some() { 1 << 32 } else { 1 << 28 };
        VerifyLimits { candidates: self.verified(), products }
    }

    /// The output's shape, if one of the values of `--out` is one.
    pub(crate) fn out_shape(&self) -> Option<&String> {
        self.out.iter().find(|text| text.contains('|'))
    }

    /// The folder for results.
    pub(crate) fn folder(&self) -> Option<&String> {
        self.out.iter().find(|text| !text.contains('|'))
    }
}
