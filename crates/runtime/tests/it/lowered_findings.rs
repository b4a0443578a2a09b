//! Random einsums, lowered and run with every reading: nothing that lowering emits races, reads what nobody
//! wrote, or leaves an output unwritten.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use proptest::prelude::*;
use tilewright_base::SourceId;
use tilewright_notation::problem::Problem;
use tilewright_notation::syntax::parser;
use tilewright_num::Dtype;
use tilewright_record::KeepLast;
use tilewright_runtime::readings::{ReadingOptions, read};
use tilewright_tcp_cost::{Setup, check};
use tilewright_tcp_lower::{LowerOptions, lower};
use tilewright_tcp_sim::findings::Finding;

#[path = "../../../tcp/lower/tests/it/drawn/mod.rs"]
mod drawn;
use drawn::groups::split;
use drawn::{Dice, program};
use tilewright_testkit::shared_tcp as machine;

const TYPES: [Dtype; 4] = [Dtype::I8, Dtype::Bf16, Dtype::I4, Dtype::I9];

/// Findings of a legal program, at the least and the largest size of its run-time axes.
fn findings(text: &str, dtype: Dtype) -> Option<Vec<String>> {
    let machine = machine();
    let problem = Problem::new(&parser::program(text, SourceId(0)).unwrap()).unwrap();
    let setup = Setup::new(machine, 1, dtype).unwrap();
    let verdict = check(&setup, &problem);
    if !verdict.legal() {
        return None;
    }
    let program = lower(&setup, &problem, &verdict, &LowerOptions::default()).ok()?;
    let wanted = ReadingOptions { values: false, findings: true, trace: false, ..ReadingOptions::default() };
    let mut found = Vec::new();
    for least in [false, true] {
        let mut program = program.clone();
        for axis in problem.axes.iter().filter(|axis| axis.dynamic && least) {
            let register = program.registers.iter_mut().find(|known| known.name == axis.name.to_string());
            register.unwrap().initial = i64::try_from(axis.least).unwrap();
        }
        let reading = read(machine, &program, &mut |_| unreachable!(), &wanted, KeepLast::new(1)).unwrap();
        // Padding past the run-time size is nobody's output, so it may stay unwritten. A price that may be
        // low says nothing of the program.
        let asked = |found: &&Finding| {
            found.code != "tcp/cycles-low" && !(least && found.code == "tcp/output-unwritten")
        };
        found.extend(
            reading.findings.iter().filter(asked).map(|found| format!("{}: {}", found.code, found.message)),
        );
    }
    Some(found)
}

/// Cases of a default run; the environment may ask for more.
fn config() -> ProptestConfig {
    let asked = ProptestConfig::default();
    let unasked = 256;
    ProptestConfig { cases: if asked.cases == unasked { 200 } else { asked.cases }, ..asked }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn lowered_programs_have_no_findings(seed in any::<u64>(), which in 0..TYPES.len()) {
        let text = program(&mut Dice(seed));
        let found = findings(&text, TYPES[which]);
        prop_assert!(found.as_ref().is_none_or(Vec::is_empty), "{text}\n{found:#?}");
    }
}

#[test]
fn a_third_of_the_drawn_programs_are_checked() {
    let checked = (0..100).filter(|seed| findings(&program(&mut Dice(*seed)), Dtype::I8).is_some()).count();
    assert!(checked > 33, "{checked} of 100");
}

/// Programs of several groups of PEs that are looked at, sums over groups among them.
const GROUPS: usize = 60;

#[test]
fn programs_of_several_groups_have_no_findings() {
    let mut seen = 0;
    for seed in 0..4_000_u64 {
        let Some((text, _, _)) = split(&mut Dice(seed << 9)) else { continue };
        let Some(found) = findings(&text, TYPES[usize::try_from(seed % 2).unwrap()]) else { continue };
        assert!(found.is_empty(), "{text}\n{found:#?}");
        seen += 1;
        if seen == GROUPS {
            return;
        }
    }
    panic!("only {seen} of the drawn programs are legal");
}
