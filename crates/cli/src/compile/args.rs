//! Arguments of `tilewright compile` and `tilewright exec`.

use clap::Args;

use crate::run::args::{PromptArgs, TensorArgs};
use crate::target::ModelTarget;

pub(crate) const COMPILE_EXAMPLES: &str = "\
A model is a llama2.c checkpoint (.bin), a GGUF or ONNX file, a folder of Hugging Face, a graph text (.graph),
or a built-in configuration: llama2-7b, llama2-13b, llama2-70b, llama3-8b, llama3-70b, mistral-7b.

Examples:
  tilewright compile stories260K.bin --emit graph         the model as it was read
  tilewright compile stories260K.bin --emit primitives    stage 1: every operator in primitives
  tilewright compile stories260K.bin --emit kernels       stage 2: operators in clusters
  tilewright compile stories260K.bin --emit lowered       stage 3: lowered shapes, tactics, exchanges and \
  costs of each kernel
  tilewright compile stories260K.bin --emit commands      stage 4: the program of one token; --program \
  prefill: of a prompt
  tilewright compile stories260K.bin --emit schedule      stage 5: when each command runs, what lies where, \
  and the bound
  tilewright compile stories260K.bin --goal energy        choices that take the least energy; time@20: the \
  fastest below 20 W
  tilewright compile model.kernels --emit commands        the same from a text of kernels, without weights
  tilewright compile model.lowered --emit commands        the same from a text of lowered kernels, with the \
  choices that it has
  tilewright compile model.schedule                       checks a schedule: queues, units, waits, areas, \
  and what it reports
  tilewright compile stories260K.bin -o stories.twb       programs and packed weights in one file
  tilewright exec stories.twb --prompt 'Once upon a time'
  tilewright compile stories260K.bin --batch 4 -o stories.twb   the same for up to four texts at the same time
  tilewright exec stories.twb --prompt 'Once upon a time' --prompt 'The cat'
  tilewright compile digits.onnx --pes 4 -o digits.twb    the same for any graph of fixed sizes
  tilewright exec digits.twb --input image=seven.npy
  tilewright compile encoder.onnx --dims batch=..8,seq=..128 -o encoder.twb   once for all sizes up to these
  tilewright exec encoder.twb --input tokens=short.npy   arrays of any such size
  tilewright compile gpt.onnx --context 512 -o gpt.twb    a language model that no template takes
  tilewright exec gpt.twb --prompt 'Once upon a time'
  tilewright compile digits.onnx --explain 3              what bounds kernel 3 of it, and what would have to \
  change
  tilewright compile llama2-7b --pes 8 --html llama.html  its graph with the time of each operator, on a page
  tilewright compile digits.onnx --path image -o path.svg where `image` lies from input to result
  tilewright compile digits.onnx --without tiled,fused    the same without some parts of the compiler
  tilewright compile digits.onnx --pes 8 --worth          cycles without each of them";

/// What to compile and which stage to print.
#[derive(Debug, Args)]
pub(crate) struct CompileArgs {
    /// A model
    pub(crate) model: String,
    /// Print the text of a stage
    #[arg(long, value_name = "STAGE")]
    pub(crate) emit: Option<Stage>,
    /// Say what bounds a kernel of a graph that takes arrays, what would have to change, and what it was
    /// chosen among: its number in `--emit kernels`, or the name of what it gives
    #[arg(long, value_name = "KERNEL", conflicts_with = "emit")]
    pub(crate) explain: Option<String>,
    /// Say where an input of a graph that takes arrays goes: in which memories it and what is computed of it
    /// lies, from when to when
    #[arg(long, value_name = "INPUT", conflicts_with_all = ["emit", "explain"])]
    pub(crate) path: Option<String>,
    /// Say what each part of the compiler is worth for a graph that takes arrays: simulated cycles with all
    /// of them, and without each, as `--without` leaves it out
    #[arg(long, conflicts_with_all = ["emit", "output", "explain", "path", "effort"])]
    pub(crate) worth: bool,
    /// Which program `--emit lowered`, `commands` and `schedule` print; without, that of the lowered text, or
    /// decode
    #[arg(long, value_name = "NAME")]
    pub(crate) program: Option<ProgramName>,
    #[command(flatten)]
    pub(crate) target: ModelTarget,
    /// Texts that may go on at the same time, as sequences of a batch, at most [default: 1]. Of an ONNX graph
    /// that takes arrays: the largest size of the open axis that its inputs begin with
    #[arg(long, value_name = "N")]
    pub(crate) batch: Option<u64>,
    /// Fix or bound axes of an ONNX model: batch=1,seq=..512. A graph that takes arrays is compiled once for
    /// all sizes up to a bound
    #[arg(long, value_name = "NAME=N")]
    pub(crate) dims: Option<String>,
    /// Its tokenizer, which goes into the file; found beside the model if it is not named
    #[arg(long, value_name = "FILE")]
    pub(crate) tokenizer: Option<String>,
    /// What is to be least for a token, or a run of a graph, simulated: time, energy, edp, or time@WATTS for
    /// the fastest below a power [default: time]
    #[arg(long, value_name = "GOAL", default_value = "time", hide_default_value = true)]
    pub(crate) goal: String,
    /// How many choices are evaluated by a simulation: 0 none (the rule), 1 a few, 2 and more many. Of a
    /// graph that takes arrays 0 is list scheduling, 1 tries fewer PEs, 2 other numbers of tactics and orders
    /// of commands by integer programs over windows of them, 3 and more a genetic search over their
    /// priorities as well [default: 1; of such a graph 0, or 1 with another goal than time]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=9))]
    pub(crate) effort: Option<u64>,
    /// Write a page of the compiled programs' times to this file, which needs neither weights nor inputs: the
    /// longest prompt and a token behind the longest context of a language model, a run of any other graph;
    /// operators with their times, kernels, commands and lines of the program
    #[arg(long, value_name = "FILE", conflicts_with_all = ["emit", "explain", "path", "worth", "output"])]
    pub(crate) html: Option<String>,
    /// Do not check that every read of the programs sees its write and every wait has its signal
    #[arg(long)]
    pub(crate) no_check: bool,
    /// Write the programs and weights to a file; with `--emit`, the text of that stage; with `--explain` and
    /// `--path`, a picture (FILE.svg)
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<String>,
}

/// Stages of the compiler that have a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Stage {
    /// The model as it was read
    Graph,
    /// Every operator in primitives
    Primitives,
    /// Primitives of a graph that takes arrays, at the bounds of its open axes
    Bounded,
    /// Operators in clusters, each a pass over the chip
    Kernels,
    /// Lowered shapes, tactics, exchanges and costs of each kernel
    Lowered,
    /// A command program
    Commands,
    /// When each command runs, what lies where, and the bound
    Schedule,
}

/// Programs of a compiled model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ProgramName {
    /// Takes one token
    Decode,
    /// Takes many tokens
    Prefill,
    /// Runs once before the others
    Clear,
    /// Takes one token of each sequence, if there are several
    Batch,
}

impl CompileArgs {
    /// The file of programs and weights that is to be written, if one is.
    pub(crate) fn program_file(&self) -> Option<&str> {
        let is_other = self.emit.is_some() || self.explain.is_some() || self.path.is_some();
        self.output.as_deref().filter(|_| !is_other)
    }
}

impl ProgramName {
    pub(crate) const ALL: [ProgramName; 4] =
        [ProgramName::Decode, ProgramName::Prefill, ProgramName::Clear, ProgramName::Batch];

    /// Its name in files.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            ProgramName::Decode => "decode",
            ProgramName::Prefill => "prefill",
            ProgramName::Clear => "clear",
            ProgramName::Batch => "batch",
        }
    }
}

/// What to execute.
#[derive(Debug, Args)]
pub(crate) struct ExecArgs {
    /// A file that `tilewright compile -o` wrote
    pub(crate) file: String,
    #[command(flatten)]
    pub(crate) prompting: PromptArgs,
    #[command(flatten)]
    pub(crate) tensors: TensorArgs,
    /// Sizes of inputs that --seed draws, for a graph compiled with bounds: seq=5; without, the bounds
    #[arg(long, value_name = "NAME=N")]
    pub(crate) dims: Option<String>,
}
