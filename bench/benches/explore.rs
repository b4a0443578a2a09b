//! How fast the explorer looks at candidates, and how long whole operators take.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::time::Instant;

use tilewright_base::{SourceId, Sources};
use tilewright_bench::{Bench, measure, processor_seconds};
use tilewright_explore::tcp::TcpTask;
use tilewright_explore::tcp::contractions::every_contraction;
use tilewright_explore::{Goal, SearchOptions, neuron, search};
use tilewright_machine::tcp::Tcp;
use tilewright_neuron_isa::Chip;
use tilewright_notation::problem::Problem;
use tilewright_notation::syntax::parser;
use tilewright_num::Dtype;
use tilewright_tcp_cost::Setup;

fn machine() -> Tcp {
    let mut sources = Sources::default();
    let text = tilewright_machine::builtin("tcp").expect("the machine is built in");
    let id = sources.add("tcp", text.to_string());
    let loaded = tilewright_machine::load(&mut sources, id, &|_| None).expect("the machine loads");
    loaded.machine.tcp().expect("a tcp").clone()
}

fn task<'m>(tcp: &'m Tcp, text: &str) -> TcpTask<'m> {
    let program = parser::program(text, SourceId(0)).expect("an einsum");
    let problem = Problem::new(&program).expect("sizes");
    let setup = Setup::new(tcp, 1, Dtype::I8).expect("a setup");
    TcpTask::new(setup, &program, &problem).expect("a contraction of two inputs")
}

/// Resident memory at its highest, if the system says it.
fn peak_memory() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:")).map(|size| size.trim().to_string())
}

/// Tilings of a matmul on a NeuronCore: every candidate of a small one, and exact optima of a large one.
fn tilings() {
    let mut sources = Sources::default();
    let text = tilewright_machine::builtin("trainium1").expect("the machine is built in");
    let id = sources.add("trainium1", text.to_string());
    let bases = |base: &str| tilewright_machine::builtin(base).map(str::to_string);
    let loaded = tilewright_machine::load(&mut sources, id, &bases).expect("the machine loads");
    let chip = Chip::new("trainium1", loaded.machine.neuron().expect("a NeuronCore").clone());
    let task = |text: &str| {
        let program = parser::program(text, SourceId(0)).expect("an einsum");
        let problem = Problem::new(&program).expect("sizes");
        neuron::NeuronTask::new(&chip, Dtype::Bf16, &program, &problem).expect("a contraction of two inputs")
    };
    let small = task("mk, kn -> mn; dims m=512, k=512, n=1024");
    let all = SearchOptions::everything(Goal::Time, 5);
    let found = search(&small, &all, &mut |_, _| false);
    let every =
        Bench { name: "tilings of 512 x 512 x 1024, whole space", goal_per_s: 1e5, items: found.evaluated };
    measure(&every, || drop(search(&small, &all, &mut |_, _| false)));
    let large = task("mk, kn -> mn; dims m=4096, k=4096, n=4096");
    let exact = SearchOptions::exact(Goal::Time, 5);
    let optima = Bench { name: "exact optima of 4096 x 4096 x 4096", goal_per_s: 0.1, items: 1 };
    measure(&optima, || drop(search(&large, &exact, &mut |_, _| false)));
}

/// All contractions of the paper's figures 14 and 15, by themselves.
fn figures(qk: &TcpTask<'_>) {
    let look = || {
        let (mut all, mut best) = (0, u64::MAX);
        every_contraction(qk, &mut |_, _, cost| {
            all += 1;
            best = best.min(cost.cycles);
        });
        (all, best)
    };
    let space = Bench { name: "contractions of the paper's QK^T", goal_per_s: 5e5, items: look().0 };
    measure(&space, || {
        std::hint::black_box(look());
    });
}

fn main() {
    tilings();
    let tcp = machine();
    let qk = task(&tcp, "hqd, hkd -> hqk; dims h=4, q=256, k=256, d=128");
    let all = SearchOptions::everything(Goal::Time, 5);
    let before = processor_seconds();
    let found = search(&qk, &all, &mut |_, _| false);
    if let (Some(before), Some(after)) = (before, processor_seconds()) {
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let rate = found.evaluated as f64 / (after - before).max(0.01) / 1e6;
        println!("candidates of QK^T: {rate:.2} million a second of processor time");
    }
    let every = Bench { name: "candidates of QK^T, whole space", goal_per_s: 2e6, items: found.evaluated };
    measure(&every, || drop(search(&qk, &all, &mut |_, _| false)));
    figures(&qk);
    let exact = SearchOptions::exact(Goal::Time, 5);
    let whole = Bench { name: "exact optima of QK^T", goal_per_s: 1.0, items: 1 };
    measure(&whole, || drop(search(&qk, &exact, &mut |_, _| false)));
    let start = Instant::now();
    let mut operators = 0;
    for rows in [1, 16, 32, 128, 2048] {
        for text in [
            format!("mk, n_8k -> mn_8; dims m={rows}, n=4096, k=4096"),
            format!("mk, n_8k -> mn_8; dims m={rows}, n=11008, k=4096"),
            format!("mk, n_8k -> mn_8; dims m={rows}, n=4096, k=11008"),
            format!("h_8qd, h_8kd -> h_8qk; dims h=32, q={rows}, k=2048, d=128"),
            format!("h_8qk, h_8kd -> h_8qd; dims h=32, q={rows}, k=2048, d=128"),
        ] {
            let found = search(&task(&tcp, &text), &exact, &mut |_, _| false);
            assert!(found.complete && !found.kept.best().is_empty(), "{text}");
            operators += 1;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("{operators} LLaMA-2 7B operators, exact: {seconds:.2} s (goal 60 s)");
    println!("resident memory at its highest: {} (goal 300 MB)", peak_memory().unwrap_or_default());
}
