//! Ranges in place of points: results again at the lowest and highest value of each figure that has a band.
//!
//! One figure is changed at a time, and the programs are compiled and simulated again. Figures of energy
//! change no time: joules follow from what was counted. A range adds up what every figure does at the end
//! that moves the result that way, so that it is wider than if figures erred independently. Table II has a
//! band of its own: over the efficiency of HBM, for both scalings of activations.

use serde::Serialize;
use tilewright_base::Sources;
use tilewright_base::invariant::OrBroken;
use tilewright_machine::{LoadedMachine, Tcp};
use tilewright_tcp_cost::energy::{COMPONENTS, Component, energy_of_run_fj, standing_fj};

use crate::llama::{LONG, SHORT, Scales, StudyRun, StudySetup};
use crate::measure::{MeasureError, Pass, real};
use crate::sizes::size;
use crate::table2::Table2Row;

/// What is measured again at the ends of bands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BandScope {
    /// Nothing.
    Nothing,
    /// Table II, over the efficiency of HBM.
    Table2,
    /// Table II, and results over every figure that has a band.
    Everything,
}

/// A figure with a band, and the machines at its ends.
#[derive(Clone, Debug)]
pub struct FigureEnds {
    /// Its section and key.
    pub figure: String,
    /// Its lowest and highest value as written, with the unit.
    pub ends: [String; 2],
    /// Why these two.
    pub reason: String,
    /// The machine with the lowest, and with the highest value.
    pub machines: [Tcp; 2],
}

/// Every figure of a TCP that has a band.
pub fn figure_ends(loaded: &LoadedMachine) -> Vec<FigureEnds> {
    let ends = loaded.key_values().into_iter().filter_map(|figure| {
        let (name, band) = (format!("{}.{}", figure.section, figure.key), figure.band?);
        let at = |value: &str| {
            let setting = format!("{name}={value}");
            let changed = loaded.override_with(&mut Sources::default(), &[setting.as_str()]).ok()?;
            changed.machine.tcp().cloned()
        };
        let values = [band.low.to_string(), band.high.to_string()];
        let machines = [at(&values[0])?, at(&values[1])?];
        let ends = values.map(|value| format!("{value} {}", figure.unit).trim_end().to_string());
        Some(FigureEnds { figure: name, ends, reason: band.reason, machines })
    });
    ends.collect()
}

/// The efficiency of HBM, over whose band Table II is printed.
const EFFICIENCY: &str = "hbm.efficiency";

/// A row of Table II over the band of HBM's efficiency.
#[derive(Clone, Debug, Serialize)]
pub struct Table2Band {
    /// The row; both accountings are rows.
    pub row: String,
    /// What activations are scaled by.
    pub scales: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// What is published of it; rows with prompts stand beside the same value, since the paper does not say
    /// which it counts.
    pub published: Option<f64>,
    /// Ours at the lowest efficiency, at that of the machine file and at the highest.
    pub ours: [f64; 3],
    /// Errors of these three.
    pub error_percent: Option<[f64; 3]>,
}

/// A result of a pass, and its range.
#[derive(Clone, Debug, Serialize)]
pub struct ResultRange {
    /// The pass.
    pub pass: &'static str,
    /// What of it, with the unit.
    pub measure: &'static str,
    /// With the figures of the machine file.
    pub stated: f64,
    /// With every figure at its end that makes it least, effects added up.
    pub low: f64,
    /// With every figure at its end that makes it most, effects added up.
    pub high: f64,
}

/// Sensitivity of the results to one machine figure, at its low and at its high end.
#[derive(Clone, Debug, Serialize)]
pub struct FigureEffect {
    /// The figure.
    pub figure: String,
    /// Its lowest and highest value.
    pub ends: [String; 2],
    /// Why these two.
    pub reason: String,
    /// The results with the lowest, and with the highest value, in the order of `results`.
    pub at: [Vec<f64>; 2],
}

/// Ranges of the results, and what makes them.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Bands {
    /// Table II over the efficiency of HBM.
    pub table2: Vec<Table2Band>,
    /// Results with their ranges.
    pub results: Vec<ResultRange>,
    /// What each figure does, those that move the rate of 32 sequences for each watt most first.
    pub figures: Vec<FigureEffect>,
    /// TDP of all chips.
    pub tdp_w: f64,
    /// Watts by component of each pass, with the figures of the machine file and the range that the
    /// component's own figures give it.
    pub components: Vec<ComponentRange>,
}

/// Average power of a component in a pass.
#[derive(Clone, Debug, Serialize)]
pub struct ComponentRange {
    /// The component.
    pub component: &'static str,
    /// Watts of each pass: low, as stated, high.
    pub watts: Vec<[f64; 3]>,
}

/// The four passes that Table II rests on; steps are those of the middle of the contexts.
pub(crate) const PASSES: [&str; 4] = ["prompt of 128", "prompt of 2048", "16 next tokens", "32 next tokens"];
/// Words that describe each range.
pub(crate) const MEASURES: [&str; 4] = ["ms", "W", "mJ a token", "tokens/s/W"];

/// Contexts that the steps of Table II are measured at.
pub(crate) const STEP_CONTEXTS: [u64; 3] = [2048, 3072, 4094];

/// Passes as simulated.
pub(crate) struct MeasuredPasses {
    /// The short and the long prompt.
    pub(crate) prompts: [Pass; 2],
    /// Steps of 16 and of 32 sequences, by context.
    pub(crate) steps: [Vec<(u64, Pass)>; 2],
}

impl MeasuredPasses {
    fn all(&self) -> [(u64, &Pass); 4] {
        let middle = |steps: &'_ Vec<(u64, Pass)>| steps.len() / 2;
        let step = |at: usize| self.steps[at].get(middle(&self.steps[at])).map(|(_, pass)| pass);
        let [short, long] = &self.prompts;
        [(SHORT, short), (LONG, long), (16, step(0).unwrap_or(short)), (32, step(1).unwrap_or(long))]
    }
}

impl StudyRun<'_> {
    fn measured(&self) -> Result<MeasuredPasses, MeasureError> {
        Ok(MeasuredPasses {
            prompts: [self.model.prefill(SHORT, None)?, self.model.prefill(LONG, None)?],
            steps: [self.model.steps(16, &STEP_CONTEXTS)?, self.model.steps(32, &STEP_CONTEXTS)?],
        })
    }

    /// Table II of passes that were measured.
    fn table2_of(&self, passes: &MeasuredPasses) -> Vec<Table2Row> {
        let (latency_ms, [short, long]) = (self.latency_ms(), &passes.prompts);
        let (short_ms, long_ms) = (self.ms(short.cycles), self.ms(long.cycles));
        let mut rows = vec![
            self.first_token("B=1,L=128", short_ms, latency_ms, size(SHORT)),
            self.first_token("B=1,L=2048", long_ms, latency_ms, size(LONG)),
        ];
        for (batch, steps) in [16, 32].into_iter().zip(&passes.steps) {
            rows.extend(self.throughput(batch, steps, Some(long_ms), latency_ms));
        }
        rows
    }

    /// Results of passes by the energies and the latency of this run's machine, in the order of [`PASSES`]
    /// and [`MEASURES`].
    fn results(&self, passes: &MeasuredPasses) -> Vec<f64> {
        let of = |(tokens, pass): (u64, &Pass)| {
            let (seconds, joules) = (size(pass.cycles) / self.hz, self.joules(pass).iter().sum::<f64>());
            let ms = seconds * 1e3 + self.latency_ms();
            let watts = joules / seconds;
            [ms, watts, joules / size(tokens) * 1e3, size(tokens) / ms * 1e3 / watts]
        };
        passes.all().into_iter().flat_map(of).collect()
    }

    /// Joules by component, from what was counted.
    pub(crate) fn joules(&self, pass: &Pass) -> [f64; COMPONENTS] {
        let (machine, chips) = (self.setting.machine, self.setting.options.chips);
        let mut parts = energy_of_run_fj(machine, &pass.counts);
        for (component, fj) in Component::STANDING.iter().zip(standing_fj(machine, chips, pass.cycles)) {
            parts[*component as usize] += fj;
        }
        parts.map(|fj| real(fj) * 1e-15)
    }

    fn watts_by_component(&self, passes: &MeasuredPasses) -> Vec<[f64; COMPONENTS]> {
        let of =
            |(_, pass): (u64, &Pass)| self.joules(pass).map(|joules| joules * self.hz / size(pass.cycles));
        passes.all().into_iter().map(of).collect()
    }
}

/// The setting with another machine and other scales.
pub(crate) fn with<'s>(setting: &'s StudySetup<'_>, machine: &'s Tcp, scales: Scales) -> StudySetup<'s> {
    StudySetup {
        machine,
        chip: setting.chip.clone(),
        graph: setting.graph,
        name: setting.name.clone(),
        is_configuration: setting.is_configuration,
        options: setting.options,
        scales,
        papers: setting.papers,
        latency: setting.latency.clone(),
        figures: Vec::new(),
        ends: Vec::new(),
        bands: BandScope::Nothing,
        brief: setting.brief,
        stop: setting.stop,
    }
}

fn measure(setting: &StudySetup<'_>) -> Result<MeasuredPasses, MeasureError> {
    StudyRun::new(setting)?.measured()
}

/// Two settings at once.
fn measure_both(settings: [&StudySetup<'_>; 2]) -> Result<[MeasuredPasses; 2], MeasureError> {
    let [low, high] = settings;
    let (low, high) = std::thread::scope(|scope| {
        let low = scope.spawn(move || measure(low));
        let high = measure(high);
        (low.join(), high)
    });
    let low = low.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked));
    Ok([low?, high?])
}

/// Table II over the band of HBM's efficiency, and ranges of all results if the setting asks for them.
/// `stated` are passes with the figures of the machine file, if they were measured already.
///
/// # Errors
/// A model that does not compile at an end of a band, programs that cannot be simulated.
pub(crate) fn bands(
    setting: &StudySetup<'_>,
    stated: Option<MeasuredPasses>,
    say: &mut dyn FnMut(&str),
) -> Result<Option<Bands>, MeasureError> {
    if setting.bands == BandScope::Nothing {
        return Ok(None);
    }
    say("Table II over the band of HBM's efficiency");
    let stated = match stated {
        Some(stated) => stated,
        None => measure(&with(setting, setting.machine, setting.scales))?,
    };
    let tdp_w = setting.machine.chip.tdp_w * size(setting.options.chips);
    let mut found = Bands { table2: table2(setting, &stated)?, tdp_w, ..Bands::default() };
    if setting.bands == BandScope::Everything {
        ranges(setting, &stated, &mut found, say)?;
    }
    Ok(Some(found))
}

fn table2(setting: &StudySetup<'_>, stated: &MeasuredPasses) -> Result<Vec<Table2Band>, MeasureError> {
    let Some(ends) = setting.ends.iter().find(|ends| ends.figure == EFFICIENCY) else {
        return Ok(Vec::new());
    };
    let mut bands = Vec::new();
    for scales in [Scales::Tensor, Scales::Token] {
        let [low, high] = ends.machines.each_ref().map(|machine| with(setting, machine, scales));
        let middle = with(setting, setting.machine, scales);
        let [at_low, at_high] = measure_both([&low, &high])?;
        let again = if scales == setting.scales { None } else { Some(measure(&middle)?) };
        let passes = [&at_low, again.as_ref().unwrap_or(stated), &at_high];
        let mut rows = Vec::new();
        for (setting, passes) in [&low, &middle, &high].into_iter().zip(passes) {
            rows.push(StudyRun::new(setting)?.table2_of(passes));
        }
        let [low, middle, high] = &rows[..] else { return Ok(Vec::new()) };
        for ((low, row), high) in low.iter().zip(middle).zip(high) {
            bands.push(band_of(middle, scales, [low, row, high]));
        }
    }
    Ok(bands)
}

/// A row of Table II; one with prompts has the published value of the row without.
fn band_of(rows: &[Table2Row], scales: Scales, three: [&Table2Row; 3]) -> Table2Band {
    let row = three[1];
    let plain = row.row.replace(",prompts included", "");
    let published = rows.iter().find(|other| other.row == plain).and_then(|other| other.published);
    let ours = three.map(|row| row.ours);
    Table2Band {
        row: row.row.clone(),
        scales: scales.name(),
        unit: row.unit,
        published,
        ours,
        error_percent: published.map(|value| ours.map(|ours| (ours / value - 1.0) * 100.0)),
    }
}

/// Whether programs take the same time whatever the figure is.
pub(crate) fn is_timeless(setting: &StudySetup<'_>, figure: &str) -> bool {
    let section = figure.split('.').next().unwrap_or_default();
    ["energy", "host"].contains(&section) || (section == "pcie" && setting.options.chips == 1)
}

fn ranges(
    setting: &StudySetup<'_>,
    stated: &MeasuredPasses,
    found: &mut Bands,
    say: &mut dyn FnMut(&str),
) -> Result<(), MeasureError> {
    let run = StudyRun::new(setting)?;
    let results = run.results(stated);
    let watts = run.watts_by_component(stated);
    let mut components: Vec<Vec<[f64; 3]>> =
        (0..COMPONENTS).map(|at| watts.iter().map(|parts| [parts[at]; 3]).collect()).collect();
    for ends in &setting.ends {
        say(&format!("{} from {} to {}", ends.figure, ends.ends[0], ends.ends[1]));
        let settings = ends.machines.each_ref().map(|machine| with(setting, machine, setting.scales));
        let again = match is_timeless(setting, &ends.figure) {
            true => None,
            false => Some(measure_both([&settings[0], &settings[1]])?),
        };
        let mut at: [Vec<f64>; 2] = Default::default();
        for (end, setting) in settings.iter().enumerate() {
            let run = StudyRun::new(setting)?;
            let passes = again.as_ref().map_or(stated, |again| &again[end]);
            at[end] = run.results(passes);
            if again.is_none() {
                widen(&mut components, &watts, &run.watts_by_component(passes));
            }
        }
        let (figure, reason) = (ends.figure.clone(), ends.reason.clone());
        found.figures.push(FigureEffect { figure, ends: ends.ends.clone(), reason, at });
    }
    found.results = added_up(&results, &found.figures);
    found.components = Component::ALL
        .iter()
        .zip(components)
        .map(|(component, watts)| ComponentRange { component: component.name(), watts })
        .collect();
    let swing = |effect: &FigureEffect| {
        let of = |end: usize| *effect.at[end].last().or_broken("a study has results at both ends");
        (of(0) - of(1)).abs()
    };
    found.figures.sort_by(|one, other| swing(other).total_cmp(&swing(one)));
    Ok(())
}

/// Adds what an end of a figure does to the watts of components.
fn widen(components: &mut [Vec<[f64; 3]>], stated: &[[f64; COMPONENTS]], changed: &[[f64; COMPONENTS]]) {
    for (at, component) in components.iter_mut().enumerate() {
        for (range, (before, after)) in component.iter_mut().zip(stated.iter().zip(changed)) {
            let by = after[at] - before[at];
            range[0] += by.min(0.0);
            range[2] += by.max(0.0);
        }
    }
}

/// A result with what every figure does to it at the end that lowers it, and at the one that raises it.
pub(crate) fn summed_range(stated: f64, index: usize, figures: &[FigureEffect]) -> [f64; 2] {
    let (mut low, mut high) = (stated, stated);
    for effect in figures {
        let ends = effect.at.each_ref().map(|at| at.get(index).map_or(0.0, |value| value - stated));
        low += ends[0].min(ends[1]).min(0.0);
        high += ends[0].max(ends[1]).max(0.0);
    }
    [low, high]
}

/// Results with every figure at its worst end for them, and at its best.
fn added_up(stated: &[f64], figures: &[FigureEffect]) -> Vec<ResultRange> {
    let names = PASSES.iter().flat_map(|pass| MEASURES.iter().map(move |measure| (*pass, *measure)));
    let range = |(index, (stated, (pass, measure))): (usize, (&f64, (&'static str, &'static str)))| {
        let [low, high] = summed_range(*stated, index, figures);
        ResultRange { pass, measure, stated: *stated, low, high }
    };
    stated.iter().zip(names).enumerate().map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_adds_what_every_figure_does() {
        let effect = |low: f64, high: f64| FigureEffect {
            figure: String::new(),
            ends: [String::new(), String::new()],
            reason: String::new(),
            at: [vec![low], vec![high]],
        };
        let found = added_up(&[10.0], &[effect(9.0, 12.0), effect(11.0, 9.5), effect(10.0, 10.0)]);
        assert_eq!((found[0].low, found[0].stated, found[0].high), (8.5, 10.0, 13.0));
    }
}
