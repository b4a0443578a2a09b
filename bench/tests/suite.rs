//! Cycles of compiled graphs on eight PEs and their bounds, as `bench/suite.golden` keeps them: a change of
//! either is a visible diff.
//!
//! To accept: `BLESS=1 cargo test -p tilewright-bench --test suite`, and whole models with
//! `TILEWRIGHT_DEEP=1`.

#![expect(clippy::disallowed_methods, reason = "reads and writes the golden beside it")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use tilewright_bench::suite::{Case, blocks, models};
use tilewright_compile::general::bound::roofline_cycles;
use tilewright_compile::general::{Options, plan};
use tilewright_graph::TensorStore;
use tilewright_machine::Tcp;
use tilewright_record::KeepLast;
use tilewright_runtime::ReadingOptions;
use tilewright_runtime::graph::GraphDevice;
use tilewright_testkit::tcp;

const PES: u64 = 8;

/// Cycles and bound; nothing may be found wrong, but that a price may be low, which is said of the model.
fn measured(machine: &Tcp, case: &Case) -> (u64, u64) {
    let options = Options { pes: PES, ..Options::default() };
    let planned = plan(machine, &case.graph, &TensorStore::default(), &options).expect("a plan");
    let bound = roofline_cycles(machine, &planned.least, PES);
    let mut device = GraphDevice::new(machine, planned).expect("a device");
    let wanted = ReadingOptions { values: false, findings: true, ..ReadingOptions::default() };
    let reading = device.run(&[], &wanted, KeepLast::new(0)).expect("a run");
    let wrong = reading.findings.iter().find(|found| found.code != "tcp/cycles-low");
    assert!(wrong.is_none(), "{}: {wrong:?}", case.name);
    (reading.outcome.cycles, bound)
}

fn line(name: &str, (cycles, bound): (u64, u64)) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    let ratio = cycles as f64 / bound as f64;
    format!("{name:<38} {cycles:>10} {bound:>9} {ratio:>8.2}")
}

#[test]
fn cycles_and_bounds_are_those_of_the_golden() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("suite.golden");
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let name = |line: &str| line.get(..38).map(|name| name.trim_end().to_string());
    let mut lines: BTreeMap<String, String> =
        kept.lines().filter_map(|line| Some((name(line)?, line.to_string()))).collect();
    let machine = tcp();
    let mut cases = blocks().expect("graphs");
    if tilewright_testkit::is_deep() {
        cases.extend(models().expect("graphs"));
    }
    let mut differs = String::new();
    for case in &cases {
        let found = line(&case.name, measured(&machine, case));
        let known = lines.insert(case.name.clone(), found.clone());
        if known.as_ref() != Some(&found) {
            let _ = writeln!(differs, "-{}\n+{found}", known.unwrap_or_default());
        }
    }
    if std::env::var_os("BLESS").is_some() {
        let text: String = lines.values().map(|line| format!("{line}\n")).collect();
        std::fs::write(&path, text).expect("a golden");
        return;
    }
    assert!(differs.is_empty(), "\n{differs}to accept: BLESS=1 cargo test -p tilewright-bench --test suite");
}
