//! `tilewright notation lower`: a legal einsum as a command program.

use std::path::Path;

use tilewright_base::{Diagnostic, Sources};
use tilewright_machine::Tcp;
use tilewright_num::Dtype;
use tilewright_tcp_isa::program::Program;
use tilewright_tcp_isa::program::tensor::TensorData;
use tilewright_tcp_isa::program::text::print;
use tilewright_tcp_lower::{LowerOptions, lower};
use tilewright_workbench::notation::verdict::refusal;

use super::check::resolve;
use super::gather;
use crate::args::{InputArgs, LowerArgs, NotationArgs};
use crate::host::Host;
use crate::machine::to_json;
use crate::outcome::{BAD_INPUT, FAILED, Outcome, rendered};

pub(super) fn run(args: &LowerArgs, host: &mut dyn Host) -> Result<Outcome, Outcome> {
    let LoweredEinsum { program, stderr, .. } = lowered(&args.notation, &args.inputs, false, host)?;
    let text = print(&program);
    match &args.output {
        None => Ok(Outcome { stderr, ..Outcome::good(text) }),
        Some(path) => match host.write(Path::new(path), text.as_bytes()) {
            Ok(()) => Ok(Outcome { stderr, ..Outcome::good(format!("wrote {path}\n")) }),
            Err(error) => Err(Outcome::unwritten(path, &error)),
        },
    }
}

/// A legal einsum as a program of a machine.
pub(super) struct LoweredEinsum {
    pub(super) program: Program,
    pub(super) machine: Tcp,
    /// Texts that the einsum came from.
    pub(super) sources: Sources,
    /// What the check said of it, none of it an error.
    pub(super) stderr: String,
}

/// Checks an einsum, once, and lowers it. What is refused is told as data too if that is wanted.
pub(super) fn lowered(
    notation: &NotationArgs,
    inputs: &InputArgs,
    as_json: bool,
    host: &mut dyn Host,
) -> Result<LoweredEinsum, Outcome> {
    let mut gathered = gather::read(notation, host)?;
    let (_, machine) = gather::target(&mut gathered.sources, &notation.target, host)?;
    let setup = gather::setup(&gathered, &machine, notation.target.pes)?;
    let problem = resolve(&gathered, as_json, host)?;
    let verdict = tilewright_tcp_cost::check(&setup, &problem);
    let refused = |complaints: &[Diagnostic], host: &dyn Host| {
        let stdout = if as_json { to_json(&refusal(&gathered.sources, complaints)) } else { String::new() };
        Outcome { stdout, ..Outcome::refused(FAILED, &gathered.sources, complaints, host.colour()) }
    };
    if !verdict.legal() {
        return Err(refused(&verdict.diagnostics, host));
    }
    let options = LowerOptions {
        machine: notation.target.chip.clone(),
        data: [data(&inputs.data0), data(&inputs.data1)],
        zero_points: zero_points(&inputs.zero_points, setup.dtype)?,
        from_hbm: crate::memories::from_hbm(&inputs.from)?,
    };
    for data in &options.data {
        is_there(data, host)?;
    }
    let program =
        lower(&setup, &problem, &verdict, &options).map_err(|complaint| refused(&[*complaint], host))?;
    let stderr = rendered(&gathered.sources, &verdict.diagnostics, host.colour());
    Ok(LoweredEinsum { program, machine, sources: gathered.sources, stderr })
}

/// A seed, zeros, or a file.
fn data(text: &str) -> TensorData {
    match text.parse() {
        Ok(seed) => TensorData::Random(seed),
        Err(_) if text == "zeros" => TensorData::Zeros,
        Err(_) => TensorData::File(text.to_string()),
    }
}

/// A file that is named must be there; what is in it is read when the program runs.
fn is_there(data: &TensorData, host: &dyn Host) -> Result<(), Outcome> {
    let TensorData::File(written) = data else { return Ok(()) };
    let path = match written.rsplit_once(".safetensors:") {
        Some((stem, _)) => format!("{stem}.safetensors"),
        None => written.clone(),
    };
    let read = host.read(Path::new(&path));
    read.map(|_| ()).map_err(|error| {
        Outcome::usage(&format!(
            "cannot read `{path}`: {error}\n  = allowed: a seed, `zeros`, FILE.npy, FILE.safetensors:NAME\n  \
             = instead: --data0 1"
        ))
    })
}

fn zero_points(text: &str, dtype: Dtype) -> Result<[i64; 2], Outcome> {
    let parsed =
        text.split_once(',').and_then(|(a, b)| Some([a.trim().parse().ok()?, b.trim().parse().ok()?]));
    let points = parsed.ok_or_else(|| Outcome {
        code: BAD_INPUT,
        ..Outcome::usage(&format!(
            "--zero-points {text}\n  = allowed: two integers\n  = instead: --zero-points 0,-3"
        ))
    })?;
    if points != [0, 0] && !matches!(dtype, Dtype::I5 | Dtype::I9) {
        return Err(Outcome::usage(&format!(
            "--zero-points {text} with {dtype}: the fetch unit subtracts them on the way to a wider type\n  \
             = allowed: --dtype i9 (from i8), --dtype i5 (from i4)\n  = instead: --dtype i9"
        )));
    }
    Ok(points)
}
