//! Commands of a general graph (stage 4): transfers between HBM and data memory, passes and contractions one after the other on
//! the first PE, tiled contractions on several.
//!
//! Every value has its own place in HBM and every command of the first PE waits for the one before it, so that nothing has to be
//! ordered there. Programs of several PEs have their own waits; PEs meet before and after them.

use tilewright_base::Span;
use tilewright_machine::tcp::Tcp;
use tilewright_tcp_isa::program::control::{Command, Queue, Step, StepKind, ControlExpr, ControlOperand};
use tilewright_tcp_isa::program::exec::{Commit, Context, Exec, ExecBody, Fill, Memory};
use tilewright_tcp_isa::program::transfer::{
    Address, MemoryInstance, MemoryLocation, SLICE_STRIDE, Transfer,
};
use tilewright_tcp_isa::program::{ExecId, Program, TransferId};

use super::kernel::Part;
use super::moves::{Bytes, transfers};
use super::view::signed;

/// Names transfers and executions: one is in flight at a time.
const ID: u8 = 0;

/// A program in the making.
pub(super) struct Emitter<'m> {
    pub(super) machine: &'m Tcp,
    program: Program,
    steps: Vec<Step>,
    /// Steps of the PEs behind the first.
    others: Vec<Vec<Step>>,
    /// Other PEs may still be at work.
    apart: bool,
    /// First byte of HBM that is free.
    next_byte: u64,
}

/// A byte of HBM.
pub(super) fn hbm(offset: u64) -> Address {
    Address::new(MemoryLocation { chip: 0, medium: MemoryInstance::Hbm, offset })
}

/// A byte of the first slice's data memory.
pub(super) fn dm(offset: u64) -> Address {
    Address::new(MemoryLocation { chip: 0, medium: MemoryInstance::Dm { slice: 0 }, offset })
}

impl<'m> Emitter<'m> {
    pub(super) fn new(machine: &'m Tcp) -> Emitter<'m> {
        let (program, steps, others) = (Program::default(), Vec::new(), Vec::new());
        Emitter { machine, program, steps, others, apart: false, next_byte: 0 }
    }

    /// Takes room in HBM.
    pub(super) fn room(&mut self, bytes: u64) -> u64 {
        let base = self.next_byte;
        let unit = self.machine.hbm.access_bytes.max(self.machine.tdma.alignment_bytes).max(1);
        self.next_byte = base.saturating_add(bytes).next_multiple_of(unit);
        base
    }

    /// Bytes of HBM that are taken.
    pub(super) fn taken_bytes(&self) -> u64 {
        self.next_byte
    }

    /// How many commands there are.
    pub(super) fn commands(&self) -> (usize, usize) {
        (self.program.transfers.len(), self.program.execs.len())
    }

    fn push(&mut self, kind: StepKind) {
        self.join();
        self.steps.push(step(kind));
    }

    /// Waits until every PE has done its part.
    fn join(&mut self) {
        if !std::mem::take(&mut self.apart) {
            return;
        }
        self.steps.push(step(StepKind::Sync));
        for (pe, steps) in (1_u64..).zip(&mut self.others) {
            let value = ControlExpr::Operand(ControlOperand::Number(0));
            steps.push(step(StepKind::Sync));
            steps.push(step(StepKind::Post { chip: 0, pe: 0, value }));
            self.steps.push(step(StepKind::Receive { chip: 0, pe, register: None }));
        }
    }

    /// Commands of a program on several PEs, which begin when all before them is done.
    pub(super) fn queues_of(&mut self, other: Program) {
        self.join();
        let pes = other.queues.iter().map(|queue| queue.pe + 1).max().unwrap_or(1);
        let begun = !self.steps.is_empty();
        while (self.others.len() as u64) + 1 < pes {
            self.others.push(Vec::new());
        }
        if begun {
            self.steps.push(step(StepKind::Sync));
            for (pe, steps) in (1_u64..).zip(&mut self.others) {
                let value = ControlExpr::Operand(ControlOperand::Number(0));
                self.steps.push(step(StepKind::Post { chip: 0, pe, value }));
                steps.push(step(StepKind::Receive { chip: 0, pe: 0, register: None }));
            }
        }
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let (execs, transfers) = (number(self.program.execs.len()), number(self.program.transfers.len()));
        for exec in other.execs {
            let name = format!("{}_{}", exec.name, self.program.execs.len());
            self.program.execs.push(Exec { name, ..exec });
        }
        for transfer in other.transfers {
            let name = format!("{}_{}", transfer.name, self.program.transfers.len());
            self.program.transfers.push(Transfer { name, ..transfer });
        }
        for queue in other.queues {
            let moved = queue.steps.into_iter().map(|one| match one.kind {
                StepKind::Push(Command::Load(ExecId(at))) => {
                    step(StepKind::Push(Command::Load(ExecId(at + execs))))
                }
                StepKind::Push(Command::Dma { transfer: TransferId(at), id }) => {
                    step(StepKind::Push(Command::Dma { transfer: TransferId(at + transfers), id }))
                }
                kind => step(kind),
            });
            match usize::try_from(queue.pe).ok().and_then(|pe| pe.checked_sub(1)) {
                Some(other) => self.others[other].extend(moved),
                None => self.steps.extend(moved),
            }
        }
        self.apart = true;
    }

    /// Starts a transfer and waits for it.
    pub(super) fn transfer(&mut self, transfer: Transfer) {
        let number = TransferId(u32::try_from(self.program.transfers.len()).unwrap_or(u32::MAX));
        self.program.transfers.push(transfer);
        self.push(StepKind::Push(Command::Dma { transfer: number, id: ID }));
        self.push(StepKind::Push(Command::WaitD(ID)));
    }

    /// Moves bytes.
    pub(super) fn bytes(&mut self, name: &str, bytes: &Bytes) {
        for transfer in transfers(self.machine, name, bytes) {
            self.transfer(transfer);
        }
    }

    /// Moves elements of so many bytes between two places of HBM.
    pub(super) fn part(&mut self, name: &str, part: &Part, element_bytes: u64, [from, to]: [u64; 2]) {
        let scale = |elements: i64| elements.saturating_mul(signed(element_bytes));
        let at = |base: u64, first: i64| hbm(base).step(scale(first)).unwrap_or(hbm(base));
        let loops = part.loops.iter().map(|(size, from, to)| (*size, scale(*from), scale(*to))).collect();
        let (source, target) = (at(from, part.from_first), at(to, part.to_first));
        self.bytes(name, &Bytes { source, target, loops, inside: element_bytes });
    }

    /// Part of each slice's share between HBM, where slices follow each other by a pitch, and data memory.
    pub(super) fn slices(&mut self, name: &str, to_dm: bool, block: &Block) {
        let (hbm, dm) = (hbm(block.hbm), dm(block.dm).step(signed(block.first_slice) * SLICE_STRIDE));
        let dm = dm.unwrap_or(hbm);
        let row = |by: u64, to: u64| (signed(by), signed(to));
        let (outer, inner) = (signed(block.pitch_bytes), row(block.hbm_row_bytes, block.dm_row_bytes));
        let loops = if to_dm {
            vec![(block.slices, outer, SLICE_STRIDE), (block.rows, inner.0, inner.1)]
        } else {
            vec![(block.slices, SLICE_STRIDE, outer), (block.rows, inner.1, inner.0)]
        };
        let (source, target) = if to_dm { (hbm, dm) } else { (dm, hbm) };
        self.bytes(name, &Bytes { source, target, loops, inside: block.row_bytes });
    }

    /// Starts a command of the tensor unit and waits for it.
    pub(super) fn exec(&mut self, mut exec: Exec) {
        let number = self.program.execs.len();
        let context = exec.context;
        exec.name = format!("{}_{number}", exec.name);
        self.program.execs.push(exec);
        self.push(StepKind::Push(Command::Load(ExecId(u32::try_from(number).unwrap_or(u32::MAX)))));
        self.push(StepKind::Push(Command::Exec { context, id: ID }));
        self.push(StepKind::Push(Command::WaitE(ID)));
    }

    /// Zeros on every slice.
    pub(super) fn clear(&mut self, name: &str, base: u64, bytes: u64) {
        let width = self.machine.commit.sub_width_bytes;
        let most = self.machine.sequencer.entry_size_max;
        let mut done = 0;
        while done < bytes {
            let words = (bytes - done).div_ceil(width).min(most);
            let loops = tilewright_tcp_lower::kernels::chain::rows(&[(words, signed(width))]);
            let commit = Commit {
                memory: Memory::Dm,
                base: base + done,
                loops,
                bytes: width,
                width,
                to_bf16: false,
                relu: false,
                slices: Vec::new(),
            };
            let body = ExecBody::Fill(Fill { word: 0, commit });
            let (name, span) = (name.to_string(), Span::default());
            self.exec(Exec { name, context: Context::Sub, pes: 1, body, span });
            done += words * width;
        }
    }

    /// All commands of another program on the same PE, then a wait for all of them.
    pub(super) fn commands_of(&mut self, other: &Program, name: &str) {
        let first = u32::try_from(self.program.execs.len()).unwrap_or(u32::MAX);
        for exec in &other.execs {
            let name = format!("{name}_{}_{}", exec.name, self.program.execs.len());
            self.program.execs.push(Exec { name, ..exec.clone() });
        }
        for step in other.queues.iter().flat_map(|queue| &queue.steps) {
            let kind = match &step.kind {
                StepKind::Push(Command::Load(ExecId(number))) => {
                    StepKind::Push(Command::Load(ExecId(first.saturating_add(*number))))
                }
                kind => kind.clone(),
            };
            self.push(kind);
        }
        self.push(StepKind::Sync);
    }

    /// The program.
    pub(super) fn finish(mut self) -> Program {
        self.program.machine = "tcp".to_string();
        self.program.chips = 1;
        let all = std::iter::once(self.steps).chain(self.others);
        let queues = (0..).zip(all).filter(|(pe, steps)| *pe == 0 || !steps.is_empty());
        let queue = |(pe, steps): (u64, Vec<Step>)| Queue { chip: 0, pe, steps, span: Span::default() };
        self.program.queues = queues.map(queue).collect();
        self.program
    }
}

fn step(kind: StepKind) -> Step {
    Step { kind, span: Span::default() }
}

/// Rows of each slice, at both ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    /// First byte in HBM.
    pub(super) hbm: u64,
    /// First byte in data memory.
    pub(super) dm: u64,
    /// First slice.
    pub(super) first_slice: u64,
    /// How many.
    pub(super) slices: u64,
    /// Bytes from slice to slice in HBM.
    pub(super) pitch_bytes: u64,
    /// Rows of each slice.
    pub(super) rows: u64,
    /// Bytes of a row.
    pub(super) row_bytes: u64,
    /// From row to row in HBM.
    pub(super) hbm_row_bytes: u64,
    /// From row to row in data memory.
    pub(super) dm_row_bytes: u64,
}
