//! What runs without arguments: the model that comes with the binary writes a fable on the simulated chip.

use std::path::Path;
use std::sync::Arc;

use tilewright_import::hf;

use crate::host::Host;
use crate::model;
use crate::outcome::{OUR_FAULT, Outcome};
use crate::run::args::PromptArgs;
use crate::run::{RunTarget, on_chip};
use crate::target::ModelTarget;

/// Files of a model, in Hugging Face's layout.
pub(crate) struct ModelFiles {
    pub(crate) config: &'static [u8],
    pub(crate) weights: &'static [u8],
    pub(crate) tokenizer: &'static [u8],
}

/// The model that comes with the binary.
pub(crate) const FABLES: ModelFiles = ModelFiles {
    config: include_bytes!("../../../models/fables/config.json"),
    weights: include_bytes!("../../../models/fables/model.safetensors"),
    tokenizer: include_bytes!("../../../models/fables/tokenizer.json"),
};

/// Where the trace goes, in the folder that the command is run in.
const TRACE_PATH: &str = "fables.pftrace";

const PROMPT: &str = "Once there was a";
const MOST_TOKENS: u32 = 200;

pub(crate) fn run(files: &ModelFiles, host: &mut dyn Host) -> Outcome {
    write(files, host).unwrap_or_else(|refusal| refusal)
}

fn write(files: &ModelFiles, host: &mut dyn Host) -> Result<Outcome, Outcome> {
    let broken = |why: String| Outcome { code: OUR_FAULT, ..Outcome::usage(&why) };
    let file = |name: &str| match name {
        "config.json" => Some(Arc::new(files.config.to_vec())),
        "model.safetensors" => Some(Arc::new(files.weights.to_vec())),
        _ => None,
    };
    let loaded = hf::read(&file).map_err(|error| broken(error.to_string()))?;
    let tokenizer = model::read_tokenizer("tokenizer.json", &Arc::new(files.tokenizer.to_vec()))?;
    // A folder that cannot be written to is no failure of the demonstration.
    let (trace, note) = match host.draft(Path::new(TRACE_PATH)) {
        Ok(_) => (Some(TRACE_PATH.to_string()), String::new()),
        Err(error) => (None, format!("tilewright: no trace: cannot write `{TRACE_PATH}`: {error}\n")),
    };
    let prompting = PromptArgs {
        prompts: vec![PROMPT.to_string()],
        with: Vec::new(),
        max_tokens: MOST_TOKENS,
        tokenizer: None,
        trace,
        json: false,
    };
    let target = ModelTarget::default();
    let machine = target.machine(host)?;
    let on = RunTarget { machine: &machine, target: &target, tokenizer: &tokenizer, prompting: &prompting };
    let outcome = on_chip(&on, &loaded, 0, host)?;
    Ok(Outcome { stdout: outcome.stdout + NEXT, stderr: note + &outcome.stderr, ..outcome })
}

const NEXT: &str = "
next: tilewright run models/fables --prompt 'A wise owl' --trace owl.pftrace
      tilewright compile models/fables --emit kernels      what the compiler made of it
      tilewright demo attention                            one layer in detail; docs/README.md is the book
";
