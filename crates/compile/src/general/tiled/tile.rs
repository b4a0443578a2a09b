//! One tile of a contraction on one PE: lowered shapes in row-major order within each slice, the two
//! commands, their cycles.
//!
//! The operand with the columns is held: lanes are neighbouring columns, so that sums leave as runs of the
//! result's rows. Rows are spread over the slices of a ring that multicasts them, the sum over neighbouring
//! slices, whose parts the reducer adds.

use tilewright_base::SourceId;
use tilewright_explore::tcp::cost::{CandidateCommands, columns};
use tilewright_explore::tcp::exhaustive::evaluate;
use tilewright_explore::tcp::nest::FrameContext;
use tilewright_explore::tcp::operand_transfers::{TransferMemo, brought};
use tilewright_explore::tcp::point::{LoadContext, StreamSupply};
use tilewright_explore::tcp::program::as_chosen;
use tilewright_explore::tcp::spell::spell;
use tilewright_explore::tcp::task::{AxisClass, MAX_AXES};
use tilewright_explore::tcp::{TcpChoice, TcpFrame, TcpTask};
use tilewright_machine::tcp::Tcp;
use tilewright_notation::problem::Problem;
use tilewright_notation::syntax::ast::{LoweredShape, Operand, Term};
use tilewright_notation::syntax::expr::Expr;
use tilewright_notation::syntax::parser;
use tilewright_num::Dtype;
use tilewright_tcp_cost::Setup;
use tilewright_tcp_isa::program::exec::{Drain, Exec, ExecBody};
use tilewright_tcp_isa::program::tensor::{TensorData, TensorPlace};
use tilewright_tcp_isa::program::transfer::SLICE_STRIDE;
use tilewright_tcp_isa::program::{Program, Tensor};

use super::super::image::Image;
use super::super::kernel::Sizes;
use super::super::tactic::{Placed, einsum};
use super::exchange::{Exchange, exchanged};

/// Elements that a lane multiplies at once.
const PACKET: u64 = 32;
/// Bytes of an operand's element.
pub(super) const HALF_BYTES: u64 = 2;
/// Bytes of a sum.
pub(super) const WORD_BYTES: u64 = 4;

/// How a tile is spread over slices, as powers of two: what rows, columns and the sum have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Split {
    pub(super) columns_log2: u8,
    pub(super) summed_log2: u8,
}

impl Split {
    /// All splits over so many slices; the rows have what the others leave.
    pub(super) fn all(slices: u64) -> Vec<Split> {
        let most = u8::try_from(slices.max(1).ilog2()).unwrap_or(0);
        let with = |columns_log2: u8| {
            (0..=most - columns_log2).map(move |summed_log2| Split { columns_log2, summed_log2 })
        };
        (0..=most).flat_map(with).collect()
    }

    /// Slices over rows, columns and the sum.
    pub(super) fn over(self, slices: u64) -> [u64; 3] {
        [self.rows_log2(slices), self.columns_log2, self.summed_log2].map(|log2| 1 << log2)
    }

    fn rows_log2(self, slices: u64) -> u8 {
        u8::try_from(slices.max(1).ilog2()).unwrap_or(0) - self.columns_log2 - self.summed_log2
    }
}

/// What a tile takes, by closed forms alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Estimate {
    pub(super) load_cycles: u64,
    pub(super) contract_cycles: u64,
    /// Bytes that each slice has of rows, columns, sums, and sums behind an exchange.
    pub(super) slice_bytes: [u64; 4],
    /// Copies of the held operand.
    pub(super) copies: u64,
    /// Cycles of the sub context.
    pub(super) exchange_cycles: u64,
    /// Columns of a row that a slice gives at once.
    pub(super) run_columns: u64,
}

/// A tile with its commands.
#[derive(Clone, Debug)]
pub(super) struct TileProgram {
    /// Brings the held operand to the register files.
    pub(super) load: Exec,
    /// Multiplies.
    pub(super) contract: Exec,
    /// Where the command leaves sums.
    sums: u64,
    /// Operands and result; places of slices are those of the address space.
    pub(super) operands: [Placed; 3],
    /// Slices some places of which hold nothing, of rows and of columns: ranges.
    pub(super) empty: [Vec<(u64, u64)>; 2],
    /// What slices exchange before results are stored.
    pub(super) exchange: Exchange,
}

/// An einsum that candidates are made of.
struct Case<'m> {
    task: TcpTask<'m>,
    framed: FrameContext,
    choice: TcpChoice,
}

fn case(machine: &Tcp, sizes: Sizes, split: Split) -> Option<Case<'_>> {
    let parsed = parser::program(&einsum(sizes), SourceId(0)).ok()?;
    let problem = Problem::new(&parsed).ok()?;
    let setup = Setup::new(machine, 1, Dtype::Bf16).ok()?;
    let task = TcpTask::new(setup, &parsed, &problem).ok()?;
    let slices = machine.pe.slices;
    let mut frame = TcpFrame {
        stationary: Operand::In1,
        parts: [1; MAX_AXES],
        slices_log2: [0; MAX_AXES],
        extents: [1; MAX_AXES],
    };
    for (at, axis) in task.axes.iter().enumerate() {
        frame.extents[at] = axis.extent;
        frame.slices_log2[at] = match axis.class {
            AxisClass::Free0 => split.rows_log2(slices),
            AxisClass::Free1 => split.columns_log2,
            AxisClass::Contracted => split.summed_log2,
            AxisClass::Batch => 0,
        };
    }
    let share = sizes.columns.div_ceil(1 << split.columns_log2);
    let lanes = machine.ce.lanes.min(1 << share.ilog2());
    let choice = TcpChoice {
        lanes,
        columns: 1,
        tree: PACKET,
        repeats: share.div_ceil(lanes),
        supply: if split.columns_log2 > 0 { StreamSupply::RingOuter } else { StreamSupply::Own },
        order: 0,
        fetch_bytes: machine.fetch.main_widths_bytes.iter().copied().max()?,
        loading: LoadContext::Main,
        drain: Drain::Interleaved,
        commit_bytes: lanes * WORD_BYTES,
    };
    let framed = FrameContext::new(&task, &frame);
    Some(Case { task, framed, choice })
}

/// What a tile takes; `None` if it is not legal.
pub(super) fn estimate(machine: &Tcp, sizes: Sizes, split: Split) -> Option<Estimate> {
    let (sizes, exchange) = exchanged(machine, sizes, split);
    let Case { task, framed, choice } = case(machine, sizes, split)?;
    evaluate(&task, &framed, &choice, &mut TransferMemo::new()).ok()?;
    let nest = framed.nest(&choice).ok()?;
    let commands = CandidateCommands::new(&task.setup, &nest, &choice).ok()?;
    if commands.bridge.is_some() {
        return None;
    }
    let none = brought(&task, &framed, &nest, &mut TransferMemo::new()).ok()?;
    let taken = columns(&task.setup, &commands, 1, (&none, 0));
    let slice_bytes = [
        nest.streamed_elements() * HALF_BYTES,
        nest.held_elements() * HALF_BYTES,
        nest.results() * WORD_BYTES,
        exchange.bytes(),
    ];
    Some(Estimate {
        load_cycles: taken.load_cycles,
        contract_cycles: taken.contract_cycles,
        slice_bytes,
        copies: nest.streamed_slices,
        exchange_cycles: exchange.cycles(machine),
        run_columns: exchange.run_columns(),
    })
}

/// Digits of an operand in row-major order.
fn sorted(shape: Option<&mut LoweredShape>, axes: [char; 2]) {
    let Some(shape) = shape else { return };
    let key = |term: &Term| {
        let letter = term.axis.map(|axis| axis.to_string().to_ascii_lowercase());
        let at = axes.iter().position(|known| letter.as_deref() == Some(&known.to_string()));
        let stride = if let Expr::Int(stride) = term.stride { stride } else { 0 };
        (at, std::cmp::Reverse(stride))
    };
    shape.intra.sort_by_key(key);
}

/// The commands of a tile.
///
/// # Errors
/// Why there are none.
pub(super) fn tile_program(machine: &Tcp, live: Sizes, split: Split) -> Result<TileProgram, String> {
    let (sizes, exchange) = exchanged(machine, live, split);
    let Case { task, framed, choice } = case(machine, sizes, split).ok_or("no such tile")?;
    let mut spelled = spell(&task, &framed, &choice).ok_or("a tile that is not legal")?;
    sorted(spelled.in0.as_mut(), ['m', 'k']);
    sorted(spelled.in1.as_mut(), ['n', 'k']);
    sorted(spelled.out.as_mut(), ['m', 'n']);
    let text = spelled.to_string();
    let parsed = parser::program(&text, SourceId(0)).map_err(|complaint| complaint.message.clone())?;
    let first = |all: &[tilewright_base::Diagnostic]| {
        let why = all.first().map_or("refused", |complaint| &complaint.message);
        format!("{why}: `{text}`")
    };
    let problem = Problem::new(&parsed).map_err(|all| first(&all))?;
    let verdict = tilewright_tcp_cost::check(&task.setup, &problem);
    if !verdict.legal() {
        return Err(first(&verdict.diagnostics));
    }
    let options = tilewright_tcp_lower::LowerOptions {
        data: [TensorData::None, TensorData::None],
        ..tilewright_tcp_lower::LowerOptions::default()
    };
    let mut program = tilewright_tcp_lower::lower(&task.setup, &problem, &verdict, &options)
        .map_err(|refused| first(&[*refused]))?;
    as_chosen(machine, &choice, &mut program);
    let mut operands = placed(&program).ok_or("a shape that is no block")?;
    let sums = operands[2].base;
    if exchange.ring > 1 {
        operands[2] = exchange.placed().ok_or("sums that slices cannot exchange")?;
    }
    let count =
        |number: usize| program.tensors.get(number).map_or(0, |tensor| tensor.map.to.iter().product());
    let elements = [sizes.rows * sizes.summed, sizes.columns * sizes.summed];
    let ragged = |at: usize| count(at) != elements[at] && count(at) % elements[at] != 0;
    let over = split.over(machine.pe.slices);
    let all = vec![(0, machine.pe.slices)];
    let rows = if ragged(0) || sizes.rows != live.rows { all.clone() } else { Vec::new() };
    let columns = if ragged(1) { all } else { empty_columns(over, [sizes.columns, live.columns]) };
    let empty = [rows, columns];
    let [load, contract] =
        <[Exec; 2]>::try_from(program.execs).map_err(|all| format!("{} commands for a tile", all.len()))?;
    Ok(TileProgram { load, contract, sums, operands, empty, exchange })
}

/// Slices that have fewer columns than others, or none: ranges for each group of rows.
fn empty_columns([by_rows, by_columns, by_sum]: [u64; 3], [all, live]: [u64; 2]) -> Vec<(u64, u64)> {
    let full = live / (all / by_columns).max(1);
    if live == all {
        return Vec::new();
    }
    let range = |group: u64| ((group * by_columns + full) * by_sum, (group + 1) * by_columns * by_sum);
    (0..by_rows).map(range).collect()
}

fn placed(program: &Program) -> Option<[Placed; 3]> {
    let stride = u64::try_from(SLICE_STRIDE).ok()?;
    let one = |name: &str, bytes: u64| {
        let tensor: &Tensor = program.tensors.iter().find(|tensor| tensor.name == name)?;
        let TensorPlace::Dm { base, slice: 0, .. } = tensor.place else { return None };
        let image = Image::new(&tensor.map, stride / bytes)?;
        Some(Placed { base, image, axes: tensor.axes.clone() })
    };
    Some([one("in0", HALF_BYTES)?, one("in1", HALF_BYTES)?, one("out", WORD_BYTES)?])
}

impl TileProgram {
    /// The command that loads register files, from another place.
    pub(super) fn load_from(&self, held: u64) -> Exec {
        let mut exec = self.load.clone();
        if let ExecBody::Stream(stream) = &mut exec.body {
            stream.fetch.base = stream.fetch.base - self.operands[1].base + held;
        }
        exec
    }

    /// The contraction between other places.
    pub(super) fn contract_at(&self, streamed: u64, out: u64) -> Exec {
        let mut exec = self.contract.clone();
        if let ExecBody::Stream(stream) = &mut exec.body {
            stream.fetch.base = stream.fetch.base - self.operands[0].base + streamed;
            stream.commit.base = stream.commit.base - self.sums + out;
        }
        exec
    }
}
