//! Arguments of `tilewright study`.

use clap::{Args, Subcommand};
use tilewright_study::PUBLISHED_SETTING;

/// What can be studied.
#[derive(Debug, Subcommand)]
pub(crate) enum StudyCommand {
    /// Print published times, rates and bytes beside ours, with the error of each
    #[command(after_help = PUBLISHED_EXAMPLES)]
    Published(PublishedArgs),
    /// Time any configuration: so many sequences of so many tokens, so many more of each
    #[command(after_help = MODEL_EXAMPLES)]
    Model(ModelArgs),
    /// Write the page of accuracy: every published row of every chip beside ours, the worst first
    #[command(after_help = ACCURACY_EXAMPLES)]
    Accuracy(AccuracyArgs),
    /// Time a language model on the TCP as the paper's case study does: Table II, Figs 10 to 15
    #[command(name = "llama2-7b", after_help = LLAMA_EXAMPLES)]
    Llama(LlamaArgs),
}

const LLAMA_EXAMPLES: &str = "\
The ordinary compiler makes the programs of the configuration (eight-bit weights, activations and caches, weights
stationary over all PEs), the ordinary simulator times them. Published values stand beside ours. Every pass has host.pass_ns besides
its programs, a figure of the machine that was fitted to the first row; --set host.pass_ns=0 leaves it out.

Examples:
  tilewright study llama2-7b
  tilewright study llama2-7b --brief --json
  tilewright study llama2-7b --out study
  tilewright study llama2-7b --scales token --brief
  tilewright study llama2-7b --brief --bands
  tilewright study llama2-7b --brief --set host.pass_ns=0
  tilewright study llama2-7b --model llama3-8b
  tilewright study llama2-7b --model llama2-70b --chips 4 --brief
  tilewright study llama2-7b --set hbm.channel_clock_hz=1500000000 --set hbm.timing_clock_hz=3000000000";

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
#[derive(Debug, Args)]
pub(crate) struct LlamaArgs {
    /// Another configuration or model
    #[arg(long, value_name = "NAME|FILE", default_value = "llama2-7b")]
    pub(crate) model: String,
    /// Chip: tcp, or a machine file
    #[arg(long, value_name = "NAME|FILE", default_value = "tcp")]
    pub(crate) chip: String,
    /// Another value for a figure of the machine
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Type of weights, activations and caches: int8 or bf16
    #[arg(long, value_name = "TYPE", default_value = "int8")]
    pub(crate) dtype: String,
    /// What integer activations are scaled by: one factor for a whole tensor, found beforehand, or the absolute maximum of each token
    #[arg(long, value_name = "WHICH", default_value = "tensor")]
    pub(crate) scales: Scales,
    /// Processing elements of a chip: 1, 2, 4 or 8
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(crate) pes: u64,
    /// Chips that share the weights, joined by PCIe: 1, 2, 4 or 8
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) chips: u64,
    /// Only Table II and what its passes show: not Fig. 12, nor other lengths of Fig. 11
    #[arg(long)]
    pub(crate) brief: bool,
    /// Ranges of time, power and tokens/s/W: every figure that has a band at both of its ends; some minutes
    #[arg(long)]
    pub(crate) bands: bool,
    /// Write study.json, study.html, the figures as SVG and the blocks of Fig. 13 as Perfetto traces into this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<String>,
    /// Print data
    #[arg(long)]
    pub(crate) json: bool,
}

impl LlamaArgs {
    /// The paper's model on its chip, only Table II.
    pub(crate) fn brief() -> LlamaArgs {
        LlamaArgs {
            model: PUBLISHED_SETTING.model.to_string(),
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
        }
    }

    /// Whether this is the model on the chip and the PEs that the paper measured.
    pub(crate) fn is_papers(&self) -> bool {
        let papers = LlamaArgs::brief();
        let published = PUBLISHED_SETTING.covers(&self.model, self.pes, self.chips);
        published && self.chip == papers.chip && self.set.is_empty()
    }
}

const MODEL_EXAMPLES: &str = "\
A configuration that comes with the binary, a config.json of the Llama family without its weights, or a model. Prompts are timed one after the
other, single tokens of the batch at three contexts, as the case study does.

Examples:
  tilewright study model llama3-8b --batch 16 --input 1024 --output 256
  tilewright study model llama2-70b --chips 8 --batch 8 --input 2048 --output 128 --json
  tilewright study model my/config.json --dtype bf16";

/// A question about a model.
#[derive(Debug, Args)]
pub(crate) struct ModelArgs {
    /// Configuration, config.json or model
    #[arg(value_name = "NAME|FILE")]
    pub(crate) model: String,
    /// Sequences
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub(crate) batch: u64,
    /// Tokens of a prompt
    #[arg(long, value_name = "N", default_value_t = 2048, value_parser = clap::value_parser!(u64).range(2..=1 << 20))]
    pub(crate) input: u64,
    /// Tokens that are made of each sequence
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u64).range(2..=1 << 20))]
    pub(crate) output: u64,
    /// Chip: tcp, or a machine file
    #[arg(long, value_name = "NAME|FILE", default_value = "tcp")]
    pub(crate) chip: String,
    /// Another value for a figure of the machine
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Type of weights, activations and caches: int8 or bf16
    #[arg(long, value_name = "TYPE", default_value = "int8")]
    pub(crate) dtype: String,
    /// What integer activations are scaled by: one factor for a whole tensor, found beforehand, or the absolute maximum of each token
    #[arg(long, value_name = "WHICH", default_value = "tensor")]
    pub(crate) scales: Scales,
    /// Processing elements of a chip: 1, 2, 4 or 8
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(crate) pes: u64,
    /// Chips that share the weights, joined by PCIe: 1, 2, 4 or 8
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) chips: u64,
    /// Print data
    #[arg(long)]
    pub(crate) json: bool,
}

const ACCURACY_EXAMPLES: &str = "\
Runs every row of bench/published.toml: the case study with its band, rules of the TCP, and kernels of Neuron chips in Python, from the folder of
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
Rows are in bench/published.toml: chip, group, name, source, published value and unit, what it was used for and what reproduces it. A row is
calibration (a figure of a machine file was fitted to it: its error is no result), development (seen while rules were written) or held-out
(never used, its error is only part of the summary). Rows of Neuron
chips name a kernel, which runs in Python without values, from the folder of the repository. Rows of the TCP name simulated programs of the
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
