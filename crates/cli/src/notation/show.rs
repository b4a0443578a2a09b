//! `tilewright notation show`: pictures for the terminal and as SVG.

use std::path::Path;

use tilewright_base::Sources;
use tilewright_notation::algebra::RadixMap;
use tilewright_notation::algebra::map::{OFFSET, SLICE};
use tilewright_notation::problem::Problem;
use tilewright_notation::radix;
use tilewright_notation::syntax::ast::{Operand, Program};
use tilewright_notation::syntax::parser;
use tilewright_report::columns::thousands;
use tilewright_report::shape::ShapeGrid;
use tilewright_report::svg::Svg;
use tilewright_report::tactic::{self, LoopRow, Role};
use tilewright_tcp_cost::{Placed, Setup};

use super::{check, gather};
use crate::args::ShowArgs;
use crate::host::Host;
use crate::outcome::{BAD_INPUT, FAILED, Outcome};

/// What there is to draw.
pub(crate) struct Pictures {
    grids: Vec<ShapeGrid>,
    tactic: Option<(String, Vec<LoopRow>)>,
}

pub(super) fn run(args: &ShowArgs, host: &mut dyn Host) -> Result<Outcome, Outcome> {
    let mut gathered = gather::read(&args.notation, host)?;
    let (loaded, tcp) = gather::target(&mut gathered.sources, &args.notation.target, host)?;
    let setup = gather::setup(&gathered, &tcp, args.notation.target.pes)?;
    let problem = check::resolve(&gathered, false, host)?;
    let complaints = radix::check(&problem);
    if !complaints.is_empty() {
        return Err(Outcome::refused(FAILED, &gathered.sources, &complaints, host.colour()));
    }
    let pictures = pictures(&gathered.program, &setup, &problem).ok_or_else(too_large)?;
    let mut stdout = pictures.text();
    if stdout.is_empty() {
        return Err(Outcome::usage(
            "nothing to draw\n  = allowed: --in0, --in1, --out, --tactic\n  = instead: --in0 'e^{E/4}[4] | b[B] e[E/4]'",
        ));
    }
    if let Some(at) = &args.at {
        stdout.push_str(&element(&problem, &gathered.program, at, host)?);
    }
    if let Some(path) = &args.output {
        let svg = pictures.svg();
        host.write(Path::new(path), svg.as_bytes())
            .map_err(|error| Outcome::usage(&format!("cannot write `{path}`: {error}")))?;
        stdout.push_str(&format!("picture: {path}\n"));
    }
    let verdict = tilewright_tcp_cost::check(&setup, &problem);
    let stderr = if verdict.legal() {
        String::new()
    } else {
        format!("note: drawn, but not legal on {}: `notation check` says why\n", loaded.name)
    };
    Ok(Outcome { stderr, ..Outcome::good(stdout) })
}

fn too_large() -> Outcome {
    Outcome::usage(
        "a shape has more than 2^32 places\n  = allowed: 2^32 slices and 2^32 elements on a slice\n  = instead: smaller sizes",
    )
}

/// Works out all pictures; `None` if a shape is too large to number its places.
pub(crate) fn pictures(program: &Program, setup: &Setup<'_>, problem: &Problem) -> Option<Pictures> {
    let mut grids = Vec::new();
    for operand in Operand::ALL {
        let (Some(shape), Some(written)) = (problem.shape(operand), program.shape(operand)) else { continue };
        let map = RadixMap::of_shape(problem, shape).ok()?;
        grids.push(ShapeGrid::new(problem, shape, &map, &written.to_string()));
    }
    let tactic = problem.tactic.as_ref().zip(program.tactic.as_ref()).map(|(loops, written)| {
        let rows = if problem.contracts_two() {
            placed_rows(problem, &Placed::new(setup, problem, loops))
        } else {
            let slices = loops.parallel.iter().map(|digit| LoopRow::new(problem, Role::Slices, digit));
            slices.chain(loops.slice.iter().map(|digit| LoopRow::new(problem, Role::Time, digit))).collect()
        };
        (written.to_string(), rows)
    });
    Some(Pictures { grids, tactic })
}

fn placed_rows(problem: &Problem, placed: &Placed) -> Vec<LoopRow> {
    let fetched = placed.time.len() - placed.repeat_terms;
    let row = |role| move |digit| LoopRow::new(problem, role, digit);
    let mut rows: Vec<LoopRow> = placed.parallel.iter().map(row(Role::Slices)).collect();
    rows.extend(placed.time[..fetched].iter().map(row(Role::Time)));
    rows.extend(placed.time[fetched..].iter().map(row(Role::Repeat)));
    rows.extend(placed.lanes.iter().map(row(Role::Lanes)));
    rows.extend(placed.packet.iter().map(row(Role::Packet)));
    rows
}

impl Pictures {
    pub(crate) fn text(&self) -> String {
        let mut parts: Vec<String> = self.grids.iter().map(ShapeGrid::text).collect();
        if let Some((written, rows)) = &self.tactic {
            parts.push(format!("tactic   {written}\n{}", tactic::text(rows)));
        }
        parts.join("\n")
    }

    fn svg(&self) -> String {
        let mut svg = Svg::default();
        self.draw(&mut svg);
        svg.finish()
    }

    /// Shapes below each other, the tactic below them.
    pub(crate) fn draw(&self, svg: &mut Svg) {
        let mut top = 8.0;
        for grid in &self.grids {
            grid.draw(svg, top);
            top = svg.bottom() + 20.0;
        }
        if let Some((written, rows)) = &self.tactic {
            tactic::draw(svg, top, "tactic", written, rows);
        }
    }
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
