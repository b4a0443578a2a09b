//! Whole commands do not depend on the number of threads.

use tilewright_num::Dtype;
use tilewright_tcp_exec::{ExecFault, MemoryState};
use tilewright_tcp_isa::program::exec::Memory;
use tilewright_tcp_isa::switch::{Ring, Topology};

use crate::run::contract::{contraction, step};
use crate::run::images::{Dice, OUT, at, copy, fetch, read, row, run, tcp};

fn result(threads: usize, broken: bool) -> Result<Vec<u8>, ExecFault> {
    let machine = tcp();
    let mut state = MemoryState::new(machine, 1);
    let dice = &mut Dice(30);
    for slice in 0..64 {
        state.write_slice(at(slice, Memory::Dm, 0), &dice.bytes(4096)).unwrap();
        state.write_slice(at(slice, Memory::Trf { lanes: 8 }, 0), &dice.bytes(65536)).unwrap();
    }
    let mut stream = copy(fetch(Dtype::Bf16, 32, vec![row(16, 32), row(32, 1)]), 16 * 8 * 2);
    stream.switch.topology = Topology::Broadcast1(Ring { slice1: 8, slice0: 8 });
    let loops = vec![row(128, 0), row(2, 32), row(32, 1)];
    let mut image = contraction(Dtype::Bf16, loops, vec![step(128, false), step(2, false)]);
    image.flits = 2;
    image.tree = 32;
    image.repeats = tilewright_tcp_isa::program::Count::Fixed(2);
    stream.contract = Some(image);
    if broken {
        stream.commit.loops.push(row(2, 8));
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| run(machine, &mut state, stream))?;
    Ok((0..64).flat_map(|slice| read(&state, slice, Memory::Dm, OUT, 16 * 8 * 2 * 32)).collect())
}

#[test]
fn any_number_of_threads_gives_the_same() {
    let alone = result(1, false).unwrap();
    assert!(alone.iter().any(|byte| *byte != 0));
    assert!(alone == result(2, false).unwrap() && alone == result(5, false).unwrap());
    let fault = result(1, true).unwrap_err();
    assert_eq!(fault.slice, Some(0));
    assert_eq!(fault, result(5, true).unwrap_err());
}
