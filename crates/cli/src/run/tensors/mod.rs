//! `tilewright run` of a graph with arrays: any ONNX graph whose inputs are given, or drawn from a seed.

mod chip;
mod findings;
mod inputs;
mod outputs;

use tilewright_base::Sources;
use tilewright_graph::primitives;
use tilewright_import::Model;
use tilewright_reference::{EvalError, Interpreter, Tensor};

use crate::host::Host;
use crate::outcome::{FAILED, Outcome};
use crate::run::args::RunArgs;
use findings::OutsideIndices;
use inputs::RequiredInputs;

pub(crate) use chip::GraphJob;
pub(crate) use inputs::{GivenSizes, InputArrays};

/// Whether arrays are meant rather than text.
pub(super) fn asked(args: &RunArgs) -> bool {
    let tensors = &args.tensors;
    let named = !tensors.inputs.is_empty() || tensors.seed.is_some() || tensors.output.is_some();
    let graph = args.model.ends_with(".onnx") || args.model.ends_with(".graph");
    named || (graph && args.prompting.first().is_empty())
}

pub(super) fn run(args: &RunArgs, host: &mut dyn Host) -> Result<Outcome, Outcome> {
    if args.prompting.prompts.iter().any(|prompt| !prompt.is_empty()) || args.prompting.prompts.len() > 1 {
        return Err(Outcome::usage(
            "--prompt with --input, --seed or --output\n  = allowed: a text, or arrays\n  = instead: leave \
             one of them out",
        ));
    }
    args.prompting.check_arrays(&args.model)?;
    let asked = RequiredInputs::of(args, host)?;
    let sizes = asked.sizes(args.dims.as_deref())?;
    let given = InputArrays::new(&args.tensors, sizes, asked.inputs(), host)?;
    let model = asked.model(args, &given, host)?;
    let names = model.graph.outputs.iter().map(|output| output.name.as_str());
    outputs::check_files((&args.tensors, &args.prompting, args.html.as_deref()), names, host)?;
    let outcome = if args.interp {
        let outside = OutsideIndices::of(&model, &given)?;
        let results = interpreted(&model, &given, host)?;
        outputs::written(&args.tensors, &results, host)?;
        let said = outputs::said(&args.tensors, args.prompting.json, &results);
        outside.reported(Outcome::good(said), host.colour())
    } else {
        chip::run(args, &model, &given, host)?
    };
    Ok(Outcome { stderr: given.notes + &outcome.stderr, ..outcome })
}

/// Outputs of the plain float32 interpreter.
fn interpreted(
    model: &Model,
    given: &InputArrays,
    host: &dyn Host,
) -> Result<Vec<(String, Tensor)>, Outcome> {
    let failed = |error: EvalError| Outcome { code: FAILED, ..Outcome::usage(&error.to_string()) };
    let graph = primitives(&model.graph)
        .map_err(|complaint| Outcome::refused(FAILED, &Sources::default(), &[*complaint], host.colour()))?;
    let interpreter = Interpreter::new(graph, &model.store).map_err(failed)?;
    let inputs = given.of(interpreter.graph())?;
    let results = interpreter.run(&inputs).map_err(failed)?;
    let names = interpreter.graph().outputs.iter().map(|output| output.name.clone());
    Ok(names.zip(results).collect())
}
