//! `tilewright notation lower`: a legal einsum as a command program.

use std::path::Path;

use tilewright_num::Dtype;
use tilewright_tcp_isa::program::tensor::Data;
use tilewright_tcp_isa::program::text::print;
use tilewright_tcp_lower::{Options, lower};

use super::check::resolve;
use super::gather;
use crate::args::LowerArgs;
use crate::host::Host;
use crate::outcome::{BAD_INPUT, FAILED, Outcome, rendered};

pub(super) fn run(args: &LowerArgs, host: &mut dyn Host) -> Result<Outcome, Outcome> {
    let mut gathered = gather::read(&args.notation, host)?;
    let (_, tcp) = gather::target(&mut gathered.sources, &args.notation.target, host)?;
    let setup = gather::setup(&gathered, &tcp, args.notation.target.pes)?;
    let problem = resolve(&gathered, false, host)?;
    let verdict = tilewright_tcp_cost::check(&setup, &problem);
    if !verdict.legal() {
        return Err(Outcome::refused(FAILED, &gathered.sources, &verdict.diagnostics, host.colour()));
    }
    let options = Options {
        machine: args.notation.target.chip.clone(),
        data: [data(&args.data0), data(&args.data1)],
        zero_points: zero_points(&args.zero_points, setup.dtype)?,
        from_hbm: crate::memories::from_hbm(&args.from)?,
    };
    for data in &options.data {
        is_there(data, host)?;
    }
    let program = lower(&setup, &problem, &verdict, &options)
        .map_err(|refused| Outcome::refused(FAILED, &gathered.sources, &[*refused], host.colour()))?;
    let text = print(&program);
    let stderr = rendered(&gathered.sources, &verdict.diagnostics, host.colour());
    match &args.output {
        None => Ok(Outcome { stderr, ..Outcome::good(text) }),
        Some(path) => match host.write(Path::new(path), text.as_bytes()) {
            Ok(()) => Ok(Outcome { stderr, ..Outcome::good(format!("wrote {path}\n")) }),
            Err(error) => Err(Outcome::usage(&format!("cannot write `{path}`: {error}"))),
        },
    }
}

/// A seed, zeros, or a file.
fn data(text: &str) -> Data {
    match text.parse() {
        Ok(seed) => Data::Random(seed),
        Err(_) if text == "zeros" => Data::Zeros,
        Err(_) => Data::File(text.to_string()),
    }
}

/// A file that is named must be there; what is in it is read when the program runs.
fn is_there(data: &Data, host: &dyn Host) -> Result<(), Outcome> {
    let Data::File(written) = data else { return Ok(()) };
    let path = match written.rsplit_once(".safetensors:") {
        Some((stem, _)) => format!("{stem}.safetensors"),
        None => written.clone(),
    };
    let read = host.read(Path::new(&path));
    read.map(|_| ()).map_err(|error| {
        Outcome::usage(&format!(
            "cannot read `{path}`: {error}\n  = allowed: a seed, `zeros`, FILE.npy, FILE.safetensors:NAME\n  = instead: --data0 1"
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
