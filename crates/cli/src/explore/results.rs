//! Several searches of one command: a row for each, and a folder to which results are added as they come.
//!
//! A folder holds `explore.jsonl`, one line of JSON for each search that is done, with what was asked and a
//! checksum. Lines that answer what is asked again are not searched again. A line that a kill cut short, or
//! that somebody changed, is left out.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tilewright_explore::Goal;
use tilewright_report::columns::{Align, table, thousands};

use super::args::ExploreArgs;
use super::sweep::SweepPoint;
use super::{one, pretty};
use crate::host::Host;
use crate::outcome::{FAILED, GOOD, Outcome};

/// Searches all settings that the folder does not answer yet.
pub(crate) fn all(
    args: &ExploreArgs,
    settings: &[SweepPoint],
    goal: Goal,
    host: &mut dyn Host,
) -> Result<Outcome, Outcome> {
    let path = args.folder().map(|folder| Path::new(folder).join("explore.jsonl"));
    let (mut lines, spoilt) = path.as_deref().map_or_else(Default::default, |path| known(path, host));
    let (mut answers, mut again, mut code) = (Vec::new(), 0, GOOD);
    for setting in settings {
        let asked = asked(args, setting, host);
        if let Some(line) = lines.iter().find(|line| line.value["asked"] == asked) {
            answers.push(line.value["found"].clone());
            again += 1;
            continue;
        }
        if host.interrupted() {
            break;
        }
        let (found, one_code) = match one(args, setting, goal, host) {
            Ok(answer) => (answer.value, answer.code),
            // Nothing is legal here; other settings may fare better.
            Err(outcome) if outcome.code == FAILED => (json!({ "refused": outcome.stderr }), FAILED),
            Err(outcome) => return Err(outcome),
        };
        code = code.max(one_code);
        let complete = found["complete"] == json!(true) || found.get("best").is_none();
        if let Some(path) = path.as_deref().filter(|_| complete) {
            lines.push(ResultLine::new(json!({ "asked": asked, "found": found })));
            keep(path, &lines, host)?;
        }
        answers.push(found);
    }
    let stdout = if args.json {
        pretty(&json!({ "sweep": answers }))
    } else {
        let mut text = rows(settings, &answers);
        if let Some(path) = &path {
            text.push_str(&format!("results   {}, {again} of them from before\n", path.display()));
        }
        text
    };
    let mut stderr = String::new();
    if let Some(path) = path.as_ref().filter(|_| spoilt > 0) {
        let what = format!("{spoilt} of the lines of `{}`", path.display());
        stderr = format!("warning: {what} are not as they were written, and were left out\n");
    }
    Ok(Outcome { code, stderr, ..Outcome::good(stdout) })
}

/// A search that is done, as its line in the folder.
struct ResultLine {
    text: String,
    value: Value,
}

/// Before the checksum of a line, and between it and what it is of.
const CHECKED: (&str, &str) = ("{\"check\":\"", "\",");

impl ResultLine {
    fn new(value: Value) -> ResultLine {
        let body = value.to_string();
        let inner = body.strip_prefix('{').unwrap_or(&body);
        ResultLine { text: format!("{}{}{}{inner}", CHECKED.0, checksum(inner), CHECKED.1), value }
    }

    /// A line as it was written; `None` if it is cut short or was changed.
    fn read(text: &str) -> Option<ResultLine> {
        let (check, inner) = text.strip_prefix(CHECKED.0)?.split_once(CHECKED.1)?;
        let value = (check == checksum(inner)).then(|| serde_json::from_str(text).ok())??;
        Some(ResultLine { text: text.to_string(), value })
    }
}

/// FNV-1a of 64 bits, in hexadecimal.
fn checksum(text: &str) -> String {
    let mixed = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3);
    format!("{:016x}", text.bytes().fold(0xCBF2_9CE4_8422_2325, mixed))
}

/// What decides the answer of one search.
fn asked(args: &ExploreArgs, setting: &SweepPoint, host: &dyn Host) -> Value {
    // A machine file that was changed is another machine.
    let machine = host.read(Path::new(&args.target.chip)).ok();
    let machine = machine.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    json!({
        "einsum": args.einsum,
        "dims": setting.dims,
        "set": setting.set,
        "chip": args.target.chip,
        "machine": machine,
        "pes": args.target.pes,
        "dtype": args.dtype,
        "goal": args.goal,
        "keep": args.keep,
        "verify": args.verify,
        "from": args.from,
        "shapes": [args.in0.as_ref(), args.in1.as_ref(), args.out_shape()],
        "version": env!("CARGO_PKG_VERSION"),
    })
}

/// Lines of a folder that are as they were written, and how many are not.
fn known(path: &Path, host: &dyn Host) -> (Vec<ResultLine>, usize) {
    let bytes = host.read_kept(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<ResultLine> = text.lines().filter_map(ResultLine::read).collect();
    let spoilt = text.lines().count() - lines.len();
    (lines, spoilt)
}

fn keep(path: &Path, lines: &[ResultLine], host: &mut dyn Host) -> Result<(), Outcome> {
    let text: String = lines.iter().map(|line| format!("{}\n", line.text)).collect();
    let path: PathBuf = path.to_path_buf();
    let failed = |error| Outcome::unwritten(&path.to_string_lossy(), &error);
    if let Some(folder) = path.parent() {
        host.create_folder(folder).map_err(failed)?;
    }
    host.rewrite(&path, text.as_bytes()).map_err(failed)
}

fn rows(settings: &[SweepPoint], answers: &[Value]) -> String {
    let timed = answers.iter().any(|answer| answer["best"]["picoseconds"].is_u64());
    let unit = if timed { "picoseconds" } else { "cycles" };
    let head = ["", if timed { "us" } else { "cycles" }, "pJ", "mW", "used", "bound", "simulated", "tactic"];
    let mut rows = vec![head.map(str::to_string).to_vec()];
    for (setting, answer) in settings.iter().zip(answers) {
        let best = &answer["best"];
        let number = |value: &Value| value.as_u64().map_or(String::new(), thousands);
        let time = |value: &Value| match value[unit].as_u64() {
            #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
            Some(ps) if timed => format!("{:.2}", ps as f64 * 1e-6),
            _ => number(&value[unit]),
        };
        let used =
            best["utilisation"].as_f64().map_or(String::new(), |part| format!("{:.1} %", 100.0 * part));
        let tactic = match (best["tactic"].as_str(), answer["refused"].as_str()) {
            (Some(tactic), _) => tactic.to_string(),
            (None, Some(why)) => why.lines().next().unwrap_or_default().to_string(),
            _ => String::new(),
        };
        let check = &answer["verified"][0];
        let simulated = match (
            check[format!("simulated_{unit}")].as_u64(),
            check[format!("estimated_{unit}")].as_u64(),
        ) {
            #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
            (Some(simulated), Some(estimated)) => {
                format!("{:+.2} %", 100.0 * (simulated as f64 / estimated.max(1) as f64 - 1.0))
            }
            _ => String::new(),
        };
        let swept = if setting.swept.is_empty() {
            setting.dims.clone().unwrap_or_default()
        } else {
            setting.swept.join(" ")
        };
        rows.push(vec![
            swept,
            time(best),
            number(&best["energy_pj"]),
            number(&best["milliwatts"]),
            used,
            time(&best["bound"]),
            simulated,
            tactic,
        ]);
    }
    let mut aligns = [Align::Right; 8];
    aligns[0] = Align::Left;
    aligns[7] = Align::Left;
    table(&aligns, &rows)
}
