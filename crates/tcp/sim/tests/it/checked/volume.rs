//! Long runs: what a checker keeps does not grow with them.

use tilewright_tcp_isa::program::Program;
use tilewright_tcp_isa::program::exec::Context;
use tilewright_tcp_sim::findings::FindingsChecker;

use crate::checked::build::*;
use crate::checked::script::{Happens, tell};
use crate::checked::tcp;

/// Double-buffered copies on every PE, `turns` times.
fn turns(turns: u64) -> (Program, Vec<Happens>) {
    let side = |at: u64| 65_536 * at;
    let image = |name: &str, at: u64| copy(name, Context::Main, side(at), side(at) + 32_768, 64);
    let mut transfers = Vec::new();
    for slice in (0..512).step_by(64) {
        for at in 0..2 {
            let mut fill = transfer(&format!("fill{slice}.{at}"), hbm(0), dm(slice, side(at)), 2048);
            fill.loops = vec![transfer_loop(64, 0, 1 << 22)];
            transfers.push(fill);
        }
    }
    let program = Program {
        chips: 1,
        execs: vec![image("even", 0), image("odd", 1)],
        transfers,
        queues: (0..8).map(|pe| queue(pe, Vec::new())).collect(),
        ..Program::default()
    };
    let mut script = Vec::new();
    let mut issued = 0;
    // Tickets of the last command that used each buffer of each PE.
    let mut last = vec![None; 16];
    for turn in 0..turns {
        for pe in 0..8_u64 {
            let side = turn % 2;
            let at = usize::try_from(pe * 2 + side).expect("a small number");
            if let Some(before) = last[at] {
                script.push(Happens::Waited(pe, before));
            }
            script.push(Happens::Dma(pe, at));
            script.push(Happens::Waited(pe, issued));
            script.push(Happens::Exec(pe, usize::try_from(side).expect("a small number")));
            last[at] = Some(issued + 1);
            issued += 2;
        }
    }
    (program, script)
}

#[test]
fn long_runs_are_checked_and_clean() {
    let (mut program, script) = turns(6_000);
    let place = tilewright_tcp_isa::program::tensor::TensorPlace::Hbm { chip: 0, base: 0 };
    program.tensors = vec![tensor("x", tilewright_tcp_isa::program::tensor::TensorRole::Input, place, 4096)];
    let mut checker = FindingsChecker::new(tcp(), &program);
    tell(&mut checker, &program.execs, &program.transfers, &script);
    assert_eq!(checker.finish(), []);
}
