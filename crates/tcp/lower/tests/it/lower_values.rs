//! Random einsums with random shapes and tactics, lowered to command programs and run: whatever the check
//! calls legal gives the values of plain loops, in every type that the contraction engine multiplies and for
//! every size of an axis that is known only at run time. The program's text reads back as the program.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::OnceLock;

use proptest::prelude::*;
use tilewright_base::{Severity, SourceId, Sources};
use tilewright_machine::{Tcp, builtin, load};
use tilewright_notation::problem::Problem;
use tilewright_notation::syntax::parser;
use tilewright_num::Dtype;
use tilewright_tcp_cost::{Setup, check};
use tilewright_tcp_exec::{MemoryState, exec, transfer};
use tilewright_tcp_isa::program::control::{Command, StepKind};
use tilewright_tcp_isa::program::event::PeId;
use tilewright_tcp_isa::program::exec::{Exec, ExecBody, Shift};
use tilewright_tcp_isa::program::{Program, text};
use tilewright_tcp_isa::verify::verify;
use tilewright_tcp_lower::{LowerOptions, lower};

use crate::{drawn, plain};
use drawn::{Dice, program};
use plain::{Plain, computed, element, pattern, positions, value};

const TYPES: [Dtype; 7] =
    [Dtype::I8, Dtype::Bf16, Dtype::I4, Dtype::F8E4M3Fn, Dtype::F8E5M2, Dtype::I9, Dtype::I5];

/// Zero points of in0 and in1 where a type has them.
const ZERO_POINTS: [i64; 2] = [1, -2];

/// What lowering refuses and the rules cannot foresee: they know neither the loops and masks that padding
/// adds, nor how shapes cut the packet and the lanes. `lower::confirm`, which `notation check` asks last,
/// refuses it there. Few drawn programs come to this.
const BEYOND_THE_CHECK: [&str; 4] = [
    " loops, masks and padding among them",
    " axes or digits",
    "the packet cannot be padded to whole 8-byte words",
    "the accumulators hold these sums in no drain order",
];

/// What lowering refuses of inputs that start in off-chip memory, whatever the tactic.
const NOT_FROM_HBM: [&str; 2] = ["-byte words of ", " loops to come from HBM"];

/// The paper's chip, read once.
fn machine() -> &'static Tcp {
    static MACHINE: OnceLock<Tcp> = OnceLock::new();
    MACHINE.get_or_init(tcp)
}

fn tcp() -> Tcp {
    let mut sources = Sources::default();
    let id = sources.add("tcp", builtin("tcp").unwrap());
    load(&mut sources, id, &|_| None).unwrap().machine.tcp().unwrap().clone()
}

/// Runs a program's steps in order over tensors filled by [`element`], with registers at given values.
fn outputs(machine: &Tcp, program: &Program, sizes: &[(String, u64)]) -> (Dtype, Vec<u32>) {
    let mut state = MemoryState::new(machine, 1);
    for (seed, tensor) in program.tensors[..2].iter().enumerate() {
        let extents: Vec<u64> = tensor.axes.iter().map(|(_, extent)| *extent).collect();
        let patterns: Vec<u32> = positions(&extents)
            .iter()
            .map(|at| pattern(tensor.dtype, element(seed as u64 + 1, at)))
            .collect();
        state.put(tensor, &patterns).unwrap();
    }
    let given = |name: &str| sizes.iter().find(|(known, _)| known == name);
    let initial = |register: &tilewright_tcp_isa::program::Register| {
        given(&register.name).map_or(register.initial, |(_, size)| i64::try_from(*size).unwrap())
    };
    let mut registers: Vec<i64> = program.registers.iter().map(initial).collect();
    let mut loaded = None;
    for step in &program.queues[0].steps {
        match &step.kind {
            StepKind::Set(id, value) => {
                let register = &program.registers[id.0 as usize];
                let value = computed(&registers, *value);
                assert!((register.least..=register.most).contains(&value), "{register:?} = {value}");
                registers[id.0 as usize] = value;
            }
            StepKind::Push(Command::Load(id)) => {
                loaded = Some(program.execs[id.0 as usize].resolved(&registers));
            }
            StepKind::Push(Command::Exec { .. }) => {
                let image = loaded.take().unwrap();
                exec(machine, &mut state, PeId { chip: 0, pe: 0 }, &image)
                    .unwrap_or_else(|fault| panic!("{fault}\n{image:#?}"));
            }
            StepKind::Push(Command::Dma { transfer: id, .. }) => {
                transfer(machine, &mut state, &program.transfers[id.0 as usize]).unwrap();
            }
            StepKind::Push(Command::WaitE(_) | Command::WaitD(_)) => {}
            other => panic!("{other:?} is not used by lowering"),
        }
    }
    let out = &program.tensors[2];
    (out.dtype, state.get(out).unwrap())
}

/// What became of a drawn program.
#[derive(Debug, PartialEq, Eq)]
enum Became {
    Illegal(String),
    NotLowered(String),
    Right,
}

fn agrees(text: &str, dtype: Dtype) -> Became {
    agrees_from(text, dtype, [false; 2])
}

/// The same with inputs that start in off-chip memory, if they may.
fn agrees_from(text: &str, dtype: Dtype, from_hbm: [bool; 2]) -> Became {
    let machine = machine();
    let parsed = parser::program(text, SourceId(0)).unwrap();
    let problem = Problem::new(&parsed).unwrap_or_else(|why| panic!("{text}\n{why:#?}"));
    let setup = Setup::new(machine, 1, dtype).unwrap();
    let verdict = check(&setup, &problem);
    if let Some(error) = verdict.diagnostics.iter().find(|found| found.severity == Severity::Error) {
        return Became::Illegal(format!("{}: {}", error.code, error.message));
    }
    let zero_points = if matches!(dtype, Dtype::I5 | Dtype::I9) { ZERO_POINTS } else { [0, 0] };
    let options = LowerOptions { zero_points, from_hbm, ..LowerOptions::default() };
    let program = match lower(&setup, &problem, &verdict, &options) {
        Ok(program) => program,
        Err(refused)
            if from_hbm.contains(&true) && NOT_FROM_HBM.iter().any(|why| refused.message.contains(why)) =>
        {
            return agrees(text, dtype);
        }
        Err(refused) if BEYOND_THE_CHECK.iter().any(|why| refused.message.contains(why)) => {
            return Became::Illegal(refused.message.clone());
        }
        Err(refused) => return Became::NotLowered(refused.message.clone()),
    };
    let refused: Vec<String> = verify(machine, &program)
        .iter()
        .filter(|complaint| complaint.severity == Severity::Error)
        .map(|complaint| format!("{}: {}", complaint.code, complaint.message))
        .collect();
    assert!(refused.is_empty(), "{text}\n{dtype:?}\n{refused:#?}\n{:#?}", program.execs);
    reads_back(text, &program);
    for sizes in plain::sizes(&problem) {
        let (out_type, patterns) = outputs(machine, &program, &sizes);
        let sums = Plain { problem: &problem, zero_points, sizes: &sizes }.sums();
        for ((at, sum), pattern) in sums.iter().zip(&patterns) {
            let Some(sum) = sum else { continue };
            let got = value(out_type, *pattern);
            assert_eq!(got, *sum, "{text}\n{dtype:?} {sizes:?} at {at:?}\n{:#?}", program.execs);
        }
    }
    Became::Right
}

/// The text form of a program is the program.
fn reads_back(drawn: &str, program: &Program) {
    let printed = text::print(program);
    let read = text::read(&printed, SourceId(0));
    let mut again = read.unwrap_or_else(|why| panic!("{drawn}\n{why:#?}\n{printed}"));
    assert_eq!(text::print(&again), printed, "{drawn}");
    text::erase_spans(&mut again);
    assert_eq!(again, *program, "{drawn}\n{printed}");
}

/// Cases of a default run; the environment may ask for more.
fn config() -> ProptestConfig {
    let asked = ProptestConfig::default();
    let unasked = 256;
    ProptestConfig { cases: if asked.cases == unasked { 500 } else { asked.cases }, ..asked }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn legal_tactics_give_the_values_of_plain_loops(seed in any::<u64>(), which in 0..TYPES.len()) {
        let text = program(&mut Dice(seed));
        let became = agrees(&text, TYPES[which]);
        prop_assert!(!matches!(became, Became::NotLowered(_)), "{became:?}: {text}");
    }
}

/// Programs that are compared in a default run, whatever else is drawn.
const COMPARED: usize = 2_000;
/// Those of them at least whose windows are moved by loops over slices.
const OVER_SLICES: usize = 200;

#[test]
fn two_thousand_legal_programs_give_the_values_of_plain_loops() {
    let (mut right, mut over_slices) = (0, 0);
    for seed in 0..10_000_u64 {
        let text = program(&mut Dice(seed));
        let dtype = TYPES[usize::try_from(seed).expect("small") % TYPES.len()];
        let from_hbm = [seed.is_multiple_of(3), seed.is_multiple_of(5)];
        match agrees_from(&text, dtype, from_hbm) {
            Became::Right => {
                right += 1;
                over_slices += usize::from(!lowered(&text, dtype).transfers.is_empty());
            }
            Became::NotLowered(why) => panic!("{why}: {text} {dtype:?}"),
            Became::Illegal(_) => {}
        }
        if right == COMPARED {
            assert!(over_slices >= OVER_SLICES, "{over_slices} windows are moved over slices");
            return;
        }
    }
    panic!("only {right} of the drawn programs are legal");
}

/// Windows that the feed unit shifts over: one for each kind of loop in the packet, with factors, blocks, and
/// positions before the start.
#[test]
fn overlapping_windows_are_fetched_once_and_shifted_over() {
    let texts = [
        (
            "c(y=x+r), crn -> xn; dims c=4, x=30, r=3, n=8; in0 = | c[4] y[32]; in1 = | n[8] c[4] r[3]; out \
             = | x[30] n[8]; \
          tactic = | c[4] r[3] | n[8] | x[30]",
            0,
        ),
        (
            "c(y=x+2r), crn -> xn; dims c=3, x=24, r=5, n=8; in0 = | c[3] y[32]; in1 = | n[8] c[3] r[5]; out \
             = | x[24] n[8]; \
          tactic = | c[3] r[5] | n[8] | x[24]",
            0,
        ),
        (
            "c(y=x+r), crn -> xn; dims c=2, x=48, r=3, n=8; in0 = | c[2] y[50]; in1 = | n[8] c[2] r[3]; out \
             = | x[48] n[8]; \
          tactic = | x^{24}[2] c[2] r[3] | n[8] | x[24]",
            0,
        ),
        (
            "(y=2x+r), rn -> xn; dims x=16, r=8, n=16; in0 = | y[38]; in1 = | n[16] r[8]; out = | x[16] \
             n[16]; \
          tactic = | x[16] n^8[2] | n[8] | r[8]",
            0,
        ),
        (
            "c(y=x+r-1), crn -> xn; dims c=4, x=32, r=3, n=8, y=32; in0 = | c[4] y[32]; in1 = | n[8] c[4] \
             r[3]; \
          out = | x[32] n[8]; tactic = | c[4] r[3] | n[8] | x[32]",
            -1,
        ),
        (
            "c(y=x+2r-3), crn -> xn; dims c=3, x=24, r=4, n=8, y=24; in0 = | c[3] y[24]; in1 = | n[8] c[3] \
             r[4]; \
          out = | x[24] n[8]; tactic = | c[3] r[4] | n[8] | x[24]",
            -3,
        ),
    ];
    for (text, initial) in texts {
        for dtype in [Dtype::I8, Dtype::I9, Dtype::I4] {
            let shift = shift_of(text, dtype);
            assert_eq!(shift.map(|shift| shift.initial), Some(initial), "{text} {dtype:?}");
            assert_eq!(agrees(text, dtype), Became::Right, "{text} {dtype:?}");
        }
    }
    // What lies in strides, is moved by a loop further out, or does not fit three flits is fetched window by
    // window.
    let fetched = [
        "(y=x+r)c, crn -> xn; dims c=4, x=30, r=3, n=8; in0 = | y[32] c[4]; in1 = | n[8] r[3] c[4]; out = | \
         x[30] n[8]; \
         tactic = | x[30] r[3] | n[8] | c[4]",
        "c(y=x+40r), crn -> xn; dims c=4, x=24, r=3, n=8; in0 = | c[4] y[104]; in1 = | n[8] c[4] r[3]; out = \
         | x[24] n[8]; \
         tactic = | c[4] r[3] | n[8] | x[24]",
    ];
    for text in fetched {
        assert_eq!(shift_of(text, Dtype::I8), None, "{text}");
        assert_eq!(agrees(text, Dtype::I8), Became::Right, "{text}");
    }
}

fn lowered(text: &str, dtype: Dtype) -> Program {
    let problem = Problem::new(&parser::program(text, SourceId(0)).unwrap()).unwrap();
    let setup = Setup::new(machine(), 1, dtype).unwrap();
    let verdict = check(&setup, &problem);
    lower(&setup, &problem, &verdict, &LowerOptions::default())
        .unwrap_or_else(|why| panic!("{text}\n{why:?}"))
}

fn shift_of(text: &str, dtype: Dtype) -> Option<Shift> {
    let program = lowered(text, dtype);
    let shift = |image: &Exec| match &image.body {
        ExecBody::Stream(stream) => stream.contract.as_ref()?.shift,
        _ => None,
    };
    program.execs.iter().find_map(shift)
}

/// Windows that loops over slices move: in copies, in one slice's memory, past the end, before the start, by
/// both loops, in both operands.
#[test]
fn windows_over_slices_are_cut_out_by_one_transfer() {
    let texts = [
        "c(y=x+r), crn -> xn; dims c=4, x=32, r=3, n=8; in0 = _[4] | c[4] y[34]; in1 = _[4] | n[8] c[4] \
         r[3]; \
         out = x^8[4] | x[8] n[8]; tactic = x^8[4] | c[4] r[3] x[8] n[8]",
        "c(y=2x+r-1), crn -> xn; dims c=3, x=13, r=3, n=5, y=25; in0 = _[1#4] | c[3] y[25]; in1 = @dm _[1#4] \
         | n[5] c[3] r[3]; \
         out = x^4[4#] | x[4] n[5]; tactic = x^4[4#] | c[3] r[3] x[4] n[5]",
        "c(y=x+r), crn -> xn; dims c=4, x=16, r=4, n=8; in0 = _[2] c[2] | c^2[2] y[19]; in1 = @dm r^2[2] \
         c[2] | n[8] c^2[2] r[2]; \
         out = _[2] _[2] | x[16] n[8]; tactic = r^2[2] c[2] | x[16] r[2] c^2[2] n[8]",
        "(y=x+r)(z=v+s), rsn -> xvn; dims x=8, v=8, r=3, s=3, n=4; in0 = _[4] | y[10] z[10]; in1 = _[4] | \
         n[4] r[3] s[3]; \
         out = x^4[2] v^4[2] | x[4] v[4] n[4]; tactic = x^4[2] v^4[2] | r[3] s[3] x[4] v[4] n[4]",
        "cn, c(y=x+r) -> xrn; dims c=8, x=16, r=3, n=4; stationary = in1; in0 = _[4] | n[4] c[8]; in1 = _[4] \
         | y[18] c[8]; \
         out = x^4[4] | x[4] r[3] n[4]; tactic = x^4[4] | n[4] x[4] r[3] c[8]",
    ];
    for text in texts {
        for dtype in [Dtype::I8, Dtype::Bf16, Dtype::I9, Dtype::I4] {
            let became = agrees(text, dtype);
            assert_eq!(became, Became::Right, "{text} {dtype:?}");
            assert!(!lowered(text, dtype).transfers.is_empty(), "{text}");
        }
    }
}

/// Drawn programs that once gave wrong values: parts of an output that freed slices take, out of sums whose
/// lanes are padded; sums that lanes spread over a scattered digit; copies out of padded digits.
#[test]
fn once_wrong_programs_are_right() {
    let texts = [
        "kjm, kjn -> mn; dims k=3, j=3, m=2, n=7; stationary = in0; in1 = k^1[3#4] j^2[2#2] | n^1[7] j^1[2]; \
         in0 = @trf/2 k^1[3#4] j^2[2#2] | m^1[2] j^1[2]; out = n^1[4] n^4[2#2] | m^1[2]; \
         tactic = k^1[3#4] j^2[2#2] | | m^1[2] | n^1[7] j^1[2]",
        "km, kn -> mn; dims k=1..3, m=1, n=6; in0 = k^2[2#] | k^1[2]; in1 = @trf k^2[2#] | n^1[6] k^1[2]; \
         out = n^3[2] | n^1[3]; tactic = k^2[2#] | k^1[2] n^1[6]",
        "kjm, kjn -> mn; dims k=2, j=12, m=13, n=6; in0 = k^1[2] | m^1[13] j^1[12]; \
         in1 = @dm k^1[2] | n^5[2#] n^1[5] j^1[12]; out = n^3[2] | m^1[13] n^1[3]; \
         tactic = k^1[2] | m^1[13] j^1[12] | n^1[3#4] n^3[2] |",
        "kjmb, (y=2b+j-2)knh -> mnhb; dims k=4, j=1..4, m=4, n=1, h=8, b=10; in0 = | b[10] m[4] j[4] k[4]; \
         in1 = @dm | h^3[3#] y[20] k[4] h[3]; out = | b[10] m[4] h[8]; tactic = | b[10] m[4] j[4] h^3[3#] \
         h[3] k[4]",
        "kmib, knb -> minb; dims k=1..2, m=5, i=6, n=1, b=21; stationary = in0; in1 = | k[2] b[21]; \
         in0 = @dm | m[5] b[21] i[4] i^4[2#] k[2]; out = | m[5] i[6] b^4[6#] b[4]; \
         tactic = | m[5] k[2] b[21] i[5] i^5[2#]",
        "kjm, kjn -> mn; dims k=1..5, j=1, m=5, n=8; in0 = k[2] k^2[3#4] | m[2] m^2[3#]; \
         in1 = @trf/2 k[2] k^2[3#4] | n[4] n^4[2]; out = n^4[2] n[4] | m[5]; \
         tactic = k[2] k^2[3#4] | m[2] n[4] m^2[3#] n^4[2]",
        "km, (y=k+n) -> mn; dims k=10, m=8, n=6; in0 = m[2] | k[10] m^2[4]; in1 = @dm _[1#2] | y[15]; \
         out = m[2] | n[6] m^2[4]; tactic = m[2] | n[3] n^3[2] k[10] m^2[4]",
        "kmb, knb -> mnb; dims k=3, m=7, n=12, b=15; in0 = | k^2[2#] m^5[2#] k[2] m[5] b[15]; \
         in1 = @dm | b[5] b^5[3] k^2[2#] k[2] n[12]; out = | n[12] m^5[2#] m[5] b[15]; \
         tactic = | n[12] m^5[2#] m[5] k^2[2#] k[2] b[15]",
        "km, (y=h+n-1)k -> mnh; dims k=4, m=7, n=5, h=8; in0 = | m[2] k^2[2] m^2[4#] k[2]; \
         in1 = @dm | y[11] k[2] k^2[2]; out = | m^2[4#] m[2] n[5] h[8]; \
         tactic = | h[8] n[5] k^2[2] m[2] | | m^2[4#] k[2]",
        "km, knh -> mnh; dims k=4, m=8, n=11, h=9; stationary = in0; \
         in1 = h[2] | h^2[5#] k^3[2#] k[3] n^3[4#] n[3]; in0 = @dm k^3[2#] | m^3[3#] m[3] k[3]; \
         out = h[2] | h^2[5#] n[11] m[8]; tactic = h[2] | m^3[3#] m[3] k[3] h^2[5#] k^3[2#] n[11]",
    ];
    assert_eq!(agrees(texts[1], Dtype::I5), Became::Right, "{}", texts[1]);
    for text in texts {
        for dtype in [Dtype::I8, Dtype::F8E4M3Fn, Dtype::Bf16] {
            assert_eq!(agrees(text, dtype), Became::Right, "{text} {dtype:?}");
        }
    }
}
