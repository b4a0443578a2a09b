//! `tilewright notation lower`: a legal einsum as a command program.

use std::path::Path;

use tilewright_tcp::lower::{Options, lower};
use tilewright_tcp::program::tensor::Data;
use tilewright_tcp::program::text::print;

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
    let verdict = tilewright_tcp::check(&setup, &problem);
    if !verdict.legal() {
        return Err(Outcome::refused(FAILED, &gathered.sources, &verdict.diagnostics, host.colour()));
    }
    let options = Options {
        machine: args.notation.target.chip.clone(),
        data: [data(&args.data0), data(&args.data1)],
        zero_points: zero_points(&args.zero_points)?,
    };
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

fn zero_points(text: &str) -> Result<[i64; 2], Outcome> {
    let parsed =
        text.split_once(',').and_then(|(a, b)| Some([a.trim().parse().ok()?, b.trim().parse().ok()?]));
    parsed.ok_or_else(|| Outcome {
        code: BAD_INPUT,
        ..Outcome::usage(&format!(
            "--zero-points {text}\n  = allowed: two integers\n  = instead: --zero-points 0,-3"
        ))
    })
}
