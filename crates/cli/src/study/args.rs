//! Arguments of `tilewright study`.

use clap::{Args, Subcommand};
use tilewright_study::PUBLISHED_SETTING;
use tilewright_study::question::Question;

/// A model to study, or published rows.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct StudyArgs {
    /// What else can be studied.
    #[command(subcommand)]
    pub(crate) command: Option<StudyCommand>,
    /// What is asked of a model.
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

/// What can be studied besides a model.
#[derive(Debug, Subcommand)]
pub(crate) enum StudyCommand {
    /// Print published times, rates and bytes beside ours, with the error of each
    #[command(after_help = PUBLISHED_EXAMPLES)]
    Published(PublishedArgs),
    /// Write the page of accuracy: every published row of every chip beside ours, the worst first
    #[command(after_help = ACCURACY_EXAMPLES)]
    Accuracy(AccuracyArgs),
    /// What was written before a model stood for itself.
    #[command(hide = true)]
    Model(RetiredArgs),
}

/// Anything, to be refused with what to write.
#[derive(Debug, Args)]
pub(crate) struct RetiredArgs {
    /// What followed.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) rest: Vec<String>,
}

/// Examples of studies of models.
pub(crate) const EXAMPLES: &str = "\
MODEL is a configuration that comes with the binary (llama2-7b, llama2-13b, llama2-70b, llama3-8b, \
llama3-70b, mistral-7b), a config.json of the
Llama family without its weights, or a model. The ordinary compiler makes its programs (weights stationary \
over all PEs), the ordinary simulator
times them. Every pass has host.pass_ns besides its programs, a figure of the machine that was fitted to a \
published row; --set host.pass_ns=0
leaves it out.

With --batch, --input or --output one question is answered: prompts one after the other, then single tokens \
of the batch at three contexts.
Without them the model is studied as the paper does LLaMA-2 7B: Table II, Figs 10 to 15, beside published \
values where there are any.

Examples:
  tilewright study llama3-8b --batch 16 --input 1024 --output 256
  tilewright study llama3-8b --batch 16 --input 1024 --output 256 --bands
  tilewright study llama2-70b --chips 8 --batch 8 --input 2048 --output 128 --json
  tilewright study my/config.json --batch 1 --dtype bf16
  tilewright study llama2-7b
  tilewright study llama2-7b --brief --bands
  tilewright study llama2-7b --scales token --brief --json
  tilewright study llama2-7b --brief --set host.pass_ns=0
  tilewright study llama2-7b --set hbm.channel_clock_hz=1500000000 --set hbm.timing_clock_hz=3000000000
  tilewright study llama2-70b --chips 4 --brief --out study";

/// What integer activations are scaled by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Scales {
    /// One factor for a whole tensor.
    Tensor,
    /// The absolute maximum of each token.
    Token,
}

impl From<Scales> for tilewright_study::Scales {
    fn from(scales: Scales) -> tilewright_study::Scales {
        match scales {
            Scales::Tensor => tilewright_study::Scales::Tensor,
            Scales::Token => tilewright_study::Scales::Token,
        }
    }
}

/// What to time.
#[derive(Clone, Debug, Args)]
pub(crate) struct ModelArgs {
    /// Configuration, config.json or model
    #[arg(value_name = "MODEL", required = true)]
    pub(crate) model: Option<String>,
    /// Sequences: as many as HBM holds caches of; 1 if only their lengths are given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub(crate) batch: Option<u64>,
    /// Tokens of a prompt; 2048 if only the others are given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=1 << 20))]
    pub(crate) input: Option<u64>,
    /// Tokens that are made of each sequence; 128 if only the others are given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=1 << 20))]
    pub(crate) output: Option<u64>,
    /// Chips that share the weights, joined by PCIe: 1, 2, 4 or 8
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) chips: u64,
    /// Processing elements of a chip: 1, 2, 4 or 8
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(crate) pes: u64,
    /// Type of weights, activations and caches: int8 or bf16
    #[arg(long, value_name = "TYPE", default_value = "int8")]
    pub(crate) dtype: String,
    /// What integer activations are scaled by: one factor for a whole tensor, found beforehand, or the
    /// absolute maximum of each token
    #[arg(long, value_name = "WHICH", default_value = "tensor")]
    pub(crate) scales: Scales,
    /// Chip: tcp, or a machine file
    #[arg(long, value_name = "NAME|FILE", default_value = "tcp")]
    pub(crate) chip: String,
    /// Another value for a figure of the machine
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Of the whole study only Table II and what its passes show: not Fig. 12, nor other lengths of Fig. 11
    #[arg(long, conflicts_with_all = QUESTION)]
    pub(crate) brief: bool,
    /// Ranges of time, power and tokens/s/W, of the whole study or of one question: every figure that has a
    /// band at both of its ends; some minutes
    #[arg(long)]
    pub(crate) bands: bool,
    /// Write study.json, study.html, the figures as SVG and the blocks of Fig. 13 as Perfetto traces into
    /// this folder
    #[arg(long, value_name = "FOLDER", conflicts_with_all = QUESTION)]
    pub(crate) out: Option<String>,
    /// Print data
    #[arg(long)]
    pub(crate) json: bool,
    /// What was written before a model stood for itself.
    #[arg(long = "model", hide = true, value_name = "NAME|FILE")]
    pub(crate) retired_model: Option<String>,
}

/// What makes it one question in place of the whole study.
const QUESTION: [&str; 3] = ["batch", "input", "output"];

impl ModelArgs {
    /// The paper's model on its chip, only Table II.
    pub(crate) fn brief() -> ModelArgs {
        ModelArgs {
            model: Some(PUBLISHED_SETTING.model.to_string()),
            batch: None,
            input: None,
            output: None,
            chip: "tcp".to_string(),
            set: Vec::new(),
            dtype: "int8".to_string(),
            scales: Scales::Tensor,
            pes: PUBLISHED_SETTING.pes,
            chips: PUBLISHED_SETTING.chips,
            brief: true,
            bands: false,
            out: None,
            json: false,
            retired_model: None,
        }
    }

    /// The model's name; with a model that stands for itself, nothing else names it.
    pub(crate) fn name(&self) -> &str {
        self.model.as_deref().unwrap_or_default()
    }

    /// The one question that is asked, if it is one.
    pub(crate) fn question(&self) -> Option<Question> {
        let asked = self.batch.or(self.input).or(self.output);
        asked.map(|_| Question {
            batch: self.batch.unwrap_or(1),
            input: self.input.unwrap_or(2048),
            output: self.output.unwrap_or(128),
        })
    }

    /// Whether this is the model on the chip and the PEs that the paper measured.
    pub(crate) fn is_papers(&self) -> bool {
        let papers = ModelArgs::brief();
        let published = PUBLISHED_SETTING.covers(self.name(), self.pes, self.chips);
        published && self.chip == papers.chip && self.set.is_empty()
    }
}

const ACCURACY_EXAMPLES: &str = "\
Runs every row of bench/published.toml: the case study with its band, rules of the TCP, and kernels of \
Neuron chips in Python, from the folder of
the repository; some minutes. Held-out rows are only summarised.

Examples:
  tilewright study accuracy
  tilewright study accuracy -o docs/accuracy.md";

/// Where the page goes.
#[derive(Debug, Args)]
pub(crate) struct AccuracyArgs {
    /// File of the page; standard output without it
    #[arg(short, long, value_name = "FILE.md")]
    pub(crate) out: Option<String>,
}

const PUBLISHED_EXAMPLES: &str = "\
Rows are in bench/published.toml: chip, group, name, source, published value and unit, what it was used for \
and what reproduces it. A row is
calibration (a figure of a machine file was fitted to it: its error is no result), development (seen while \
rules were written) or held-out
(never used, its error is only part of the summary). Rows of Neuron
chips name a kernel, which runs in Python without values, from the folder of the repository. Rows of the TCP \
name simulated programs of the
case study, a tactic, a figure of the machine, or a closed form of an engine.

Examples:
  tilewright study published --chip tcp
  tilewright study published --chip trainium1
  tilewright study published --chip trainium2 --group B --json";

/// Which rows to compare.
#[derive(Debug, Args)]
pub(crate) struct PublishedArgs {
    /// Chip: tcp, inferentia2, trainium1, trainium2 or trainium3
    #[arg(long, value_name = "NAME")]
    pub(crate) chip: String,
    /// Only the rows of this group
    #[arg(long, value_name = "GROUP")]
    pub(crate) group: Option<String>,
    /// File of the rows
    #[arg(long, value_name = "FILE")]
    pub(crate) rows: Option<std::ffi::OsString>,
    /// Folder of the kernels
    #[arg(long, value_name = "FOLDER")]
    pub(crate) kernels: Option<std::ffi::OsString>,
    /// One JSON object in place of the table
    #[arg(long)]
    pub(crate) json: bool,
}
