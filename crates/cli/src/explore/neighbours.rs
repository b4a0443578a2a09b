//! The best candidates between given neighbours, with what their bridges take.

use std::fmt::Write as _;

use serde_json::json;
use tilewright_explore::Goal;
use tilewright_explore::goal::milliwatts;
use tilewright_explore::tcp::neighbours::{BridgedCandidate, NeighbourShapes, fit};
use tilewright_explore::tcp::program::program_cycles;
use tilewright_explore::tcp::{TcpSearchResult, TcpTask};
use tilewright_notation::syntax::ast::Operand;
use tilewright_report::columns::{Align, table, thousands};
use tilewright_tcp_lower::LowerOptions;
use tilewright_verify::CandidateCheck;
use tilewright_verify::tcp::run_program;
use tilewright_workbench::explore::json::checked as check_value;

use super::SearchAnswer;
use super::args::ExploreArgs;
use super::table::{checked, headline};
use crate::outcome::{FAILED, GOOD, Outcome};

/// Puts what was found between neighbours and says which is best there.
pub(crate) fn answer(
    args: &ExploreArgs,
    task: &TcpTask<'_>,
    found: &TcpSearchResult,
    neighbours: &NeighbourShapes,
    goal: Goal,
    seconds: f64,
) -> Result<SearchAnswer, Outcome> {
    let options = LowerOptions { machine: args.target.chip.clone(), ..LowerOptions::default() };
    let fitted = fit(task, found, neighbours, goal, &options);
    let Some(best) = fitted.fitting.first() else {
        let why = fitted.complaint.map_or_else(String::new, |complaint| complaint.to_string());
        return Err(Outcome {
            code: FAILED,
            ..Outcome::usage(&format!(
                "none of the {} best tactics fits the given shapes\n  = the first of them: {why}\n  \
                 = instead: fewer given shapes, or `tilewright notation bridge` to one that is printed \
                 without them",
                fitted.asked
            ))
        });
    };
    let limits = args.limits();
    let check = |bridged: &BridgedCandidate| {
        let estimated = program_cycles(task, bridged.cycles);
        run_program(task, &bridged.program, estimated, task.macs() <= limits.products)
    };
    let checks: Vec<CandidateCheck> = fitted.fitting.iter().take(limits.candidates).map(check).collect();
    let mut text = headline(task, found, goal, seconds);
    let _ = writeln!(
        text,
        "between   {} of the {} best tactics without neighbours fit the given shapes",
        thousands(fitted.fitting.len() as u64),
        thousands(fitted.asked)
    );
    text.push_str(&rows(task, &fitted.fitting, args.keep));
    text.push_str(&spelled(best));
    for (number, check) in checks.iter().enumerate() {
        let _ = writeln!(text, "{}", checked(task, number + 1, check));
    }
    let code = if checks.iter().all(CandidateCheck::good) { GOOD } else { FAILED };
    let value = json!({
        "einsum": task.program.einsum.to_string(),
        "evaluated": found.evaluated,
        "seconds": seconds,
        "legal": found.legal,
        "complete": found.complete,
        "best": one(task, best),
        "candidates": fitted.fitting.iter().take(args.keep).map(|bridged| one(task, bridged))
            .collect::<Vec<_>>(),
        "verified": checks.iter().map(|check| check_value("cycles", check)).collect::<Vec<_>>(),
    });
    Ok(SearchAnswer { text, value, code })
}

fn one(task: &TcpTask<'_>, bridged: &BridgedCandidate) -> serde_json::Value {
    let shape = |operand| bridged.text.shape(operand).map(ToString::to_string);
    let commands: Vec<_> =
        bridged.commands.iter().map(|(name, cycles)| json!({ "name": name, "cycles": cycles })).collect();
    json!({
        "tactic": bridged.text.tactic.as_ref().map(ToString::to_string),
        "shapes": { "in0": shape(Operand::In0), "in1": shape(Operand::In1), "out": shape(Operand::Out) },
        "cycles": bridged.cycles,
        "cycles_without_neighbours": bridged.candidate.ticks,
        "energy_pj": bridged.energy_fj / 1000,
        "milliwatts": milliwatts(task.setup.machine.chip.clock_hz, bridged.cycles, bridged.energy_fj),
        "commands": commands,
    })
}

fn rows(task: &TcpTask<'_>, fitting: &[BridgedCandidate], keep: usize) -> String {
    let head = ["#", "cycles", "without", "pJ", "mW", "commands"];
    let mut rows = vec![head.map(str::to_string).to_vec()];
    for (number, bridged) in fitting.iter().take(keep).enumerate() {
        let commands: Vec<String> =
            bridged.commands.iter().map(|(name, cycles)| format!("{name} {}", thousands(*cycles))).collect();
        rows.push(vec![
            (number + 1).to_string(),
            thousands(bridged.cycles),
            thousands(bridged.candidate.ticks),
            thousands(bridged.energy_fj / 1000),
            thousands(milliwatts(task.setup.machine.chip.clock_hz, bridged.cycles, bridged.energy_fj)),
            commands.join(", "),
        ]);
    }
    let mut aligns = [Align::Right; 6];
    aligns[5] = Align::Left;
    table(&aligns, &rows)
}

fn spelled(bridged: &BridgedCandidate) -> String {
    let mut text = String::from("best\n");
    for operand in Operand::ALL {
        if let Some(shape) = bridged.text.shape(operand) {
            let _ = writeln!(text, "  {:<7}{shape}", operand.name());
        }
    }
    if let Some(tactic) = &bridged.text.tactic {
        let _ = writeln!(text, "  tactic {tactic}");
    }
    text
}
