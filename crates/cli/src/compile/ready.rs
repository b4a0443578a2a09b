//! `tilewright run` of a file that `tilewright compile` wrote: what `exec` does. What the file decides cannot
//! be asked for once more.

use tilewright_tcp_isa::program::binary::is_binary;

use super::args::ExecArgs;
use crate::host::{Host, map_bytes};
use crate::outcome::Outcome;
use crate::run::args::RunArgs;
use crate::target::ModelTarget;

/// Endings of models that are still to be compiled.
const MODELS: [&str; 4] = [".bin", ".gguf", ".onnx", ".graph"];

/// Runs a compiled model, if that is what was named.
pub(crate) fn executed(args: &RunArgs, host: &mut dyn Host) -> Option<Outcome> {
    let path = args.model.as_str();
    if path == "-" || MODELS.iter().any(|ending| path.ends_with(ending)) {
        return None;
    }
    let file = map_bytes(host, path).ok()?;
    if !is_binary(&file) {
        return None;
    }
    if let Some(option) = decided(args) {
        return Some(Outcome::usage(&format!(
            "--{option} with `{path}`, which is compiled\n  = allowed: --prompt, --max-tokens, --tokenizer, \
             --input, --seed, --output, --trace, --json\n  \
             = instead: leave it out, or run the model"
        )));
    }
    let (file, prompting, tensors) = (path.to_string(), args.prompting.clone(), args.tensors.clone());
    let dims = args.dims.clone();
    Some(super::exec(&ExecArgs { file, prompting, tensors, dims }, host))
}

/// An option that was given and that a file decides.
fn decided(args: &RunArgs) -> Option<&'static str> {
    let (target, rule) = (&args.target, ModelTarget::default());
    let given = [
        ("chip", target.chip != rule.chip),
        ("set", target.set != rule.set),
        ("dtype", target.dtype != rule.dtype),
        ("cache", target.cache != rule.cache),
        ("calibrate", target.calibrate.is_some()),
        ("pes", target.pes != rule.pes),
        ("chips", target.chips != rule.chips),
        ("context", target.context.is_some()),
        ("solver", target.solver != rule.solver),
        ("without", target.without != rule.without),
        ("effort", args.effort != 0),
        ("interp", args.interp),
        ("html", args.html.is_some()),
    ];
    given.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
}
