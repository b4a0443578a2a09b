//! Work side by side while somebody waits for it.

use tilewright_explore::batch::{StopFlag, side_by_side};

#[test]
fn work_that_waits_for_a_halt_ends() {
    let halt = StopFlag::default();
    let wait = |number: &u64| {
        while !halt.asked() {
            std::thread::yield_now();
        }
        number * 2
    };
    assert_eq!(side_by_side(&[1, 2, 3], wait, &halt, &mut || true), [2, 4, 6]);
}

#[test]
fn a_pool_of_one_thread_does_the_work_itself() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    let halt = StopFlag::default();
    let results = pool.install(|| side_by_side(&[1, 2, 3], |number| number + 1, &halt, &mut || true));
    assert_eq!(results, [2, 3, 4]);
}
