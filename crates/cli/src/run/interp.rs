//! A language model on the plain float32 interpreter.

use serde::Serialize;
use tilewright_base::Sources;
use tilewright_graph::primitives;
use tilewright_interp::{InterpError, Interpreter, Session, best};

use crate::host::Host;
use crate::machine::to_json;
use crate::model;
use crate::outcome::{FAILED, Outcome};
use crate::run::args::RunArgs;

/// What `--json` prints.
#[derive(Serialize)]
struct Generated {
    prompt_tokens: Vec<u32>,
    tokens: Vec<u32>,
    text: String,
}

pub(super) fn generate(args: &RunArgs, host: &mut dyn Host) -> Result<Outcome, Outcome> {
    let loaded = model::load(&args.model, args.dims.as_deref(), host)?;
    let tokenizer = model::tokenizer(&args.model, args.prompting.tokenizer.as_deref(), host)?;
    let graph = primitives(&loaded.graph)
        .map_err(|complaint| Outcome::refused(FAILED, &Sources::default(), &[*complaint], host.colour()))?;
    let failed = |error: InterpError| Outcome { code: FAILED, ..Outcome::usage(&error.to_string()) };
    let interpreter = Interpreter::new(graph, &loaded.store).map_err(failed)?;
    let prompt = super::prompt(&tokenizer, &args.prompting.prompt)?;
    let mut session = Session::new(&interpreter).map_err(failed)?;
    let mut feed: Vec<i64> = prompt.iter().copied().map(i64::from).collect();
    let mut tokens: Vec<u32> = Vec::new();
    let ends = tokenizer.ends();
    while tokens.len() < args.prompting.max_tokens as usize {
        let logits = session.feed(&feed).map_err(failed)?;
        let next = best(logits.last().map_or(&[][..], Vec::as_slice));
        let token = u32::try_from(next).unwrap_or(u32::MAX);
        if ends.contains(&token) {
            break;
        }
        tokens.push(token);
        feed = vec![next];
    }
    let all: Vec<u32> = prompt.iter().chain(&tokens).copied().collect();
    let text = tokenizer.decode(&all);
    if args.prompting.json {
        return Ok(Outcome::good(to_json(&Generated { prompt_tokens: prompt, tokens, text })));
    }
    Ok(Outcome::good(text + "\n"))
}
