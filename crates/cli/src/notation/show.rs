//! `tilewright notation show`: pictures for the terminal and as SVG.

use std::path::Path;

use tilewright_base::Sources;
use tilewright_notation::algebra::RadixMap;
use tilewright_notation::algebra::map::{OFFSET, SLICE};
use tilewright_notation::problem::Problem;
use tilewright_notation::syntax::ast::{Operand, Program};
use tilewright_notation::syntax::parser;
use tilewright_report::columns::thousands;
use tilewright_workbench::notation::draw;

use super::{check, gather};
use crate::args::ShowArgs;
use crate::host::{Host, refuse_other_pictures};
use crate::outcome::{BAD_INPUT, FAILED, Outcome};

pub(super) fn run(args: &ShowArgs, host: &mut dyn Host) -> Result<Outcome, Outcome> {
    refuse_other_pictures(args.output.as_deref())?;
    let mut gathered = gather::read(&args.notation, host)?;
    let (loaded, tcp) = gather::target(&mut gathered.sources, &args.notation.target, host)?;
    let setup = gather::setup(&gathered, &tcp, args.notation.target.pes)?;
    let problem = check::resolve(&gathered, false, host)?;
    let drawing =
        draw(&gathered, &setup, &problem).map_err(|refusal| match refusal.diagnostics.as_slice() {
            [one] if one.code == "notation/places" => too_large(),
            complaints => Outcome::refused(FAILED, &refusal.sources, complaints, host.colour()),
        })?;
    let mut stdout = drawing.text;
    if stdout.is_empty() {
        return Err(Outcome::usage(
            "nothing to draw\n  = allowed: --in0, --in1, --out, --tactic\n  = instead: --in0 'e^{E/4}[4] | \
             b[B] e[E/4]'",
        ));
    }
    if let Some(at) = &args.at {
        stdout.push_str(&element(&problem, &gathered.program, at, host)?);
    }
    if let Some(path) = &args.output {
        host.write(Path::new(path), drawing.svg.as_bytes())
            .map_err(|error| Outcome::unwritten(path, &error))?;
        stdout.push_str(&format!("picture: {path}\n"));
    }
    let stderr = if drawing.legal {
        String::new()
    } else {
        format!("note: drawn, but not legal on {}: `notation check` says why\n", loaded.name)
    };
    Ok(Outcome { stderr, ..Outcome::good(stdout) })
}

fn too_large() -> Outcome {
    Outcome::usage(
        "a shape has more than 2^32 places\n  = allowed: 2^32 slices and 2^32 elements on a slice\n  = \
         instead: smaller sizes",
    )
}

/// Where one element lives in each shape.
fn element(problem: &Problem, program: &Program, at: &str, host: &dyn Host) -> Result<String, Outcome> {
    let mut sources = Sources::default();
    let id = sources.add("--at", at);
    let refuse = |diagnostics: &[tilewright_base::Diagnostic]| {
        Outcome::refused(BAD_INPUT, &sources, diagnostics, host.colour())
    };
    let wanted = parser::dims(at, id).map_err(|complaint| refuse(&[*complaint]))?;
    for (index, dim) in wanted.iter().enumerate() {
        let known = problem.find(dim.name).is_some();
        let twice = wanted[..index].iter().any(|before| before.name.same_letters(&dim.name));
        if !known || twice || dim.dynamic || dim.most.value(&|_| None).is_err() {
            let what = format!("`{dim}` is no coordinate of this tensor");
            let complaint = tilewright_base::Diagnostic::error("notation/coordinate", what)
                .at(dim.span, "")
                .allowed("each axis at most once, with one number; axes left out are 0")
                .instead(format!(
                    "{}=0",
                    problem.axes.first().map_or("e".to_string(), |axis| axis.name.to_string())
                ));
            return Err(refuse(&[complaint]));
        }
    }
    let mut text = String::new();
    for operand in Operand::ALL {
        let (Some(shape), Some(_)) = (problem.shape(operand), program.shape(operand)) else { continue };
        let mut position = Vec::new();
        for id in problem.tensor(operand) {
            let axis = problem.axis(*id);
            let given = wanted.iter().find(|dim| problem.find(dim.name) == Some(*id));
            let value = given.and_then(|dim| dim.most.value(&|_| None).ok()).unwrap_or(0);
            let extent = axis.extent_in[operand as usize];
            if value >= extent {
                return Err(Outcome::usage(&format!(
                    "--at {}={value} is outside {}\n  = allowed: {1}=0..{2}\n  = instead: {1}={2}",
                    axis.name,
                    axis.name,
                    extent - 1
                )));
            }
            position.push(value);
        }
        let map = RadixMap::of_shape(problem, shape).map_err(|_| too_large())?;
        let place = map.apply(&position);
        text.push_str(&format!(
            "{}: {at} is on slice {} at offset {}\n",
            operand.name(),
            place[usize::from(SLICE)],
            thousands(place[usize::from(OFFSET)])
        ));
    }
    Ok(text)
}
