//! The worked counts again, from register images: the counts that an image gives are those of the stages
//! written by hand.

use tilewright_base::Span;
use tilewright_num::Dtype;
use tilewright_tcp_cost::cycles::image::{exclusive_use, exec_cycles};
use tilewright_tcp_cost::cycles::{CommandCycles, PipelineStage};
use tilewright_tcp_cost::energy::{Component, counts, energy_fj};
use tilewright_tcp_isa::program::Count;
use tilewright_tcp_isa::program::exec::{
    Commit, Context, Contract, ContractOp, Drain, Exec, ExecBody, Fetch, Limit, Loop, Memory, ShortLoad,
    StepLoop, Stream, Switch, Transpose,
};
use tilewright_tcp_isa::program::vector::{
    InterSliceReduce, Op, OpKind, ReduceOp, ReduceOutput, Vector, Word,
};
use tilewright_tcp_isa::switch::{Ring, Topology};

use crate::cycles::tcp;

fn loops(rows: &[(u64, i64)]) -> Vec<Loop> {
    rows.iter().map(|&(size, stride)| Loop { size: Count::Fixed(size), stride }).collect()
}

fn fetch(dtype: Dtype, rows: &[(u64, i64)], packet: u64) -> Fetch {
    Fetch {
        dtype,
        base: 0,
        interleave: None,
        loops: loops(rows),
        packet,
        indirect: None,
        limits: Vec::new(),
        lookup: None,
        cast: None,
        zero_point: None,
    }
}

fn commit(flits: u64, bytes: u64) -> Commit {
    Commit {
        memory: Memory::Dm,
        base: 0x4_0000,
        loops: loops(&[(flits, 32)]),
        bytes,
        width: bytes,
        to_bf16: false,
        relu: false,
        slices: Vec::new(),
    }
}

fn stream(fetch: Fetch, commit: Commit) -> Stream {
    Stream {
        fetch,
        switch: Switch::default(),
        contract: None,
        vector: None,
        cast: None,
        transpose: None,
        commit,
    }
}

fn exec(context: Context, pes: u64, body: ExecBody) -> Exec {
    Exec { name: "x".into(), context, pes, body, span: Span::default() }
}

fn run(stream: Stream) -> CommandCycles {
    exec_cycles(&tcp(), &exec(Context::Main, 4, ExecBody::Stream(Box::new(stream))))
}

fn tile(rows: u64, kept: u64) -> Option<Transpose> {
    Some(Transpose { rows, columns: 8, kept })
}

#[test]
fn fetches_of_a_4_bit_tensor_take_48_24_12_12_and_padded_packets_15_3_1() {
    let cycles = |dtype, elements: u64, packet: u64| {
        let fetched = fetch(dtype, &[(elements, 1)], packet);
        run(stream(fetched, commit(1, 32))).stage_cycles(PipelineStage::Fetch)
    };
    assert_eq!([16, 32, 64, 192].map(|packet| cycles(Dtype::I4, 768, packet)), [48, 24, 12, 12]);
    let padded = [(120, 8), (48, 16), (32, 32), (24, 24)];
    assert_eq!(padded.map(|(all, packet)| cycles(Dtype::F8E4M3Fn, all, packet)), [15, 3, 1, 3]);
}

#[test]
fn loops_merge_before_the_width_of_an_access_is_chosen() {
    let width = |rows: &[(u64, i64)]| {
        let cost = run(stream(fetch(Dtype::I8, rows, 32), commit(1, 32)));
        cost.stage_cycles(PipelineStage::Fetch)
    };
    assert_eq!(width(&[(4, 32), (4, 8), (8, 1)]), 4);
    assert_eq!(width(&[(4, 64), (4, 16), (8, 1)]), 16);
    assert_eq!(width(&[(4, 64), (32, 2)]), 128);
}

#[test]
fn switches_take_what_the_book_says() {
    let ring = |slice1, slice0| Ring { slice1, slice0 };
    let cycles = |topology, packets: u64, flits: u64| {
        let mut moved = stream(fetch(Dtype::I8, &[(packets * flits * 32, 1)], flits * 32), commit(1, 32));
        moved.switch = Switch { topology, sources: vec![vec![0]; 4] };
        run(moved).stage_cycles(PipelineStage::Switch)
    };
    assert_eq!(cycles(Topology::Broadcast01(ring(2, 2), 4), 64, 8), 2048);
    assert_eq!(cycles(Topology::Broadcast1(ring(4, 8)), 64, 2), 4096);
    assert_eq!(cycles(Topology::Transpose(ring(32, 2)), 64, 2), 8192);
    assert_eq!(cycles(Topology::InterTranspose(ring(2, 16), 2), 8, 1), 256);
    assert_eq!(cycles(Topology::Custom(256), 8, 8), 16_384);
    assert_eq!(cycles(Topology::Custom(4), 24, 1), 96);
}

#[test]
fn transposes_take_48_6_128_80() {
    let cycles = |dtype, rows, columns, kept, tiles: u64| {
        let mut turned = stream(fetch(dtype, &[(64, 1)], 64), commit(tiles * kept, 8));
        turned.transpose = Some(Transpose { rows, columns, kept });
        run(turned).stage_cycles(PipelineStage::Transpose)
    };
    assert_eq!(cycles(Dtype::I8, 8, 16, 16, 2), 48);
    assert_eq!(cycles(Dtype::I8, 4, 8, 2, 1), 6);
    assert_eq!(cycles(Dtype::I8, 8, 32, 32, 2), 128);
    assert_eq!(cycles(Dtype::I4, 16, 16, 16, 4), 80);
}

#[test]
fn one_flit_transposed_takes_273() {
    let turned = Stream { transpose: tile(1, 8), ..stream(fetch(Dtype::Bf16, &[(8, 1)], 8), commit(8, 8)) };
    let cost = run(turned);
    assert_eq!((cost.total_cycles, cost.binding), (273, PipelineStage::Transpose));
}

#[test]
fn loads_of_1600_bytes_take_464() {
    let machine = tcp();
    let mut load = stream(fetch(Dtype::Bf16, &[(800, 1)], 16), commit(50, 32));
    load.commit.memory = Memory::Trf { lanes: 1 };
    let streamed = exec(Context::Sub, 4, ExecBody::Stream(Box::new(load)));
    assert_eq!(exec_cycles(&machine, &streamed).total_cycles, 464);
    let short = ShortLoad { from: 0, bytes: 1600, memory: Memory::Trf { lanes: 1 }, base: 0 };
    assert_eq!(exec_cycles(&machine, &exec(Context::Sub, 4, ExecBody::Short(short))).total_cycles, 464);
}

fn first_layer() -> Stream {
    let contract = Contract {
        op: ContractOp::Add,
        flits: 2,
        transpose: None,
        shift: None,
        repeats: Count::Fixed(1),
        lanes: 1,
        dtype: Dtype::Bf16,
        base: 0,
        loops: loops(&[(800, 1)]),
        tree: 32,
        steps: vec![StepLoop { size: Count::Fixed(25), summed: true }],
        drain: Drain::Interleaved,
    };
    Stream {
        contract: Some(contract),
        cast: Some(Dtype::Bf16),
        ..stream(fetch(Dtype::Bf16, &[(800, 1)], 16), commit(1, 8))
    }
}

#[test]
fn the_first_layer_takes_315() {
    let cost = run(first_layer());
    assert_eq!((cost.total_cycles, cost.stage_cycles(PipelineStage::Contraction)), (315, 50));
    let mut turned = first_layer();
    let transpose = tilewright_tcp_isa::program::exec::FlitTranspose { rows: 2, columns: 8 };
    turned.contract.as_mut().unwrap().transpose = Some(transpose);
    assert_eq!(run(turned).total_cycles, 317);
}

#[test]
fn an_exchange_in_rings_of_8_takes_345_and_a_broadcast_in_a_ring_of_256_takes_1033() {
    let ring = |slice1| Ring { slice1, slice0: 1 };
    let mut exchange = stream(fetch(Dtype::Bf16, &[(64, 1)], 8), commit(2, 8));
    exchange.switch.topology = Topology::InterTranspose(ring(8), 1);
    exchange.transpose = tile(4, 1);
    // The schedule shows 343.
    assert_eq!(run(exchange).total_cycles, 345);
    let mut broadcast = stream(fetch(Dtype::Bf16, &[(4, 1)], 4), commit(64, 8));
    broadcast.switch.topology = Topology::Broadcast1(ring(256));
    broadcast.transpose = tile(4, 1);
    let cost = run(broadcast);
    assert_eq!((cost.total_cycles, cost.binding), (1033, PipelineStage::Transpose));
}

fn chain(ops: &[OpKind]) -> Vector {
    let op = |kind: &OpKind| Op { kind: kind.clone(), operands: Vec::new(), reversed: false, stash: false };
    Vector {
        input: Word::F32,
        trim: true,
        pair: true,
        tags: Vec::new(),
        ops: ops.iter().map(op).collect(),
        between: None,
        between_first: false,
    }
}

#[test]
fn adding_a_bias_takes_283_and_with_relu_284() {
    let bias = |ops: &[OpKind]| {
        let mut bias = stream(fetch(Dtype::Bf16, &[(2, 0), (4, 1)], 4), commit(1, 8));
        bias.fetch.cast = Some(Dtype::F32);
        bias.cast = Some(Dtype::Bf16);
        bias.vector = Some(chain(ops));
        run(bias).total_cycles
    };
    assert_eq!(bias(&[OpKind::FAdd]), 283);
    assert_eq!(bias(&[OpKind::FAdd, OpKind::ClipMax]), 284);
}

/// QK^T of Fig. 10 on one PE; queries reach 16 slices, keys lie in the register files.
fn figure_10(lanes: u64) -> Exec {
    let repeats = 16 / lanes;
    let mut qk = stream(fetch(Dtype::I8, &[(16, 128), (128, 1)], 128), commit(256 * repeats, 32));
    qk.switch.topology = Topology::Broadcast01(Ring { slice1: 16, slice0: 1 }, 1);
    let step = |size, summed| StepLoop { size: Count::Fixed(size), summed };
    qk.contract = Some(Contract {
        op: ContractOp::Add,
        flits: 2,
        transpose: None,
        shift: None,
        repeats: Count::Fixed(repeats),
        lanes,
        dtype: Dtype::I8,
        base: 0,
        loops: loops(&[(256, 0), (2, 64), (repeats, 128), (64, 1)]),
        tree: 64,
        steps: vec![step(256, false), step(2, true), step(repeats, false)],
        drain: Drain::Interleaved,
    });
    exec(Context::Main, 1, ExecBody::Stream(Box::new(qk)))
}

#[test]
fn figure_10_is_balanced_and_its_register_reads_hit_the_cache() {
    let machine = tcp();
    let cost = exec_cycles(&machine, &figure_10(8));
    let busy = [PipelineStage::Switch, PipelineStage::Contraction, PipelineStage::Drain]
        .map(|stage| cost.stage_cycles(stage));
    assert_eq!(busy, [1024, 1024, 512]);
    let counted = counts(&machine, &figure_10(8));
    assert_eq!(counted.macs_int8, 4 * 256 * 256 * 128);
    assert_eq!((counted.macs_useful, counted.macs()), (counted.macs_int8, counted.macs_int8));
    assert_eq!(counted.contraction_cycles, 1024 * 64);
    assert_eq!(counted.accumulator_updates, 1024 * 64 * 8);
    // Two keys of 128 B on a lane are four rows of each bank: read once, then answered by the cache.
    assert_eq!(counted.trf_array_bytes, 64 * 8 * 256);
    assert_eq!(counted.trf_array_bytes + counted.trf_cached_bytes, 1024 * 64 * 8 * 64);
    assert_eq!(counted.delivered_bytes, 16 * counted.sent_bytes);
    assert_eq!(counted.fetch_bytes, 64 * 16 * 128);
}

#[test]
fn joined_loops_of_the_register_file_count_as_written_apart() {
    let machine = tcp();
    let mut joined = figure_10(8);
    let ExecBody::Stream(stream) = &mut joined.body else { panic!("a stream") };
    // The same rows, laid out in the order in which they are read.
    stream.contract.as_mut().unwrap().loops = loops(&[(256, 0), (256, 1)]);
    let [apart, joined] = [figure_10(8), joined].map(|exec| counts(&machine, &exec));
    assert_eq!(joined, apart);
}

#[test]
fn inactive_elements_read_no_rows() {
    // 16 values of 32 places, 16 rows of them, one row a step.
    let machine = tcp();
    let mut combine = figure_10(8);
    let ExecBody::Stream(stream) = &mut combine.body else { panic!("a stream") };
    stream.fetch = fetch(Dtype::I8, &[(4096, 1)], 16);
    stream.switch.topology = Topology::Forwarding;
    let step = |size| StepLoop { size: Count::Fixed(size), summed: false };
    let contract = stream.contract.as_mut().unwrap();
    *contract = Contract {
        flits: 1,
        repeats: Count::Fixed(16),
        loops: loops(&[(256, 0), (16, 32), (16, 1)]),
        tree: 16,
        steps: vec![step(256), step(16)],
        ..contract.clone()
    };
    let counted = counts(&machine, &combine);
    assert_eq!(counted.trf_array_bytes + counted.trf_cached_bytes, 4096 * 32 * 8 * 64);
    assert_eq!(counted.trf_cached_bytes, 0, "16 rows in turn never meet a cache of 8");
}

#[test]
fn chains_behind_a_scatter_count_what_is_left() {
    let machine = tcp();
    let ops = |scatter: bool| {
        let mut stream = stream(fetch(Dtype::I32, &[(128, 1)], 8), commit(16, 32));
        let gives = if scatter { ReduceOutput::Scatter { inner: 1 } } else { ReduceOutput::Broadcast };
        let mut vector = chain(&[OpKind::ClipMax]);
        vector.input = Word::I32;
        vector.pair = false;
        vector.between = Some(InterSliceReduce { op: ReduceOp::Add, slices: 16, gives });
        vector.between_first = true;
        stream.vector = Some(vector);
        counts(&machine, &exec(Context::Main, 1, ExecBody::Stream(Box::new(stream)))).vector_int_ops
    };
    // All 128 elements of 64 slices enter the reducer.
    assert_eq!(ops(false), 64 * (128 + 128));
    assert_eq!(ops(true), 64 * (128 + 8));
}

#[test]
fn at_equal_work_fewer_lanes_take_more_energy() {
    let machine = tcp();
    let energy = [8, 4, 2, 1].map(|lanes| {
        let parts = energy_fj(&machine, &counts(&machine, &figure_10(lanes)));
        assert_eq!(parts[Component::Products as usize], 33_554_432 * 60);
        parts.iter().sum::<u64>()
    });
    assert!(energy.is_sorted() && energy[0] < energy[3], "{energy:?}");
}

#[test]
fn padding_is_multiplied_but_not_useful() {
    let mut exec = figure_10(8);
    let ExecBody::Stream(stream) = &mut exec.body else { return };
    stream.fetch.limits = vec![Limit { extent: Count::Fixed(96), slices: Vec::new(), weights: vec![0, 1] }];
    let counted = counts(&tcp(), &exec);
    assert_eq!(counted.macs_useful, counted.macs() / 128 * 96);
}

#[test]
fn contexts_clash_over_the_vector_engine_and_register_halves() {
    let machine = tcp();
    let reads = exclusive_use(&machine, &figure_10(8));
    assert_eq!((reads.vector, reads.trf_read, reads.trf_written), (false, 0b01, 0));
    let short = |base| {
        let load = ShortLoad { from: 0, bytes: 256, memory: Memory::Trf { lanes: 8 }, base };
        exclusive_use(&machine, &exec(Context::Sub, 1, ExecBody::Short(load)))
    };
    assert!(reads.clashes(&short(0)) && short(0).clashes(&reads));
    assert!(!reads.clashes(&short(4096)));
    assert!(reads.clashes(&short(8192)), "the second lane's lower half");
    let first = exclusive_use(&machine, &exec(Context::Main, 1, ExecBody::Stream(Box::new(first_layer()))));
    assert!(first.vector && first.clashes(&first));
}

#[test]
fn a_whole_half_read_leaves_the_other_free() {
    let machine = tcp();
    let reads = |loops: &[(u64, i64)], base| {
        let mut exec = figure_10(8);
        let ExecBody::Stream(stream) = &mut exec.body else { panic!("a stream") };
        let contract = stream.contract.as_mut().expect("a contraction");
        contract.loops =
            loops.iter().map(|&(size, stride)| Loop { size: Count::Fixed(size), stride }).collect();
        contract.base = base;
        exclusive_use(&machine, &exec).trf_read
    };
    // A lane has 8 KiB.
    assert_eq!(reads(&[(64, 64), (64, 1)], 0), 0b01);
    assert_eq!(reads(&[(64, 64), (64, 1)], 4096), 0b10);
    assert_eq!(reads(&[(64, 64), (64, 1)], 1), 0b11);
    assert_eq!(reads(&[(64, -64), (64, 1)], 4032), 0b01);
}

#[test]
fn a_bank_held_for_64_accesses_by_fetch_and_commit_keeps_dma_still() {
    let starves = |rows: &[(u64, i64)]| {
        let held = stream(fetch(Dtype::I8, rows, 8), commit(1, 8));
        let taken = exclusive_use(&tcp(), &exec(Context::Main, 1, ExecBody::Stream(Box::new(held))));
        taken.bank_accesses >= tcp().starvation_accesses()
    };
    // One of the accesses is that of the commit unit.
    assert!(starves(&[(63, 128), (8, 1)]));
    assert!(!starves(&[(62, 128), (8, 1)]));
    assert!(!starves(&[(64, 8), (8, 1)]));
}
