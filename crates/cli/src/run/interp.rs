//! A language model or a sentence encoder on the plain float32 interpreter.

use serde::Serialize;
use tilewright_base::Sources;
use tilewright_graph::{Dtype, primitives};
use tilewright_interp::{InterpError, Interpreter, Session, Tensor, best};

use crate::host::Host;
use crate::machine::to_json;
use crate::model;
use crate::outcome::{FAILED, Outcome};
use crate::run::args::RunArgs;
use crate::run::report::{length, spelled};

/// What `--json` prints.
#[derive(Serialize)]
struct Generated {
    prompt_tokens: Vec<u32>,
    tokens: Vec<u32>,
    text: String,
}

/// What `--json` prints of an encoder.
#[derive(Serialize)]
struct Encoded<'e> {
    prompt_tokens: Vec<u32>,
    embedding: &'e [f32],
    norm: f64,
}

/// The vector of a text: all of its tokens count.
fn encode(
    interpreter: &Interpreter,
    output: usize,
    prompt: Vec<u32>,
    json: bool,
) -> Result<Outcome, Outcome> {
    let failed = |error: InterpError| Outcome { code: FAILED, ..Outcome::usage(&error.to_string()) };
    let graph = interpreter.graph();
    let names = graph.inputs.iter().filter_map(|id| graph.value(*id)).map(|value| value.name.as_str());
    let dims = [1, prompt.len()];
    let inputs = names.map(|name| {
        let whole = |token: &u32| if name.contains("mask") { 1 } else { i64::from(*token) };
        Tensor::ints(Dtype::I64, &dims, prompt.iter().map(whole).collect())
    });
    let inputs: Vec<Tensor> = inputs.collect();
    let outputs = interpreter.run(&inputs).map_err(failed)?;
    let embedding = outputs.get(output).map_or(&[][..], Tensor::as_floats);
    if json {
        let norm = length(embedding);
        return Ok(Outcome::good(to_json(&Encoded { prompt_tokens: prompt, embedding, norm })));
    }
    Ok(Outcome::good(spelled(embedding) + "\n"))
}

pub(super) fn generate(args: &RunArgs, host: &mut dyn Host) -> Result<Outcome, Outcome> {
    let loaded = model::load(&args.model, args.dims.as_deref(), host)?;
    let tokenizer = model::tokenizer(&args.model, args.prompting.tokenizer.as_deref(), host)?;
    let graph = primitives(&loaded.graph)
        .map_err(|complaint| Outcome::refused(FAILED, &Sources::default(), &[*complaint], host.colour()))?;
    let failed = |error: InterpError| Outcome { code: FAILED, ..Outcome::usage(&error.to_string()) };
    let interpreter = Interpreter::new(graph, &loaded.store).map_err(failed)?;
    let prompt = super::prompt(&tokenizer, &args.prompting.prompt)?;
    if let Some(output) = interpreter.graph().output("embedding") {
        return encode(&interpreter, output, prompt, args.prompting.json);
    }
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
