//! The section `plan`: what is printed reads back, and what is not known is refused with its line.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tilewright_artifact::{Plan, PlanError};
use tilewright_compile::Choices;
use tilewright_compile::kernel::ValueId;
use tilewright_num::Dtype;

const FULL: &str = "model 1
chip tcp
set hbm.efficiency=0.9
peak 12=3.5
range 0=4.0,4.0,4.0
cache int8
chips 2
batch 4
ends 2,5
dtype bf16
pes 2
context 128
choices rows=2 slots=4 parts=4 fills=8,4,8
";

#[test]
fn a_plan_with_every_line_reads_and_prints_as_it_was() {
    let plan = Plan::read(FULL).unwrap();
    assert_eq!((plan.pes, plan.chips, plan.batch, plan.context), (2, 2, 4, Some(128)));
    assert_eq!(plan.ends.as_deref(), Some(&[2, 5][..]));
    assert_eq!(plan.amax.get(&ValueId(12)), Some(&3.5));
    assert_eq!(Plan::read(&plan.to_string()).unwrap(), plan);
    assert_eq!(plan.to_string(), FULL);
}

#[test]
fn another_version_is_refused() {
    for text in ["", "model 2\nchip tcp\n", "chip tcp\n", "model 1 \n"] {
        let found = text.lines().next().unwrap_or_default().to_string();
        assert_eq!(Plan::read(text), Err(PlanError::Version { found }));
    }
}

#[test]
fn a_line_that_is_not_known_is_refused_with_its_number() {
    let bad = [
        "colour red",
        "pes",
        "pes x",
        "pes -1",
        "batch 18446744073709551616",
        "cache int4",
        "ends 2,",
        "ends ",
        "peak 1",
        "peak 1=0.0",
        "peak 1=nan",
        "peak 1=-2.0",
        "range 0=1.0,2.0",
        "range 0=1.0,2.0,3.0,4.0",
        "range 0=1.0,inf,3.0",
        "choices rows=x",
        "",
    ];
    for line in bad {
        let found = Plan::read(&format!("model 1\nchip tcp\n{line}\npes 2\n"));
        assert_eq!(found, Err(PlanError::Line { number: 3, line: line.to_string() }), "{line}");
    }
    let long = format!("x {}", "y".repeat(1000));
    let Err(PlanError::Line { line, .. }) = Plan::read(&format!("model 1\n{long}\n")) else { panic!() };
    assert!(line.len() < 100, "a message quotes the beginning of a long line");
}

prop_compose! {
    fn plan()(
        chip in "[a-z][a-z0-9/._-]{0,12}",
        set in prop::collection::vec("[a-z.]{1,8}=[0-9.]{1,4}", 0..3),
        dtype in "[a-z0-9]{1,6}",
        int8 in any::<bool>(),
        counts in any::<[u64; 3]>(),
        context in prop::option::of(any::<u64>()),
        ends in prop::option::of(prop::collection::vec(any::<u32>(), 1..4)),
        amax in prop::collection::btree_map(any::<usize>(), 1e-30_f32..1e30, 0..4),
        ranges in prop::collection::btree_map(any::<usize>(), prop::array::uniform3(1e-30_f32..1e30), 0..4),
    ) -> Plan {
        Plan {
            chip, set, dtype, context, ends, ranges,
            cache: if int8 { Dtype::I8 } else { Dtype::Bf16 },
            pes: counts[0], chips: counts[1], batch: counts[2],
            choices: Choices::default(),
            amax: amax.into_iter().map(|(value, peak)| (ValueId(value), peak)).collect::<BTreeMap<_, _>>(),
        }
    }
}

proptest! {
    #[test]
    fn what_is_printed_reads_back(plan in plan()) {
        prop_assert_eq!(Plan::read(&plan.to_string()), Ok(plan));
    }

    #[test]
    fn any_text_reads_or_is_refused(text in "(model 1\n)?([a-z]{0,8} ?[ -~]{0,20}\n){0,6}") {
        if let Ok(plan) = Plan::read(&text) {
            prop_assert_eq!(Plan::read(&plan.to_string()), Ok(plan));
        }
    }
}
