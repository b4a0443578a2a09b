//! What runs without arguments: QK^T of the paper's Fig. 10, from its notation to numbers.
//!
//! The query and key tensors of four heads are laid into 64 slices by their lowered shapes, the tactic's loops are run literally
//! over that memory, and the result, gathered by the output's shape, must equal a plain einsum over the unlowered tensors.

use tilewright_base::{SourceId, Sources};
use tilewright_notation::algebra::{PlaceMap, RadixMap};
use tilewright_notation::problem::Problem;
use tilewright_notation::syntax::ast::Operand;
use tilewright_notation::syntax::parser;
use tilewright_notation::walk;
use tilewright_num::Dtype;
use tilewright_report::columns::thousands;
use tilewright_tcp::Setup;

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
    let checked = compare(&problem).ok_or_else(broken)?;

    let mut stdout = String::from("QK^T of four attention heads on one PE (TCP paper, Fig. 10)\n\n");
    stdout.push_str(&summary(&program, &setup, &problem, &verdict, &loaded));
    stdout.push('\n');
    stdout.push_str(&pictures.text());
    stdout.push_str(&format!(
        "\nran {} multiply-adds in the tactic's order over the slices' memory: {} of {} results equal plain einsum\n",
        thousands(checked.steps),
        thousands(checked.equal),
        thousands(checked.results),
    ));
    stdout.push_str("next: tilewright notation show --help, tilewright machine show tcp, docs/README.md\n");
    let good = verdict.legal() && checked.equal == checked.results;
    Ok(Outcome { code: if good { 0 } else { FAILED }, stdout, stderr: String::new() })
}

struct Compared {
    steps: u64,
    results: u64,
    equal: u64,
}

/// Elements of a fixed pseudo-random tensor, between -8 and 7.
fn element(seed: u32, position: &[u32]) -> i32 {
    let mixed = position.iter().fold(seed, |hash, at| (hash ^ at).wrapping_mul(0x9E37_79B1).rotate_left(13));
    i32::try_from(mixed >> 28).unwrap_or(0) - 8
}

fn compare(problem: &Problem) -> Option<Compared> {
    let tactic = problem.tactic.as_ref()?;
    let mut memories = Vec::new();
    for (operand, seed) in [(Operand::In0, 1), (Operand::In1, 2), (Operand::Out, 0)] {
        memories.push(Memory::new(problem, operand, seed)?);
    }
    let [in0, in1, out] = memories.as_mut_slice() else { return None };
    let mut steps = 0;
    walk::for_each_step(problem, tactic, |at| {
        steps += 1;
        let (a, b) = (in0.get(at), in1.get(at));
        *out.slot(at) += a * b;
    });
    let mut compared = Compared { steps, results: 0, equal: 0 };
    let extents: Vec<u32> = problem.axes.iter().map(|axis| u32::try_from(axis.extent).unwrap_or(0)).collect();
    let [h, q, d, k] = extents.as_slice() else { return None };
    for (head, query, key) in (0..*h).flat_map(|x| (0..*q).flat_map(move |y| (0..*k).map(move |z| (x, y, z))))
    {
        let plain: i32 = (0..*d).map(|i| element(1, &[head, query, i]) * element(2, &[head, key, i])).sum();
        compared.results += 1;
        compared.equal += u64::from(plain == *out.slot(&[head, query, 0, key]));
    }
    Some(compared)
}

/// The memory of all slices for one tensor.
struct Memory {
    map: PlaceMap,
    axes: Vec<usize>,
    elements_per_slice: usize,
    cells: Vec<i32>,
}

impl Memory {
    /// Lays a tensor out by its lowered shape; seed 0 leaves it zero.
    fn new(problem: &Problem, operand: Operand, seed: u32) -> Option<Memory> {
        let radix = RadixMap::of_shape(problem, problem.shape(operand)?).ok()?;
        let map = PlaceMap::new(&radix)?;
        let sizes: Vec<usize> = radix.to.iter().filter_map(|size| usize::try_from(*size).ok()).collect();
        let axes: Vec<usize> = problem.tensor(operand).iter().map(|id| usize::from(id.0)).collect();
        let [slices, elements_per_slice] = *sizes.as_slice() else { return None };
        let mut memory =
            Memory { map, axes, elements_per_slice, cells: vec![0; slices * elements_per_slice] };
        if seed != 0 {
            memory.fill(seed);
        }
        Some(memory)
    }

    fn fill(&mut self, seed: u32) {
        let mut position = vec![0; self.axes.len()];
        for (index, cell) in (0_u32..).zip(&mut self.cells) {
            let per_slice = u32::try_from(self.elements_per_slice).unwrap_or(1);
            let place =
                tilewright_notation::algebra::Place { slice: index / per_slice, offset: index % per_slice };
            if self.map.coordinate(place, &mut position) {
                *cell = element(seed, &position);
            }
        }
    }

    fn index(&self, at: &[u32]) -> usize {
        let mut position = [0; 8];
        for (slot, axis) in position.iter_mut().zip(&self.axes) {
            *slot = at[*axis];
        }
        let place = self.map.place(&position);
        place.slice as usize * self.elements_per_slice + place.offset as usize
    }

    fn get(&self, at: &[u32]) -> i32 {
        self.cells[self.index(at)]
    }

    fn slot(&mut self, at: &[u32]) -> &mut i32 {
        let index = self.index(at);
        &mut self.cells[index]
    }
}
