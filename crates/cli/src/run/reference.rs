//! A language model or a sentence encoder on the plain float32 interpreter.

use serde::Serialize;
use tilewright_base::Sources;
use tilewright_base::invariant::OrBroken;
use tilewright_graph::{Dtype, Graph, primitives};
use tilewright_reference::{EvalError, Interpreter, Session, Tensor, best};
use tilewright_workbench::model::report::length;

use crate::host::Host;
use crate::machine::to_json;
use crate::model;
use crate::outcome::{FAILED, Outcome};
use crate::run::args::RunArgs;
use crate::run::report::spelled;

/// What `--json` prints.
#[derive(Serialize)]
struct GeneratedJson {
    prompt_tokens: Vec<u32>,
    tokens: Vec<u32>,
    text: String,
}

/// What `--json` prints of an encoder.
#[derive(Serialize)]
struct EmbeddingJson<'e> {
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
    let failed = |error: EvalError| Outcome { code: FAILED, ..Outcome::usage(&error.to_string()) };
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
        return Ok(Outcome::good(to_json(&EmbeddingJson { prompt_tokens: prompt, embedding, norm })));
    }
    Ok(Outcome::good(spelled(embedding) + "\n"))
}

/// Inputs that take tokens, and outputs that are shown.
const TOKENS: [&str; 2] = ["tokens", "input_ids"];
const SHOWN: [&str; 2] = ["logits", "embedding"];

/// Refuses a graph that a prompt means nothing to.
fn takes_text(path: &str, graph: &Graph) -> Result<(), Outcome> {
    let shown = SHOWN.iter().any(|name| graph.output(name).is_some());
    if shown && TOKENS.iter().any(|name| graph.input(name).is_some()) {
        return Ok(());
    }
    let inputs = graph.inputs.iter().filter_map(|id| graph.value(*id)).map(|value| value.name.as_str());
    let outputs = graph.outputs.iter().map(|output| output.name.as_str());
    let listed = |names: Vec<&str>| if names.is_empty() { "nothing".to_string() } else { names.join(", ") };
    let (inputs, outputs) = (listed(inputs.collect()), listed(outputs.collect()));
    Err(Outcome::usage(&format!(
        "`{path}` takes no text: its inputs are {inputs}, its outputs {outputs}\n  \
         = allowed: an input {} with an output {}\n  \
         = instead: tilewright compile {path} --emit primitives, for what it computes",
        TOKENS.join(" or "),
        SHOWN.join(" or ")
    )))
}

/// The longest sequence that a graph takes.
pub(crate) fn positions(graph: &Graph) -> u64 {
    let tokens = TOKENS.iter().find_map(|name| graph.input(name)).and_then(|id| graph.value(id));
    let most = tokens.and_then(|tokens| tokens.ty.dims.last()).map(|dim| dim.range(&graph.axes).1);
    most.and_then(|most| u64::try_from(most).ok()).unwrap_or(u64::MAX)
}

/// Tokens that a graph has logits of; of an encoder that is not said.
pub(super) fn vocabulary(graph: &Graph) -> u64 {
    let logits = graph
        .output("logits")
        .and_then(|at| graph.outputs.get(at))
        .and_then(|output| graph.value(output.value));
    let most = logits.and_then(|logits| logits.ty.dims.last()).map(|dim| dim.range(&graph.axes).1);
    most.and_then(|most| u64::try_from(most).ok()).unwrap_or(u64::MAX)
}

pub(super) fn generate(args: &RunArgs, host: &mut dyn Host) -> Result<Outcome, Outcome> {
    model::with_weights(&args.model)?;
    let loaded = model::load(&args.model, args.dims.as_deref(), host)?;
    takes_text(&args.model, &loaded.graph)?;
    let tokenizer = model::tokenizer(&args.model, args.prompting.tokenizer.as_deref(), host)?;
    let graph = primitives(&loaded.graph)
        .map_err(|complaint| Outcome::refused(FAILED, &Sources::default(), &[*complaint], host.colour()))?;
    let failed = |error: EvalError| Outcome { code: FAILED, ..Outcome::usage(&error.to_string()) };
    let interpreter = Interpreter::new(graph, &loaded.store).map_err(failed)?;
    let prompt = super::prompt(&tokenizer, args.prompting.first())?;
    let positions = positions(interpreter.graph());
    super::check_room(&prompt, u64::MAX, positions)?;
    let words = vocabulary(interpreter.graph());
    super::vocabulary::check(&prompt, words)?;
    if let Some(output) = interpreter.graph().output("embedding") {
        return encode(&interpreter, output, prompt, args.prompting.json);
    }
    let mut session = Session::new(&interpreter).map_err(failed)?;
    let mut feed: Vec<i64> = prompt.iter().copied().map(i64::from).collect();
    let mut tokens: Vec<u32> = Vec::new();
    let ends = tokenizer.ends();
    while tokens.len() < args.prompting.max_tokens() as usize {
        // The model has no position for a token behind the last.
        if prompt.len().saturating_add(tokens.len()) as u64 > positions {
            break;
        }
        let logits = session.feed(&feed).map_err(failed)?;
        let overflow = || {
            let seen = prompt.len().saturating_add(tokens.len());
            let what = format!("the logits after {seen} tokens are no finite numbers: the weights overflow");
            Outcome { code: FAILED, ..Outcome::usage(&what) }
        };
        let next = best(logits.last().map_or(&[][..], Vec::as_slice)).ok_or_else(overflow)?;
        let token = u32::try_from(next).or_broken("a token is one of the vocabulary");
        if ends.contains(&token) {
            break;
        }
        tokens.push(token);
        feed = vec![next];
    }
    let all: Vec<u32> = prompt.iter().chain(&tokens).copied().collect();
    let text = tokenizer.decode(&all);
    let generated: Vec<u64> = tokens.iter().copied().map(u64::from).collect();
    let stderr = super::vocabulary::unwritten(&tokenizer, &generated, words);
    let stdout = match args.prompting.json {
        true => to_json(&GeneratedJson { prompt_tokens: prompt, tokens, text }),
        false => text + "\n",
    };
    Ok(Outcome { stderr, ..Outcome::good(stdout) })
}
