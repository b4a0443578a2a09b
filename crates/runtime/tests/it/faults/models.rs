//! Faults in compiled models of the Llama family: in their plan, in their kernels and in their programs.

use std::ops::ControlFlow;
use std::sync::Arc;

use tilewright_compile::weights::constant;
use tilewright_compile::{Compiled, Mixed, Options, compile};
use tilewright_graph::StoredTensor;
use tilewright_import::Model;
use tilewright_import::llama::{Config, Rope, Scaling};
use tilewright_machine::Tcp;
use tilewright_num::Dtype;
use tilewright_record::KeepLast;
use tilewright_runtime::ReadingOptions;
use tilewright_runtime::generate::{Limits, generate};
use tilewright_runtime::model::{ModelDevice, ModelError};
use tilewright_tcp_exec::state::SharedBytes;
use tilewright_tcp_isa::program::Program;
use tilewright_tcp_sim::RunEnd;

use super::{Ending, Fault, Tally, ending, fault, tcp};
use crate::random;

fn model() -> Model {
    let config = Config {
        name: "random".to_string(),
        width: 32,
        hidden: 48,
        layers: 1,
        heads: 2,
        kv_heads: 1,
        head_width: 16,
        vocabulary: 40,
        context: 64,
        norm_eps: 1e-5,
        rope: Rope { theta: 1e4, interleaved: false, scaling: Scaling::None },
        tied: false,
    };
    random::llama(&config, 3)
}

fn compiled(machine: &Tcp, model: &Model, pes: u64) -> Compiled {
    let (dtype, mixed, cache) = (Dtype::Bf16, Mixed::default(), Dtype::Bf16);
    let options = Options { dtype, mixed, cache, context: 64, pes, chips: 1, batch: 1 };
    compile(machine, &model.graph, options).unwrap()
}

/// Bits of the logits behind a prompt and a token, as whoever runs a model gets them: checked, loaded, fed.
fn run(machine: &Tcp, model: &Model, compiled: Compiled) -> Ending<Vec<u32>> {
    let words = |error: &dyn std::error::Error| error.to_string();
    ending(|| {
        for (name, report) in compiled.check(machine) {
            if let Some(fault) = report.errors().next() {
                return Err(format!("{name}: {fault}"));
            }
        }
        let mut chip = ModelDevice::new(machine, compiled).map_err(|error| words(&error))?;
        let constants = |name: &str| constant(&model.graph, &model.store, name);
        chip.load(&constants).map_err(|error| words(&error))?;
        let wanted = ReadingOptions { values: true, ..ReadingOptions::default() };
        let mut given = Vec::new();
        for tokens in [&[3, 9, 27][..], &[11]] {
            let (_, reading) = chip.feed(tokens, &wanted, KeepLast::new(0)).map_err(|error| words(&error))?;
            if reading.outcome.ended != RunEnd::Finished {
                return Err(format!("{:?}", reading.outcome.ended));
            }
            given.extend(chip.logits().map_err(|error| words(&error))?.into_iter().map(f32::to_bits));
        }
        Ok(given)
    })
}

/// Puts each fault into a model of its own and runs it.
fn tally(pes: u64, faults: Vec<Fault<Compiled>>) -> Tally {
    let (machine, model) = (tcp(), model());
    let whole = compiled(&machine, &model, pes);
    let Ending::Gave(right) = run(&machine, &model, whole.clone()) else { panic!("it runs without a fault") };
    let mut tally = Tally::default();
    for (name, put) in faults {
        let mut faulty = whole.clone();
        put(&mut faulty);
        tally.add(name, run(&machine, &model, faulty), &right);
    }
    tally
}

#[test]
fn no_fault_in_a_plan_gives_other_logits() {
    let mut faults: Vec<Fault<Compiled>> = vec![
        fault::<Compiled>("logits shifted", |c| c.plan.logits += 32),
        fault::<Compiled>("table of tokens shifted", |c| c.plan.token_table += 256),
        fault::<Compiled>("table of angles shifted", |c| c.plan.angle_table += 256),
        fault::<Compiled>("table of caches shifted", |c| c.plan.cache_table += 256),
        fault::<Compiled>("table of rows shifted", |c| c.plan.row_table += 256),
        fault::<Compiled>("embedding shifted", |c| c.plan.embedding += 256),
        fault::<Compiled>("RoPE tables shifted", |c| c.plan.angles += 256),
        fault::<Compiled>("constants shifted", |c| c.plan.constants.at += 256),
        fault::<Compiled>("rows of the embedding longer", |c| c.plan.embedding_row += 64),
        fault::<Compiled>("rows of RoPE tables longer", |c| c.plan.angles_row += 12),
        fault::<Compiled>("rows of caches longer", |c| c.plan.cache_row += 64),
        fault::<Compiled>("one row more", |c| c.plan.prefill_rows += 1),
        fault::<Compiled>("last norm dropped", |c| _ = c.plan.norms.pop()),
        fault::<Compiled>("first norm dropped", |c| _ = c.plan.norms.remove(0)),
        fault::<Compiled>("a cache dropped", |c| _ = c.plan.caches.pop()),
        fault::<Compiled>("a cache shifted", |c| c.plan.caches[0] += 256),
    ];
    let whole = compiled(&tcp(), &model(), 1);
    for at in 0..whole.plan.packed.len() {
        let mut add = |what: &str, put: fn(&mut Compiled, usize)| {
            faults.push(fault(&format!("weight {at}: {what}"), move |c: &mut Compiled| put(c, at)));
        };
        add("dropped", |c, at| _ = c.plan.packed.remove(at));
        add("of the next kernel", |c, at| c.plan.packed[at].kernel += 1);
        add("of no kernel", |c, at| c.plan.packed[at].kernel = 1000);
        add("shorter rows", |c, at| c.plan.packed[at].row -= 1);
        add("half of its slices", |c, at| c.plan.packed[at].slices /= 2);
        add("a tile dropped", |c, at| _ = c.plan.packed[at].fills.pop());
        add("a tile shifted", |c, at| c.plan.packed[at].fills[0].at += 256);
        add("a tile shifted back", |c, at| c.plan.packed[at].fills[0].at -= 256);
        add("other columns", |c, at| c.plan.packed[at].fills[0].first += 1);
        add("fewer columns", |c, at| c.plan.packed[at].fills[0].groups -= 1);
        add("shorter slices", |c, at| c.plan.packed[at].fills[0].slice_bytes -= 8);
        add("a bias", |c, at| c.plan.packed[at].biased ^= true);
    }
    for at in 0..whole.kernels.kernels.len() {
        let put = move |c: &mut Compiled| _ = c.kernels.kernels.remove(at);
        faults.push(fault(&format!("kernel {at} dropped"), put));
    }
    let put = faults.len();
    let tally = tally(1, faults);
    tally.check();
    assert!(tally.broken > 10 && tally.harmless.is_empty(), "{put} faults: {tally:?}");
}

#[test]
fn weights_that_overflow_end_a_generation() {
    let (machine, mut model) = (tcp(), model());
    let is_last =
        |(name, tensor): &(&String, &mut StoredTensor)| *name != "embedding" && tensor.dims == [40, 32];
    let last: Vec<_> = model.store.tensors.iter_mut().filter(is_last).collect();
    assert_eq!(last.len(), 1);
    for (_, tensor) in last {
        // Finite numbers whose products are not.
        *tensor = StoredTensor::floats(&[40, 32], &[3e38; 40 * 32]).unwrap();
    }
    let mut chip = ModelDevice::new(&machine, compiled(&machine, &model, 1)).unwrap();
    chip.load(&|name: &str| constant(&model.graph, &model.store, name)).unwrap();
    let limits = Limits { tokens: 4, ends: Vec::new() };
    let mut heard = 0;
    let ended = generate(&mut chip, &[3, 9, 27], &limits, &mut |_| {
        heard += 1;
        ControlFlow::Continue(())
    });
    assert!(matches!(ended, Err(ModelError::Overflow { seen: 3 })), "{ended:?} after {heard}");
}

#[test]
fn packed_weights_of_another_plan_are_refused() {
    let (machine, model) = (tcp(), model());
    let whole = compiled(&machine, &model, 1);
    let mut packed: Vec<u8> = Vec::new();
    let constants = |name: &str| constant(&model.graph, &model.store, name);
    let mut write = |_: u64, at: u64, bytes: &[u8]| {
        let start = usize::try_from(at).unwrap();
        packed.resize(packed.len().max(start + bytes.len()), 0);
        packed[start..start + bytes.len()].copy_from_slice(bytes);
    };
    whole.pack(&constants, &mut write).unwrap();
    assert_eq!(packed.len() as u64, whole.packed_bytes());
    let load = |chips: &[&[u8]]| {
        let shared = chips.iter().map(|bytes| SharedBytes::new(Arc::new(bytes.to_vec()), 0..bytes.len()));
        let shared: Vec<SharedBytes> = shared.map(Option::unwrap).collect();
        ModelDevice::new(&machine, whole.clone()).unwrap().load_packed(&shared)
    };
    load(&[&packed]).unwrap();
    let longer: Vec<u8> = packed.iter().copied().chain([0]).collect();
    let (cut, all) = (&packed[..packed.len() - 1], packed.as_slice());
    for wrong in [&[cut][..], &[&longer], &[], &[all, all]] {
        assert!(matches!(load(wrong), Err(ModelError::Packed { .. })));
    }
}

/// Steps are dropped one by one, and transfers read and write elsewhere or less.
fn program_faults(whole: &Compiled, which: &'static str, every: usize) -> Vec<Fault<Compiled>> {
    let of = move |c: &mut Compiled| -> Program {
        std::mem::take(if which == "decode" { &mut c.decode } else { &mut c.prefill })
    };
    let back = move |c: &mut Compiled, program: Program| {
        *(if which == "decode" { &mut c.decode } else { &mut c.prefill }) = program;
    };
    let mut faults = Vec::new();
    let mut add = |what: String, put: Box<dyn Fn(&mut Program)>| {
        faults.push(fault(&format!("{which}: {what}"), move |c: &mut Compiled| {
            let mut program = of(c);
            put(&mut program);
            back(c, program);
        }));
    };
    let program = whole.program(which).unwrap();
    for (number, queue) in program.queues.iter().enumerate() {
        for at in (0..queue.steps.len()).step_by(every) {
            let what = format!("step {at} of queue {number} dropped ({:?})", queue.steps[at].kind);
            add(what, Box::new(move |program| _ = program.queues[number].steps.remove(at)));
        }
    }
    for at in (0..program.transfers.len()).step_by(every) {
        let name = &program.transfers[at].name;
        add(format!("{name} reads elsewhere"), Box::new(move |p| p.transfers[at].source.0 += 256));
        // What PEs send one another is not followed byte by byte: nobody may need it.
        if !name.starts_with("tokens") {
            add(format!("{name} writes elsewhere"), Box::new(move |p| p.transfers[at].target.0 += 256));
        }
        if !program.transfers[at].loops.is_empty() {
            add(format!("{name} moves less"), Box::new(move |p| _ = p.transfers[at].loops.pop()));
        }
    }
    faults
}

#[test]
fn no_fault_in_a_program_gives_other_logits() {
    for (pes, every) in [(1, 2), (2, 9)] {
        let whole = compiled(&tcp(), &model(), pes);
        let mut faults = program_faults(&whole, "decode", every);
        faults.extend(program_faults(&whole, "prefill", every));
        let put = faults.len();
        let tally = tally(pes, faults);
        tally.check();
        assert!(tally.refused > put / 2, "{put} faults: {tally:?}");
    }
}
