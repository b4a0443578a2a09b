//! When the commands of a head group run; `tests/sim/attention.cli` keeps the whole table.

use tilewright_record::KeepLast;
use tilewright_tcp_cost::cycles::image::exec_cycles;
use tilewright_tcp_lower::kernels::{AttentionHeads, attention};
use tilewright_tcp_sim::{NoObserver, SimOptions, simulate};

use crate::kernels::tcp;

#[test]
fn values_are_loaded_while_softmax_runs() {
    for length in [256, 1024] {
        let program = attention(tcp(), &AttentionHeads { length, ..AttentionHeads::default() }).unwrap();
        let outcome =
            simulate(tcp(), &program, &SimOptions::default(), KeepLast::new(0), &mut NoObserver).unwrap();
        let of = |name: &str| outcome.images.iter().find(|image| &*image.name == name).unwrap();
        let (load, pass) = (of("load_values"), of("row_max"));
        assert!(
            load.first_cycles >= pass.first_cycles && load.last_cycles <= pass.last_cycles,
            "at {length}"
        );
        for exec in &program.execs {
            let alone = u128::from(exec_cycles(tcp(), exec).total_cycles);
            let took = of(&exec.name).busy_cycles;
            // The main context never waits for the other; a load beside it may meet its banks.
            let slowed = if exec.name == "load_values" { alone } else { 0 };
            assert!((alone..=alone + slowed).contains(&took), "{}: {took}, alone {alone}", exec.name);
        }
    }
}
