//! Check 8: with more of a resource, or less of a fixed cost, and nothing else changed, no program is slower.

use tilewright_machine::tcp::Tcp;
use tilewright_tcp_isa::program::control::Command;
use tilewright_tcp_isa::program::exec::Context;
use tilewright_tcp_isa::program::transfer::TransferLoop;
use tilewright_tcp_isa::program::{Count, Program, Transfer};
use tilewright_tcp_sim::checks;

use crate::timeline::build::{
    contraction, copy, dm, dma, hbm, program, push, queue, run, run_exec, short, vector, weights,
};
use crate::timeline::tcp;

/// Loads, computes and stores, one step ahead, on so many PEs.
fn pipeline(pes: u64, requests: u64) -> Program {
    let (mut transfers, mut queues) = (Vec::new(), Vec::new());
    for pe in 0..pes {
        let load = u32::try_from(transfers.len()).expect("few");
        transfers.push(weights(pe, requests));
        transfers.push(Transfer {
            source: dm(0, pe * 64, 0x4_0000),
            target: hbm(0, (pe + 9) << 24),
            ..back(requests)
        });
        let mut steps = vec![dma(load, 0), push(Command::WaitD(0))];
        for turn in 0..3 {
            steps.push(dma(load, 1 + turn));
            steps.extend(run_exec(1, Context::Sub, 0));
            steps.extend(run_exec(0, Context::Main, 1));
            steps.push(push(Command::WaitE(0)));
            steps.push(push(Command::WaitE(1)));
            steps.extend(run_exec(2, Context::Main, 2));
            steps.push(push(Command::WaitE(2)));
            steps.push(push(Command::WaitD(1 + turn)));
            steps.push(dma(load + 1, 9));
        }
        queues.push(queue(0, pe, steps));
    }
    let execs = vec![contraction(256), short(2048, 4096), vector(Context::Main, 300), copy(1)];
    program(execs, transfers, queues)
}

/// Data memory of a PE to off-chip memory.
fn back(requests: u64) -> Transfer {
    let load = weights(0, requests);
    let turned = |row: &TransferLoop| TransferLoop { size: row.size, source: row.target, target: row.source };
    Transfer { loops: load.loops.iter().map(turned).collect(), ..load }
}

/// Four engines within off-chip memory, and four into one network.
fn crowded() -> Program {
    let inside = |at: u64| Transfer {
        source: hbm(0, at << 22),
        target: hbm(0, (at + 8) << 22),
        loops: vec![TransferLoop { size: Count::Fixed(2048), source: 256, target: 256 }],
        ..weights(0, 64)
    };
    let one = |at: u64| Transfer { target: dm(0, 0, at * 4096), ..weights(at, 1024) };
    let transfers: Vec<Transfer> = (0..4).map(inside).chain((4..8).map(one)).collect();
    let queues = (0..8).map(|pe| queue(0, u64::from(pe), vec![dma(pe, 0)])).collect();
    program(vec![], transfers, queues)
}

type Change = (&'static str, fn(&mut Tcp));

/// Each takes a limit away, or part of one. Requests in flight are none of them: more of them hide more, and
/// are read ahead for longer between two places of HBM.
const RELIEFS: [Change; 15] = [
    ("more of each channel", |m| m.hbm.channel_clock_hz *= 2),
    ("more efficient", |m| m.hbm.efficiency = 1.0),
    ("quicker rows", |m| m.hbm.row_switch_ns = 1),
    ("quicker columns", |m| m.hbm.same_group_cycles = m.hbm.other_group_cycles),
    ("quicker ranks", |m| m.hbm.other_rank_cycles = m.hbm.other_group_cycles),
    ("wider engines", |m| m.tdma.bandwidth_bytes_per_cycle *= 2),
    ("wider networks", |m| m.dmn.bandwidth_bytes_per_cycle *= 2),
    ("wider ports", |m| m.noc.pe_bytes_per_cycle *= 2),
    ("quicker start of transfers", |m| m.tdma.startup_cycles /= 2),
    ("less overhead", |m| m.command.overhead_cycles /= 2),
    ("quicker launch", |m| m.command.launch_cycles /= 2),
    ("quicker pushes", |m| m.queue.push_cycles = 1),
    ("quicker waits", |m| m.queue.wait_cycles = 0),
    ("a flatter vector engine", |m| m.ve.pipeline_cycles = 0),
    ("quicker partial writes", |m| m.hbm.partial_write_cycles = 10),
];

#[test]
fn less_of_a_limit_never_slows_a_program() {
    let programs = [pipeline(1, 256), pipeline(4, 1024), pipeline(8, 4096), crowded()];
    let mut quicker = [false; RELIEFS.len()];
    for program in &programs {
        let before = run(&tcp(), program);
        for ((name, relief), quicker) in RELIEFS.iter().zip(&mut quicker) {
            let mut machine = tcp();
            relief(&mut machine);
            let after = run(&machine, program);
            assert_eq!(checks::never_slower(&before, &after), None, "{name}");
            *quicker |= after.cycles < before.cycles;
        }
    }
    // A test that no relief would pass says nothing.
    let helped = RELIEFS.iter().zip(quicker).filter(|(_, quicker)| *quicker).map(|((name, _), _)| *name);
    let helped: Vec<&str> = helped.collect();
    for wanted in ["more efficient", "wider networks", "quicker start of transfers", "less overhead"] {
        assert!(helped.contains(&wanted), "{wanted} of {helped:?}");
    }
}

/// Each takes more of the run's time away the more there is: over two steps of the same kind.
#[test]
fn more_bandwidth_step_by_step_is_never_slower() {
    let program = pipeline(8, 2048);
    for (name, relief) in
        RELIEFS.iter().filter(|(name, _)| name.starts_with("more") || name.starts_with("wider"))
    {
        let mut machine = tcp();
        let mut before = run(&machine, &program);
        for _ in 0..3 {
            relief(&mut machine);
            let after = run(&machine, &program);
            assert_eq!(checks::never_slower(&before, &after), None, "{name}");
            before = after;
        }
    }
}

/// Check 4: a multicast reads data memory once, however many slices keep it.
#[test]
fn reads_of_data_memory_do_not_grow_with_receivers() {
    use tilewright_tcp_isa::switch::{Ring, Topology};
    let counts = |topology: Topology| {
        let mut exec = copy(8);
        let stream = crate::timeline::build::stream_of(&mut exec);
        stream.switch.topology = topology;
        let steps = run_exec(0, Context::Main, 0).to_vec();
        run(&tcp(), &program(vec![exec], vec![], vec![queue(0, 0, steps)])).counts
    };
    let ring = |slice1, slice0| Ring { slice1, slice0 };
    let sent = counts(Topology::Forwarding).fetch_bytes;
    for (topology, receivers) in [
        (Topology::Broadcast1(ring(16, 1)), 16),
        (Topology::Broadcast1(ring(4, 8)), 4),
        (Topology::Broadcast01(ring(4, 8), 1), 32),
        (Topology::TransposedBroadcast1(ring(4, 8)), 8),
        (Topology::Transpose(ring(4, 8)), 1),
    ] {
        let counts = counts(topology);
        assert_eq!((counts.fetch_bytes, counts.delivered_bytes), (sent, sent * receivers), "{topology:?}");
    }
}
