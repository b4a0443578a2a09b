//! `tilewright compile -o` and `tilewright exec`: compiled models from and to files (`tilewright_artifact`).

use std::sync::Arc;

use tilewright_artifact::{
    ArtifactError, CompiledFile, Contents, PackError, Plan, pack_hbm, tokenizer_section, write,
};
use tilewright_compile::{Compiled, Options, compile_chosen, weights};
use tilewright_import::Model;
use tilewright_import::tokenizer::Tokenizer;
use tilewright_num::Dtype;
use tilewright_tcp_exec::state::SharedBytes;

use super::args::{CompileArgs, ExecArgs};
use super::{graph_file, language_file};
use crate::host::{Host, map_bytes, refuse_overwrite};
use crate::mapped::Mapped;
use crate::model;
use crate::outcome::{FAILED, Outcome};
use crate::run::{RunTarget, WeightSource, refused};
use crate::target::{ModelTarget, here};

/// The bytes of the file.
pub(super) fn bytes(
    args: &CompileArgs,
    loaded: &Model,
    compiled: &Compiled,
    host: &mut dyn Host,
) -> Result<Vec<u8>, Outcome> {
    let constant = |name: &str| weights::constant(&loaded.graph, &loaded.store, name);
    let hbm = pack_hbm(compiled, &constant).map_err(|error| match error {
        PackError::Compile(error) => refused(&error),
        error @ PackError::Memory { .. } => Outcome::usage(&error.to_string()),
    })?;
    let tokenizer = tokenizer_file(args, host)?;
    let tokenizer = tokenizer.as_ref().map(|(section, bytes)| (*section, bytes.as_slice()));
    let ends = model::ends(&args.model, host)?;
    let plan = Plan::of(compiled, &args.target.chip, &args.target.set, ends);
    Ok(write(&Contents { compiled, plan: &plan, graph: &loaded.graph, hbm: &hbm, tokenizer }))
}

/// A section's name and the file that goes there.
pub(super) type NamedSection = (&'static str, Arc<Vec<u8>>);

/// The tokenizer's file, if it is one of its own: one that is named must be there, one beside the model may.
pub(super) fn tokenizer_file(args: &CompileArgs, host: &dyn Host) -> Result<Option<NamedSection>, Outcome> {
    let Some(path) = model::tokenizer_path(&args.model, args.tokenizer.as_deref(), host) else {
        return Ok(None);
    };
    let Some(section) = tokenizer_section(&path) else { return Ok(None) };
    let bytes = model::read(&path, host)?;
    model::read_tokenizer(&path, &bytes)?;
    Ok(Some((section, bytes)))
}

/// Runs a file.
pub(super) fn exec(args: &ExecArgs, host: &mut dyn Host) -> Result<Outcome, Outcome> {
    args.prompting.check(false)?;
    let path = &args.file;
    let file = Arc::new(map_bytes(host, path).map_err(|why| Outcome::usage(&why))?);
    let artifact = match CompiledFile::read(&file).map_err(|error| unreadable(path, &error))? {
        CompiledFile::Model(artifact) => *artifact,
        CompiledFile::Language(artifact) => return language_file::exec(args, &artifact, &file, host),
        CompiledFile::Graph(artifact) => return graph_file::exec(args, &artifact, &file, host),
    };
    takes_text(args)?;
    let target = target(&artifact.plan);
    let machine = target.machine(host)?;
    let kernels = artifact.kernels().map_err(|error| refused(&error))?;
    let options = Options { batch: artifact.plan.batch, ..target.options(&machine, 1)? };
    // Weights are read where the file is mapped: whoever runs them holds it.
    let shared_bytes = |hbm: &&[u8]| SharedBytes::new(Arc::<Mapped>::clone(&file), file.range(hbm)?);
    let hbm: Option<Vec<SharedBytes>> = artifact.hbm.iter().map(shared_bytes).collect();
    let hbm = hbm.ok_or_else(|| unreadable(path, &ArtifactError::Missing("weights")))?;
    let choices = &artifact.plan.choices;
    if choices.window > 0 {
        here(choices.solver, host)?;
    }
    let compiled = compile_chosen(&machine, &kernels, options, choices).map_err(|error| refused(&error))?;
    artifact.check_programs(&compiled).map_err(|error| unreadable(path, &error))?;
    let tokenizer = tokenizer(args, artifact.tokenizer, artifact.plan.ends.clone(), host)?;
    refuse_overwrite(host, args.prompting.trace.as_deref())?;
    let on = RunTarget {
        machine: &machine,
        target: &target,
        tokenizer: &tokenizer,
        prompting: &args.prompting,
        page: None,
    };
    on.job()?.run(compiled, &WeightSource::Packed(&hbm), host)
}

/// Refuses what only arrays have.
pub(super) fn takes_text(args: &ExecArgs) -> Result<(), Outcome> {
    let tensors = &args.tensors;
    let given = [
        ("--input", !tensors.inputs.is_empty()),
        ("--seed", tensors.seed.is_some()),
        ("--output", tensors.output.is_some()),
        ("--dims", args.dims.is_some()),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((option, _)) => Err(Outcome::usage(&format!(
            "{option} with `{}`, a model that takes text\n  \
             = allowed: --prompt, --max-tokens, --tokenizer, --trace, --json\n  = instead: --prompt TEXT",
            args.file
        ))),
    }
}

/// What is said of a file that does not run.
pub(super) fn unreadable(path: &str, error: &ArtifactError) -> Outcome {
    match error {
        ArtifactError::Container(error) => Outcome::usage(&format!("`{path}`: {error}")),
        ArtifactError::Missing(_)
        | ArtifactError::Plan(_)
        | ArtifactError::Port(_)
        | ArtifactError::Role(_)
        | ArtifactError::Constants => Outcome::usage(&format!(
            "`{path}` is no compiled model or graph: {error}\n  = instead: tilewright compile MODEL -o FILE"
        )),
        ArtifactError::Program { .. } => {
            Outcome { code: FAILED, ..Outcome::usage(&format!("`{path}`: {error}")) }
        }
    }
}

/// What the model of a file was compiled for.
fn target(plan: &Plan) -> ModelTarget {
    let cache = if plan.cache == Dtype::I8 { "int8" } else { "bf16" };
    ModelTarget {
        chip: plan.chip.clone(),
        set: plan.set.clone(),
        dtype: plan.dtype.clone(),
        cache: cache.to_string(),
        pes: plan.pes,
        chips: plan.chips,
        context: plan.context,
        ..ModelTarget::default()
    }
}

/// The tokenizer that is named, or else that of a file, with the tokens that end a text.
pub(super) fn tokenizer(
    args: &ExecArgs,
    section: Option<(&'static str, &[u8])>,
    ends: Option<Vec<u32>>,
    host: &dyn Host,
) -> Result<Tokenizer, Outcome> {
    let tokenizer = match (&args.prompting.tokenizer, section) {
        (Some(path), _) => model::tokenizer(path, Some(path), host)?,
        (None, Some((name, bytes))) => model::read_tokenizer(name, &Arc::new(bytes.to_vec()))?,
        (None, None) => {
            return Err(Outcome::usage(&format!(
                "`{}` holds no tokenizer\n  = instead: --tokenizer FILE, which may be the model's .gguf",
                args.file
            )));
        }
    };
    Ok(match ends {
        Some(ends) => tokenizer.with_ends(ends),
        None => tokenizer,
    })
}
