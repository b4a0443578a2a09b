//! The summary and JSON of a small run, as a whole.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::num::NonZeroU64;

use tilewright_record::{KeepAll, KeepLast, Record, Recorder, Sink, json, summary};

use crate::tiny;

fn record(sink: impl Sink) -> Record {
    let clock_hz = NonZeroU64::new(1_000_000_000).unwrap();
    let mut recorder = Recorder::new(tiny::layout(clock_hz), sink).unwrap();
    tiny::run(&mut recorder).unwrap();
    recorder.finish().unwrap()
}

const SUMMARY: &str = "\
1200 cycles at 1000000000 Hz, 1200 ns

track                  busy cycles  utilisation  intervals
chip0/pe0/main                1089       90.7 %          3
chip0/pe0/contraction         1024       85.3 %          1
chip0/pe0/tdma                  96        8.0 %          2

counter                  peak   mean  unit
chip0/pe0/dm/occupancy  16384  15291  bytes
chip0/power              2500   2265  mW

longest interval  cycles  start   end  track
exec                1024     97  1121  chip0/pe0/main
exec                1024     97  1121  chip0/pe0/contraction
dma in0               64      0    64  chip0/pe0/tdma
dma in1               64     32    96  chip0/pe0/tdma
commit                64   1121  1185  chip0/pe0/main
wait_d                 1     96    97  chip0/pe0/main

energy               pJ
hbm          524288.000
contraction   62914.560
total        587202.560
";

#[test]
fn a_small_run_reads_well() {
    let record = record(KeepAll::default());
    assert_eq!(summary(&record), SUMMARY);
}

#[test]
fn the_summary_does_not_depend_on_what_is_kept() {
    assert_eq!(summary(&record(KeepLast::new(0))), SUMMARY);
}

#[test]
fn flows_lead_from_signals_to_waits() {
    let record = record(KeepAll::default());
    let flows = record.flows();
    let names: Vec<_> = flows.iter().map(|flow| (&*flow.from.name, &*flow.to.name)).collect();
    assert_eq!(names, [("dma in0", "wait_d"), ("dma in1", "wait_d")]);
}

#[test]
fn json_has_the_totals_by_name() {
    let record = record(KeepAll::default());
    let json = serde_json::to_value(json::totals(&record)).unwrap();
    assert_eq!((&json["cycles"], &json["clock_hz"]), (&1200.into(), &1_000_000_000.into()));
    let dma = &json["tracks"][4];
    assert_eq!((&dma["path"], &dma["kind"]), (&"chip0/pe0/tdma".into(), &"dma".into()));
    assert_eq!((&dma["busy_cycles"], &dma["utilisation_ppm"]), (&96.into(), &80_000.into()));
    assert_eq!((&dma["counts"]["bytes"], &dma["binding_cycles"]["hbm"]), (&16_384.into(), &128.into()));
    let power = &json["counters"][1];
    assert_eq!((&power["unit"], &power["peak"]), (&"milliwatts".into(), &2500.into()));
    assert_eq!(power["mean"], (97 * 900 + 1024 * 2500 + 79 * 900) / 1200);
    assert_eq!(json["energy"][0]["energy_fj"], 524_288_000);
    assert_eq!(json["energy_pj"], 587_202.56);
}
