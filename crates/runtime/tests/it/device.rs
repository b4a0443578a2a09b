//! A device that keeps its memories: runs of a prepared program equal fresh ones cycle for cycle, and state
//! carries over.

use tilewright_base::SourceId;
use tilewright_record::{KeepAll, KeepLast};
use tilewright_runtime::{Array, ArrayError, Device, Prepared, Reading, ReadingError, ReadingOptions, read};
use tilewright_tcp_isa::program::{Program, RegisterId, Tensor, text};
use tilewright_tcp_lower::kernels;
use tilewright_tcp_sim::{RunEnd, SimError};
use tilewright_testkit::shared_tcp as tcp;

/// Adds 1 to as many rows as a register says.
const ROWS: &str = r#"
program tcp 1
machine tcp

register rows = 1 in 1..8

tensor x: i32[R=8, B=8] both at dm[0]+0x1000 = "_[64] | R[8] B[8]"
tensor y: i32[R=8, B=8] both at hbm+0x0 = "| R[8] B[8]"

transfer out { from dm[0]+0x1000; to hbm+0x0; loops (rows: 32 -> 32); packet 32 }

exec add main {
  fetch i32 at 0x1000 { loops (rows:8)(8:1); packet 8 }
  vector i32 { add 1 }
  commit dm at 0x1000 { loops (rows:32); bytes 32; width 32 }
}

queue pe0 {
  load add
  exec main 1
  wait_e 1
  dma out 2
  wait_d 2
}
"#;

fn rows() -> Program {
    text::read(ROWS, SourceId(0)).unwrap_or_else(|complaints| panic!("{complaints:#?}"))
}

fn none(_: &Tensor) -> Result<Array, ArrayError> {
    Err(ArrayError::Format("no file".into()))
}

fn all() -> ReadingOptions {
    ReadingOptions { values: true, findings: true, trace: true, ..ReadingOptions::default() }
}

/// Everything that a run tells, but for outputs.
fn told(reading: &Reading) -> String {
    format!("{:?} {:?}", reading.outcome, reading.findings)
}

#[test]
fn a_prepared_program_runs_again_and_again_like_a_fresh_one() {
    for (name, program) in kernels::all(tcp()).unwrap() {
        let fresh = read(tcp(), &program, &mut none, &all(), KeepAll::default()).unwrap();
        let prepared = Prepared::new(tcp(), program.clone()).unwrap();
        let mut device = Device::new(tcp(), 1);
        for time in 0..3 {
            device.load(&program, &mut none).unwrap();
            let again = device.run(&prepared, &[], &all(), KeepAll::default()).unwrap();
            assert!(told(&again) == told(&fresh), "{name}, run {time}");
            assert!(device.outputs(&program).unwrap() == fresh.outputs, "{name}, run {time}");
            let timed = prepared.time(&[], &all(), KeepAll::default()).unwrap();
            assert!(told(&timed) == told(&fresh), "{name}, time {time}");
        }
    }
}

#[test]
fn registers_start_where_the_caller_says() {
    let prepared = Prepared::new(tcp(), rows()).unwrap();
    let register = prepared.register("rows").unwrap();
    let mut device = Device::new(tcp(), 1);
    for (turn, count) in [(0, 3), (1, 8), (2, 3), (3, 1)] {
        let mut alone = rows();
        alone.registers[0].initial = count;
        let fresh = Prepared::new(tcp(), alone).unwrap().time(&[], &all(), KeepAll::default()).unwrap();
        let reading = device.run(&prepared, &[(register, count)], &all(), KeepAll::default()).unwrap();
        assert!(told(&reading) == told(&fresh), "turn {turn}");
        assert!(reading.findings.is_empty(), "{:?}", reading.findings);
    }
    // Rows of x were counted 4, 3 and 1 times; y has what the last run that reached a row left.
    let program = prepared.program();
    let row = |row: usize, patterns: &[u32]| patterns[row * 8..][..8].to_vec();
    let (x, y) = (device.get(&program.tensors[0]).unwrap(), device.get(&program.tensors[1]).unwrap());
    let counts = [4, 3, 3, 1, 1, 1, 1, 1];
    for (at, count) in counts.into_iter().enumerate() {
        assert_eq!((row(at, &x), row(at, &y)), (vec![count; 8], vec![count; 8]));
    }
}

#[test]
fn values_outside_a_register_s_range_are_refused() {
    let prepared = Prepared::new(tcp(), rows()).unwrap();
    let mut device = Device::new(tcp(), 1);
    let mut run = |register: u32, value: i64| {
        device.run(&prepared, &[(RegisterId(register), value)], &ReadingOptions::default(), KeepLast::new(0))
    };
    for value in [0, 9, i64::MIN, i64::MAX] {
        let error = run(0, value).unwrap_err();
        assert!(matches!(error, ReadingError::Sim(SimError::Register { least: 1, most: 8, .. })), "{error}");
    }
    assert!(matches!(run(1, 1), Err(ReadingError::Sim(SimError::Unknown { .. }))));
    assert!(run(0, 8).is_ok());
}

#[test]
fn without_values_memory_stays_as_it_is() {
    let prepared = Prepared::new(tcp(), rows()).unwrap();
    let mut device = Device::new(tcp(), 1);
    let x = &prepared.program().tensors[0];
    device.put(x, &(0..64).collect::<Vec<u32>>()).unwrap();
    let wanted = ReadingOptions { values: true, ..ReadingOptions::default() };
    let with = device.clone().run(&prepared, &[], &wanted, KeepAll::default()).unwrap();
    let without = device.run(&prepared, &[], &ReadingOptions::default(), KeepAll::default()).unwrap();
    assert!(told(&with) == told(&without));
    assert_eq!(device.get(x).unwrap(), (0..64).collect::<Vec<u32>>());
    assert_eq!(without.outcome.ended, RunEnd::Finished);
}

#[test]
fn bytes_are_where_tensors_are() {
    let prepared = Prepared::new(tcp(), rows()).unwrap();
    let mut device = Device::new(tcp(), 1);
    let wanted = ReadingOptions { values: true, ..ReadingOptions::default() };
    let address = prepared.program().transfers[0].source;
    device.write(address, &41_u32.to_le_bytes()).unwrap();
    device.run(&prepared, &[], &wanted, KeepLast::new(0)).unwrap();
    let mut word = [0; 4];
    device.read(address, &mut word).unwrap();
    assert_eq!(u32::from_le_bytes(word), 42);
    assert_eq!(device.get(&prepared.program().tensors[1]).unwrap()[0], 42);
}

#[test]
fn a_device_that_does_not_fit_is_refused() {
    let mut two = rows();
    two.chips = 2;
    let prepared = Prepared::new(tcp(), two).unwrap();
    let ran = Device::new(tcp(), 1).run(&prepared, &[], &ReadingOptions::default(), KeepLast::new(0));
    assert!(matches!(ran, Err(ReadingError::Unfit(_))));
    let mut other = tcp().clone();
    other.queue.push_cycles += 1;
    let ran = Device::new(&other, 2).run(&prepared, &[], &ReadingOptions::default(), KeepLast::new(0));
    assert!(matches!(ran, Err(ReadingError::Unfit(_))));
    assert!(Device::new(tcp(), 2).run(&prepared, &[], &ReadingOptions::default(), KeepLast::new(0)).is_ok());
}

#[test]
fn a_refused_program_is_not_prepared() {
    let mut broken = rows();
    broken.execs[0].pes = 3;
    assert!(matches!(Prepared::new(tcp(), broken), Err(ReadingError::Refused(_))));
}

/// Scatters by a table whose second offset lies before HBM, between commands that are well; a race comes
/// after it.
const FAULTY: &str = r#"
program tcp 1
machine tcp

register i = 0 in 0..200

tensor rows: i32[R=2] input at hbm+0x0 = "| R[2]" patterns [0, 0x80000000]
tensor x: i8[R=2, B=8] input at dm[0]+0x0 = "| R[2] B[8]" random 1
tensor y: i8[R=2, B=8] output at hbm+0x1000 = "| R[2] B[8]"
tensor before: i8[R=2, B=8] output at hbm+0x2000 = "| R[2] B[8]"
tensor after: i8[R=2, B=8] output at hbm+0x3000 = "| R[2] B[8]"

transfer early { from dm[0]+0x0; to hbm+0x2000; loops (2: 8 -> 8); packet 8 }
transfer put { from dm[0]+0x0; to hbm+0x1000; loops (2: 8 -> 8); packet 8; scatter hbm+0x0 as i32 }
transfer late { from dm[0]+0x0; to hbm+0x3000; loops (2: 8 -> 8); packet 8 }
transfer back { from hbm+0x3000; to dm[0]+0x0; loops (2: 8 -> 8); packet 8 }

queue pe0 {
  dma early 0
  wait_d 0
  dma put 1
  wait_d 1
  for i = 0 to 200 {
    dma late 2
    dma back 3
    wait_d 2
    wait_d 3
  }
}
"#;

/// What a run tells but for its record.
fn counted(reading: &Reading) -> String {
    let outcome = &reading.outcome;
    let ran = (outcome.cycles, outcome.commands, outcome.execs, outcome.transfers, outcome.steps);
    format!("{:?} {ran:?} {:?} {:?}", outcome.ended, outcome.energy_fj, reading.findings)
}

/// Without a trace the timeline is ahead of values, so a fault is found late. Nothing tells.
#[test]
fn a_fault_ends_a_run_at_the_same_cycle_whether_values_are_computed_beside_it_or_not() {
    let program = text::read(FAULTY, SourceId(0)).unwrap_or_else(|complaints| panic!("{complaints:#?}"));
    let prepared = Prepared::new(tcp(), program.clone()).unwrap();
    let run = |wanted: &ReadingOptions| {
        let mut device = Device::new(tcp(), 1);
        device.load(&program, &mut none).unwrap();
        let reading = device.run(&prepared, &[], wanted, KeepLast::new(0)).unwrap();
        (counted(&reading), device.outputs(&program).unwrap(), reading)
    };
    for findings in [true, false] {
        let wanted = ReadingOptions { findings, ..all() };
        let (told, outputs, reading) = run(&wanted);
        assert_eq!((reading.outcome.ended, reading.findings.len()), (RunEnd::Stopped, 1));
        assert_eq!(reading.findings[0].code, "tcp/out-of-bounds");
        let zeros = |at: usize| outputs[at].1.patterns.iter().all(|pattern| *pattern == 0);
        assert_eq!([1, 2].map(zeros), [false, true], "before, after");
        for _ in 0..20 {
            let (beside, left, _) = run(&ReadingOptions { trace: false, ..wanted.clone() });
            assert_eq!(beside, told);
            assert!(left == outputs);
        }
    }
}
