//! Ranges of a study, of a small model whose table of positions is taken to be longer: every figure at both
//! ends of its band.

#![expect(clippy::disallowed_methods, reason = "the test reads a model of the repository")]

use serde_json::Value;
use tilewright_base::Sources;
use tilewright_compile::{Mixed, Options};
use tilewright_filetest::repository;
use tilewright_machine::{LoadedMachine, builtin, load};
use tilewright_num::Dtype;
use tilewright_study::bands::{BandScope, FigureEnds, figure_ends};
use tilewright_study::{Scales, StudySetup, applied_latency, power, study, text};
use tilewright_testkit::is_deep;

fn tcp() -> LoadedMachine {
    let mut sources = Sources::default();
    let id = sources.add("tcp", builtin("tcp").expect("it is built in"));
    load(&mut sources, id, &|base| builtin(base).map(str::to_string)).expect("it loads")
}

/// Figures at whose ends the model is timed again are few unless the run is deep; all others cost nothing.
fn ends(loaded: &LoadedMachine) -> Vec<FigureEnds> {
    let is_quick =
        |figure: &str| ["energy.", "host.", "hbm.eff"].iter().any(|start| figure.starts_with(start));
    figure_ends(loaded).into_iter().filter(|ends| is_deep() || is_quick(&ends.figure)).collect()
}

fn studied() -> (Value, String) {
    let loaded = tcp();
    let folder = repository().join("models/fables");
    let files = |name: &str| std::fs::read(folder.join(name)).ok().map(std::sync::Arc::new);
    let model = tilewright_import::hf::read(&files).expect("the model is read");
    let dtype = Dtype::I8;
    let options =
        Options { dtype, mixed: Mixed::default(), cache: dtype, context: 2048, pes: 1, chips: 1, batch: 1 };
    let setting = StudySetup {
        machine: loaded.machine.tcp().expect("a TCP"),
        chip: "tcp".to_string(),
        graph: &model.graph,
        name: "fables".to_string(),
        is_configuration: true,
        options,
        scales: Scales::Tensor,
        papers: false,
        latency: applied_latency(&loaded),
        figures: power::figures(&loaded),
        ends: ends(&loaded),
        bands: BandScope::Everything,
        brief: true,
        stop: None,
    };
    let found = study(&setting, &mut |_| ()).expect("it is measured");
    assert_eq!(found.missing, Vec::<String>::new());
    (serde_json::to_value(&found).expect("JSON"), text::print(&found))
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

/// Results lie within their ranges; a figure moves what it is about and nothing else.
#[test]
fn every_figure_moves_what_it_is_about() {
    let (found, printed) = studied();
    let bands = &found["bands"];
    let results = list(&bands["results"]);
    assert_eq!(results.len(), 16);
    for result in results {
        let [low, stated, high] = ["low", "stated", "high"].map(|name| number(&result[name]));
        assert!(low < stated && stated < high, "{result}");
    }
    let at = |pass: &str, measure: &str| {
        let found = results.iter().position(|result| result["pass"] == pass && result["measure"] == measure);
        found.expect("the result is there")
    };
    let figures = list(&bands["figures"]);
    assert_eq!(figures.len(), ends(&tcp()).len());
    let of = |name: &str, result: usize| {
        let found = figures.iter().find(|effect| effect["figure"] == name).expect("the figure is there");
        [0, 1].map(|end| number(&found["at"][end][result]))
    };
    let (ms, watts) = (at("32 next tokens", "ms"), at("32 next tokens", "W"));
    let [low, high] = of("hbm.efficiency", ms);
    assert!(low >= high, "less efficient memory is no faster: {low}, {high}");
    let [low, high] = of("host.pass_ns", ms);
    assert!((high - low - 1.0).abs() < 1e-6, "a millisecond lies between its ends: {low}, {high}");
    for figure in ["energy.uncore_w", "energy.hbm_pj_per_bit"] {
        let ([fast, slow], [low, high]) = (of(figure, ms), of(figure, watts));
        assert!((fast - slow).abs() < 1e-12 && low < high, "{figure}: {low}, {high}");
    }
    let [low, high] = of("energy.uncore_w", watts);
    assert!((high - low - 15.0).abs() < 1e-3, "uncore from 10 to 25 W: {low}, {high}");
    // Components add up to the power of the pass.
    let parts = list(&bands["components"]);
    let sum: f64 = parts.iter().map(|part| number(&part["watts"][3][1])).sum();
    assert!((sum / number(&results[watts]["stated"]) - 1.0).abs() < 1e-9, "{sum}");
    assert!(printed.contains("What makes the ranges") && printed.contains("energy.hbm_pj_per_bit"));
}
