//! Axes split over groups of PEs: every group runs the same commands on its own slices, parts of sums are
//! exchanged and added, and the whole gives the values of plain loops, on every group that has a copy.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use tilewright_base::{SourceId, Sources};
use tilewright_machine::{Tcp, builtin, load};
use tilewright_notation::problem::Problem;
use tilewright_notation::syntax::parser;
use tilewright_num::Dtype;
use tilewright_tcp_cost::{Setup, check};
use tilewright_tcp_exec::{MemoryState, exec, transfer};
use tilewright_tcp_isa::program::control::{Command, Queue, Step, StepKind};
use tilewright_tcp_isa::program::event::PeId;
use tilewright_tcp_isa::program::tensor::{Tensor, TensorPlace};
use tilewright_tcp_isa::program::{Program, text};
use tilewright_tcp_isa::verify::verify;
use tilewright_tcp_lower::{LowerOptions, lower};

use crate::{drawn, plain};
use drawn::Dice;
use drawn::groups::{Part, split};
use plain::{Plain, computed, element, pattern, positions, value};

fn tcp() -> Tcp {
    let mut sources = Sources::default();
    let id = sources.add("tcp", builtin("tcp").unwrap());
    load(&mut sources, id, &|_| None).unwrap().machine.tcp().unwrap().clone()
}

fn problem(text: &str) -> Problem {
    let parsed = parser::program(text, SourceId(0)).unwrap_or_else(|why| panic!("{text}\n{why:#?}"));
    Problem::new(&parsed).unwrap_or_else(|why| panic!("{text}\n{why:#?}"))
}

/// A lowered program, or why there is none.
fn lowered(machine: &Tcp, text: &str, pes: u64, dtype: Dtype) -> Result<Program, String> {
    lowered_from(machine, text, pes, dtype, [false; 2])
}

/// The same with inputs that start in off-chip memory.
fn lowered_from(
    machine: &Tcp,
    text: &str,
    pes: u64,
    dtype: Dtype,
    from_hbm: [bool; 2],
) -> Result<Program, String> {
    let problem = problem(text);
    let setup = Setup::new(machine, pes, dtype).unwrap();
    let verdict = check(&setup, &problem);
    if !verdict.legal() {
        return Err(format!("illegal: {}", verdict.diagnostics[0].message));
    }
    let program = lower(&setup, &problem, &verdict, &LowerOptions { from_hbm, ..LowerOptions::default() })
        .map_err(|why| why.message)?;
    assert_eq!(verify(machine, &program), [], "{text}");
    let printed = text::print(&program);
    let mut again =
        text::read(&printed, SourceId(0)).unwrap_or_else(|why| panic!("{text}\n{why:#?}\n{printed}"));
    text::erase_spans(&mut again);
    assert_eq!(again, program, "{text}\n{printed}");
    Ok(program)
}

/// Runs steps of a queue up to where it waits for others, or from there on, with the registers of its core.
fn run(
    machine: &Tcp,
    program: &Program,
    state: &mut MemoryState,
    (pe, registers): (u64, &mut [i64]),
    steps: &[Step],
) {
    let mut loaded = None;
    for step in steps {
        match &step.kind {
            StepKind::Set(id, value) => {
                let register = &program.registers[id.0 as usize];
                let value = computed(registers, *value);
                assert!((register.least..=register.most).contains(&value), "{register:?} = {value}");
                registers[id.0 as usize] = value;
            }
            StepKind::Push(Command::Load(id)) => {
                loaded = Some(program.execs[id.0 as usize].resolved(registers));
            }
            StepKind::Push(Command::Exec { .. }) => {
                exec(machine, state, PeId { chip: 0, pe }, &loaded.take().unwrap()).unwrap();
            }
            StepKind::Push(Command::Dma { transfer: id, .. }) => {
                transfer(machine, state, &program.transfers[id.0 as usize].resolved(registers)).unwrap();
            }
            _ => {}
        }
    }
}

/// Where a tensor's position lies in the whole one: parts of padded digits are tensors of their own.
type Origin<'a> = &'a dyn Fn(&Tensor) -> Vec<u64>;

/// Runs a program over inputs that hold a function of whole coordinates, and gives its state.
fn outputs(
    machine: &Tcp,
    program: &Program,
    sizes: &[(String, u64)],
    origin: Origin<'_>,
    pattern: &dyn Fn(usize, &[u64]) -> u32,
) -> MemoryState {
    let mut state = MemoryState::new(machine, 1);
    for tensor in &program.tensors {
        let Some(input) = ["in0", "in1"].iter().position(|name| tensor.name.starts_with(name)) else {
            continue;
        };
        let extents: Vec<u64> = tensor.axes.iter().map(|(_, extent)| *extent).collect();
        let first = origin(tensor);
        let moved = |at: &Vec<u64>| at.iter().zip(&first).map(|(at, first)| at + first).collect::<Vec<_>>();
        let patterns: Vec<u32> = positions(&extents).iter().map(|at| pattern(input, &moved(at))).collect();
        state.put(tensor, &patterns).unwrap();
    }
    // All groups go on from one meeting to the next.
    let between = |queue: &Queue| {
        let parts = queue.steps.split(|step| matches!(step.kind, StepKind::Sync));
        parts.map(<[Step]>::to_vec).collect::<Vec<_>>()
    };
    let given = |name: &str| sizes.iter().find(|(known, _)| known == name);
    let initial = |register: &tilewright_tcp_isa::program::Register| {
        given(&register.name).map_or(register.initial, |(_, size)| i64::try_from(*size).unwrap())
    };
    let registers: Vec<i64> = program.registers.iter().map(initial).collect();
    let mut queues: Vec<(u64, Vec<i64>, Vec<Vec<Step>>)> =
        program.queues.iter().map(|queue| (queue.pe, registers.clone(), between(queue))).collect();
    for part in 0..queues.iter().map(|(_, _, parts)| parts.len()).max().unwrap_or(0) {
        for (pe, registers, parts) in &mut queues {
            run(machine, program, &mut state, (*pe, registers), parts.get(part).map_or(&[], Vec::as_slice));
        }
    }
    state
}

/// The copies of a tensor, over whichever slices it has any.
fn copies(tensor: &Tensor) -> Vec<Tensor> {
    let mut all = vec![tensor.clone()];
    for copies in &tensor.map.copies {
        let moved = |tensor: &Tensor, by: u64| {
            let TensorPlace::Dm { chip, slice, base } = tensor.place else { panic!("in data memory") };
            Tensor { place: TensorPlace::Dm { chip, slice: slice + by, base }, ..tensor.clone() }
        };
        let shift = |tensor: &Tensor| {
            (0..copies.count).map(|copy| moved(tensor, copy * copies.to_stride)).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(shift).collect();
    }
    for tensor in &mut all {
        tensor.map.copies.clear();
    }
    all
}

/// Compares all copies of all parts of the output with plain loops over the whole einsum.
fn compare(machine: &Tcp, text: &str, whole: &str, program: &Program, dtype: Dtype, origin: Origin<'_>) {
    let elements = |input: usize, at: &[u64]| pattern(dtype, element(input as u64 + 1, at));
    let whole = problem(whole);
    for sizes in plain::sizes(&whole) {
        let state = outputs(machine, program, &sizes, origin, &elements);
        let sums = Plain { problem: &whole, zero_points: [0, 0], sizes: &sizes }.sums();
        compare_sums(&format!("{text}\n{dtype:?} {sizes:?}"), program, &state, &sums, origin);
    }
}

fn compare_sums(
    text: &str,
    program: &Program,
    state: &MemoryState,
    sums: &[(Vec<u64>, Option<i32>)],
    origin: Origin<'_>,
) {
    let mut compared = 0;
    for out in program.tensors.iter().filter(|tensor| tensor.name.starts_with("out")) {
        let first = origin(out);
        let extents: Vec<u64> = out.axes.iter().map(|(_, extent)| *extent).collect();
        for copy in copies(out) {
            let patterns = state.get(&copy).unwrap();
            for (at, got) in positions(&extents).iter().zip(&patterns) {
                let at: Vec<u64> = at.iter().zip(&first).map(|(at, first)| at + first).collect();
                let (_, sum) = sums.iter().find(|(position, _)| *position == at).unwrap();
                let Some(sum) = sum else { continue };
                assert_eq!(value(out.dtype, *got), *sum, "{text} at {at:?} of {:?}", copy.place);
                compared += 1;
            }
        }
    }
    assert!(compared > 0, "{text}");
}

fn at_zero(tensor: &Tensor) -> Vec<u64> {
    vec![0; tensor.axes.len()]
}

#[test]
fn every_group_computes_its_columns() {
    let machine = tcp();
    let text = "mk, kn_4 -> mn_4; dims m=4, k=64, n=64; in0 = | m[4] k[64]; in1 = | n[16] k[64]; out = | \
                m[4] n[16]; \
         tactic = | m[4] n[16] k[64]";
    let program = lowered(&machine, text, 1, Dtype::I8).unwrap();
    assert_eq!(program.queues.iter().map(|queue| queue.pe).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(program.tensors[1].shape, "n^{16}[4] _[1#64] | n^1[16] k^1[64]");
    compare(&machine, text, "mk, kn -> mn; dims m=4, k=64, n=64", &program, Dtype::I8, &at_zero);
}

/// Sums over groups, whole on each and scattered over them, with every number of groups and fused PEs that
/// the chip has.
#[test]
fn sums_over_groups_are_whole_on_each_or_scattered() {
    let machine = tcp();
    for (team, pes) in [(2, 1), (3, 1), (4, 1), (8, 1), (2, 2), (4, 2), (2, 4)] {
        for (m, n, split) in [(4, 12, false), (3, 5, false), (1, 1, false), (4, 8, true), (3, 6, true)] {
            let (k, whole_n) = (32 * team, if split { n * team } else { n });
            let scattered = if split { format!("_{team}") } else { String::new() };
            let columns = if split { format!("n^{{{n}}}[{team}] n[{n}]") } else { format!("n[{n}]") };
            let text = format!(
                "mk_{team}, k_{team}n -> mn{scattered}; dims m={m}, k={k}, n={whole_n}; in0 = k^8[4] | \
                 m[{m}] k[8]; \
                 in1 = k^8[4] | n[{whole_n}] k[8]; out = _[4] | m[{m}] n[{n}]; tactic = k^8[4] | m[{m}] \
                 {columns} k[8]"
            );
            let program =
                lowered(&machine, &text, pes, Dtype::I8).unwrap_or_else(|why| panic!("{text}\n{why}"));
            let whole = format!("mk, kn -> mn; dims m={m}, k={k}, n={whole_n}");
            compare(&machine, &text, &whole, &program, Dtype::I8, &at_zero);
        }
    }
}

/// Parts of rows that every group wants whole: in digits of the offset, of the slice number, and in a digit
/// that parts cut.
#[test]
fn groups_gather_what_each_computes() {
    let machine = tcp();
    let gathered = [
        ("m_4k, kn -> mn", "m=16, k=24, n=6", "| m[16] n[6]", "| m[4] n[6] k[24]", "| m[4] k[24]"),
        ("m_4k, kn -> mn", "m=16, k=24, n=5", "| m^4[4] n[5] m[4]", "| m[4] n[5] k[24]", "| m[4] k[24]"),
        ("m_4k, kn -> mn", "m=16, k=24, n=8", "| n[8] m[16]", "| m[4] n[8] k[24]", "| m[4] k[24]"),
        (
            "m_2k, kn -> mn",
            "m=8, k=24, n=8",
            "m[2] | m^2[4] n[8]",
            "m[2] | m^2[2] n[8] k[24]",
            "m[2] | m^2[2] k[24]",
        ),
    ];
    for (einsum, dims, out, tactic, in0) in gathered {
        let slices = out.split('|').next().unwrap();
        let held = if slices.trim().is_empty() { "" } else { "_[2] " };
        let n = dims.split("n=").nth(1).unwrap();
        let text = format!(
            "{einsum}; dims {dims}; in0 = {in0}; in1 = {held}| n[{n}] k[24]; out = {out}; tactic = {tactic}"
        );
        let program = lowered(&machine, &text, 1, Dtype::I8).unwrap_or_else(|why| panic!("{text}\n{why}"));
        assert!(!program.transfers.is_empty(), "{text}");
        compare(&machine, &text, &format!("mk, kn -> mn; dims {dims}"), &program, Dtype::I8, &at_zero);
    }
}

/// Groups of a surviving axis and groups of a sum: teams of neighbours add among themselves.
#[test]
fn teams_add_among_themselves() {
    let machine = tcp();
    let text = "mk_2, k_2n_4 -> mn_4; dims m=5, k=24, n=12; in0 = | m[5] k[12]; in1 = | n[3] k[12]; out = | \
                m[5] n[3]; \
         tactic = | m[5] n[3] k[12]";
    let program = lowered(&machine, text, 1, Dtype::Bf16).unwrap();
    assert_eq!(program.queues.len(), 8);
    assert_eq!(program.tensors[2].shape, "n^3[4] _[2] _[1#64] | m^1[5] n^1[3]");
    compare(&machine, text, "mk, kn -> mn; dims m=5, k=24, n=12", &program, Dtype::Bf16, &at_zero);
}

/// Teams add parts of sums, whole on each member or scattered over them, and then gather what other teams
/// computed.
#[test]
fn sums_over_groups_are_gathered() {
    let machine = tcp();
    let both = [
        (
            "m_2k_2, k_2n -> mn; dims m=8, k=48, n=6; in0 = | m[4] k[24]; in1 = | n[6] k[24]; out = | m[8] \
             n[6]; \
             tactic = | m[4] n[6] k[24]",
            "m=8, k=48, n=6",
        ),
        (
            "m_2k_4, k_4n -> mn; dims m=6, k=64, n=5; in0 = | m[3] k[16]; in1 = | n[5] k[16]; out = | n[5] \
             m[6]; \
             tactic = | m[3] n[5] k[16]",
            "m=6, k=64, n=5",
        ),
        (
            "m_4k_2, k_2n -> mn_2; dims m=16, k=32, n=8; in0 = | m[4] k[16]; in1 = | n[8] k[16]; \
             out = | m[16] n[4]; tactic = | m[4] n[8] k[16]",
            "m=16, k=32, n=8",
        ),
        (
            "m_2k_2, k_2n_2 -> mn_2; dims m=8, k=48, n=12; in0 = m[2] | m^2[2] k[24]; \
             in1 = _[2] | n[6] k[24]; out = m[2] | m^2[4] n[6]; tactic = m[2] | m^2[2] n[6] k[24]",
            "m=8, k=48, n=12",
        ),
    ];
    for (text, dims) in both {
        for dtype in [Dtype::I8, Dtype::Bf16] {
            let program = lowered(&machine, text, 1, dtype).unwrap_or_else(|why| panic!("{text}\n{why}"));
            let adds = program.execs.iter().any(|image| image.name.starts_with("add_block"));
            assert!(adds && program.transfers.iter().any(|moved| moved.name.starts_with("rows")), "{text}");
            compare(&machine, text, &format!("mk, kn -> mn; dims {dims}"), &program, dtype, &at_zero);
        }
    }
}

/// Inputs that every group has whole: parts of sums and of batches, outermost in the copy and inside it, of
/// one input or the other.
#[test]
fn groups_find_their_part_in_a_copy() {
    let machine = tcp();
    let copies = [
        (
            "mk_2, kn -> mn; dims m=4, k=64, n=8; in0 = | m[4] k[32]; in1 = | n[8] k[64]; out = | m[4] n[8]; \
             tactic = | m[4] n[8] k[32]",
            "mk, kn -> mn; dims m=4, k=64, n=8",
        ),
        (
            "mk, k_4n -> mn; dims m=3, k=64, n=5; in0 = | k^{16}[4] m[3] k[16]; in1 = | n[5] k[16]; out = | \
             m[3] n[5]; \
             tactic = | m[3] n[5] k[16]",
            "mk, kn -> mn; dims m=3, k=64, n=5",
        ),
        (
            "b_2mk_2, bk_2n -> b_2mn; dims b=4, m=3, k=32, n=6; in0 = | b[2] m[3] k[16]; in1 = | b[4] n[6] \
             k[16]; \
             out = | b[2] m[3] n[6]; tactic = | b[2] m[3] n[6] k[16]",
            "bmk, bkn -> bmn; dims b=4, m=3, k=32, n=6",
        ),
    ];
    for (text, whole) in copies {
        for dtype in [Dtype::I8, Dtype::Bf16, Dtype::I4] {
            let program = lowered(&machine, text, 1, dtype).unwrap_or_else(|why| panic!("{text}\n{why}"));
            compare(&machine, text, whole, &program, dtype, &|tensor| {
                let parts = if text.starts_with('b') {
                    vec![Part { name: 'b', count: 2, whole: 4 }, Part { name: 'k', count: 2, whole: 32 }]
                } else {
                    vec![Part { name: 'k', count: if text.contains("_4") { 4 } else { 2 }, whole: 64 }]
                };
                origin_of(tensor, &parts)
            });
        }
    }
}

/// Every group cuts the parts of a window that its slices look at out of its own memory.
#[test]
fn windows_over_slices_are_cut_out_on_every_group() {
    let machine = tcp();
    let text = "c(y=x+r), crn_4 -> xn_4; dims c=4, x=32, r=3, n=32; in0 = _[4] | c[4] y[34]; in1 = _[4] | \
                n[8] c[4] r[3]; \
         out = x^8[4] | x[8] n[8]; tactic = x^8[4] | c[4] r[3] x[8] n[8]";
    let whole = "c(y=x+r), crn -> xn; dims c=4, x=32, r=3, n=32";
    for (pes, dtype) in [(1, Dtype::I8), (2, Dtype::Bf16)] {
        let program = lowered(&machine, text, pes, dtype).unwrap_or_else(|why| panic!("{text}\n{why}"));
        assert_eq!(program.transfers.len(), 4, "one for each group");
        compare(&machine, text, whole, &program, dtype, &at_zero);
    }
}

/// Axes of run-time size in parts, of which the last groups may have nothing: columns of the output, and
/// sums, whole on each and scattered.
#[test]
fn groups_take_their_part_of_an_axis_of_run_time_size() {
    let machine = tcp();
    let texts = [
        (
            "mk, kn_4 -> mn_4; dims m=4, k=24, n=1..32; in0 = | m[4] k[24]; in1 = | n[8] k[24]; out = | m[4] \
             n[8]; \
             tactic = | n[8] m[4] | | k[24]",
            "mk, kn -> mn; dims m=4, k=24, n=1..32",
        ),
        (
            "mk_4, k_4n -> mn; dims m=4, k=1..64, n=8; in0 = k^4[4] | m[4] k[4]; in1 = k^4[4] | n[8] k[4]; \
             out = _[4] | m[4] n[8]; tactic = k^4[4] | m[4] n[8] k[4]",
            "mk, kn -> mn; dims m=4, k=1..64, n=8",
        ),
        (
            "mk_2, k_2n -> mn_2; dims m=1..6, k=3..32, n=8; in0 = | m[6] k[16]; in1 = | n[8] k[16]; \
             out = | m[6] n[4]; tactic = | m[6] k[16] n^4[2] n[4]",
            "mk, kn -> mn; dims m=1..6, k=3..32, n=8",
        ),
    ];
    for (text, whole) in texts {
        for dtype in [Dtype::I8, Dtype::Bf16] {
            let program = lowered(&machine, text, 1, dtype).unwrap_or_else(|why| panic!("{text}\n{why}"));
            compare(&machine, text, whole, &program, dtype, &at_zero);
        }
    }
}

/// Floats are added in the order of the groups: another order would give 0 or 2.
#[test]
fn parts_are_added_in_the_order_of_their_groups() {
    let machine = tcp();
    let text = "mk_4, k_4n -> mn; dims m=2, k=4, n=4; in0 = | m[2] k[1]; in1 = | n[4] k[1]; out = | m[2] \
                n[4]; \
         tactic = | m[2] n[4]";
    let program = lowered(&machine, text, 1, Dtype::Bf16).unwrap();
    let large = 1 << 30;
    let elements = |input: usize, at: &[u64]| {
        let terms = [large, 1, -large, 1];
        let k = usize::try_from(at[1 - input]).unwrap();
        pattern(Dtype::Bf16, if input == 0 { terms[k] } else { 1 })
    };
    let state = outputs(&machine, &program, &[], &at_zero, &elements);
    for copy in copies(&program.tensors[2]) {
        for sum in state.get(&copy).unwrap() {
            assert_eq!(f32::from_bits(sum).to_bits(), 1.0_f32.to_bits());
        }
    }
}

#[test]
fn what_groups_would_have_to_look_for_is_refused() {
    let machine = tcp();
    let refused = |text: &str| lowered(&machine, text, 1, Dtype::I8).unwrap_err();
    assert_eq!(
        refused(
            "mk_2, kn -> mn; dims m=4, k=60, n=8; in0 = | m[4] k[30]; in1 = | n[8] k^8[8#] k[8]; \
             out = | m[4] n[8]; tactic = | m[4] n[8] k[30]"
        ),
        "illegal: in1 and the tactic cut axis `k` incompatibly: 8 against 30"
    );
    assert_eq!(
        refused(
            "mk_2, k_2n -> mn_2; dims m=4, k=64, n=10; in0 = | m[4] k[32]; in1 = | n[10] k[32]; \
             out = | m[4] n^3[2#] n[3]; tactic = | m[4] n[10] k[32]"
        ),
        "the output's digits of `n` run past a PE's part of 5"
    );
    assert_eq!(
        refused(
            "mk_4, k_4n -> mn_2; dims m=4, k=128, n=8; in1 = | n[8] k[32]; in0 = | m[4] k[32]; tactic = | \
             m[4] n[8] k[32]"
        ),
        "illegal: sums over 4 PE groups are scattered over 2"
    );
    assert_eq!(
        refused(
            "mk_2, k_2n -> mn; dims m=512, k=64, n=128; in0 = | m[512] k[32]; in1 = | n[128] k[32]; \
             out = | m[512] n[128]; tactic = | m[512] n[128] k[32]"
        ),
        "parts of 2 PE groups take more than 524288 B of data memory"
    );
}

/// The first position of a group's tensor on each of its axes.
fn origin_of(tensor: &Tensor, parts: &[Part]) -> Vec<u64> {
    let Some((_, pe)) = tensor.name.split_once("_pe") else { return at_zero(tensor) };
    let mut group: u64 = pe.parse().unwrap();
    let mut digits: Vec<(String, u64, u64)> = Vec::new();
    // The axes of sums are the less significant ones, each kind in the order of the einsum.
    for part in parts.iter().rev() {
        digits.push((part.name.to_string(), group % part.count, part.whole));
        group /= part.count;
    }
    let first = |(name, extent): &(String, u64)| {
        let split = digits.iter().find(|(split, _, whole)| split == name && extent < whole);
        split.map_or(0, |(_, digit, _)| digit * extent)
    };
    tensor.axes.iter().map(first).collect()
}

/// Whether one input has a part of an axis and the other all of it.
fn has_copy(inputs: &str, parts: &[Part]) -> bool {
    parts.iter().any(|part| {
        let split = format!("{}_{}", part.name, part.count);
        let with = inputs.split(',').filter(|input| input.contains(part.name));
        with.clone().any(|input| input.contains(&split)) && with.clone().any(|input| !input.contains(&split))
    })
}

/// Random einsums with random subscripts: whatever is lowered is right, on every group.
#[test]
fn drawn_einsums_over_groups_give_the_values_of_plain_loops() {
    const COMPARED: usize = 250;
    const TYPES: [Dtype; 4] = [Dtype::I8, Dtype::Bf16, Dtype::I4, Dtype::F8E4M3Fn];
    let machine = tcp();
    let (mut right, mut summed, mut gathered, mut both, mut copied, mut brought, mut dynamic) =
        (0, 0, 0, 0, 0, 0, 0);
    for seed in 0..6_000_u64 {
        let Some((text, whole, parts)) = split(&mut Dice(seed << 8)) else { continue };
        let dtype = TYPES[usize::try_from(seed % 4).unwrap()];
        let from_hbm = [seed.is_multiple_of(2), seed.is_multiple_of(3)];
        let program = lowered_from(&machine, &text, 1, dtype, from_hbm);
        let Ok(program) = program.or_else(|_| lowered(&machine, &text, 1, dtype)) else { continue };
        compare(&machine, &text, &whole, &program, dtype, &|tensor| origin_of(tensor, &parts));
        right += 1;
        let adds = program.execs.iter().any(|image| image.name.starts_with("add_block"));
        summed += usize::from(adds);
        let gathers = program.transfers.iter().any(|moved| moved.name.starts_with("rows"));
        gathered += usize::from(gathers);
        both += usize::from(adds && gathers);
        let copies = text.split("->").next().is_some_and(|inputs| has_copy(inputs, &parts));
        copied += usize::from(copies);
        dynamic += usize::from(parts.iter().any(|part| whole.contains(&format!("{}=1..", part.name))));
        brought +=
            usize::from(copies && program.transfers.iter().any(|moved| moved.name.starts_with("bring")));
        if right == COMPARED {
            assert!(summed > COMPARED / 5, "{summed} of them with sums over groups");
            assert!(gathered > COMPARED / 20, "{gathered} of them gathered");
            assert!(both > COMPARED / 100, "{both} of them with both");
            assert!(copied > COMPARED / 100, "{copied} of them with whole inputs");
            assert!(dynamic > COMPARED / 50, "{dynamic} of them with parts of an axis of run-time size");
            assert!(brought > 0, "{brought} of them with some from off-chip memory");
            return;
        }
    }
    panic!("only {right} of the drawn programs are legal");
}
