//! Contractions by themselves: the paper's QK^T, what the simulator charges for them, and what figures 14 and
//! 15 say of them.

use std::collections::BTreeMap;

use tilewright_explore::tcp::TcpChoice;
use tilewright_explore::tcp::contractions::{ContractionCost, every_contraction};
use tilewright_explore::tcp::events::cycle_fj;
use tilewright_explore::tcp::nest::FrameContext;
use tilewright_explore::tcp::program::{LowerOptions, lowered};
use tilewright_num::Dtype;
use tilewright_tcp_cost::cycles::image::exec_cycles;
use tilewright_tcp_cost::energy::{counts, energy_fj};

use crate::setting::{machine, task};

/// Fig. 10's product.
const QK: &str = "HQD, HKD -> HQK; dims H=4, Q=256, K=256, D=128";
/// Every so many-th tactic is lowered.
const LOWERED: u64 = 4001;

/// Time and energy of a contraction are those that the simulator's rules give for the command that it is
/// lowered to.
#[test]
fn contractions_take_what_their_commands_take() {
    let tcp = machine("tcp");
    let task = task(&tcp, Dtype::I8, QK);
    let (mut seen, mut compared) = (0_u64, 0);
    every_contraction(&task, &mut |framed, choice, cost| {
        seen += 1;
        if seen % LOWERED != 1 {
            return;
        }
        let program =
            lowered(&task, framed, choice, &LowerOptions::default()).expect("a legal tactic").program;
        let exec = program.execs.iter().find(|exec| exec.name == "contract").expect("it contracts");
        let taken = exec_cycles(&tcp, exec);
        assert_eq!(cost.cycles, taken.total_cycles - taken.overhead_cycles, "{choice:?}");
        let events: u64 = energy_fj(&tcp, &counts(&tcp, exec)).iter().sum();
        assert_eq!(cost.energy_fj, events + cycle_fj(&task.setup) * cost.cycles, "{choice:?}");
        compared += 1;
    });
    assert!(compared > 50, "{compared} of {seen}");
}

/// Fig. 14: the fastest tactic takes more power than the least of twice and four times its time. Fig. 15: all
/// lanes take less power than fewer of the same time, and nothing else is as fast as all lanes.
#[test]
fn efficient_tactics_use_all_lanes() {
    let tcp = machine("tcp");
    let task = task(&tcp, Dtype::I8, QK);
    let mut least: BTreeMap<u64, [f64; 2]> = BTreeMap::new();
    every_contraction(&task, &mut |_: &FrameContext, choice: &TcpChoice, cost: &ContractionCost| {
        #[expect(clippy::cast_precision_loss, reason = "powers are compared")]
        let power = cost.energy_fj as f64 / cost.cycles as f64;
        let slot = &mut least.entry(cost.slowest_cycles).or_insert([f64::MAX; 2])
            [usize::from(choice.lanes < tcp.ce.lanes)];
        *slot = slot.min(power);
    });
    let first = *least.keys().next().expect("some are legal");
    assert_eq!(first, 1024, "every product at full rate");
    let of = |times: u64| least[&(first * times)];
    assert!(of(1)[0] > of(2)[0] && of(2)[0] > of(4)[0], "{:?}", [1, 2, 4].map(of));
    assert!(of(1)[1] == f64::MAX && of(2)[0] < of(2)[1] && of(4)[0] < of(4)[1], "{:?}", [1, 2, 4].map(of));
}
