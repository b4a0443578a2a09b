//! Power: what tokens take by the energy model, beside tokens for each watt of TDP as the paper counts them.
//!
//! The model adds up events times figures of the machine file. Most of these are assumptions or scaled from
//! literature; they are listed, so that a reader knows what the joules rest on. Watts of single passes are
//! averages, not peaks. Times are those of the programs: what a calibrated latency would take is not known.

use serde::Serialize;
use tilewright_machine::LoadedMachine;
use tilewright_report::columns::{Align, table};

use crate::curves::Point;
use crate::sizes::size;

/// A figure that energies rest on.
#[derive(Clone, Debug, Serialize)]
pub struct MachineFigure {
    /// Its key in the machine file.
    pub figure: String,
    /// Its value as written.
    pub value: String,
    /// Its unit.
    pub unit: &'static str,
    /// Whether it is assumed rather than published.
    pub assumption: bool,
    /// Where it comes from.
    pub source: String,
}

/// What tokens of a pass take.
#[derive(Clone, Debug, Serialize)]
pub struct PassPower {
    /// The pass.
    pub pass: String,
    /// Tokens of it.
    pub tokens: u64,
    /// Tokens a second.
    pub tokens_per_s: f64,
    /// Average power.
    pub watts: f64,
    /// Energy of a token.
    pub joules_per_token: f64,
    /// Tokens a second for each watt of the energy model.
    pub per_modelled_watt: f64,
    /// Tokens a second for each watt of the TDP.
    pub per_tdp_watt: f64,
}

/// Power and energy, by the energy model and by TDP.
#[derive(Clone, Debug, Serialize)]
pub struct Power {
    /// TDP of all chips.
    pub tdp_w: f64,
    /// The passes.
    pub passes: Vec<PassPower>,
    /// Figures of the machine that the energy model rests on.
    pub rests_on: Vec<MachineFigure>,
}

/// Figures of the machine that energy and TDP are made of.
pub fn figures(loaded: &LoadedMachine) -> Vec<MachineFigure> {
    let assumed: Vec<(&str, &str)> =
        loaded.assumptions().iter().map(|figure| (figure.section, figure.key)).collect();
    let of_energy = |section: &str, key: &str| section == "energy" || (section, key) == ("chip", "tdp_w");
    let figures = loaded.key_values().into_iter().filter(|figure| of_energy(figure.section, figure.key));
    figures
        .map(|figure| MachineFigure {
            figure: format!("{}.{}", figure.section, figure.key),
            value: figure.value.to_string(),
            unit: figure.unit,
            assumption: assumed.contains(&(figure.section, figure.key)),
            source: figure.source.to_string(),
        })
        .collect()
}

/// Energy of prompts and of single tokens.
pub(crate) fn power(tdp_w: f64, prompts: &[Point], steps: &[Point], rests_on: Vec<MachineFigure>) -> Power {
    let of = |pass: String, tokens: u64, point: &Point| {
        let tokens_per_s = size(tokens) / point.ms_without_latency * 1e3;
        PassPower {
            pass,
            tokens,
            tokens_per_s,
            watts: point.watts,
            joules_per_token: point.joules / size(tokens),
            per_modelled_watt: tokens_per_s / point.watts,
            per_tdp_watt: tokens_per_s / tdp_w,
        }
    };
    let prompts = prompts.iter().map(|point| of(format!("prompt of {}", point.tokens), point.tokens, point));
    let name = |point: &Point| format!("{} next tokens, context {}", point.batch, point.tokens);
    let steps = steps.iter().map(|point| of(name(point), point.batch, point));
    Power { tdp_w, passes: prompts.chain(steps).collect(), rests_on }
}

/// As text.
pub(crate) fn text(power: &Power) -> String {
    let head = ["pass", "tokens/s", "W", "mJ a token", "tokens/s/W", "tokens/s/W of TDP"];
    let mut rows = vec![head.map(str::to_string).to_vec()];
    for pass in &power.passes {
        rows.push(vec![
            pass.pass.clone(),
            format!("{:.0}", pass.tokens_per_s),
            format!("{:.1}", pass.watts),
            format!("{:.2}", pass.joules_per_token * 1e3),
            format!("{:.2}", pass.per_modelled_watt),
            format!("{:.2}", pass.per_tdp_watt),
        ]);
    }
    let mut aligns = [Align::Right; 6];
    aligns[0] = Align::Left;
    let assumed = power.rests_on.iter().filter(|figure| figure.assumption).count();
    format!(
        "{}\nThe energy model rests on {} figures, {assumed} of them assumptions:\n\n{}",
        table(&aligns, &rows),
        power.rests_on.len(),
        rests_on(power)
    )
}

fn rests_on(power: &Power) -> String {
    let mut rows = vec![["figure", "value", "unit", "source"].map(str::to_string).to_vec()];
    for figure in &power.rests_on {
        rows.push(vec![
            figure.figure.clone(),
            figure.value.clone(),
            figure.unit.to_string(),
            figure.source.clone(),
        ]);
    }
    table(&[Align::Left, Align::Right, Align::Left, Align::Left], &rows)
}
