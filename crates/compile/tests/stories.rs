//! A real model on the chip's values, commands in the order of the queue.
#![expect(clippy::disallowed_methods, reason = "reads model files")]

use std::sync::Arc;

use tilewright_compile::cluster::cluster;
use tilewright_compile::tcp::build::{Mode, program};
use tilewright_compile::tcp::image::hbm;
use tilewright_compile::tcp::pack::pack;
use tilewright_compile::tcp::plan::{Options, Plan};
use tilewright_compile::weights::constant;
use tilewright_graph::primitives;
use tilewright_interp::{Interpreter, Session, best};
use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;
use tilewright_tcp::program::control::{Command, StepKind};
use tilewright_tcp::program::event::PeId;
use tilewright_tcp::program::Program;
use tilewright_tcp::run::{self, State};
use tilewright_tcp::verify::verify;

fn machine() -> Tcp {
    let mut sources = tilewright_base::Sources::default();
    let id = sources.add("tcp", tilewright_machine::builtin("tcp").unwrap());
    tilewright_machine::load(&mut sources, id, &|_| None).unwrap().machine.tcp().unwrap().clone()
}

fn step(machine: &Tcp, state: &mut State, program: &Program, registers: &[i64]) {
    let mut loaded = [None, None];
    for step in &program.queues[0].steps {
        let StepKind::Push(command) = &step.kind else { panic!() };
        match command {
            Command::Load(id) => {
                let exec = &program.execs[id.0 as usize];
                loaded[exec.context as usize] = Some(exec.resolved(registers));
            }
            Command::Exec { context, .. } => {
                let exec = loaded[*context as usize].as_ref().unwrap();
                if let Err(fault) = run::exec(machine, state, PeId { chip: 0, pe: 0 }, exec) {
                    panic!("{}: {fault}", exec.name);
                }
            }
            Command::Dma { transfer, .. } => {
                let transfer = program.transfers[transfer.0 as usize].resolved(registers);
                run::transfer(machine, state, &transfer).unwrap_or_else(|fault| panic!("{}: {fault}", transfer.name));
            }
            _ => {}
        }
    }
}

#[test]
fn stories() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/models/stories260K/stories260K.bin");
    let Ok(bytes) = std::fs::read(&path) else {
        eprintln!("skipped: {} is not there", path.display());
        return;
    };
    let model = tilewright_import::llama2c::read("stories260K.bin", &Arc::new(bytes)).unwrap();
    let machine = machine();
    let kernels = cluster(&model.graph).unwrap();
    println!("{}", kernels.print());
    let plan = Plan::new(&machine, &kernels, Options { dtype: Dtype::Bf16, context: 512 }).unwrap();
    let decode = program(&machine, &kernels, &plan, Mode::Decode).unwrap();
    let prefill = program(&machine, &kernels, &plan, Mode::Prefill).unwrap();
    for program in [&decode, &prefill] {
        for complaint in verify(&machine, program) {
            println!("{}: {} ({:?} instead {:?})", complaint.code, complaint.message, complaint.allowed, complaint.instead);
        }
    }
    let mut state = State::new(&machine, 1);
    let constants = |name: &str| constant(&model.graph, &model.store, name);
    pack(&kernels, &plan, 8, &|weights| plan.parts(&machine, weights).first, &constants, &mut |at, bytes| {
        state.write(hbm(0, at), bytes).unwrap();
    })
    .unwrap();
    let ids = [1_i64, 403, 407, 261, 378];
    let interpreter = Interpreter::new(primitives(&model.graph).unwrap(), &model.store).unwrap();
    let mut session = Session::new(&interpreter).unwrap();
    for (at, id) in ids.iter().enumerate() {
        let logits = session.feed(&[*id]).unwrap().pop().unwrap();
        let at = at as u64;
        let entry = |value: u64| u32::try_from(value).unwrap().to_le_bytes();
        state.write(hbm(0, plan.token_table), &entry(*id as u64 * plan.embedding_row)).unwrap();
        state.write(hbm(0, plan.angle_table), &entry(at * plan.angles_row)).unwrap();
        state.write(hbm(0, plan.cache_table), &entry(at * plan.cache_row)).unwrap();
        let context = i64::try_from(at + 1).unwrap();
        let rows = (context + 63) / 64;
        step(&machine, &mut state, &decode, &[rows, context, (rows + 7) / 8]);
        let mut words = vec![0; 512 * 4];
        state.read(hbm(0, plan.logits), &mut words).unwrap();
        let ours: Vec<f32> = words.chunks(4).map(|word| f32::from_le_bytes(word.try_into().unwrap())).collect();
        let worst = ours.iter().zip(&logits).map(|(a, b)| (a - b).abs()).fold(0.0_f32, f32::max);
        println!("token {at}: best {} / {}, worst error {worst}", best(&ours), best(&logits));
    }
    let story = session.feed(&[378, 432, 400, 401, 402]).unwrap();
    let _ = story;
    let mut fresh = State::new(&machine, 1);
    pack(&kernels, &plan, 8, &|weights| plan.parts(&machine, weights).first, &constants, &mut |at, bytes| {
        fresh.write(hbm(0, at), bytes).unwrap();
    })
    .unwrap();
    let count = 70_u64;
    let ids: Vec<i64> = (0..count).map(|at| if at == 0 { 1 } else { i64::try_from(at * 37 % 500).unwrap() + 3 }).collect();
    let mut session = Session::new(&interpreter).unwrap();
    let logits = session.feed(&ids).unwrap().pop().unwrap();
    for place in 0..512_u64 {
        let entry = |value: u64| u32::try_from(value).unwrap().to_le_bytes();
        let at = (place < count).then(|| count - 1 - place);
        let id = at.map_or(0, |at| ids[at as usize] as u64);
        fresh.write(hbm(0, plan.token_table + 4 * place), &entry(id * plan.embedding_row)).unwrap();
        fresh.write(hbm(0, plan.angle_table + 4 * place), &entry(at.unwrap_or(0) * plan.angles_row)).unwrap();
        fresh.write(hbm(0, plan.cache_table + 4 * place), &entry(at.unwrap_or(512) * plan.cache_row)).unwrap();
    }
    step(&machine, &mut fresh, &prefill, &[2, 70, 2, 128]);
    let mut words = vec![0; 512 * 4];
    fresh.read(hbm(0, plan.logits), &mut words).unwrap();
    let ours: Vec<f32> = words.chunks(4).map(|word| f32::from_le_bytes(word.try_into().unwrap())).collect();
    let worst = ours.iter().zip(&logits).map(|(a, b)| (a - b).abs()).fold(0.0_f32, f32::max);
    println!("prefill: best {} / {}, worst error {worst}", best(&ours), best(&logits));
}
