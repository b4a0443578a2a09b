//! Faults in planned graphs that no template takes: in places of their values, in constants, in programs.

use tilewright_base::SourceId;
use tilewright_compile::general::{Options, Planned, plan};
use tilewright_graph::{TensorStore, primitives};
use tilewright_machine::Tcp;
use tilewright_record::KeepLast;
use tilewright_runtime::ReadingOptions;
use tilewright_runtime::graph::executable;
use tilewright_tcp_isa::program::Program;
use tilewright_tcp_sim::RunEnd;

use super::{Ending, Fault, Tally, ending, fault, tcp};

/// Two products with a chain between them, a reduction, and a constant.
const GRAPH: &str = "graph 1
name mlp
input x: f32[64, 32]
input w1: f32[48, 32]
input w2: f32[32, 48]
const b: f32[4] = [0.5, 0.25, 1.5, 2.0]
let h: f32[64, 48] = einsum(x, w1) spec=\"nk,mk->nm\"
let r: f32[64, 48] = relu(h)
let y: f32[64, 32] = einsum(r, w2) spec=\"nk,mk->nm\"
let s: f32[64, 32] = softmax(y) axis=1
let q: f32[64, 8, 4] = reshape(s)
let t: f32[64, 8, 4] = add(q, b)
output y = y
output t = t
";

fn planned(machine: &Tcp) -> Planned {
    let graph = tilewright_graph::text::read(GRAPH, SourceId(0)).unwrap();
    let options = Options { pes: 2, ..Options::default() };
    plan(machine, &primitives(&graph).unwrap(), &TensorStore::default(), &options).unwrap()
}

/// Results of a run with findings, as whoever runs a graph gets them.
fn run(machine: &Tcp, planned: &Planned) -> Ending<Vec<Vec<u32>>> {
    ending(|| {
        let mut graph = executable(machine, planned, 2).map_err(|error| error.to_string())?;
        let numbers = |count: u64| (0..count).map(|at| ((at * 7 % 13) as f32 - 6.0).to_bits()).collect();
        let inputs: Vec<Vec<u32>> =
            graph.interface().inputs.iter().map(|port| numbers(port.count())).collect();
        let wanted = ReadingOptions { values: true, findings: true, ..ReadingOptions::default() };
        let reading = graph.run(&inputs, &wanted, KeepLast::new(0)).map_err(|error| error.to_string())?;
        match (reading.findings.first(), reading.outcome.ended) {
            (Some(finding), _) => Err(finding.code.to_string()),
            (None, RunEnd::Finished) => graph.results().map_err(|error| error.to_string()),
            (None, ended) => Err(format!("{ended:?}")),
        }
    })
}

fn tally(faults: Vec<Fault<Planned>>) -> Tally {
    let machine = tcp();
    let whole = planned(&machine);
    let right = match run(&machine, &whole) {
        Ending::Gave(right) => right,
        ended => panic!("it runs without a fault: {ended:?}"),
    };
    let mut tally = Tally::default();
    for (name, put) in faults {
        let mut faulty = whole.clone();
        put(&mut faulty);
        tally.add(name, run(&machine, &faulty), &right);
    }
    tally
}

#[test]
fn no_fault_in_a_graphs_plan_gives_other_results() {
    let whole = planned(&tcp());
    let mut faults: Vec<Fault<Planned>> = vec![
        fault::<Planned>("last place dropped", |p| _ = p.places.pop()),
        fault::<Planned>("first place dropped", |p| _ = p.places.remove(0)),
        fault::<Planned>("a kernel dropped", |p| _ = p.kernels.kernels.pop()),
        fault::<Planned>("less of HBM", |p| p.hbm_bytes /= 2),
        fault::<Planned>("a value dropped", |p| _ = p.kernels.values.pop()),
    ];
    for at in 0..whole.places.len() {
        faults.push(fault(&format!("place {at} shifted"), move |p: &mut Planned| p.places[at] += 256));
    }
    for at in 0..whole.blocks.len() {
        faults.push(fault(&format!("block {at} shifted"), move |p: &mut Planned| p.blocks[at].base += 256));
        faults.push(fault(&format!("block {at} dropped"), move |p: &mut Planned| _ = p.blocks.remove(at)));
    }
    let put = faults.len();
    let tally = tally(faults);
    tally.check();
    assert!(tally.broken > 5, "{put} faults: {tally:?}");
}

#[test]
fn no_fault_in_a_graphs_program_gives_other_results() {
    let whole = planned(&tcp());
    let mut faults: Vec<Fault<Planned>> = Vec::new();
    let mut add = |what: String, put: Box<dyn Fn(&mut Program)>| {
        faults.push(fault(&what, move |p: &mut Planned| put(&mut p.program)));
    };
    for (number, queue) in whole.program.queues.iter().enumerate() {
        for at in 0..queue.steps.len() {
            let what = format!("step {at} of queue {number} dropped ({:?})", queue.steps[at].kind);
            add(what, Box::new(move |program| _ = program.queues[number].steps.remove(at)));
        }
    }
    // Addresses within a value are not shifted here: nothing but its values says which part a command means.
    let put = faults.len();
    let tally = tally(faults);
    tally.check();
    assert!(tally.refused + tally.broken > put / 2, "{put} faults: {tally:?}");
}
