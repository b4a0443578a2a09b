//! A compiled model as a file: its programs, its packed weights, and what whoever runs it must know.
//!
//! Sections of the container (`tilewright_ir::binary`): programs `tcp/decode`, `tcp/prefill` and `tcp/clear`, and `tcp/batch` if it is for several
//! sequences; the array `hbm`, the bytes of HBM from address 0 to the last weight, which all programs share; the texts `plan` ([`plan`]) and `graph`
//! (the model without weights), from which sizes and places follow; the array `tokenizer.json` or `tokenizer.bin`, if there is one.

use std::path::Path;
use std::sync::Arc;

use tilewright_base::SourceId;
use tilewright_compile::cluster::cluster;
use tilewright_compile::kernel::Kernels;
use tilewright_compile::{Compiled, Options, compile_chosen, weights};
use tilewright_import::Model;
use tilewright_import::tokenizer::Tokenizer;
use tilewright_tcp_exec::state::Lent;
use tilewright_tcp_isa::program::binary::{Bundle, pack_bundle, unpack_bundle};
use tilewright_tcp_isa::program::text as commands;

use super::args::{CompileArgs, ExecArgs};
use super::plan::{self, Planned};
use super::programs;
use crate::host::{Host, map_bytes};
use crate::mapped::Mapped;
use crate::model;
use crate::outcome::{FAILED, Outcome};
use crate::run::{Target, Weights, refused};
use crate::target::here;

const HBM: &str = "hbm";
const PLAN: &str = "plan";
const GRAPH: &str = "graph";
const TOKENIZERS: [&str; 2] = ["tokenizer.json", "tokenizer.bin"];

/// The bytes of the file.
pub(super) fn bytes(
    args: &CompileArgs,
    loaded: &Model,
    compiled: &Compiled,
    host: &mut dyn Host,
) -> Result<Vec<u8>, Outcome> {
    let chips = packed(loaded, compiled)?;
    let tokenizer = tokenizer_file(args, host)?;
    let programs: Vec<_> = programs(compiled).map(|(name, program)| (name.name(), program)).collect();
    let names: Vec<String> = (0..).take(chips.len()).map(hbm_of).collect();
    let mut arrays: Vec<(&str, &[u8])> =
        names.iter().map(String::as_str).zip(chips.iter().map(Vec::as_slice)).collect();
    arrays.extend(tokenizer.iter().map(|(name, bytes)| (*name, bytes.as_slice())));
    let ends = model::ends(&args.model, host)?;
    let plan = plan::print(&args.target, compiled, ends.as_deref());
    let graph = tilewright_graph::text::print(&loaded.graph);
    Ok(pack_bundle(&programs, &arrays, &[(PLAN, &plan), (GRAPH, &graph)]))
}

/// What the section with the HBM of a chip is called.
fn hbm_of(chip: usize) -> String {
    if chip == 0 { HBM.to_string() } else { format!("{HBM}{chip}") }
}

/// HBM of each chip from its first byte to the last that is packed.
fn packed(loaded: &Model, compiled: &Compiled) -> Result<Vec<Vec<u8>>, Outcome> {
    let constant = |name: &str| weights::constant(&loaded.graph, &loaded.store, name);
    let most = usize::try_from(compiled.plan.end).unwrap_or(usize::MAX);
    let chips = usize::try_from(compiled.plan.options.chips).unwrap_or(1);
    let mut all: Vec<Vec<u8>> = vec![Vec::new(); chips];
    let mut short = false;
    compiled
        .pack(&constant, &mut |chip, at, bytes| {
            let Some(hbm) = usize::try_from(chip).ok().and_then(|chip| all.get_mut(chip)) else { return };
            let start = usize::try_from(at).unwrap_or(usize::MAX);
            let end = start.saturating_add(bytes.len());
            let more = end.saturating_sub(hbm.len());
            if end > most || hbm.try_reserve(more).is_err() {
                short = true;
                return;
            }
            hbm.resize(hbm.len() + more, 0);
            if let Some(place) = hbm.get_mut(start..end) {
                place.copy_from_slice(bytes);
            }
        })
        .map_err(|error| refused(&error))?;
    if short {
        return Err(Outcome::usage(&format!(
            "the packed weights need up to {most} B of this machine's memory for each chip"
        )));
    }
    Ok(all)
}

/// A section's name and the file that goes there.
type Named = (&'static str, Arc<Vec<u8>>);

/// The tokenizer's file, if it is one of its own: one that is named must be there, one beside the model may.
fn tokenizer_file(args: &CompileArgs, host: &dyn Host) -> Result<Option<Named>, Outcome> {
    let Some(path) = model::tokenizer_path(&args.model, args.tokenizer.as_deref(), host) else {
        return Ok(None);
    };
    let ending = |name: &&&str| path.rsplit('.').next() == name.rsplit('.').next();
    let Some(name) = TOKENIZERS.iter().find(ending) else { return Ok(None) };
    let bytes = host.read(Path::new(&path));
    let bytes = Arc::new(bytes.map_err(|error| Outcome::usage(&format!("cannot read `{path}`: {error}")))?);
    model::read_tokenizer(&path, &bytes)?;
    Ok(Some((*name, bytes)))
}

/// Runs a file.
pub(super) fn exec(args: &ExecArgs, host: &mut dyn Host) -> Result<Outcome, Outcome> {
    let path = &args.file;
    let file = Arc::new(map_bytes(host, path).map_err(|why| Outcome::usage(&why))?);
    let bundle = unpack_bundle(&file).map_err(|error| Outcome::usage(&format!("`{path}`: {error}")))?;
    let missing = |what: &str| {
        Outcome::usage(&format!(
            "`{path}` is no compiled model: it has no {what}\n  = instead: tilewright compile MODEL -o FILE"
        ))
    };
    let Planned { target, batch, ends, choices, peaks, ranges } =
        bundle.text(PLAN).and_then(plan::read).ok_or_else(|| missing("plan"))?;
    let graph = bundle.text(GRAPH).ok_or_else(|| missing("graph"))?;
    let graph = tilewright_graph::text::read(graph, SourceId(0)).map_err(|_| missing("graph that reads"))?;
    let machine = target.machine(host)?;
    let kernels = Kernels { peaks, ranges, ..cluster(&graph).map_err(|error| refused(&error))? };
    let options = Options { batch, ..target.options(&machine, 1)? };
    let chips = usize::try_from(options.chips).unwrap_or(1);
    // Weights are read where the file is mapped: whoever runs them holds it.
    let lent = |chip| Lent::new(Arc::<Mapped>::clone(&file), file.range(bundle.array(&hbm_of(chip))?)?);
    let hbm: Option<Vec<Lent>> = (0..chips).map(lent).collect();
    let hbm = hbm.ok_or_else(|| missing("weights"))?;
    if choices.window > 0 {
        here(choices.solver, host)?;
    }
    let compiled = compile_chosen(&machine, &kernels, options, &choices).map_err(|error| refused(&error))?;
    same_programs(path, &bundle, &compiled)?;
    let tokenizer = tokenizer(args, &bundle, host)?;
    let tokenizer = match ends {
        Some(ends) => tokenizer.with_ends(ends),
        None => tokenizer,
    };
    let on = Target {
        machine: &machine,
        target: &target,
        tokenizer: &tokenizer,
        prompting: &args.prompting,
        with: &args.with,
    };
    on.job()?.run(compiled, &Weights::Packed(&hbm), host)
}

/// The plan is that of the programs only if they are those which follow from it.
fn same_programs(path: &str, bundle: &Bundle<'_>, compiled: &Compiled) -> Result<(), Outcome> {
    for (name, program) in programs(compiled) {
        let written = bundle.program(name.name());
        let read = written.and_then(|text| commands::read(text, SourceId(0)).ok());
        let wanted = commands::print(program);
        if read.is_none_or(|read| commands::print(&read) != wanted) {
            return Err(Outcome {
                code: FAILED,
                ..Outcome::usage(&format!(
                    "`{path}`: its program `{}` is not the one that its plan leads to: another release wrote it\n  \
                     = instead: compile the model again",
                    name.name()
                ))
            });
        }
    }
    Ok(())
}

fn tokenizer(args: &ExecArgs, bundle: &Bundle<'_>, host: &dyn Host) -> Result<Tokenizer, Outcome> {
    if let Some(path) = &args.prompting.tokenizer {
        return model::tokenizer(path, Some(path), host);
    }
    let found = TOKENIZERS.iter().find_map(|name| Some((name, bundle.array(name)?)));
    let Some((name, bytes)) = found else {
        return Err(Outcome::usage(&format!(
            "`{}` holds no tokenizer\n  = instead: --tokenizer FILE, which may be the model's .gguf",
            args.file
        )));
    };
    model::read_tokenizer(name, &Arc::new(bytes.to_vec()))
}
