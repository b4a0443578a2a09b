//! Parts of the systolic array side by side, and the clock that it begins with.

use tilewright_neuron_isa::Chip;
use tilewright_neuron_isa::cost::tensor::{ArrayPart, cells_of};
use tilewright_neuron_sim::schedule::systolic_array::SystolicArray;

use crate::chips::chip as tests_chip;

const US: u64 = 1_000_000;

fn quadrant(row: u64, column: u64) -> Option<ArrayPart> {
    Some(ArrayPart { position: (row, column), size: (64, 64) })
}

#[test]
fn parts_that_do_not_meet_run_side_by_side() {
    let chip = tests_chip("trainium1");
    let mut array = SystolicArray::default();
    let first = array.place(&chip, cells_of(&chip, quadrant(0, 0)), 0, US);
    let beside = array.place(&chip, cells_of(&chip, quadrant(64, 0)), first.next_ps, US);
    assert!(first.next_ps < US / 10 && beside.start_ps == first.next_ps);
    let behind = array.place(&chip, cells_of(&chip, quadrant(0, 0)), beside.next_ps, US);
    assert_eq!(behind.start_ps, first.end_ps);
    let whole = array.place(&chip, 0, 0, US);
    assert_eq!(whole.start_ps, behind.end_ps);
}

#[test]
fn a_part_that_is_all_of_the_array_is_the_array() {
    let chip = tests_chip("trainium1");
    assert_eq!(cells_of(&chip, Some(ArrayPart { position: (0, 0), size: (128, 128) })), 0);
    assert_eq!(cells_of(&chip, Some(ArrayPart { position: (32, 96), size: (32, 32) })), 1 << 7);
}

#[test]
fn it_starts_at_half_rate_and_reaches_all_of_it() {
    let chip = tests_chip("trainium2");
    let mut array = SystolicArray::default();
    let (mut now, mut taken) = (0, Vec::new());
    while now < 10 * US {
        let placed = array.place(&chip, 0, now, US / 10);
        taken.push(placed.end_ps - placed.start_ps);
        now = placed.end_ps;
    }
    assert_eq!((taken.first(), taken.last()), (Some(&(US / 5)), Some(&(US / 10))));
    assert!(taken.is_sorted_by(|a, b| a >= b));
    // After a rest it begins again.
    let again = array.place(&chip, 0, now + 5 * US, US / 10);
    assert_eq!(again.end_ps - again.start_ps, US / 5);
}
/// Busy for a part of every microsecond: at more than half the rate stays, at less the limit returns.
#[test]
fn the_limit_returns_when_less_than_half_of_a_window_is_busy() {
    let taken = |chip: &Chip, busy_ps: u64| {
        let mut array = SystolicArray::default();
        let warm = array.place(chip, 0, 0, 20 * US);
        let mut last = 0;
        for at in 1..=20 {
            let placed = array.place(chip, 0, warm.end_ps + at * US, busy_ps);
            last = placed.end_ps - placed.start_ps;
        }
        last
    };
    let chip = tests_chip("trainium2");
    assert_eq!(taken(&chip, 8 * US / 10), 8 * US / 10);
    assert!(taken(&chip, 2 * US / 10) > 2 * US / 10);
    let mut without = chip;
    without.neuron.tensor.ramp_busy_fraction = 0.0;
    assert_eq!(taken(&without, 2 * US / 10), 2 * US / 10);
}
