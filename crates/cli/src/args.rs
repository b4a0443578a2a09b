//! Arguments of every verb, with help that teaches.

use clap::{Args, Parser, Subcommand};

use crate::study::args::StudyArgs;

/// Tools for tensor accelerators whose memory is managed by software: low-level einsum, command programs
/// and their simulator, explorer, machine files, and a compiler for language models.
#[derive(Debug, Parser)]
#[command(
    name = "tilewright",
    version,
    disable_version_flag = true,
    term_width = 100,
    after_help = TOP_EXAMPLES
)]
pub(crate) struct Cli {
    /// Print the version
    #[arg(short = 'v', short_alias = 'V', long, action = clap::ArgAction::Version)]
    version: Option<bool>,
    /// What to do; without it, a model that comes with the binary writes a fable
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

const TOP_EXAMPLES: &str = "\
Examples:
  tilewright                                  a small model writes a fable on the simulated chip
  tilewright demo                             attention on the TCP, with a trace
  tilewright run fables --prompt 'A wise owl'
                                              a language model on the simulated chip
  tilewright notation lower builtin:qk-fig10 | tilewright sim -
                                              the same as a command program, run
  tilewright machine show tcp                 a chip, its figures, and where each comes from
  tilewright notation show 'ble' --dims b=4,l=4,e=64 --in0 'b^2[2] e^{E/2}[2] | b[2] l[4] e[E/2]'
                                              which coordinates each slice holds

Exit codes: 0 good, 1 the thing asked about failed, 2 usage or unreadable input, 3 our own fault.";

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a demonstration
    Demo(DemoArgs),
    /// Check, draw and convert low-level einsum: lowered shapes and tactics
    #[command(subcommand)]
    Notation(Box<NotationCommand>),
    /// Search lowered shapes and tactics of an einsum for speed, energy or both
    #[command(after_help = crate::explore::args::EXAMPLES)]
    Explore(Box<crate::explore::args::ExploreArgs>),
    /// Run a program, text or binary: values, timeline, energy and findings
    #[command(after_help = SIM_EXAMPLES)]
    Sim(SimArgs),
    /// Show runs on one page: timeline, memory, energy, roofline, findings, and the difference of two
    #[command(after_help = crate::view::args::EXAMPLES)]
    View(crate::view::args::ViewArgs),
    /// Make a binary of a program text and the arrays that it names
    #[command(after_help = ASSEMBLE_EXAMPLES)]
    Assemble(AssembleArgs),
    /// Print the text of a program binary
    Disasm(DisasmArgs),
    /// Compile a model: print any stage, or write programs and weights to a file
    #[command(after_help = crate::compile::args::COMPILE_EXAMPLES)]
    Compile(Box<crate::compile::args::CompileArgs>),
    /// Run a compiled model as `run` does
    Exec(Box<crate::compile::args::ExecArgs>),
    /// Generate text with a language model on the simulated chip
    #[command(after_help = crate::run::args::RUN_EXAMPLES)]
    Run(Box<crate::run::args::RunArgs>),
    /// Run NKI kernels in Python on a NeuronCore: values, times and findings
    #[command(subcommand)]
    Nki(NkiCommand),
    /// Ask one question of many points: einsums or models, sizes, chips, machine figures, goals
    #[command(after_help = crate::sweep::EXAMPLES)]
    Sweep(crate::sweep::SweepArgs),
    /// Time a model on simulated chips, and compare with what others measured
    #[command(after_help = crate::study::args::EXAMPLES)]
    Study(Box<StudyArgs>),
    /// List, show and check machine files
    #[command(subcommand)]
    Machine(MachineCommand),
    /// Print a script with which a shell completes words
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions(CompletionsArgs),
    /// Print the manual page, or write the pages of all verbs to a folder
    #[command(after_help = MAN_EXAMPLES)]
    Man(ManArgs),
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  tilewright completions bash > ~/.local/share/bash-completion/completions/tilewright
  tilewright completions zsh  > ~/.zfunc/_tilewright
  tilewright completions fish > ~/.config/fish/completions/tilewright.fish";

/// Which shell.
#[derive(Args, Debug)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

const MAN_EXAMPLES: &str = "\
Examples:
  tilewright man | man -l -
  tilewright man -o ~/.local/share/man/man1";

/// Where manual pages go.
#[derive(Args, Debug)]
pub(crate) struct ManArgs {
    /// A folder for the pages of all verbs
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) output: Option<String>,
}

/// Which demonstration.
#[derive(Args, Debug)]
pub(crate) struct DemoArgs {
    /// What to show
    #[arg(value_enum, default_value_t = Demo::Attention)]
    pub(crate) what: Demo,
}

/// Demonstrations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Demo {
    /// Attention of four heads on one PE of the TCP, from its tactic to a trace
    Attention,
}

const ASSEMBLE_EXAMPLES: &str = "\
Examples:
  tilewright assemble kernels/attention.tcp -o attention.twb
  tilewright sim attention.twb
  tilewright disasm attention.twb";

/// What to assemble.
#[derive(Args, Debug)]
pub(crate) struct AssembleArgs {
    /// A program text (`-`: standard input)
    #[arg(value_name = "FILE")]
    pub(crate) program: String,
    /// Where to write the binary
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: String,
}

/// What to print.
#[derive(Args, Debug)]
pub(crate) struct DisasmArgs {
    /// A program binary, or a compiled model (`-`: standard input)
    #[arg(value_name = "FILE")]
    pub(crate) file: String,
    /// Which program of a compiled model; decode if none is named
    #[arg(long, value_name = "NAME")]
    pub(crate) program: Option<String>,
}

/// What can be done with NKI kernels.
#[derive(Debug, Subcommand)]
pub(crate) enum NkiCommand {
    /// Run a Python file, or one kernel of it, with the Python package of this project
    #[command(after_help = NKI_EXAMPLES)]
    Run(NkiRunArgs),
}

const NKI_EXAMPLES: &str = "\
Options, before or after FILE:
  --chip NAME    inferentia2, trainium1, trainium2 or trainium3
  --instance NAME
                 trn1.32xlarge and others of machines/instances.toml, for kernels that communicate
  --grid 4x2     launch grid of FILE.py::kernel; 2 for both cores of a logical core
  --check        exit code 1 if a kernel has a finding of any kind, not only errors
  --trace F      write a Perfetto trace of the last kernel call
  --json         one line of JSON for each kernel call in place of the report

Examples:
  tilewright nki run examples.py              the file as it is; each kernel call is reported
  tilewright nki run examples.py::add 128x512:bf16 128x512:bf16 --chip trainium2
                                              one kernel with random arrays of these shapes";

/// Arguments that go on to Python.
#[derive(Debug, Args)]
pub(crate) struct NkiRunArgs {
    /// FILE.py or FILE.py::kernel, its arguments, and the options below
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "FILE")]
    pub(crate) arguments: Vec<std::ffi::OsString>,
}

/// What can be done with notation.
#[derive(Debug, Subcommand)]
pub(crate) enum NotationCommand {
    /// Say whether shapes and a tactic are legal on a chip, and if not why and what to write instead
    #[command(after_help = CHECK_EXAMPLES)]
    Check(CheckArgs),
    /// Draw which coordinates each slice holds, and which loop of a tactic runs where
    #[command(after_help = SHOW_EXAMPLES)]
    Show(ShowArgs),
    /// Say what must move to turn one lowered shape of a tensor into another
    #[command(after_help = BRIDGE_EXAMPLES)]
    Bridge(BridgeArgs),
    /// Print the command program that a legal einsum means: loads, contraction, sums over slices, bridges
    #[command(after_help = LOWER_EXAMPLES)]
    Lower(LowerArgs),
    /// Lower a legal einsum and run its program: values, timeline, energy and findings, as `lower` and `sim`
    /// together
    #[command(after_help = RUN_EINSUM_EXAMPLES)]
    Run(RunEinsumArgs),
    /// Print in the canonical spelling, whatever mixture of ASCII, Unicode and TeX was written
    Format(NotationArgs),
}

const CHECK_EXAMPLES: &str = "\
Notation:
  ble, ef -> blf             einsum; BLE_8 splits axis E over 8 PEs;
                             `where K=V` behind it joins two names of one index
  e^{E/4}[4] | b[B] e[E/4]   lowered shape: digits of the slice number | of the offset in a slice
  e^16[4]                    a digit of axis e: 4 values worth 16 positions each; ^1 may be left out
  f^1[24#32]                 24 values in 32 places, the rest padding;  _[4]  four copies
  @trf, @trf/2, @vrf, @dm    before a shape: the memory that it lives in
  parallel | loops           tactic; or parallel | time | lanes | packet with every role stated

Examples:
  tilewright notation check 'ble,ef->blf' --dims b=4,l=4,e=64,f=32,s=4 \\
      --in0 'e^{E/s}[s] | b[B] l[L] e[E/s]' --in1 'e^{E/s}[s] | f[F] e[E/s]' \\
      --out 'f^{F/s}[s] | b[B] l[L] f[F/s]' --tactic 'e^{E/s}[s] | b[B] l[L] f[F] e[E/s]'
  tilewright notation check attention.tw --chip tcp --pes 1 --dtype int8";

const SHOW_EXAMPLES: &str = "\
Examples:
  tilewright notation show 'ble' --dims b=4,l=4,e=64 --in0 'b^2[2] e^{E/2}[2] | b[2] l[4] e[E/2]'
  tilewright notation show attention.tw -o attention.svg
  tilewright notation show 'ble' --dims b=4,l=4,e=64 --in0 'e^16[4] | b[4] l[4] e[16]' --at b=1,l=2,e=33";

const BRIDGE_EXAMPLES: &str = "\
Example:
  tilewright notation bridge 'le' --dims l=64,e=64 --from 'e^16[4] | l[64] e[16]' --to 'l^16[4] | l[16] \
  e[64]'";

const LOWER_EXAMPLES: &str = "\
The program is text: read it, change it, run it.

Examples:
  tilewright notation lower attention.tw | tilewright sim -
  tilewright notation lower 'mk,kn->mn' --dims m=16,n=16,k=64 --in0 '| m[16] k[64]' --in1 '@dm | n[16] \
  k[64]' \\
      --out '| m[16] n[16]' --tactic '| m[16] n[16] k[64]' --dtype bf16 --data0 a.npy --data1 \
      w.safetensors:layer.weight";

const RUN_EINSUM_EXAMPLES: &str = "\
Without any of --values, --timeline, --energy and --findings all four are printed. Findings point at
lines of the program that `tilewright notation lower` prints.

Examples:
  tilewright notation run kernels/qk-fig10.tw
  tilewright notation run kernels/qk-fig10.tw --timeline --set network.flit_bytes=64
  tilewright notation run kernels/qk-fig10.tw --data0 q.npy --data1 k.npy -o results/
                                              inputs from files, outputs as results/NAME.npy

Exit code 1 if the einsum is not legal, or if there are findings.";

const SIM_EXAMPLES: &str = "\
Without any of --values, --timeline, --energy and --findings all four are printed.

Examples:
  tilewright sim program.tcp
  tilewright sim program.tcp --trace program.pftrace     open the file at https://ui.perfetto.dev
  tilewright sim program.tcp --json -o results/          outputs as results/NAME.npy
  tilewright sim kernel.neuron --timeline                what `tilewright nki --emit` wrote
  tilewright sim kernel.neuron --bands                   ranges over what is assumed of the chip

Cycles of a NeuronCore's engines are in the text of its program, as the kernel was recorded: ranges are over \
figures of memory, transfers,
synchronisation and energy.

Exit code 1 if there are findings.";

/// What to lower and what the inputs hold.
#[derive(Args, Debug)]
pub(crate) struct LowerArgs {
    #[command(flatten)]
    pub(crate) notation: NotationArgs,
    #[command(flatten)]
    pub(crate) inputs: InputArgs,
    /// Write the program to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<String>,
}

/// What to lower and run, and what to say about it.
#[derive(Args, Debug)]
pub(crate) struct RunEinsumArgs {
    #[command(flatten)]
    pub(crate) notation: NotationArgs,
    #[command(flatten)]
    pub(crate) inputs: InputArgs,
    #[command(flatten)]
    pub(crate) readings: ReadingArgs,
}

/// What the inputs of an einsum hold, and where they start.
#[derive(Args, Debug)]
pub(crate) struct InputArgs {
    /// What in0 holds: a seed, zeros, or an array file (.npy, or .safetensors:NAME)
    #[arg(long, value_name = "SEED|zeros|FILE", default_value = "1")]
    pub(crate) data0: String,
    /// What in1 holds
    #[arg(long, value_name = "SEED|zeros|FILE", default_value = "2")]
    pub(crate) data1: String,
    /// Zero points of in0 and in1 for i5 and i9 (8-bit and 4-bit data with a zero point)
    #[arg(long, value_name = "Z0,Z1", default_value = "0,0", allow_hyphen_values = true)]
    pub(crate) zero_points: String,
    /// Where inputs start: `hbm` for both, in0=hbm or in1=hbm for one; transfers bring them to their shapes
    /// in data memory
    #[arg(long, value_name = "[INPUT=]MEMORY", value_delimiter = ',')]
    pub(crate) from: Vec<String>,
}

/// What to run and what to say about it.
#[derive(Args, Debug)]
pub(crate) struct SimArgs {
    /// A program text, of a TCP or a NeuronCore, or binary (`-`: standard input)
    #[arg(value_name = "FILE")]
    pub(crate) program: String,
    /// A machine by name, or a machine file; the one that the program names if it is not given
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) chip: Option<String>,
    /// Change a figure of the machine: hbm.efficiency=0.9
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// In place of readings, ranges of time and energy: every figure of the machine that has a band at both
    /// of its ends
    #[arg(long, conflicts_with_all = ["values", "timeline", "energy", "findings", "trace", "output"])]
    pub(crate) bands: bool,
    #[command(flatten)]
    pub(crate) readings: ReadingArgs,
}

/// Which readings of a run are printed, and what is written to files.
#[derive(Args, Debug)]
pub(crate) struct ReadingArgs {
    /// Compute the outputs
    #[arg(long)]
    pub(crate) values: bool,
    /// Say when things run and how busy engines are
    #[arg(long)]
    pub(crate) timeline: bool,
    /// Say what energy goes where
    #[arg(long)]
    pub(crate) energy: bool,
    /// Look for races, uninitialised reads and the like
    #[arg(long)]
    pub(crate) findings: bool,
    /// A slice that is faulty: a spare of its PE takes its place, and the program runs as it is
    #[arg(long, value_name = "[CHIP.]PE.SLICE")]
    pub(crate) faulty: Vec<String>,
    /// Steps that control cores may take, for programs that take longer than 134 million
    #[arg(long, value_name = "N")]
    pub(crate) max_steps: Option<u64>,
    /// Write a Perfetto trace to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<String>,
    /// Write every output as DIR/NAME.npy
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<String>,
    /// Print data as JSON on standard output, and nothing else there
    #[arg(long)]
    pub(crate) json: bool,
}

/// An einsum with shapes and a tactic, from arguments or from a file.
#[derive(Args, Debug)]
pub(crate) struct NotationArgs {
    /// An einsum such as 'ble,ef->blf', a lone tensor such as 'ble', or a file that holds everything (`-`:
    /// standard input)
    #[arg(value_name = "EINSUM|FILE")]
    pub(crate) einsum: String,
    /// Sizes of axes and symbols: b=4,e=64; l=1..4096 for a size known only at run time
    #[arg(long, value_name = "SIZES")]
    pub(crate) dims: Option<String>,
    /// Lowered shape of the first input
    #[arg(long, value_name = "SHAPE")]
    pub(crate) in0: Option<String>,
    /// Lowered shape of the second input
    #[arg(long, value_name = "SHAPE")]
    pub(crate) in1: Option<String>,
    /// Lowered shape of the output
    #[arg(long, value_name = "SHAPE")]
    pub(crate) out: Option<String>,
    /// The tactic
    #[arg(long, value_name = "TACTIC")]
    pub(crate) tactic: Option<String>,
    /// The operand that the register files hold: in0 or in1
    #[arg(long, value_name = "OPERAND")]
    pub(crate) stationary: Option<String>,
    /// Element type of the inputs: int8, int4, bf16, f8e4m3, f8e5m2
    #[arg(long, value_name = "TYPE")]
    pub(crate) dtype: Option<String>,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// What to check and how to answer.
#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) notation: NotationArgs,
    /// Print data as JSON on standard output, and nothing else there
    #[arg(long)]
    pub(crate) json: bool,
}

/// The machine that a program is checked on.
#[derive(Args, Clone, Debug)]
pub(crate) struct TargetArgs {
    /// A machine by name, or a machine file
    #[arg(long, value_name = "NAME|FILE", default_value = "tcp")]
    pub(crate) chip: String,
    /// PEs fused into one
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) pes: u64,
    /// Change a figure of the machine: dm.capacity_bytes=1048576
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

/// What to draw and where to.
#[derive(Args, Debug)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    pub(crate) notation: NotationArgs,
    /// Write the picture as SVG to this file
    #[arg(short, long, value_name = "FILE.svg")]
    pub(crate) output: Option<String>,
    /// Say where this element lives: b=1,l=2,e=33
    #[arg(long, value_name = "COORDINATES")]
    pub(crate) at: Option<String>,
}

/// Two shapes of one tensor.
#[derive(Args, Debug)]
pub(crate) struct BridgeArgs {
    /// The tensor, such as 'ble'
    #[arg(value_name = "TENSOR")]
    pub(crate) tensor: String,
    /// Sizes of axes and symbols
    #[arg(long, value_name = "SIZES")]
    pub(crate) dims: Option<String>,
    /// The shape that there is
    #[arg(long, value_name = "SHAPE")]
    pub(crate) from: String,
    /// The shape that is wanted
    #[arg(long, value_name = "SHAPE")]
    pub(crate) to: String,
    /// Print data as JSON on standard output, and nothing else there
    #[arg(long)]
    pub(crate) json: bool,
}

/// What can be done with machines.
#[derive(Debug, Subcommand)]
pub(crate) enum MachineCommand {
    /// List the machines that come with tilewright
    List {
        /// Print data as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a machine: derived figures beside published ones, then every figure with its source
    Show {
        /// A machine by name, or a machine file
        #[arg(value_name = "NAME|FILE")]
        chip: String,
        /// Change a figure: dm.capacity_bytes=1048576
        #[arg(long = "set", value_name = "KEY=VALUE")]
        set: Vec<String>,
        /// Print data as JSON
        #[arg(long)]
        json: bool,
    },
    /// Check machine files: keys, units, ranges, sources
    Check {
        /// Machines by name, or machine files; all that come with tilewright if none is given
        #[arg(value_name = "NAME|FILE")]
        chips: Vec<String>,
        /// Print data as JSON
        #[arg(long)]
        json: bool,
    },
}
