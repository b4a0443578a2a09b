//! Plans of language models that were compiled as any graph: what is printed is read, and what is wrong is
//! refused with its line.

use proptest::collection::vec;
use proptest::prelude::*;
use tilewright_artifact::{GraphPlan, LanguagePlan, LanguageProgram, NamedRole, Plan, PlanError};
use tilewright_num::Dtype;

const FULL: &str = "language 1
dtype \"int8,head=bf16\"
peak i8
pes 2
context 16
positions 64
ends [2, 5]
input \"tokens\" tokens
input \"positions\" positions
input \"attention_mask\" mask
input \"past \\\"x\\\"\" state of \"present_x\"
logits \"logits\"
blocks decode [0, 4096]
blocks prefill [0, 4096, 8192]
";

fn plan() -> impl Strategy<Value = LanguagePlan> {
    let role = prop_oneof![
        Just(NamedRole::Tokens),
        Just(NamedRole::Positions),
        Just(NamedRole::Mask),
        ".*".prop_map(NamedRole::State),
    ];
    let program = prop_oneof![Just(LanguageProgram::Token), Just(LanguageProgram::Prompt)];
    let ends = proptest::option::of(vec(any::<u32>(), 0..4));
    let lists = (vec((".*", role), 0..4), vec((program, vec(any::<u64>(), 0..4)), 0..3), ends);
    (".*", ".*", any::<bool>(), any::<[u64; 3]>(), lists).prop_map(
        |(dtype, logits, is_narrow, [pes, context, positions], (roles, blocks, ends))| {
            let peak = if is_narrow { Dtype::I8 } else { Dtype::Bf16 };
            LanguagePlan { dtype, peak, pes, context, positions, ends, roles, logits, blocks }
        },
    )
}

proptest! {
    #[test]
    fn what_is_printed_is_read(plan in plan()) {
        prop_assert_eq!(LanguagePlan::read(&plan.to_string()), Ok(plan));
    }

    #[test]
    fn any_text_reads_or_is_refused(text in "(language 1\n)?([a-z]{0,8} ?[ -~]{0,20}\n){0,6}") {
        if let Ok(plan) = LanguagePlan::read(&text) {
            prop_assert_eq!(LanguagePlan::read(&plan.to_string()), Ok(plan));
        }
    }
}

#[test]
fn a_plan_with_every_line_reads_and_prints_as_it_was() {
    let plan = LanguagePlan::read(FULL).unwrap();
    assert_eq!((plan.pes, plan.context, plan.positions, plan.peak), (2, 16, 64, Dtype::I8));
    assert_eq!(plan.blocks_of(LanguageProgram::Prompt), Some(&[0, 4096, 8192][..]));
    assert_eq!(plan.roles[3], ("past \"x\"".to_string(), NamedRole::State("present_x".to_string())));
    assert_eq!(plan.to_string(), FULL);
}

#[test]
fn other_versions_and_lines_are_refused() {
    let other = |from: &str, to: &str| LanguagePlan::read(&FULL.replacen(from, to, 1)).unwrap_err();
    for version in ["language 2", "graph 1", "model 1"] {
        assert_eq!(other("language 1", version), PlanError::Version { found: version.to_string() });
    }
    let is_version = |error: PlanError| matches!(error, PlanError::Version { .. });
    assert!(is_version(Plan::read(FULL).unwrap_err()) && is_version(GraphPlan::read(FULL).unwrap_err()));
    let words = other("language 1", "language 2").to_string();
    assert!(
        words.ends_with("`model 1`, `graph 1`, `graph 2`, `graph 3`, `graph 4` and `language 1`"),
        "{words}"
    );
    for (from, to) in [
        ("pes 2\n", ""),
        ("pes 2\n", "pes 2\npes 2\n"),
        ("pes 2\n", "pes two\n"),
        ("pes 2\n", "pes 2\ncolour 7\n"),
        ("peak i8", "peak f8e4m3"),
        ("ends [2, 5]", "ends [2, 4294967296]"),
        ("ends [2, 5]", "ends [-1]"),
        ("\"tokens\" tokens", "\"tokens\" token"),
        ("\"tokens\" tokens", "\"tokens\" tokens of \"x\""),
        ("state of \"present_x\"", "state"),
        ("blocks decode", "blocks clear"),
        ("[0, 4096]", "[0, 18446744073709551616]"),
    ] {
        assert!(matches!(other(from, to), PlanError::Line { .. }), "{to}");
    }
}
