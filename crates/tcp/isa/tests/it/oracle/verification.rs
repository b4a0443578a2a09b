//! Every code of the verifier: a program that it accepts, and the same with one thing wrong, which it refuses
//! with that code.

use std::collections::BTreeSet;

use proptest::prelude::*;
use tilewright_base::diagnostic::{Diagnostic, any_error};
use tilewright_num::Dtype;
use tilewright_tcp_isa::program::control::{Command, ControlExpr, ControlOperand, StepKind};
use tilewright_tcp_isa::program::exec::{
    Context, ExecBody, Fill, FlitTranspose, Indirect, Interleave, Limit, Lookup, Memory, Shift, StepLoop,
    Transpose,
};
use tilewright_tcp_isa::program::tensor::{TensorData, TensorPlace, TensorRole};
use tilewright_tcp_isa::program::transfer::{Address, TransferIndex, TransferLoop};
use tilewright_tcp_isa::program::vector::{OperandSource, Word};
use tilewright_tcp_isa::program::{Count, Exec, Grant, Program, Register, RegisterId, Tensor};
use tilewright_tcp_isa::switch::{Ring, Topology};
use tilewright_tcp_isa::verify::{CODES, MAX_NESTING, verify};

use crate::oracle::build::*;
use crate::oracle::tcp;

type Case = (&'static str, fn() -> Program, fn(&mut Program));

fn codes(found: &[Diagnostic]) -> Vec<&'static str> {
    found.iter().map(|diagnostic| diagnostic.code).collect()
}

fn copied() -> Program {
    program_of(copy("copy", Context::Main, 0, 4096, 4))
}

fn copied_by_sub() -> Program {
    program_of(copy("copy", Context::Sub, 0, 4096, 4))
}

fn contracted() -> Program {
    program_of(contraction("contract"))
}

fn added() -> Program {
    program_of(addition("add"))
}

/// Two tensors in turn.
fn interleaved() -> Program {
    let mut program = copied();
    let fetch = &mut stream_of(&mut program).fetch;
    fetch.loops = rows(&[(2, 32), (2, 0), (32, 1)]);
    fetch.interleave = Some(Interleave { at_loop: 1, base: 1024 });
    program
}

fn gathered() -> Program {
    let mut program = copied();
    stream_of(&mut program).fetch.indirect = Some(Indirect { at_loop: 0, table: 2048 });
    program
}

fn limited() -> Program {
    let mut program = copied();
    let limit = Limit { extent: Count::Fixed(100), slices: Vec::new(), weights: vec![32, 1] };
    stream_of(&mut program).fetch.limits = vec![limit];
    program
}

fn looked_up() -> Program {
    let mut program = copied();
    let stream = stream_of(&mut program);
    stream.fetch.dtype = Dtype::F8E5M2;
    stream.fetch.loops = rows(&[(4, 16), (16, 1)]);
    stream.fetch.packet = 16;
    stream.fetch.lookup = Some(Lookup { dtype: Dtype::Bf16, patterns: (0..256).collect() });
    program
}

fn widened(context: Context) -> Program {
    let mut program = program_of(copy("copy", context, 0, 4096, 4));
    let stream = stream_of(&mut program);
    stream.fetch.loops = rows(&[(4, 8), (8, 1)]);
    stream.fetch.packet = 8;
    stream.fetch.cast = Some(Dtype::I32);
    program
}

fn zeroed() -> Program {
    let mut program = contracted();
    stream_of(&mut program).fetch.zero_point = Some(-128);
    program
}

fn switched() -> Program {
    let mut program = copied();
    let stream = stream_of(&mut program);
    stream.switch.topology = Topology::Broadcast1(Ring { slice1: 4, slice0: 2 });
    stream.commit.loops = rows(&[(16, 32)]);
    program
}

fn custom() -> Program {
    let mut program = copied();
    let stream = stream_of(&mut program);
    stream.switch.topology = Topology::Custom(4);
    stream.switch.sources = vec![vec![0, 1], vec![0, 3], vec![1, 2], vec![2, 3]];
    stream.commit.loops = rows(&[(8, 32)]);
    program
}

fn accumulated() -> Program {
    let mut program = contracted();
    // The eight steps form one group with two open sums.
    contract_of(&mut program).steps[0].summed = true;
    stream_of(&mut program).commit.loops = rows(&[(2, 32)]);
    program
}

fn shifted() -> Program {
    let mut program = contracted();
    let contract = contract_of(&mut program);
    contract.shift = Some(Shift { initial: -7, stride: 15, shifts: 1, pop: 2 });
    program
}

fn tiled() -> Program {
    let mut program = copied();
    let stream = stream_of(&mut program);
    stream.transpose = Some(Transpose { rows: 4, columns: 8, kept: 4 });
    stream.commit.bytes = 8;
    stream.commit.width = 8;
    program
}

fn narrowed() -> Program {
    let mut program = added();
    let stream = stream_of(&mut program);
    stream.cast = Some(Dtype::I8);
    stream.commit.bytes = 8;
    stream.commit.width = 8;
    program
}

fn floats() -> Program {
    let mut program = copied();
    let stream = stream_of(&mut program);
    stream.fetch.dtype = Dtype::F32;
    stream.fetch.loops = rows(&[(4, 8), (8, 1)]);
    stream.fetch.packet = 8;
    stream.commit.to_bf16 = true;
    stream.commit.bytes = 16;
    stream.commit.width = 16;
    program
}

fn filled() -> Program {
    let mut commit = commit(Memory::Dm, 0, &[(4, 32)], 32);
    commit.width = 8;
    let body = ExecBody::Fill(Fill { word: 7, commit });
    program_of(Exec { name: "fill".into(), context: Context::Sub, pes: 1, body, span: span(2) })
}

fn loaded() -> Program {
    program_of(short("short", 0, 256, Memory::Trf { lanes: 8 }, 0))
}

fn indexed() -> Program {
    let mut program = plain();
    program.transfers[0].loops = vec![transfer_loop(4, 128, 128)];
    let index = TransferIndex { table: hbm(1 << 20), dtype: Dtype::I32, scatter: false };
    program.transfers[0].index = Some(index);
    program
}

fn counted() -> Program {
    let mut program = plain();
    program.registers = vec![Register { name: "n".into(), initial: 1, least: 1, most: 4, span: span(7) }];
    let size = Count::Register(RegisterId(0));
    let stream = stream_of(&mut program);
    stream.fetch.loops[0].size = size;
    stream.commit.loops[0].size = size;
    program
}

fn held() -> Program {
    let mut program = plain();
    program.tensors =
        vec![tensor("x", TensorRole::Input, TensorPlace::Dm { chip: 0, slice: 3, base: 64 }, 1024)];
    program
}

fn talking() -> Program {
    let mut program = plain();
    program.queues[0].steps.push(step(StepKind::Post {
        chip: 0,
        pe: 1,
        value: ControlExpr::Operand(ControlOperand::Number(1)),
    }));
    program.queues[1].steps.push(step(StepKind::Receive { chip: 0, pe: 0, register: None }));
    program
}

fn nested(depth: usize) -> Vec<tilewright_tcp_isa::program::Step> {
    let mut steps = vec![step(StepKind::Sync)];
    for _ in 0..depth {
        let zero = ControlExpr::Operand(ControlOperand::Number(0));
        steps = vec![step(StepKind::For { register: RegisterId(0), from: zero, to: zero, body: steps })];
    }
    steps
}

fn deep() -> Program {
    let mut program = counted();
    program.queues[1].steps = nested(MAX_NESTING);
    program
}

fn unchecked() -> Program {
    let mut program = plain();
    let body = vec![step(StepKind::PushUnchecked(Command::WaitD(0)))];
    let number = |value| ControlExpr::Operand(ControlOperand::Number(value));
    program.registers = vec![Register { name: "i".into(), initial: 0, least: 0, most: 99, span: span(7) }];
    program.queues[0].steps.push(step(StepKind::For {
        register: RegisterId(0),
        from: number(0),
        to: number(64),
        body,
    }));
    program
}

fn reading() -> Program {
    let mut program = counted();
    let register = RegisterId(0);
    program.queues[0].steps.push(step(StepKind::Read { register, address: dm(0, 4096), dtype: Dtype::I32 }));
    program
}

fn granted() -> Program {
    let mut program = plain();
    let grant = |first, write| Grant { chip: 0, pes: (0, 1), first, bytes: 4096, write, span: span(8) };
    program.grants = vec![grant(hbm(0), false), grant(hbm(8192), true)];
    program
}

const IMAGES: &[Case] = &[
    ("tcp/sequencer-size", copied, |p| stream_of(p).fetch.loops[0].size = Count::Fixed(65_537)),
    ("tcp/sequencer-size", copied, |p| stream_of(p).commit.loops[0].size = Count::Fixed(0)),
    ("tcp/sequencer-entries", copied, |p| {
        stream_of(p).fetch.loops = rows(&[(2, 999); 8]);
        stream_of(p).fetch.loops.extend(rows(&[(32, 1)]));
    }),
    ("tcp/fetch-type", copied, |p| stream_of(p).fetch.dtype = Dtype::F16),
    ("tcp/fetch-packet", copied, |p| stream_of(p).fetch.packet = 48),
    ("tcp/fetch-granule", copied, |p| {
        stream_of(p).fetch.loops = rows(&[(4, 12), (12, 1)]);
        stream_of(p).fetch.packet = 12;
    }),
    ("tcp/fetch-contiguous", copied_by_sub, |p| stream_of(p).fetch.loops = rows(&[(4, 1), (32, 4)])),
    ("tcp/fetch-interleave", interleaved, |p| stream_of(p).fetch.loops[1].size = Count::Fixed(4)),
    ("tcp/fetch-interleave", interleaved, |p| p.execs[0].context = Context::Sub),
    ("tcp/fetch-indirect", gathered, |p| {
        stream_of(p).fetch.indirect = Some(Indirect { at_loop: 0, table: 2 });
    }),
    ("tcp/fetch-indirect", gathered, |p| {
        stream_of(p).fetch.indirect = Some(Indirect { at_loop: 7, table: 0 });
    }),
    ("tcp/fetch-limits", limited, |p| stream_of(p).fetch.limits[0].weights.truncate(1)),
    ("tcp/fetch-pad", limited, |p| {
        let stream = stream_of(p);
        stream.fetch.loops = rows(&[(1, 0), (256, 1)]);
        stream.fetch.packet = 256;
        stream.commit.loops = rows(&[(8, 32)]);
    }),
    ("tcp/fetch-bounds", copied, |p| stream_of(p).fetch.base = 524_288 - 120),
    ("tcp/fetch-bounds", copied, |p| stream_of(p).fetch.loops[0].stride = -32),
    ("tcp/adapter-lookup", looked_up, |p| {
        stream_of(p).fetch.lookup.iter_mut().for_each(|lookup| lookup.patterns.truncate(255));
    }),
    ("tcp/adapter-cast", || widened(Context::Main), |p| stream_of(p).fetch.cast = Some(Dtype::F32)),
    (
        "tcp/adapter-width",
        || widened(Context::Sub),
        |p| {
            let fetch = &mut stream_of(p).fetch;
            fetch.dtype = Dtype::I4;
        },
    ),
    ("tcp/adapter-zero-point", zeroed, |p| stream_of(p).fetch.zero_point = Some(128)),
    (
        "tcp/adapter-stages",
        || widened(Context::Sub),
        |p| {
            let limit = Limit { extent: Count::Fixed(9), slices: Vec::new(), weights: vec![8, 1] };
            stream_of(p).fetch.limits = vec![limit];
        },
    ),
    ("tcp/adapter-target", copied, |p| stream_of(p).fetch.zero_point = Some(3)),
    ("tcp/switch-topology", switched, |p| {
        stream_of(p).switch.topology = Topology::Broadcast1(Ring { slice1: 4, slice0: 32 });
    }),
    ("tcp/switch-topology", switched, |p| {
        stream_of(p).switch.topology = Topology::Broadcast01(Ring { slice1: 4, slice0: 2 }, 3);
    }),
    ("tcp/switch-sources", custom, |p| stream_of(p).switch.sources[1] = vec![3, 0]),
    ("tcp/switch-sources", custom, |p| stream_of(p).switch.sources[1] = vec![0, 4]),
    ("tcp/contract-context", contracted, |p| p.execs[0].context = Context::Sub),
    ("tcp/contract-flits", contracted, |p| contract_of(p).flits = 3),
    ("tcp/contract-lanes", contracted, |p| contract_of(p).lanes = 6),
    ("tcp/contract-repeats", contracted, |p| contract_of(p).repeats = Count::Fixed(0)),
    ("tcp/contract-types", contracted, |p| contract_of(p).dtype = Dtype::F8E5M2),
    ("tcp/contract-tree", contracted, |p| contract_of(p).tree = 48),
    ("tcp/contract-tree", contracted, |p| contract_of(p).tree = 128),
    ("tcp/contract-columns", contracted, |p| {
        contract_of(p).tree = 1;
        stream_of(p).commit.loops = rows(&[(256, 32)]);
    }),
    ("tcp/contract-slots", accumulated, |p| {
        // Four columns leave room for 32 open sums of interleaved drain.
        let contract = contract_of(p);
        contract.tree = 16;
        contract.repeats = Count::Fixed(33);
        contract.steps[1] = StepLoop { size: Count::Fixed(33), summed: false };
        contract.loops = rows(&[(4, 0), (33, 64), (64, 1)]);
        stream_of(p).commit.loops = rows(&[(132, 32)]);
    }),
    ("tcp/contract-walk", contracted, |p| contract_of(p).loops = rows(&[(16, 64), (64, 1)])),
    ("tcp/contract-walk", contracted, |p| contract_of(p).loops = rows(&[(3, 64), (9, 1)])),
    ("tcp/contract-bounds", contracted, |p| contract_of(p).base = 8192 - 64),
    ("tcp/contract-align", contracted, |p| contract_of(p).base = 32),
    ("tcp/contract-align", contracted, |p| contract_of(p).loops[1].stride = 96),
    ("tcp/contract-gather", contracted, |p| {
        contract_of(p).loops.iter_mut().last().expect("loops").stride = 2;
    }),
    ("tcp/contract-shift", shifted, |p| {
        contract_of(p).shift = Some(Shift { initial: -8, stride: 15, shifts: 1, pop: 2 });
    }),
    ("tcp/contract-transpose", contracted_transposed, |p| {
        contract_of(p).transpose = Some(FlitTranspose { rows: 8, columns: 4 });
    }),
    ("tcp/vector-chain", added, |p| {
        stream_of(p).vector.iter_mut().for_each(|vector| vector.ops.push(vector.ops[0].clone()));
    }),
    ("tcp/vector-input", added, |p| stream_of(p).vector.iter_mut().for_each(|v| v.input = Word::F32)),
    ("tcp/vector-bounds", added, |p| {
        stream_of(p).vector.iter_mut().for_each(|vector| {
            vector.ops[0].operands[0].sources[0].source =
                OperandSource::Vrf { base: 8192 - 64, loops: rows(&[(4, 8), (8, 1)]) };
        });
    }),
    ("tcp/cast-types", narrowed, |p| stream_of(p).cast = Some(Dtype::Bf16)),
    ("tcp/transpose-tile", tiled, |p| {
        stream_of(p).transpose = Some(Transpose { rows: 16, columns: 8, kept: 4 });
    }),
    ("tcp/transpose-kept", tiled, |p| {
        stream_of(p).transpose = Some(Transpose { rows: 4, columns: 8, kept: 9 });
    }),
    ("tcp/commit-width", copied, |p| stream_of(p).commit.width = 12),
    ("tcp/commit-width", copied_by_sub, |p| stream_of(p).commit.width = 32),
    ("tcp/commit-bytes", copied, |p| stream_of(p).commit.bytes = 20),
    ("tcp/commit-bytes", floats, |p| stream_of(p).commit.bytes = 32),
    ("tcp/commit-stride", copied, |p| stream_of(p).commit.loops[0].stride = 0),
    ("tcp/commit-stride", copied, |p| stream_of(p).commit.base = 4),
    ("tcp/commit-bf16", floats, |p| stream_of(p).fetch.dtype = Dtype::I32),
    ("tcp/commit-relu", copied, |p| stream_of(p).commit.relu = true),
    ("tcp/commit-slices", copied, |p| stream_of(p).commit.slices = vec![(0, 65)]),
    ("tcp/commit-slices", copied, |p| stream_of(p).commit.slices = vec![(8, 16), (4, 9)]),
    ("tcp/commit-lanes", copied, |p| stream_of(p).commit.memory = Memory::Trf { lanes: 3 }),
    ("tcp/commit-bounds", copied, |p| {
        stream_of(p).commit.memory = Memory::Vrf;
        stream_of(p).commit.base = 8192 - 64;
    }),
    ("tcp/commit-flits", copied, |p| stream_of(p).commit.loops = rows(&[(5, 32)])),
    ("tcp/commit-flits", counted, |p| stream_of(p).commit.loops = rows(&[(4, 32)])),
    ("tcp/fill-context", filled, |p| p.execs[0].context = Context::Main),
    ("tcp/short-load", loaded, |p| p.execs[0] = short("short", 0, 256, Memory::Dm, 0)),
    ("tcp/short-load", loaded, |p| p.execs[0] = short("short", 0, 256, Memory::Vrf, 8000)),
    ("tcp/flow-contract", contracted, |p| {
        contract_of(p).steps[0].size = Count::Fixed(5);
        contract_of(p).loops = rows(&[(5, 0), (2, 64), (64, 1)]);
    }),
    ("tcp/flow-vector", added, |p| {
        stream_of(p).vector.iter_mut().for_each(|vector| {
            vector.pair = true;
            vector.ops[0].operands[0].sources[0].source = OperandSource::Pair;
        });
        stream_of(p).fetch.loops = rows(&[(3, 8), (8, 1)]);
    }),
    ("tcp/flow-transpose", tiled, |p| {
        stream_of(p).fetch.loops = rows(&[(5, 32), (32, 1)]);
    }),
    ("tcp/exec-pes", copied, |p| p.execs[0].pes = 3),
];

fn contracted_transposed() -> Program {
    let mut program = contracted();
    contract_of(&mut program).transpose = Some(FlitTranspose { rows: 2, columns: 16 });
    program
}

const PROGRAMS: &[Case] = &[
    ("tcp/transfer-loops", plain, |p| p.transfers[0].loops = vec![transfer_loop(2, 0, 256); 9]),
    ("tcp/transfer-packet", plain, |p| p.transfers[0].packet = 4104),
    ("tcp/transfer-packet", plain, |p| p.transfers[0].packet = 0),
    ("tcp/transfer-align", plain, |p| p.transfers[0].packet = 124),
    ("tcp/transfer-bounds", plain, |p| p.transfers[0].target = dm(0, 524_288 - 64)),
    ("tcp/transfer-bounds", plain, |p| p.transfers[0].target = dm(512, 0)),
    ("tcp/transfer-bounds", plain, |p| p.transfers[0].target = Address(9 << 40)),
    ("tcp/transfer-bounds", plain, |p| p.transfers[0].loops = vec![transfer_loop(5000, 128, 128)]),
    ("tcp/transfer-bounds", plain, |p| p.transfers[0].target = Address(dm(0, 0).0 + (1 << 44))),
    ("tcp/transfer-index", indexed, |p| p.transfers[0].loops.clear()),
    ("tcp/transfer-index", indexed, |p| {
        p.transfers[0].index.iter_mut().for_each(|index| index.dtype = Dtype::I16);
    }),
    ("tcp/program-chips", plain, |p| p.chips = 0),
    ("tcp/register-range", counted, |p| p.registers[0].initial = 5),
    ("tcp/tensor-place", held, |p| p.tensors[0].place = TensorPlace::Dm { chip: 0, slice: 512, base: 64 }),
    ("tcp/tensor-place", held, |p| p.tensors[0].place = TensorPlace::Hbm { chip: 1, base: 64 }),
    ("tcp/tensor-overlap", held, |p| {
        p.tensors[0].role = TensorRole::Input;
        p.tensors[0].data = TensorData::Zeros;
        p.tensors.push(Tensor { name: "again".into(), ..p.tensors[0].clone() });
    }),
    ("tcp/queue-pe", plain, |p| p.queues[1].pe = 8),
    ("tcp/queue-pe", plain, |p| p.queues[1].pe = 0),
    ("tcp/queue-image", plain, |p| p.queues[0].steps[0] = dma(7, 0)),
    ("tcp/queue-group", plain, |p| {
        p.execs[0].pes = 2;
        p.queues[0].pe = 5;
    }),
    ("tcp/queue-load", plain, |p| drop(p.queues[0].steps.remove(1))),
    ("tcp/queue-idle-load", plain, |p| {
        let load = p.queues[0].steps[1].clone();
        p.queues[0].steps.push(load);
    }),
    ("tcp/queue-idle-load", plain, |p| {
        let load = p.queues[0].steps[1].clone();
        p.queues[0].steps.insert(1, load);
    }),
    ("tcp/queue-wait", plain, |p| p.queues[0].steps[2] = push(Command::WaitD(1))),
    ("tcp/queue-id", plain, |p| drop(p.queues[0].steps.remove(2))),
    ("tcp/queue-room", unchecked, |p| {
        p.queues[0].steps.push(step(StepKind::PushUnchecked(Command::WaitD(0))));
    }),
    ("tcp/queue-wait", plain, |p| {
        p.queues[0].steps.push(step(StepKind::Await { transfer: true, id: 77 }));
    }),
    ("tcp/queue-register", counted, |p| {
        let value = ControlExpr::Operand(ControlOperand::Register(RegisterId(1)));
        p.queues[0].steps.push(step(StepKind::Set(RegisterId(0), value)));
    }),
    ("tcp/queue-register", plain, |p| {
        p.transfers[0].loops =
            vec![TransferLoop { size: Count::Register(RegisterId(9)), source: 0, target: 0 }];
    }),
    ("tcp/queue-register", copied, |p| {
        stream_of(p).fetch.loops[0].size = Count::Register(RegisterId(9));
    }),
    ("tcp/sequencer-size", copied, |p| stream_of(p).fetch.loops = rows(&[(65_536, 0); 4])),
    ("tcp/queue-read", reading, |p| {
        let register = RegisterId(0);
        p.queues[0].steps.push(step(StepKind::Read { register, address: dm(0, 4096), dtype: Dtype::F32 }));
    }),
    ("tcp/queue-peer", talking, |p| {
        p.queues[1].steps.push(step(StepKind::Receive { chip: 0, pe: 2, register: None }));
    }),
    ("tcp/queue-nesting", deep, |p| p.queues[1].steps = nested(MAX_NESTING + 1)),
    ("tcp/grant", granted, |p| p.grants[1].write = false),
    ("tcp/grant", granted, |p| p.grants[0].bytes = 64),
];

#[test]
fn every_code_has_a_legal_twin_and_a_refused_one() {
    for (code, legal, spoil) in IMAGES.iter().chain(PROGRAMS) {
        let mut program = legal();
        let found = verify(tcp(), &program);
        assert!(!any_error(&found), "the legal twin of {code}: {found:#?}");
        assert!(!codes(&found).contains(code), "the legal twin of {code}: {found:#?}");
        spoil(&mut program);
        let found = verify(tcp(), &program);
        assert!(codes(&found).contains(code), "{code} is not among {:?}", codes(&found));
        let complaint = found.iter().find(|complaint| complaint.code == *code).expect("just seen");
        assert!(complaint.allowed.is_some() && complaint.instead.is_some(), "{complaint:?}");
        assert!(complaint.primary.is_some(), "{complaint:?}");
    }
}

#[test]
fn every_code_is_covered() {
    let listed: BTreeSet<&str> = CODES.iter().map(|(code, _)| *code).collect();
    let tested: BTreeSet<&str> = IMAGES.iter().chain(PROGRAMS).map(|(code, ..)| *code).collect();
    assert_eq!(listed, tested);
    assert_eq!(listed.len(), CODES.len(), "codes are listed once");
}

#[test]
fn an_id_may_be_used_again_once_its_context_was_held() {
    // The second exec of a context waits for the first, so its id is free.
    let mut program = plain();
    program.queues[0].steps.insert(5, run(Context::Main, 0));
    assert_eq!(codes(&verify(tcp(), &program)), Vec::<&str>::new());
    // The sub context does not wait for the main one.
    program.execs.push(copy("beside", Context::Sub, 8192, 16_384, 1));
    program.queues[0].steps.splice(4..4, [load(1), run(Context::Sub, 0)]);
    assert_eq!(codes(&verify(tcp(), &program)), ["tcp/queue-id"]);
}

#[test]
fn a_loop_finds_its_own_ids_in_flight() {
    let mut program = counted();
    let number = |value| ControlExpr::Operand(ControlOperand::Number(value));
    let of = |body| step(StepKind::For { register: RegisterId(0), from: number(1), to: number(4), body });
    program.queues[1].steps = vec![of(vec![dma(0, 3)])];
    assert_eq!(codes(&verify(tcp(), &program)), ["tcp/queue-id"]);
    program.queues[1].steps = vec![of(vec![dma(0, 3), push(Command::WaitD(3))])];
    assert_eq!(codes(&verify(tcp(), &program)), Vec::<&str>::new());
}

fn extreme() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1), 2_u64..70, Just(65_536), Just(u64::MAX), Just(1 << 63), any::<u64>()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever registers hold, the verifier answers.
    #[test]
    fn no_number_is_too_strange(
        which in 0_usize..12,
        numbers in proptest::collection::vec(extreme(), 40),
        spoiled in proptest::collection::vec(0_usize..16, 1..4),
    ) {
        let makers: [fn() -> Program; 12] = [
            contracted, added, interleaved, gathered, limited, switched, custom, accumulated, tiled, floats,
                shifted, indexed,
        ];
        let mut program = makers[which]();
        for (turn, field) in spoiled.into_iter().enumerate() {
            spoil(&mut program, field, &numbers[turn * 10..turn * 10 + 10]);
        }
        let _ = verify(tcp(), &program);
    }
}

fn spoil(program: &mut Program, field: usize, numbers: &[u64]) {
    let signed = |at: usize| i64::from_ne_bytes(numbers[at].to_ne_bytes());
    match field {
        0 => program.execs[0].pes = numbers[0],
        1 => program.queues[0].pe = numbers[0],
        2 => program.chips = numbers[0],
        3 => program
            .transfers
            .iter_mut()
            .for_each(|t| (t.packet, t.source) = (numbers[0], Address(numbers[1]))),
        4 => program.transfers.iter_mut().for_each(|t| {
            t.target = Address(numbers[0]);
            t.loops = (1..6).map(|at| transfer_loop(numbers[at], signed(at + 1), signed(at + 2))).collect();
        }),
        _ => spoil_stream(program, field, numbers, signed),
    }
}

fn spoil_stream(program: &mut Program, field: usize, numbers: &[u64], signed: impl Fn(usize) -> i64) {
    let stream = stream_of(program);
    let loops: Vec<(u64, i64)> = (0..9).map(|at| (numbers[at], signed(at + 1))).collect();
    match field {
        5 => stream.fetch.loops = rows(&loops),
        6 => (stream.fetch.packet, stream.fetch.base) = (numbers[0], numbers[1]),
        7 => stream.commit.loops = rows(&loops),
        8 => {
            (stream.commit.base, stream.commit.bytes, stream.commit.width) =
                (numbers[0], numbers[1], numbers[2]);
        }
        9 => stream.commit.slices = vec![(numbers[0], numbers[1]), (numbers[2], numbers[3])],
        10 => {
            stream.switch.topology =
                Topology::InterTranspose(Ring { slice1: numbers[0], slice0: numbers[1] }, numbers[2]);
        }
        11 => stream.switch.topology = Topology::Custom(numbers[0]),
        12 => stream.transpose = Some(Transpose { rows: numbers[0], columns: numbers[1], kept: numbers[2] }),
        13 => stream.fetch.limits.iter_mut().for_each(|limit| limit.weights = numbers[..2].to_vec()),
        14 => stream.contract.iter_mut().for_each(|contract| {
            (contract.flits, contract.lanes, contract.tree, contract.base) =
                (numbers[0], numbers[1], numbers[2], numbers[3]);
            contract.repeats = Count::Fixed(numbers[4]);
        }),
        _ => stream.contract.iter_mut().for_each(|contract| {
            contract.loops = rows(&loops);
            contract.steps.iter_mut().zip(numbers).for_each(|(step, size)| step.size = Count::Fixed(*size));
        }),
    }
}
