//! Programs with random edits: whatever is still a program is refused with a reason or runs to its end, and
//! nothing panics.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use proptest::prelude::*;
use tilewright_base::SourceId;
use tilewright_machine::Tcp;
use tilewright_notation::problem::Problem;
use tilewright_notation::syntax::parser;
use tilewright_num::Dtype;
use tilewright_record::KeepLast;
use tilewright_runtime::{ArrayError, ReadingError, ReadingOptions, read};
use tilewright_tcp_cost::cycles::image::exec_cycles;
use tilewright_tcp_cost::{Setup, check};
use tilewright_tcp_isa::program::text;
use tilewright_tcp_lower::{LowerOptions, lower};
use tilewright_testkit::tcp;

/// Einsums whose programs use loads, multicast, sums over slices and bridges.
const EINSUMS: [&str; 4] = [
    "km, kn -> mn; dims k=64, m=8, n=16; in0 = | m[8] k[64]; in1 = | n[16] k[64]; out = | m[8] n[16]; tactic \
     = | m[8] n[16] k[64]",
    "km, kn -> mn; dims k=32, m=16, n=8; in0 = m^4[4] | m[4] k[32]; in1 = _[4] | n[8] k[32]; out = _[1#4] | \
     m[16] n[8]; \
     tactic = | m[16] n[8] k[32]",
    "km, kn -> mn; dims k=64, m=6, n=16; in0 = k^16[4] | m[6] k[16]; in1 = k^16[4] | n[16] k[16]; out = \
     n^4[4] | m[6] n[4]; \
     tactic = k^16[4] | m[6] n[16] k[16]",
    "km, kn -> mn; dims k=7, m=5, n=3; in0 = | k[7] m[5]; in1 = | n[3] k[7]; out = | n[3] m[5]; tactic = | \
     n[3] m[5] k[7]",
];

fn lowered(machine: &Tcp) -> Vec<String> {
    let mut texts = Vec::new();
    for einsum in EINSUMS {
        let problem = Problem::new(&parser::program(einsum, SourceId(0)).unwrap()).unwrap();
        let setup = Setup::new(machine, 1, Dtype::I8).unwrap();
        let verdict = check(&setup, &problem);
        if verdict.legal() {
            texts.push(text::print(&lower(&setup, &problem, &verdict, &LowerOptions::default()).unwrap()));
        }
    }
    assert!(texts.len() >= 3, "{} of {} are legal", texts.len(), EINSUMS.len());
    texts
}

/// One edit: a number becomes another, or a line goes, comes twice, or changes places with the next.
fn edit(text: &str, kind: u8, at: usize, number: u64) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
    let at = at % lines.len();
    match kind {
        0 => {
            lines.remove(at);
        }
        1 => lines.insert(at, lines[at].clone()),
        2 if at + 1 < lines.len() => lines.swap(at, at + 1),
        _ => lines[at] = with_number(&lines[at], number),
    }
    lines.join("\n") + "\n"
}

/// The first run of digits after a pseudo-random place, replaced.
fn with_number(line: &str, number: u64) -> String {
    let bytes = line.as_bytes();
    let from = usize::try_from(number % 61).unwrap() % bytes.len().max(1);
    let Some(start) = (from..bytes.len()).find(|at| bytes[*at].is_ascii_digit()) else {
        return line.to_string();
    };
    let end = (start..bytes.len()).find(|at| !bytes[*at].is_ascii_digit()).unwrap_or(bytes.len());
    format!("{}{number}{}", &line[..start], &line[end..])
}

/// Runs what can be read; commands so long that a test should not wait for their values are only timed.
fn try_to_run(machine: &Tcp, written: &str) -> Option<Result<u64, String>> {
    let program = text::read(written, SourceId(0)).ok()?;
    let long = program.execs.iter().any(|exec| exec_cycles(machine, exec).total_cycles > 100_000);
    let large =
        program.tensors.iter().any(|tensor| tensor.axes.iter().map(|(_, n)| *n).product::<u64>() > 1 << 16);
    let wanted =
        ReadingOptions { values: !long && !large, findings: true, trace: false, ..ReadingOptions::default() };
    let mut none = |_: &_| Err(ArrayError::Format("no files here".into()));
    Some(match read(machine, &program, &mut none, &wanted, KeepLast::new(0)) {
        Ok(reading) => {
            assert!(reading.outcome.violations.is_empty(), "{:?}\n{written}", reading.outcome.violations);
            Ok(reading.outcome.cycles)
        }
        Err(ReadingError::Refused(complaints)) => Err(complaints[0].code.to_string()),
        Err(other) => Err(other.to_string()),
    })
}

#[test]
fn unedited_programs_run() {
    let machine = tcp();
    for text in lowered(&machine) {
        assert!(matches!(try_to_run(&machine, &text), Some(Ok(cycles)) if cycles > 0), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn edits_are_refused_or_run(
        which in 0..3_usize,
        edits in proptest::collection::vec((0..8_u8, any::<usize>(), 0..12_usize), 1..4),
    ) {
        let machine = tcp();
        let numbers = [0, 1, 2, 3, 7, 8, 32, 63, 64, 4096, 65_537, 1 << 40];
        let mut text = lowered(&machine)[which].clone();
        for (kind, at, number) in edits {
            text = edit(&text, kind, at, numbers[number]);
        }
        let _ = try_to_run(&machine, &text);
    }
}
