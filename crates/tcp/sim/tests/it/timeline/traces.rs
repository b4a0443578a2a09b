//! A trace as a viewer reads it: tracks, slices, counters and flows of a small program.

use std::collections::BTreeMap;

use tilewright_record::perfetto::Stream;
use tilewright_tcp_isa::program::Program;
use tilewright_tcp_isa::program::control::Command;
use tilewright_tcp_isa::program::exec::Context;
use tilewright_tcp_sim::{NoObserver, SimOptions, simulate};

use crate::timeline::build::{START, contraction, dma, program, push, queue, run_exec, short, weights};
use crate::timeline::{decode, tcp};

fn work() -> Program {
    let mut steps = vec![dma(0, 0), push(Command::WaitD(0))];
    steps.extend(run_exec(1, Context::Sub, 0));
    steps.push(push(Command::WaitE(0)));
    steps.extend(run_exec(0, Context::Main, 1));
    program(vec![contraction(256), short(2048, 4096)], vec![weights(0, 1024)], vec![queue(0, 0, steps)])
}

fn trace() -> decode::Trace {
    let mut bytes = Vec::new();
    let options = SimOptions { check: true, ..SimOptions::default() };
    let outcome =
        simulate(&tcp(), &work(), &options, Stream::new(&mut bytes), &mut NoObserver).expect("it runs");
    assert_eq!(outcome.violations, []);
    decode::trace(&bytes)
}

/// Names of a track and all above it.
fn path(trace: &decode::Trace, uuid: u64) -> String {
    let track = &trace.tracks[&uuid];
    match track.parent_uuid {
        Some(above) => format!("{}/{}", path(trace, above), track.name),
        None => track.name.clone(),
    }
}

#[test]
fn every_context_engine_and_memory_has_a_track() {
    let trace = trace();
    let paths: Vec<String> = trace.tracks.keys().map(|uuid| path(&trace, *uuid)).collect();
    let wanted = [
        "chip0/power",
        "chip0/pe0/main",
        "chip0/pe0/sub",
        "chip0/pe0/dma",
        "chip0/pe0/fetch",
        "chip0/pe0/sub fetch",
        "chip0/pe0/contraction",
        "chip0/pe0/vector",
        "chip0/pe0/commit",
        "chip0/hbm bytes per cycle",
        "chip0/pe0/collect",
        "chip0/pe0/dm/touched so far, in parts of 4096 B",
        "chip0/pe0/trf/touched so far, in parts of 512 B",
        "chip0/pe0/queue",
    ];
    for wanted in wanted {
        assert!(paths.iter().any(|path| path == wanted), "{wanted} of {paths:?}");
    }
    // Nothing casts, transposes or writes there.
    for other in ["cast", "transpose", "vrf", "spm"] {
        assert!(!paths.iter().any(|path| path.contains(other)), "{other} of {paths:?}");
    }
}

#[test]
fn off_chip_memory_has_its_rate_while_a_transfer_moves() {
    let trace = trace();
    let uuid = trace.tracks.keys().find(|uuid| path(&trace, **uuid) == "chip0/hbm bytes per cycle");
    let uuid = *uuid.expect("a counter");
    let values: Vec<u64> =
        trace.samples.iter().filter(|sample| sample.0 == uuid).map(|sample| sample.2).collect();
    assert_eq!(values, [256, 0]);
}

#[test]
fn slices_follow_their_waits_and_carry_their_counts() {
    let trace = trace();
    let slices: BTreeMap<String, &decode::Slice> =
        trace.slices.iter().map(|slice| (path(&trace, slice.track_uuid), slice)).collect();
    let [sent, loaded, product] = ["dma", "sub", "main"].map(|track| slices[&format!("chip0/pe0/{track}")]);
    assert_eq!((&*sent.name, &*loaded.name, &*product.name), ("weights", "load", "contraction"));
    // 20 cycles of a push after the launch; the clock ticks in nanoseconds.
    assert_eq!((sent.start_ns, sent.end_ns), (2020, 2020 + START + 1024));
    assert_eq!(loaded.start_ns, sent.end_ns);
    assert!(product.start_ns >= loaded.end_ns);
    assert!(loaded.flow_ids.iter().any(|flow| sent.flow_ids.contains(flow)), "{sent:?} {loaded:?}");
    assert!(product.flow_ids.iter().any(|flow| loaded.flow_ids.contains(flow)), "{loaded:?} {product:?}");
    let engine = slices["chip0/pe0/contraction"];
    assert!(product.start_ns <= engine.start_ns && engine.end_ns <= product.end_ns);
    let count = |slice: &decode::Slice, name: &str| {
        let found = slice.annotations.iter().find(|(known, _)| known == name);
        found.and_then(|(_, value)| value.parse::<u64>().ok())
    };
    assert_eq!(count(sent, "bytes"), Some(1024 * 256));
    assert_eq!(count(product, "macs"), Some(1024 * 512 * 64));
}

/// A command that nobody waits for begins no flow.
#[test]
fn every_flow_has_both_ends() {
    let trace = trace();
    let mut ends: BTreeMap<u64, u64> = BTreeMap::new();
    for flow in trace.slices.iter().flat_map(|slice| &slice.flow_ids) {
        *ends.entry(*flow).or_default() += 1;
    }
    assert_eq!(ends.into_values().collect::<Vec<_>>(), [2, 2], "transfer to load, load to contraction");
}

#[test]
fn power_rises_and_falls_back() {
    let trace = trace();
    let uuid = *trace.tracks.keys().find(|uuid| path(&trace, **uuid) == "chip0/power").expect("a counter");
    let values: Vec<u64> =
        trace.samples.iter().filter(|sample| sample.0 == uuid).map(|sample| sample.2).collect();
    let (first, last) = (values[0], values[values.len() - 1]);
    assert_eq!(first, last, "idle at both ends");
    assert!(values.iter().any(|value| *value > first + 1000), "{values:?}");
}
