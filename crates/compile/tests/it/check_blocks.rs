//! Blocks that repeat are followed once by the checker of schedules: it must find in all of them what it
//! finds when it follows each.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use tilewright_compile::Compiled;
use tilewright_compile::check::{CheckReport, Intent, check};
use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;
use tilewright_tcp_isa::program::Program;
use tilewright_testkit::is_deep;

use crate::check::{MUTATIONS, mutated};
use crate::support::{compiled, on_chips, small, tcp};

/// Kernels of a layer.
const LAYER_KERNELS: usize = 9;
/// Layers of the models here: several behind the first that are like it, and a last.
const LAYERS: u64 = 8;

/// A program by its name as the compiler made it or changed, with repeated blocks followed once or each.
fn checked(machine: &Tcp, compiled: &Compiled, name: &str, program: &Program, each: bool) -> CheckReport {
    let outline = compiled.outlines.iter().find(|outline| outline.name == name).unwrap();
    let intent = compiled.intent(compiled.program(name).unwrap(), outline);
    let intent = Intent { reads_all: true, follows_each_block: each, ..intent };
    check(machine, program, &intent, &compiled.register_facts(program))
}

#[test]
fn repeated_blocks_are_followed_once() {
    let machine = tcp();
    for (dtype, pes, chips, batch) in [(Dtype::Bf16, 1, 1, 1), (Dtype::I8, 2, 1, 3), (Dtype::Bf16, 2, 2, 1)] {
        let compiled = on_chips(&machine, &small(LAYERS, 64, 8, 4), dtype, (pes, chips), batch);
        for outline in &compiled.outlines {
            let program = compiled.program(outline.name).unwrap();
            let [once, each] =
                [false, true].map(|each| checked(&machine, &compiled, outline.name, program, each));
            assert_eq!(once.faults, each.faults);
            assert_eq!((once.cases, once.commands), (each.cases, each.commands));
            // Of eight layers at most four are followed.
            assert!(once.pairs * 3 < each.pairs * 2, "{} of {}: {}", once.pairs, each.pairs, outline.name);
        }
    }
}

/// Every kind of change, in every layer.
#[test]
fn a_change_in_any_block_is_found_as_if_each_were_followed() {
    let machine = tcp();
    let (mut changes, mut faulty) = (0, 0);
    for (name, dtype, pes) in
        [("decode", Dtype::I8, 2), ("prefill", Dtype::Bf16, 1), ("prefill", Dtype::I8, 2)]
    {
        if name == "prefill" && pes == 1 && !is_deep() {
            continue;
        }
        let compiled = compiled(&machine, &small(LAYERS, 64, 8, 4), dtype, pes, 1);
        let program = compiled.program(name).unwrap();
        let outline = compiled.outlines.iter().find(|outline| outline.name == name).unwrap();
        for (index, mutation) in MUTATIONS.into_iter().enumerate() {
            for layer in 0..usize::try_from(LAYERS).unwrap() {
                // Prompts have many cases: of each kind of change one layer, others in the deep run.
                if name == "prefill" && !is_deep() && layer != (index + usize::try_from(pes).unwrap()) % 8 {
                    continue;
                }
                let queue = (layer + index) % program.queues.len();
                let begins = &outline.begins[queue];
                let first = 1 + layer * LAYER_KERNELS;
                let within = begins[first]..begins[first + LAYER_KERNELS];
                let Some(changed) = mutated(program, mutation, (queue, within), layer * 7919 + index) else {
                    continue;
                };
                let [once, each] =
                    [false, true].map(|each| checked(&machine, &compiled, name, &changed, each));
                assert_eq!(once.faults, each.faults, "{mutation:?} in layer {layer} of {name}");
                changes += 1;
                faulty += usize::from(each.errors().next().is_some());
            }
        }
    }
    assert!(changes > 60 && faulty * 2 > changes, "{faulty} of {changes} changes are faults");
}
