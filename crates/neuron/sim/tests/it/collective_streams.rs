//! Collectives that a core has under way.

use tilewright_neuron_sim::schedule::collective_streams::CollectiveStreams;

use crate::chips::chip;

#[test]
fn the_next_begins_when_one_of_them_ends() {
    let mut two = CollectiveStreams::of(2);
    assert_eq!(two.begin(0, 10), 0);
    assert_eq!(two.begin(0, 7), 7);
    assert_eq!(two.begin(7, 20), 10);
}

#[test]
fn none_begins_while_all_wait() {
    let mut two = CollectiveStreams::of(2);
    assert_eq!(two.wait(0), 0);
    assert_eq!(two.wait(3), u64::MAX);
    assert_eq!(two.go_on(5, 9), 9);
    assert_eq!(two.go_on(6, 8), 8);
}

#[test]
fn chips_share_their_cc_cores_among_cores() {
    let most = |name: &str| CollectiveStreams::new(&chip(name)).most();
    assert_eq!([most("trainium1"), most("trainium2"), most("toy-neuron")], [3, 2, 1]);
}
