//! Counters over time.

use tilewright_neuron_sim::occupancy::steps;

#[test]
fn sums_change_where_something_begins_or_ends() {
    let changes = vec![(10, 4), (0, 1), (10, -4), (20, -1), (5, 2), (15, -2)];
    assert_eq!(steps(changes, 1), [(0, 1), (5, 3), (15, 1), (20, 0)]);
    assert_eq!(steps(vec![(3, 1999), (9, -1999)], 1000), [(3, 1), (9, 0)]);
    assert_eq!(steps(Vec::new(), 1), []);
}
