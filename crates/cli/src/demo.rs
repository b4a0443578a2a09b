//! What runs without arguments: QK^T of the paper's Fig. 10, from its notation to numbers.
//!
//! The query and key tensors of four heads are laid into 64 slices by their lowered shapes, the contraction's loop table is run over
//! these memories, and the result, gathered by the output's shape, must equal a plain einsum over the unlowered tensors.

use tilewright_base::{SourceId, Sources};
use tilewright_notation::algebra::RadixMap;
use tilewright_notation::problem::Problem;
use tilewright_notation::syntax::ast::Operand;
use tilewright_notation::syntax::parser;
use tilewright_num::Dtype;
use tilewright_report::columns::thousands;
use tilewright_tcp::exec::lower::{Maps, lower};
use tilewright_tcp::exec::values::{Integers, Memory, run as run_table};
use tilewright_tcp::{Placed, Setup};

use crate::chip::load_chip;
use crate::host::Host;
use crate::notation::{pictures, summary};
use crate::outcome::{FAILED, OUR_FAULT, Outcome};

/// Fig. 10 of the paper: 16 slices for each of four heads, keys in the register files.
pub(crate) const FIG_10: &str = include_str!("../../../kernels/qk-fig10.tw");

pub(crate) fn run(host: &mut dyn Host) -> Outcome {
    demonstrate(host).unwrap_or_else(|outcome| outcome)
}

fn demonstrate(host: &mut dyn Host) -> Result<Outcome, Outcome> {
    let broken = || Outcome { code: OUR_FAULT, ..Outcome::usage("the demonstration does not load") };
    let mut sources = Sources::default();
    let loaded = load_chip(&mut sources, "tcp", &[], host)?;
    let tcp = loaded.machine.tcp().ok_or_else(broken)?;
    let setup = Setup::new(tcp, 1, Dtype::I8).map_err(|_| broken())?;
    let program = parser::program(FIG_10, SourceId(0)).map_err(|_| broken())?;
    let problem = Problem::new(&program).map_err(|_| broken())?;
    let verdict = tilewright_tcp::check(&setup, &problem);
    let pictures = pictures(&program, &setup, &problem).ok_or_else(broken)?;
    let checked = compare(&setup, &problem).ok_or_else(broken)?;

    let mut stdout = String::from("QK^T of four attention heads on one PE (TCP paper, Fig. 10)\n\n");
    stdout.push_str(&summary(&program, &setup, &problem, &verdict, &loaded));
    stdout.push('\n');
    stdout.push_str(&pictures.text());
    stdout.push_str(&format!(
        "
ran the contraction's loop table on {} slices: {} of {} results equal plain einsum
",
        checked.slices,
        thousands(checked.equal),
        thousands(checked.results),
    ));
    stdout.push_str("next: tilewright notation show --help, tilewright machine show tcp, docs/README.md\n");
    let good = verdict.legal() && checked.equal == checked.results;
    Ok(Outcome { code: if good { 0 } else { FAILED }, stdout, stderr: String::new() })
}

struct Compared {
    slices: u64,
    results: u64,
    equal: u64,
}

/// Elements of a fixed pseudo-random tensor, between -8 and 7.
fn element(seed: u64, position: &[u64]) -> i32 {
    let mixed = position
        .iter()
        .fold(seed, |hash, at| (hash ^ at).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23));
    i32::try_from(mixed >> 60).unwrap_or(0) - 8
}

fn compare(setup: &Setup<'_>, problem: &Problem) -> Option<Compared> {
    let map = |operand| RadixMap::of_shape(problem, problem.shape(operand)?).ok();
    let (stream, trf, out) = (map(Operand::In0)?, map(Operand::In1)?, map(Operand::Out)?);
    let placed = Placed::new(setup, problem, problem.tactic.as_ref()?);
    let table = lower(problem, &placed, &Maps { stream: &stream, trf: &trf, out: &out }).ok()?;
    let mut results = Memory::new(out.to[0], out.to[1])?;
    run_table(&Integers, &table, &laid_out(&stream, 1)?, &laid_out(&trf, 2)?, &mut results);
    let mut compared = Compared { slices: table.slice_count(), results: 0, equal: 0 };
    let [h, q, k] = [out.from[0], out.from[1], out.from[2]];
    for (head, query, key) in (0..h).flat_map(|x| (0..q).flat_map(move |y| (0..k).map(move |z| (x, y, z)))) {
        let plain: i32 =
            (0..stream.from[2]).map(|i| element(1, &[head, query, i]) * element(2, &[head, key, i])).sum();
        let place = out.apply(&[head, query, key]);
        compared.results += 1;
        compared.equal += u64::from(plain == results.get(place[0], place[1]));
    }
    Some(compared)
}

/// A tensor in the memories of the slices, as its lowered shape says.
fn laid_out(map: &RadixMap, seed: u64) -> Option<Memory<i32>> {
    let mut memory = Memory::new(map.to[0], map.to[1])?;
    for (slice, offset) in (0..map.to[0]).flat_map(|slice| (0..map.to[1]).map(move |offset| (slice, offset)))
    {
        if let Some(at) = map.source_of(&[slice, offset]) {
            *memory.cell(slice, offset)? = element(seed, &at);
        }
    }
    Some(memory)
}
