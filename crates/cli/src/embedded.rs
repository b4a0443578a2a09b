//! What runs without arguments: the model that comes with the binary writes a fable on the simulated chip.

use std::path::Path;

use crate::host::Host;
use crate::model;
use crate::outcome::Outcome;
use crate::run::args::PromptArgs;
use crate::run::{RunTarget, on_chip};
use crate::target::ModelTarget;
use tilewright_workbench::model::files::FABLES;

/// Where the trace goes, in the folder that the command is run in.
const TRACE_PATH: &str = "fables.pftrace";

const PROMPT: &str = "Once there was a";
const MOST_TOKENS: u32 = 200;

pub(crate) fn run(host: &mut dyn Host) -> Outcome {
    write(host).unwrap_or_else(|refusal| refusal)
}

fn write(host: &mut dyn Host) -> Result<Outcome, Outcome> {
    let loaded = model::load(FABLES, None, host)?;
    let tokenizer = model::tokenizer(FABLES, None, host)?;
    // A folder that cannot be written to is no failure of the demonstration.
    let (trace, note) = match host.draft(Path::new(TRACE_PATH)) {
        Ok(_) => (Some(TRACE_PATH.to_string()), String::new()),
        Err(error) => (None, format!("tilewright: no trace: cannot write `{TRACE_PATH}`: {error}\n")),
    };
    let prompting = PromptArgs {
        prompts: vec![PROMPT.to_string()],
        with: Vec::new(),
        most_tokens: Some(MOST_TOKENS),
        tokenizer: None,
        trace,
        json: false,
    };
    let target = ModelTarget::default();
    let machine = target.machine(host)?;
    let on = RunTarget {
        machine: &machine,
        target: &target,
        tokenizer: &tokenizer,
        prompting: &prompting,
        page: None,
    };
    let outcome = on_chip(&on, &loaded, 0, host)?;
    Ok(Outcome { stdout: outcome.stdout + NEXT, stderr: note + &outcome.stderr, ..outcome })
}

const NEXT: &str = "
next: tilewright run fables --prompt 'A wise owl' --trace owl.pftrace
      tilewright compile fables --emit kernels      what the compiler made of it
      tilewright demo attention                     one layer in detail
";
