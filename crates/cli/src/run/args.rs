//! Arguments of `tilewright run` and `tilewright exec`.

use std::collections::BTreeSet;

use clap::Args;

use crate::outcome::Outcome;
use crate::target::ModelTarget;

pub(crate) const RUN_EXAMPLES: &str = "\
A model is a llama2.c checkpoint (.bin), a GGUF or ONNX file, or a folder of Hugging Face. It is compiled \
for the chip, its weights are
written to the simulated memory, and every token is computed there. Times and energy are those of the \
simulated chip.
A sentence encoder (BERT) gives the vector of the prompt instead of text.
Any other ONNX graph takes arrays: one --input for each of its inputs, or --seed to draw them.

Examples:
  tilewright run stories15M.bin --prompt 'Once upon a time' --max-tokens 64
  tilewright run stories15M.bin --prompt 'Once upon a time' --json --trace token.pftrace
  tilewright run stories15M.bin --prompt 'Once upon a time' --prompt 'The cat' --prompt 'A boat'
  tilewright run stories15M.bin --tokenizer tokenizer.bin --prompt 'Once upon a time' --interp
  tilewright run fables --prompt 'Once upon a time' --html fables.html
  tilewright run digits.onnx --input image=seven.npy -o results/
  tilewright run digits.onnx --seed 1 --html digits.html";

/// What to run.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// A language model, or any ONNX graph
    pub(crate) model: String,
    #[command(flatten)]
    pub(crate) prompting: PromptArgs,
    #[command(flatten)]
    pub(crate) tensors: TensorArgs,
    #[command(flatten)]
    pub(crate) target: ModelTarget,
    /// Write a page of the run to this file, of a language model of a prompt and of its last token: operators
    /// with their times, their kernels, commands and lines of the program; opens without a network
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<String>,
    /// Fix or bound axes of an ONNX model: batch=1,seq=1..512
    #[arg(long, value_name = "NAME=N")]
    pub(crate) dims: Option<String>,
    /// How many choices of the compiler are evaluated by simulated time: 0 none (the rule), 1 a few, 2 and
    /// more many. Of a graph that takes arrays 0 is list scheduling, 1 tries fewer PEs, 2 other numbers of
    /// tactics and orders of commands by integer programs over windows of them, 3 and more a genetic search
    /// over their priorities as well
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=9))]
    pub(crate) effort: u64,
    /// Compute with the plain float32 interpreter instead of a chip; it has neither types nor a timeline to
    /// choose
    #[arg(
        long,
        conflicts_with_all = [
            "chip", "set", "dtype", "cache", "calibrate", "pes", "chips", "context", "effort", "solver",
            "trace", "html", "without",
        ]
    )]
    pub(crate) interp: bool,
}

/// Tensors of a graph that takes no text.
#[derive(Clone, Debug, Args)]
pub(crate) struct TensorArgs {
    /// An input of an ONNX graph as an array file; once for each input
    #[arg(long = "input", value_name = "NAME=FILE.npy")]
    pub(crate) inputs: Vec<String>,
    /// Draw inputs that are not given from this seed
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Write every output of an ONNX graph as DIR/NAME.npy
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<String>,
}

impl TensorArgs {
    /// Names of inputs that are given as arrays.
    pub(crate) fn given(&self) -> BTreeSet<String> {
        let names = self.inputs.iter().filter_map(|written| written.split_once('='));
        names.map(|(name, _)| name.to_string()).collect()
    }
}

/// What to generate, and what to say about it.
#[derive(Clone, Debug, Args)]
pub(crate) struct PromptArgs {
    /// The text to continue; given several times, the sequences of one batch
    #[arg(long = "prompt", value_name = "TEXT")]
    pub(crate) prompts: Vec<String>,
    /// What `--prompt` given several times replaces; refused
    #[arg(long = "with", value_name = "TEXT", hide = true)]
    pub(crate) with: Vec<String>,
    #[arg(long = "max-tokens", value_name = "N", help = "Tokens to generate, at most [default: 64]")]
    pub(crate) most_tokens: Option<u32>,
    /// Its tokenizer; found beside the model if it is not named
    #[arg(long, value_name = "FILE")]
    pub(crate) tokenizer: Option<String>,
    /// Write a Perfetto trace of the last token's run to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<String>,
    /// Print data as JSON on standard output, and nothing else there
    #[arg(long)]
    pub(crate) json: bool,
}

/// Tokens that are generated if nobody says how many.
const MAX_TOKENS: u32 = 64;

impl RunArgs {
    /// Refuses a page of several sequences, which share their runs.
    pub(crate) fn check_page(&self) -> Result<(), Outcome> {
        match (&self.html, self.prompting.prompts.len()) {
            (Some(path), count @ 2..) => Err(Outcome::usage(&format!(
                "{count} prompts with --html {path}\n  = allowed: one\n  = instead: a run for each prompt"
            ))),
            _ => Ok(()),
        }
    }
}

impl PromptArgs {
    /// Tokens to generate, at most.
    pub(crate) fn max_tokens(&self) -> u32 {
        self.most_tokens.unwrap_or(MAX_TOKENS)
    }

    /// Refuses what only texts have, for a graph that takes arrays.
    pub(crate) fn check_arrays(&self, graph: &str) -> Result<(), Outcome> {
        let given = [
            ("--prompt", self.prompts.iter().any(|prompt| !prompt.is_empty()) || self.prompts.len() > 1),
            ("--max-tokens", self.most_tokens.is_some()),
            ("--tokenizer", self.tokenizer.is_some()),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((option, _)) => Err(Outcome::usage(&format!(
                "{option} with `{graph}`, a graph that takes arrays\n  = allowed: --input, --seed, --output, \
                 --trace, --json\n  \
                 = instead: --input NAME=FILE.npy, or --seed N to draw inputs"
            ))),
        }
    }

    /// The first prompt; empty if there is none.
    pub(crate) fn first(&self) -> &str {
        self.prompts.first().map_or("", String::as_str)
    }

    /// Prompts of the other sequences of the batch.
    pub(crate) fn others(&self) -> &[String] {
        self.prompts.get(1..).unwrap_or_default()
    }

    /// Refuses options that do not go together.
    pub(crate) fn check(&self, interp: bool) -> Result<(), Outcome> {
        if let Some(text) = self.with.first() {
            return Err(Outcome::usage(&format!(
                "--with '{text}'\n  = allowed: --prompt, once for each sequence of the batch\n  \
                 = instead: --prompt '{}' --prompt '{text}'",
                self.first()
            )));
        }
        let alone = [("--interp", interp), ("--trace", self.trace.is_some())];
        match alone.into_iter().find(|(_, given)| *given && self.prompts.len() > 1) {
            Some((option, _)) => Err(Outcome::usage(&format!(
                "{} prompts with {option}\n  = allowed: one\n  = instead: a run for each prompt",
                self.prompts.len()
            ))),
            None => Ok(()),
        }
    }
}
