//! Tactics of contractions: the explorer's best, lowered to commands by the engine (stage 3).

use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};

use tilewright_base::{Diagnostic, SourceId};
use tilewright_explore::tcp::program::lowered;
use tilewright_explore::tcp::{TcpReport, TcpTask};
use tilewright_explore::{Goal, SearchOptions, search};
use tilewright_machine::tcp::Tcp;
use tilewright_notation::problem::Problem;
use tilewright_notation::syntax::parser;
use tilewright_num::Dtype;
use tilewright_tcp_cost::Setup;
use tilewright_tcp_isa::footprint::MemoryKind;
use tilewright_tcp_isa::footprint::exec::of_exec;
use tilewright_tcp_isa::program::Program;
use tilewright_tcp_isa::program::event::PeId;
use tilewright_tcp_isa::program::tensor::{Tensor, TensorData, TensorPlace};
use tilewright_tcp_isa::vector::FLIT_WORDS;

use super::commands_chain::Rooms;
use super::contraction_facts::LETTERS;
use super::image::Image;
use super::kernel::{Kernels, Packing, Part, Sizes, Work};
use super::passes::passes;

/// Candidates that the explorer looks at, if there are more.
const BUDGET: u64 = 200_000;

/// A contraction with shapes and commands.
#[derive(Clone, Debug)]
pub struct Tactic {
    /// Shapes and tactic as they are written.
    pub text: String,
    /// The commands, operands in data memory.
    pub program: Program,
    /// What they compute at once: all of it, or a part along some axes.
    pub chunk: Sizes,
    /// Cycles of all parts by the explorer.
    pub cycles: u64,
    /// Operands and result as they lie in data memory.
    pub operands: [Placed; 3],
    /// What [`Tactic::free_byte`] found, for all copies of the tactic.
    free: Arc<OnceLock<u64>>,
}

/// A tensor in data memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// First byte.
    pub base: u64,
    /// The same as a block of HBM.
    pub image: Image,
    /// Its axes, by name.
    pub axes: Vec<(String, u64)>,
}

/// The best tactics of a contraction, at most `keep`, the fastest first.
///
/// # Errors
/// Why there is none.
pub fn tactics(machine: &Tcp, sizes: Sizes, keep: usize) -> Result<Vec<Tactic>, String> {
    let first = |complaints: Vec<Diagnostic>| complaints.first().map_or(String::new(), |c| c.message.clone());
    let text = einsum(sizes);
    let parsed = parser::program(&text, SourceId(0)).map_err(|complaint| complaint.message.clone())?;
    let problem = Problem::new(&parsed).map_err(first)?;
    let setup = Setup::new(machine, 1, multiplied(sizes.operands));
    let setup = setup.map_err(|_| format!("a machine without {}", sizes.operands.name()))?;
    let task = TcpTask::new(setup, &parsed, &problem).map_err(|complaint| complaint.message.clone())?;
    let options = SearchOptions { budget: Some(BUDGET), ..SearchOptions::exact(Goal::Time, keep) };
    let found = search(&task, &options, &mut |_, _| false);
    let mut all = Vec::new();
    let mut why = "no tactic is legal".to_string();
    for best in found.kept.best() {
        let Some(told) = TcpReport::new(&task, &found, best) else { continue };
        let options = tilewright_tcp_lower::LowerOptions {
            data: [TensorData::None, TensorData::None],
            ..tilewright_tcp_lower::LowerOptions::default()
        };
        match lowered(&task, &told.framed, &best.choice, &options) {
            Ok(done) => match placed(machine, &done.program, sizes.operands)
                .map(|operands| (chunk(&operands, sizes.operands), operands))
            {
                Some((chunk, operands)) if chunk.summed == sizes.summed => {
                    let (text, program) = (done.text.to_string(), done.program);
                    all.push(Tactic {
                        text,
                        program,
                        chunk: Sizes { counted: sizes.counted, ..chunk },
                        cycles: told.columns.cycles,
                        operands,
                        free: Arc::default(),
                    });
                }
                Some(_) => why = "sums in parts".to_string(),
                None => why = "a shape that is no block".to_string(),
            },
            Err(complaints) => why = first(complaints),
        }
    }
    if all.is_empty() { Err(format!("`{text}`: {why}")) } else { Ok(all) }
}

pub(super) fn einsum(sizes: Sizes) -> String {
    let batch = if sizes.batch > 1 { "b" } else { "" };
    let mut text = format!("{batch}mk, {batch}nk -> {batch}mn; dims ");
    if sizes.batch > 1 {
        let _ = write!(text, "b={}, ", sizes.batch);
    }
    let _ = write!(text, "m={}, n={}, k={}", sizes.rows, sizes.columns, sizes.summed);
    text
}

/// The type of what a contraction multiplies.
pub(super) fn multiplied(packing: Packing) -> Dtype {
    packing.cast().unwrap_or(Dtype::Bf16)
}

fn placed(machine: &Tcp, program: &Program, packing: Packing) -> Option<[Placed; 3]> {
    let find = |name: &str| program.tensors.iter().find(|tensor| tensor.name == name);
    let one = |tensor: &Tensor| {
        let TensorPlace::Dm { base, slice: 0, .. } = tensor.place else { return None };
        // The engine takes room in whole flits; results are read back as flits of words.
        let narrow = machine.tdma.alignment_bytes / packing.element_bytes();
        let granule = if tensor.name == "out" { FLIT_WORDS } else { narrow };
        let image = Image::new(&tensor.map, granule)?;
        Some(Placed { base, image, axes: tensor.axes.clone() })
    };
    Some([one(find("in0")?)?, one(find("in1")?)?, one(find("out")?)?])
}

/// Sizes of what a program computes.
fn chunk([a, b, _]: &[Placed; 3], operands: Packing) -> Sizes {
    let size = |of: &Placed, name: &str| {
        of.axes.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map_or(1, |(_, size)| *size)
    };
    let [batch, rows, columns, summed] = [size(a, "b"), size(a, "m"), size(b, "n"), size(a, "k")];
    Sizes::new(batch, rows, columns, summed, operands)
}

impl Tactic {
    /// The first byte of data memory behind all that its commands touch, in whole flits.
    pub fn free_byte(&self, machine: &Tcp) -> u64 {
        *self.free.get_or_init(|| self.last_touched(machine))
    }

    fn last_touched(&self, machine: &Tcp) -> u64 {
        let pe = PeId { chip: 0, pe: 0 };
        let ends = self.program.execs.iter().flat_map(|exec| {
            let touched = of_exec(machine, exec, pe, &[]).accesses;
            let own = touched.into_iter().filter(|access| access.memory == MemoryKind::Dm);
            own.filter_map(|access| access.bytes.bounds().map(|bounds| bounds.1)).collect::<Vec<u64>>()
        });
        let out = &self.operands[2];
        let end = ends.chain([out.base + out.image.pitch * 4]).max().unwrap_or(0);
        end.next_multiple_of(machine.network.flit_bytes)
    }

    /// Whether a chain can run where this leaves its result: all of it at once, all streams beside what the
    /// commands need.
    pub fn takes_tail(&self, machine: &Tcp, all: &Kernels, tail: usize, sizes: Sizes) -> bool {
        let kernel = &all.kernels[tail];
        let Work::Chain { inputs, lines, streams } = &kernel.work else { return false };
        if self.chunk != sizes || self.operands[2].image.pitch > machine.sequencer.entry_size_max {
            return false;
        }
        let Some(made) = passes(machine, inputs.len(), lines, streams) else { return false };
        let rooms = Rooms::new(inputs.len(), streams, &made).most + streams.len() as u64;
        let words = self.operands[2].image.pitch;
        let end = rooms.saturating_mul(words).saturating_mul(4).saturating_add(self.free_byte(machine));
        end <= machine.dm.capacity_bytes
    }
}

impl Placed {
    /// How elements of this result come straight to an operand of another contraction whose axes count the
    /// same.
    pub fn parts_to(&self, other: &Placed, operand: usize) -> Option<Vec<Part>> {
        let find = |placed: &Placed, letter: &str| {
            placed.axes.iter().position(|(name, _)| name.eq_ignore_ascii_case(letter))
        };
        let pairs = LETTERS[2].iter().zip(LETTERS[operand]);
        let axes: Vec<_> = pairs.map(|(own, its)| (find(self, own), find(other, its))).collect();
        self.image.parts_to(0, &other.image, &axes)
    }

    /// Stride and live positions of each axis of the shape, by the letters of a row-major value, its sizes,
    /// and how many are live.
    pub fn axes_of(&self, letters: [&str; 3], sizes: [u64; 3], live: [u64; 3]) -> Vec<(i64, u64)> {
        self.axes_by(letters, [sizes[1] * sizes[2], sizes[2], 1], live)
    }

    /// The same for a value whose letters have these strides.
    pub fn axes_by(&self, letters: [&str; 3], strides: [u64; 3], live: [u64; 3]) -> Vec<(i64, u64)> {
        let of = |name: &str| {
            let at = letters.iter().position(|letter| name.eq_ignore_ascii_case(letter))?;
            Some((super::view::signed(strides[at]), live[at]))
        };
        self.axes.iter().map(|(name, _)| of(name).unwrap_or((0, 1))).collect()
    }
}
