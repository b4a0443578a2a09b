//! Every code of the checker: a run that has the finding, and its twin with one thing put right, which has
//! not.

use std::collections::BTreeSet;

use tilewright_tcp_cost::cycles::image::{Delay, LongestCycles};
use tilewright_tcp_isa::program::event::Ticket;
use tilewright_tcp_isa::program::exec::{Context, ExecBody, Memory};
use tilewright_tcp_isa::program::tensor::{TensorPlace, TensorRole};
use tilewright_tcp_isa::program::{Exec, Program, Transfer};
use tilewright_tcp_isa::switch::{Ring, Topology};
use tilewright_tcp_sim::findings::{CODES, FaultKind, Finding, FindingCommand, WaitLink};

use crate::checked::build::*;
use crate::checked::script::Happens::{Dma, Exec as RunSetup, Posted, Received, Synced, Waited};
use crate::checked::script::{Happens, findings_of, pe};

fn program(execs: Vec<Exec>, transfers: Vec<Transfer>) -> Program {
    let place = TensorPlace::Hbm { chip: 0, base: 0 };
    Program {
        chips: 1,
        tensors: vec![tensor("x", TensorRole::Input, place, 1 << 20)],
        execs,
        transfers,
        queues: vec![queue(0, Vec::new()), queue(1, Vec::new())],
        ..Program::default()
    }
}

/// All of slices 0..64, bytes 0..8192, from HBM.
fn fill_dm() -> Transfer {
    let mut fill = transfer("fill", hbm(0), dm(0, 0), 4096);
    fill.loops = vec![transfer_loop(64, 0, 1 << 22), transfer_loop(2, 4096, 4096)];
    fill
}

fn race_dm() -> Program {
    program(vec![copy("copy", Context::Main, 0, 16_384, 4)], vec![fill_dm()])
}

fn race_trf() -> Program {
    let short = short("load", 0, 8192, Memory::Trf { lanes: 8 }, 0);
    program(
        vec![
            trf_load("first", 0),
            contraction("contract"),
            short,
            half_load("low", 512),
            half_load("high", 4096),
        ],
        vec![fill_dm()],
    )
}

/// Fills the whole register file from data memory.
fn trf_load(name: &str, base: u64) -> Exec {
    let mut exec = copy(name, Context::Sub, 0, base, 256);
    if let ExecBody::Stream(stream) = &mut exec.body {
        stream.fetch.loops = rows(&[(8, 0), (256, 32), (32, 1)]);
        stream.commit = commit(Memory::Trf { lanes: 8 }, base, &[(8, 8192), (256, 32)], 32);
        stream.commit.width = 8;
    }
    exec
}

/// One flit for each lane.
fn half_load(name: &str, base: u64) -> Exec {
    let mut exec = copy(name, Context::Sub, 0, base, 8);
    if let ExecBody::Stream(stream) = &mut exec.body {
        stream.commit = commit(Memory::Trf { lanes: 8 }, base, &[(8, 8192)], 32);
        stream.commit.width = 8;
    }
    exec
}

fn race_vrf() -> Program {
    program(vec![short("load", 0, 128, Memory::Vrf, 0), addition("add")], vec![fill_dm()])
}

fn race_hbm() -> Program {
    let there = transfer("there", hbm(0), hbm(1 << 16), 4096);
    program(Vec::new(), vec![there, transfer("back", hbm((1 << 16) + 4088), hbm(1 << 17), 4096)])
}

fn race_spm() -> Program {
    let there = transfer("there", hbm(0), spm(1, 0), 64);
    program(Vec::new(), vec![there, transfer("back", spm(1, 32), hbm(1 << 17), 32)])
}

/// Eight packets of HBM, each to where another is: the next one, or the one before.
fn shifted(by: i64) -> Program {
    let mut image = transfer("shift", hbm(4096), hbm(4096_u64.wrapping_add_signed(by)), 64);
    image.loops = vec![transfer_loop(8, 64, 64)];
    program(Vec::new(), vec![image])
}

fn bounds(base: u64) -> Program {
    program(
        vec![copy("copy", Context::Main, 0, 16_384, 4)],
        vec![fill_dm(), transfer("over", hbm(0), dm(0, base), 64)],
    )
}

/// A fetch that stays on one bank for a long time.
fn banks(stride: i64) -> Program {
    let mut held = copy("held", Context::Main, 0, 16_384, 4);
    if let ExecBody::Stream(stream) = &mut held.body {
        stream.fetch.loops = rows(&[(64, stride), (8, 1)]);
        stream.fetch.packet = 8;
        stream.commit.loops = rows(&[(64, 32)]);
    }
    program(vec![held], vec![fill_dm(), transfer("beside", hbm(0), dm(5, 65_536), 64)])
}

fn output() -> Program {
    let mut program = program(Vec::new(), vec![transfer("half", hbm(0), hbm(1 << 22), 2048)]);
    program.tensors.push(tensor("y", TensorRole::Output, TensorPlace::Hbm { chip: 0, base: 1 << 22 }, 4096));
    program.transfers.push(transfer("rest", hbm(0), hbm((1 << 22) + 2048), 2048));
    program
}

struct Case {
    code: &'static str,
    program: fn() -> Program,
    found: &'static [Happens],
    legal: fn() -> Program,
    clean: &'static [Happens],
}

const CASES: &[Case] = &[
    Case {
        code: "tcp/race-dm",
        program: race_dm,
        found: &[Dma(0, 0), RunSetup(0, 0)],
        legal: race_dm,
        clean: &[Dma(0, 0), Waited(0, 0), RunSetup(0, 0)],
    },
    // A core that posts without a sync knows nothing of its queue.
    Case {
        code: "tcp/race-dm",
        program: race_dm,
        found: &[Dma(1, 0), Waited(1, 0), Posted(1, 0), Received(0, 1), RunSetup(0, 0)],
        legal: race_dm,
        clean: &[Dma(1, 0), Synced(1), Posted(1, 0), Received(0, 1), RunSetup(0, 0)],
    },
    Case {
        code: "tcp/race-trf",
        program: race_trf,
        found: &[Dma(0, 0), Waited(0, 0), RunSetup(0, 0), Waited(0, 1), RunSetup(0, 1), RunSetup(0, 0)],
        legal: race_trf,
        clean: &[
            Dma(0, 0),
            Waited(0, 0),
            RunSetup(0, 0),
            Waited(0, 1),
            RunSetup(0, 1),
            Waited(0, 2),
            RunSetup(0, 0),
        ],
    },
    Case {
        code: "tcp/trf-half",
        program: race_trf,
        found: &[Dma(0, 0), Waited(0, 0), RunSetup(0, 0), Waited(0, 1), RunSetup(0, 1), RunSetup(0, 3)],
        legal: race_trf,
        clean: &[Dma(0, 0), Waited(0, 0), RunSetup(0, 0), Waited(0, 1), RunSetup(0, 1), RunSetup(0, 4)],
    },
    Case {
        code: "tcp/race-vrf",
        program: race_vrf,
        found: &[Dma(0, 0), Waited(0, 0), RunSetup(0, 0), RunSetup(0, 1)],
        legal: race_vrf,
        clean: &[Dma(0, 0), Waited(0, 0), RunSetup(0, 0), Waited(0, 1), RunSetup(0, 1)],
    },
    Case {
        code: "tcp/race-hbm",
        program: race_hbm,
        found: &[Dma(0, 0), Dma(1, 1)],
        legal: race_hbm,
        clean: &[Dma(0, 0), Dma(0, 1)],
    },
    Case {
        code: "tcp/race-spm",
        program: race_spm,
        found: &[Dma(0, 0), Dma(1, 1)],
        legal: race_spm,
        clean: &[Dma(0, 0), Synced(0), Posted(0, 1), Received(1, 0), Dma(1, 1)],
    },
    Case {
        code: "tcp/uninitialised",
        program: race_dm,
        found: &[RunSetup(0, 0)],
        legal: race_dm,
        clean: &[Dma(0, 0), Waited(0, 0), RunSetup(0, 0)],
    },
    Case {
        code: "tcp/out-of-bounds",
        program: || bounds(524_288 - 32),
        found: &[Dma(0, 1)],
        legal: || bounds(524_288 - 64),
        clean: &[Dma(0, 1)],
    },
    Case {
        code: "tcp/self-overlap",
        program: || shifted(64),
        found: &[Dma(0, 0)],
        legal: || shifted(-64),
        clean: &[Dma(0, 0)],
    },
    Case {
        code: "tcp/bank-hold",
        program: || banks(128),
        found: &[Dma(0, 0), Waited(0, 0), RunSetup(0, 0), Dma(0, 1)],
        legal: || banks(128),
        clean: &[Dma(0, 0), Waited(0, 0), RunSetup(0, 0), Waited(0, 1), Dma(0, 1)],
    },
    Case {
        code: "tcp/bank-hold",
        program: || banks(128),
        found: &[Dma(0, 0), Waited(0, 0), Dma(0, 1), RunSetup(0, 0)],
        legal: || banks(136),
        clean: &[Dma(0, 0), Waited(0, 0), Dma(0, 1), RunSetup(0, 0)],
    },
    Case {
        code: "tcp/output-unwritten",
        program: output,
        found: &[Dma(0, 0)],
        legal: output,
        clean: &[Dma(0, 0), Dma(0, 1)],
    },
];

fn codes(found: &[Finding]) -> Vec<&'static str> {
    found.iter().map(|finding| finding.code).collect()
}

#[test]
fn every_finding_has_a_clean_twin() {
    for (at, case) in CASES.iter().enumerate() {
        let program = (case.program)();
        let found = findings_of(&program, case.found);
        assert!(codes(&found).contains(&case.code), "case {at}, {}: {found:#?}", case.code);
        let clean = findings_of(&(case.legal)(), case.clean);
        let rest: Vec<_> =
            codes(&clean).into_iter().filter(|code| *code == case.code || code.contains("race")).collect();
        assert!(rest.is_empty(), "case {at}, the twin of {}: {clean:#?}", case.code);
    }
}

#[test]
fn every_code_is_covered() {
    let made = [overflow().code, deadlock().code, fault().code, not_granted().code, low().code];
    let tested: BTreeSet<&str> = CASES.iter().map(|case| case.code).chain(made).collect();
    let listed: BTreeSet<&str> = CODES.iter().map(|(code, _)| *code).collect();
    assert_eq!(listed, tested);
}

/// `tests/sim/cycles-low.tcp` is a program that has it.
fn low() -> Finding {
    let command = FindingCommand::new("column", pe(0), "main", Ticket(3), span(4));
    let longest = LongestCycles { total_cycles: 2312, delay: Some(Delay::Banks) };
    Finding::cycles_low(command, 1288, longest)
}

#[test]
fn a_price_that_is_low_is_a_warning() {
    let shown = low().to_diagnostic();
    assert_eq!(shown.severity, tilewright_base::Severity::Warning);
    assert!(shown.message.contains("1288 cycles and may take 2312: its fetch and commit units meet"));
}

fn not_granted() -> Finding {
    let command = FindingCommand::new("pick", pe(1), "dma", Ticket(7), span(4));
    Finding::fault(command, FaultKind::NotGranted, "hbm+0x800 of chip 0".into(), 90)
}

fn fault() -> Finding {
    let command = FindingCommand::new("scale", pe(1), "main", Ticket(7), span(4));
    Finding::fault(command, FaultKind::Registers, "vector engine, slice 3: no such word".into(), 90)
}

#[test]
fn a_fault_names_its_command() {
    let complaint = fault().to_diagnostic();
    assert!(complaint.message.contains("no such word"), "{complaint:?}");
    assert!(complaint.notes.iter().any(|note| note == "at cycle 90"), "{complaint:?}");
}

fn overflow() -> Finding {
    Finding::queue_overflow(pe(2), span(3), "dma 7", 64, 1000)
}

fn deadlock() -> Finding {
    let wait = |at, on, for_what: &str| WaitLink {
        pe: pe(at),
        span: span(9),
        for_what: for_what.into(),
        on: Some(pe(on)),
    };
    Finding::deadlock(&[wait(0, 1, "a message of pe 1"), wait(1, 0, "a message of pe 0")], 77)
}

#[test]
fn a_deadlock_prints_its_cycle() {
    let diagnostic = deadlock().to_diagnostic();
    assert_eq!(diagnostic.message, "a cycle of waits: chip 0 pe 0 -> chip 0 pe 1 -> chip 0 pe 0");
    assert!(
        diagnostic
            .notes
            .contains(&"chip 0 pe 1 waits for a message of pe 0, which is up to chip 0 pe 0".to_owned())
    );
    assert!(overflow().to_diagnostic().message.contains("full queue of chip 0 pe 2"));
}

#[test]
fn a_finding_names_both_commands_and_the_bytes() {
    let found = findings_of(&race_hbm(), &[Dma(0, 0), Dma(1, 1), Dma(1, 1)]);
    let [finding] = &found[..] else { panic!("{found:#?}") };
    let (first, second) =
        (finding.first.as_ref().expect("a first"), finding.second.as_ref().expect("a second"));
    assert_eq!((first.name.as_str(), first.pe, second.name.as_str(), second.pe), ("there", 0, "back", 1));
    let spot = finding.spot.as_ref().expect("a place");
    assert_eq!((spot.memory, spot.slice, spot.start, spot.end), ("hbm", None, 69_624, 69_632));
    assert_eq!(finding.count, 2);
    let diagnostic = finding.to_diagnostic();
    assert_eq!(diagnostic.primary.as_ref().map(|label| label.span), Some(second.span));
    assert_eq!(diagnostic.others.len(), 1);
}

#[test]
fn both_contexts_together_hold_a_bank_too_long() {
    // 32 accesses each: safe alone, not together.
    let mut program = banks(128);
    let mut sub = program.execs[0].clone();
    sub.name = "sub".into();
    sub.context = Context::Sub;
    program.execs.push(sub);
    for exec in &mut program.execs {
        if let ExecBody::Stream(stream) = &mut exec.body {
            stream.fetch.loops = rows(&[(2, 8), (40, 128), (8, 1)]);
            stream.commit.base = if exec.context == Context::Sub { 32_768 } else { 16_384 };
            stream.commit.loops = rows(&[(80, 32)]);
            stream.commit.width = 8;
        }
    }
    let start = [Dma(0, 0), Waited(0, 0)];
    let alone = findings_of(&program, &[&start[..], &[RunSetup(0, 0), Dma(0, 1)]].concat());
    assert_eq!(codes(&alone), Vec::<&str>::new(), "{alone:#?}");
    let both = findings_of(&program, &[&start[..], &[RunSetup(0, 0), RunSetup(0, 1), Dma(0, 1)]].concat());
    assert_eq!(codes(&both), ["tcp/bank-hold"], "{both:#?}");
    let ordered = [RunSetup(0, 0), Waited(0, 1), RunSetup(0, 1), Dma(0, 1)];
    let one = findings_of(&program, &[&start[..], &ordered].concat());
    assert_eq!(codes(&one), Vec::<&str>::new(), "{one:#?}");
}

#[test]
fn slices_that_nobody_hears_may_read_anything() {
    // Slices 0..4 hold data and commit; the other 60 run the same image.
    let mut program = race_dm();
    program.transfers[0].loops[0] = transfer_loop(4, 0, 1 << 22);
    let run = [Dma(0, 0), Waited(0, 0), RunSetup(0, 0)];
    let mut with = |slices: Vec<(u64, u64)>, switch: Topology| {
        let ExecBody::Stream(stream) = &mut program.execs[0].body else { panic!("a stream") };
        stream.commit.slices = slices;
        stream.switch.topology = switch;
        codes(&findings_of(&program, &run))
    };
    assert_eq!(with(Vec::new(), Topology::Forwarding), ["tcp/uninitialised"]);
    assert_eq!(with(vec![(0, 4)], Topology::Forwarding), Vec::<&str>::new());
    assert_eq!(with(vec![(0, 5)], Topology::Forwarding), ["tcp/uninitialised"]);
    // A ring of eight brings packets of slices without data to slices that commit.
    let ring = |slice0| Topology::Broadcast1(Ring { slice1: 2, slice0 });
    assert_eq!(with(vec![(0, 4)], ring(2)), Vec::<&str>::new());
    assert_eq!(with(vec![(0, 4)], ring(4)), ["tcp/uninitialised"]);
}

/// PE 0 writes what PE 1's core reads.
fn read_elsewhere(between: &[Happens]) -> Vec<Finding> {
    let program = program(Vec::new(), vec![fill_dm()]);
    let mut script = vec![Dma(0, 0), Synced(0)];
    script.extend_from_slice(between);
    script.extend([Synced(1), Happens::Read(1, dm(0, 8))]);
    findings_of(&program, &script)
}

#[test]
fn a_core_reads_what_it_knows_to_be_done() {
    assert_eq!(codes(&read_elsewhere(&[])), ["tcp/race-dm"]);
    assert_eq!(codes(&read_elsewhere(&[Posted(0, 1), Received(1, 0)])), [""; 0]);
    let program = program(Vec::new(), vec![fill_dm()]);
    let nowhere = findings_of(&program, &[Synced(0), Happens::Read(0, dm(1, 1 << 14))]);
    assert_eq!(codes(&nowhere), ["tcp/uninitialised"]);
    let outside = findings_of(&program, &[Synced(0), Happens::Read(0, dm(1, 512 << 10))]);
    assert_eq!(codes(&outside), ["tcp/out-of-bounds"]);
    // A write that may come while the core still reads.
    let later = findings_of(&program, &[Dma(0, 0), Synced(0), Happens::Read(0, dm(0, 8)), Dma(1, 0)]);
    assert!(codes(&later).contains(&"tcp/race-dm"), "{later:?}");
}

#[test]
fn commands_that_were_in_the_queue_do_not_come_after_a_message() {
    let program = race_hbm();
    let script = [Dma(0, 0), Synced(0), Posted(0, 1)];
    let after = findings_of(&program, &[&script[..], &[Received(1, 0), Dma(1, 1)]].concat());
    assert_eq!(codes(&after), [""; 0]);
    let before =
        findings_of(&program, &[&script[..], &[Happens::Ahead(1), Received(1, 0), Dma(1, 1)]].concat());
    assert_eq!(codes(&before), ["tcp/race-hbm"]);
}
