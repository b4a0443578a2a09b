//! `tilewright compile`: a model through the stages of the compiler, as far as they exist.

use tilewright_base::Sources;
use tilewright_graph::{primitives, text};

use crate::args::{CompileArgs, Stage};
use crate::host::Host;
use crate::model;
use crate::outcome::{FAILED, Outcome};

pub(crate) fn run(args: &CompileArgs, host: &mut dyn Host) -> Outcome {
    compile(args, host).unwrap_or_else(|outcome| outcome)
}

fn compile(args: &CompileArgs, host: &mut dyn Host) -> Result<Outcome, Outcome> {
    let Some(stage) = args.emit else {
        let asked = if args.output.is_some() { "-o writes a program, which" } else { "a program" };
        return Err(Outcome::usage(&format!(
            "{asked} needs stages 2 to 5, which do not exist yet\n  = allowed: --emit graph, --emit primitives"
        )));
    };
    let loaded = model::load(&args.model, args.dims.as_deref(), host)?;
    let graph = match stage {
        Stage::Graph => loaded.graph,
        Stage::Primitives => primitives(&loaded.graph).map_err(|complaint| {
            Outcome::refused(FAILED, &Sources::default(), &[*complaint], host.colour())
        })?,
    };
    let printed = text::print(&graph);
    match &args.output {
        None => Ok(Outcome::good(printed)),
        Some(path) => match host.write(std::path::Path::new(path), printed.as_bytes()) {
            Ok(()) => Ok(Outcome::good(String::new())),
            Err(error) => Err(Outcome::usage(&format!("cannot write `{path}`: {error}"))),
        },
    }
}
