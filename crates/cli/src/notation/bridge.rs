//! `tilewright notation bridge`: what must move between two lowered shapes of one tensor.

use serde_json::json;
use tilewright_base::{Diagnostic, Sources};
use tilewright_notation::algebra::bridge::{Bridge, Movement};
use tilewright_notation::algebra::map::{MapDigit, RadixMap, SLICE};
use tilewright_notation::problem::Problem;
use tilewright_notation::radix;
use tilewright_notation::syntax::ast::{Einsum, LoweredShape, Operand, Program};
use tilewright_notation::syntax::parser;
use tilewright_report::columns::{Align, counted, table, thousands};

use crate::args::BridgeArgs;
use crate::host::Host;
use crate::machine::to_json;
use crate::outcome::{BAD_INPUT, FAILED, Outcome};

pub(super) fn run(args: &BridgeArgs, host: &mut dyn Host) -> Result<Outcome, Outcome> {
    let mut sources = Sources::default();
    let add = |sources: &mut Sources, name: &str, text: &str| sources.add(name, text);
    let ids = [
        add(&mut sources, "tensor", &args.tensor),
        add(&mut sources, "--dims", args.dims.as_deref().unwrap_or("")),
        add(&mut sources, "--from", &args.from),
        add(&mut sources, "--to", &args.to),
    ];
    let refuse =
        |complaint: Box<Diagnostic>| Outcome::refused(BAD_INPUT, &sources, &[*complaint], host.colour());
    let einsum = parser::einsum(&args.tensor, ids[0]).map_err(refuse)?;
    let dims = match &args.dims {
        Some(text) => parser::dims(text, ids[1]).map_err(refuse)?,
        None => Vec::new(),
    };
    let program = |shape: LoweredShape, einsum: &Einsum| Program {
        einsum: einsum.clone(),
        dims: dims.clone(),
        in0: Some(shape),
        ..Program::default()
    };
    let from = program(parser::lowered_shape(&args.from, ids[2]).map_err(refuse)?, &einsum);
    let to = program(parser::lowered_shape(&args.to, ids[3]).map_err(refuse)?, &einsum);
    let (from_map, _) = map_of(&from, &sources, host)?;
    let (to_map, problem) = map_of(&to, &sources, host)?;
    let bridge = Bridge::between(&from_map, &to_map);
    let memory = |program: &Program| program.in0.as_ref().and_then(|shape| shape.place);
    let mut text = if args.json { as_json(&bridge) } else { describe(&bridge, &problem) };
    if let (false, Some(one), Some(other)) = (args.json, memory(&from), memory(&to))
        && one != other
    {
        text.push_str(&format!("  and from {} to {}\n", one.name(), other.name()));
    }
    Ok(Outcome::good(text))
}

fn map_of(program: &Program, sources: &Sources, host: &dyn Host) -> Result<(RadixMap, Problem), Outcome> {
    let refuse =
        |code, diagnostics: &[Diagnostic]| Outcome::refused(code, sources, diagnostics, host.colour());
    let problem = Problem::new(program).map_err(|complaints| refuse(BAD_INPUT, &complaints))?;
    let mut complaints = radix::check(&problem);
    for complaint in &mut complaints {
        // The shapes of a bridge are no operands of an einsum.
        complaint.message = complaint.message.replace(" in in0", "");
    }
    if !complaints.is_empty() {
        return Err(refuse(FAILED, &complaints));
    }
    let map = problem.shape(Operand::In0).and_then(|shape| RadixMap::of_shape(&problem, shape).ok());
    match map {
        Some(map) => Ok((map, problem)),
        None => Err(Outcome::usage(
            "a shape has more than 2^32 places\n  = allowed: 2^32\n  = instead: smaller sizes",
        )),
    }
}

fn words(movement: Movement) -> &'static str {
    match movement {
        Movement::Nothing => "nothing moves: both shapes place every element alike",
        Movement::ReorderRows => "rows move within each slice; the order of writing does it",
        Movement::Transpose => "elements move within each slice and no run stays together: a transpose",
        Movement::Exchange => "elements change slices",
        Movement::Rebuild => "the shapes cut an axis incompatibly: element by element through DMA",
    }
}

fn describe(bridge: &Bridge, problem: &Problem) -> String {
    let mut text = format!("{}\n", words(bridge.movement));
    if let Some(clash) = bridge.clash {
        let axis = problem.tensor(Operand::In0).get(usize::from(clash.axis)).map(|id| problem.axis(*id).name);
        let name = axis.map_or("?".to_string(), |name| name.to_string());
        text.push_str(&format!("  axis `{name}`: {} against {}\n", clash.left, clash.right));
        return text;
    }
    if bridge.movement == Movement::Exchange {
        text.push_str(&format!("  rings of {} exchange data\n", counted(bridge.ring_slices, "slice")));
    }
    text.push_str(&format!("  runs of {} stay together\n", counted(bridge.run_elements, "element")));
    let mut rows = vec![vec!["from".to_string(), "to".to_string(), "values".to_string(), String::new()]];
    for digit in bridge.map.iter().flat_map(|map| &map.digits) {
        let place = |axis: u8, stride: u64| {
            format!("{} {}", if axis == SLICE { "slice" } else { "offset" }, thousands(stride))
        };
        let what = if stays(digit) { "stays" } else { "moves" };
        rows.push(vec![
            place(digit.from_axis, digit.from_stride),
            place(digit.to_axis, digit.to_stride),
            thousands(digit.size),
            what.to_string(),
        ]);
    }
    for line in table(&[Align::Left, Align::Left, Align::Right, Align::Left], &rows).lines() {
        text.push_str(&format!("  {line}\n"));
    }
    text
}

fn stays(digit: &MapDigit) -> bool {
    (digit.from_axis, digit.from_stride) == (digit.to_axis, digit.to_stride)
}

fn as_json(bridge: &Bridge) -> String {
    let side = |axis: u8| if axis == SLICE { "slice" } else { "offset" };
    let digits: Vec<serde_json::Value> = bridge
        .map
        .iter()
        .flat_map(|map| &map.digits)
        .map(|d| {
            json!({
                "from": side(d.from_axis), "from_stride": d.from_stride,
                "to": side(d.to_axis), "to_stride": d.to_stride, "size": d.size,
            })
        })
        .collect();
    to_json(&json!({
        "movement": format!("{:?}", bridge.movement).to_lowercase(),
        "ring_slices": bridge.ring_slices,
        "run_elements": bridge.run_elements,
        "digits": digits,
    }))
}
