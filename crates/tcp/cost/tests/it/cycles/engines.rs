//! The worked examples of the vISA book for single engines: bare counts, without overhead and ring fill.

use tilewright_notation::algebra::access::{AccessLoop, AccessPattern};
use tilewright_tcp_cost::cycles::collect::padding_bytes;
use tilewright_tcp_cost::cycles::fetch::{self, FetchStage};
use tilewright_tcp_cost::cycles::switch::{self, SwitchStage};
use tilewright_tcp_cost::cycles::vector::{self, VectorStage};
use tilewright_tcp_cost::cycles::{commit, contraction, load, transpose};
use tilewright_tcp_isa::contraction::ContractionStage;
use tilewright_tcp_isa::program::exec::{Context, Drain};
use tilewright_tcp_isa::switch::{Ring, SwitchError, Topology};
use tilewright_tcp_isa::transpose::{TransposeError, TransposeStage};
use tilewright_tcp_isa::{switch as exchange, transpose as tile};

use crate::cycles::tcp;

/// A contiguous tensor fetched in packets of so many elements, padding included.
fn fetch_cycles(elements: u64, packet_elements: u64, element_bits: u64) -> u64 {
    let machine = tcp();
    let contiguous = AccessPattern { loops: [AccessLoop::new(elements, 1)].into_iter().collect() };
    let read_bytes = fetch::read_bytes(&machine, Context::Main, &contiguous, packet_elements, element_bits);
    let packets = elements / packet_elements;
    let packet_bytes = packet_elements * element_bits / 8;
    let fetch = FetchStage { context: Context::Main, packets, packet_bytes, read_bytes, cast: false };
    fetch::stream_cycles(&machine, &fetch)
}

#[test]
fn fetch_of_a_4_bit_tensor_takes_48_24_12_12() {
    let (n, c, h, w) = (4, 3, 4, 16);
    let packets = [w, 2 * w, h * w, c * h * w];
    assert_eq!(packets.map(|packet| fetch_cycles(n * c * h * w, packet, 4)), [48, 24, 12, 12]);
}

#[test]
fn fetch_of_padded_packets_takes_15_3_1_and_24_bytes_take_three_reads() {
    let counts = [fetch_cycles(15 * 8, 8, 8), fetch_cycles(3 * 16, 16, 8), fetch_cycles(32, 32, 8)];
    assert_eq!(counts, [15, 3, 1]);
    assert_eq!(fetch_cycles(24, 24, 8), 3);
}

#[test]
fn the_sub_unit_fetches_8_bytes_a_cycle() {
    let fetch =
        FetchStage { context: Context::Sub, packets: 5, packet_bytes: 32, read_bytes: 32, cast: false };
    assert_eq!(fetch::stream_cycles(&tcp(), &fetch), 20);
}

#[test]
fn packets_of_20_and_40_bytes_waste_three_eighths_of_their_flits() {
    assert_eq!([20, 40, 64].map(|bytes| padding_bytes(&tcp(), bytes)), [32 * 3 / 8, 64 * 3 / 8, 0]);
}

fn switch_cycles(topology: Topology, packets: u64, packet_flits: u64) -> u64 {
    assert_eq!(exchange::check(&tcp(), topology, 256, packets), Ok(()), "{topology:?}");
    switch::stream_cycles(&SwitchStage { topology, packets, packet_flits })
}

fn ring(slice1: u64, slice0: u64) -> Ring {
    Ring { slice1, slice0 }
}

#[test]
fn switch_examples_take_2048_4096_8192_256_16384_96() {
    assert_eq!(switch_cycles(Topology::Broadcast01(ring(2, 2), 4), 64, 8), 2048);
    assert_eq!(switch_cycles(Topology::Broadcast1(ring(4, 8)), 64, 2), 4096);
    assert_eq!(switch_cycles(Topology::Transpose(ring(32, 2)), 64, 2), 8192);
    assert_eq!(switch_cycles(Topology::InterTranspose(ring(2, 16), 2), 8, 1), 256);
    assert_eq!(switch_cycles(Topology::Custom(256), 8, 8), 16_384);
    assert_eq!(switch_cycles(Topology::Custom(4), 24, 1), 96);
    assert_eq!(switch_cycles(Topology::TransposedBroadcast1(ring(4, 8)), 64, 2), 4096);
    assert_eq!(switch_cycles(Topology::Forwarding, 64, 2), 128);
}

#[test]
fn broadcasts_multiply_the_packets_that_a_slice_keeps() {
    let kept = |topology| exchange::delivered_packets(topology, 10);
    assert_eq!(kept(Topology::Broadcast01(ring(2, 4), 1)), 80);
    assert_eq!(kept(Topology::Broadcast1(ring(2, 4))), 20);
    assert_eq!(kept(Topology::TransposedBroadcast1(ring(2, 4))), 40);
    assert_eq!(kept(Topology::Transpose(ring(2, 4))), 10);
}

#[test]
fn impossible_rings_are_refused() {
    let check = |topology, slices, packets| exchange::check(&tcp(), topology, slices, packets);
    assert_eq!(check(Topology::Broadcast1(ring(3, 8)), 256, 1), Err(SwitchError::NotPowerOfTwo(3)));
    assert_eq!(check(Topology::Broadcast1(ring(0, 8)), 256, 1), Err(SwitchError::NotPowerOfTwo(0)));
    let large = SwitchError::Ring { ring_slices: 128, slices: 64 };
    assert_eq!(check(Topology::Custom(128), 64, 1), Err(large));
    let unnamed = SwitchError::Bitmap { ring_slices: 512, entries: 256 };
    assert_eq!(check(Topology::Custom(512), 512, 1), Err(unnamed));
    let steps = SwitchError::Packets { packets: 6, multiple_of: 4 };
    assert_eq!(check(Topology::InterTranspose(ring(2, 16), 2), 64, 6), Err(steps));
}

#[test]
fn a_custom_bitmap_takes_a_cycle_for_each_entry() {
    assert_eq!(switch::bitmap_cycles(&tcp(), Topology::Custom(4)), 256);
    assert_eq!(switch::bitmap_cycles(&tcp(), Topology::Broadcast1(ring(2, 2))), 0);
}

fn tiles(element_bits: u64, rows: u64, columns: u64, output_rows: u64, tiles: u64) -> TransposeStage {
    let flit_elements = if element_bits == 4 { 16 } else { 8 };
    TransposeStage { element_bits, rows, columns, output_rows, flit_elements, tiles }
}

#[test]
fn transpose_examples_take_48_6_128_80() {
    let examples =
        [tiles(8, 8, 16, 16, 2), tiles(8, 4, 8, 2, 1), tiles(8, 8, 32, 32, 2), tiles(4, 16, 16, 16, 4)];
    assert_eq!(examples.map(|example| tile::check(&tcp(), &example)), [Ok(()); 4]);
    assert_eq!(examples.map(|example| transpose::stream_cycles(&tcp(), &example)), [48, 6, 128, 80]);
}

#[test]
fn tiles_beyond_the_buffers_are_refused() {
    let check = |tiles| tile::check(&tcp(), &tiles);
    assert_eq!(check(tiles(8, 9, 16, 16, 1)), Err(TransposeError::Rows { rows: 9, most: 8 }));
    assert_eq!(check(tiles(32, 3, 8, 8, 1)), Err(TransposeError::Rows { rows: 3, most: 2 }));
    assert_eq!(check(tiles(4, 16, 8, 8, 1)), Err(TransposeError::Columns(8)));
    assert_eq!(check(tiles(8, 8, 24, 24, 1)), Err(TransposeError::Columns(24)));
    assert_eq!(check(tiles(5, 8, 16, 16, 1)), Err(TransposeError::Element(5)));
}

/// QK^T of the paper's Fig. 10: 256 queries against 16 keys of 128 elements on each slice, in INT8.
const FIG_10: ContractionStage = ContractionStage {
    packet_elements: 64,
    packet_bytes: 64,
    repeats: 2,
    groups: 256,
    group_steps: 4,
    group_output_steps: 2,
    lanes: 8,
    columns: 1,
    drain: Drain::Interleaved,
};

#[test]
fn products_feed_drain_and_vector_engine_of_figure_10_are_balanced() {
    let machine = tcp();
    assert_eq!(contraction::stream_cycles(&machine, &FIG_10), 1024);
    assert_eq!(contraction::feed_cycles(&machine, &FIG_10), 1024);
    assert_eq!(contraction::drain_cycles(&machine, &FIG_10), 512);
    assert_eq!(contraction::tail_cycles(&machine, &FIG_10), 2);
    let scale = VectorStage {
        flits: 512,
        chain_flits: 512,
        narrow: true,
        upper_half_padding: false,
        units: 2,
        reduced_slices: 1,
    };
    assert_eq!(vector::stream_cycles(&machine, &scale), 1024);
}

#[test]
fn a_packet_used_once_runs_at_half_rate() {
    let once = ContractionStage { repeats: 1, ..FIG_10 };
    assert_eq!(contraction::stream_cycles(&tcp(), &once), 2048);
    let half_packet = ContractionStage { packet_bytes: 32, ..once };
    assert_eq!(contraction::stream_cycles(&tcp(), &half_packet), 1024);
}

#[test]
fn the_tree_is_7_6_or_5_deep() {
    let depth =
        |packet_elements| contraction::latency_cycles(&ContractionStage { packet_elements, ..FIG_10 });
    assert_eq!([128, 64, 32].map(depth), [7, 6, 5]);
}

#[test]
fn idle_lanes_waste_the_bus_of_an_interleaved_drain_only() {
    let two_lanes = ContractionStage { lanes: 2, columns: 8, groups: 10, group_output_steps: 1, ..FIG_10 };
    assert_eq!(contraction::drain_cycles(&tcp(), &two_lanes), 80);
    let sequential = ContractionStage { drain: Drain::Sequential, ..two_lanes };
    assert_eq!(contraction::drain_cycles(&tcp(), &sequential), 20);
}

#[test]
fn floats_halve_the_vector_engine_unless_the_upper_half_is_padding() {
    let machine = tcp();
    let integers = VectorStage {
        flits: 100,
        chain_flits: 100,
        narrow: false,
        upper_half_padding: false,
        units: 3,
        reduced_slices: 16,
    };
    let floats = VectorStage { narrow: true, ..integers };
    let trimmed = VectorStage { upper_half_padding: true, ..floats };
    assert_eq!([integers, floats, trimmed].map(|v| vector::stream_cycles(&machine, &v)), [100, 200, 100]);
    assert_eq!(vector::latency_cycles(&machine, &integers), 14 + 3);
    assert_eq!(vector::reduce_cycles(&machine, &integers), 16);
    assert_eq!(vector::reduce_cycles(&machine, &VectorStage { reduced_slices: 1, ..integers }), 0);
}

#[test]
fn commits_take_one_write_a_flit_in_main_and_up_to_four_in_sub() {
    let machine = tcp();
    let cycles = |context, valid_bytes, contiguous_bytes| {
        let write_bytes = commit::write_bytes(&machine, context, valid_bytes, contiguous_bytes);
        let flits = commit::CommitStage { context, flits: 1, valid_bytes, write_bytes };
        commit::stream_cycles(&machine, &flits)
    };
    assert_eq!([8, 16, 24, 32].map(|valid| cycles(Context::Main, valid, valid)), [1, 1, 1, 1]);
    assert_eq!([8, 16, 24, 32].map(|valid| cycles(Context::Sub, valid, valid)), [1, 2, 3, 4]);
    assert_eq!(cycles(Context::Main, 32, 8), 4);
}

#[test]
fn the_main_context_loads_register_files_four_times_as_fast() {
    let load = |context| load::stream_cycles(&tcp(), &load::LoadStage { context, slice_bytes: 1600 });
    assert_eq!([load(Context::Sub), load(Context::Main)], [200, 50]);
}
