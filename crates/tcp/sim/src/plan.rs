//! What an image costs, asked once: for each image and each set of values of the registers that it names.
//!
//! Plans depend on machine, image and register values alone, so that runs of one program may share them.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use tilewright_base::Span;
use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_machine::tcp::Tcp;
use tilewright_tcp_cost::cycles::CommandCycles;
use tilewright_tcp_cost::cycles::image::{
    ExclusiveUse, LongestCycles, Traffic, TransferCost, bank_shares_q32, exclusive_use, exec_cycles,
    longest_cycles, traffic, transfer_cost,
};
use tilewright_tcp_cost::energy::{COMPONENTS, EnergyCounts, counts, counts_transfer, energy_fj};
use tilewright_tcp_isa::program::exec::{Context, Exec};
use tilewright_tcp_isa::program::transfer::{MemoryInstance, Transfer};
use tilewright_tcp_isa::program::{Count, ExecId, Program, RegisterId, TransferId};

use crate::SimError;
use crate::bandwidth::ResourceUses;
use crate::contention::ContentionSpeeds;
use crate::ledger::{ImageWork, moved_bytes};
use crate::state::MOST_CYCLES;
use crate::touched::{self, TouchedMemory};

/// Sets of register values that are kept for one image.
const KEPT: usize = 1024;
/// Sets of register values that are kept for all images together from one run to the next.
const KEPT_BETWEEN: usize = 1 << 15;

/// A command of the tensor unit with its cycles and energy, computed once.
#[derive(Debug)]
pub(crate) struct ExecPlan {
    /// Tells it from all other plans of the program.
    pub(crate) number: u64,
    /// Index of its image.
    pub(crate) image: u32,
    pub(crate) exec: Arc<Exec>,
    pub(crate) name: Arc<str>,
    pub(crate) cycles: CommandCycles,
    pub(crate) longest_cycles: LongestCycles,
    pub(crate) occupies: ExclusiveUse,
    pub(crate) counts: EnergyCounts,
    pub(crate) energy_fj: [u64; COMPONENTS],
    pub(crate) touched: TouchedMemory,
    /// For the checks alone.
    pub(crate) work: ImageWork,
    /// Ports and banks, once someone runs beside it.
    pub(crate) traffic: OnceLock<Traffic>,
    /// Banks, once DMA runs beside it.
    pub(crate) bank_shares: OnceLock<Vec<u64>>,
}

/// A transfer, costed.
#[derive(Debug)]
pub(crate) struct TransferPlan {
    /// Index of its image.
    pub(crate) image: u32,
    pub(crate) transfer: Arc<Transfer>,
    pub(crate) name: Arc<str>,
    pub(crate) cost: TransferCost,
    pub(crate) uses: Arc<ResourceUses>,
    pub(crate) counts: EnergyCounts,
    pub(crate) energy_fj: [u64; COMPONENTS],
    /// What is written to data memory or a scratchpad, and the PE of the first slice.
    pub(crate) touched: Option<(u64, u64, TouchedMemory)>,
}

/// One image's plans.
#[derive(Debug)]
struct ImagePlans<T> {
    name: Arc<str>,
    /// Registers whose values decide.
    registers: Vec<u32>,
    fixed: Option<Arc<T>>,
    by_values: BTreeMap<Box<[i64]>, Arc<T>>,
}

impl<T> ImagePlans<T> {
    fn new(name: &str, mut registers: Vec<u32>) -> ImagePlans<T> {
        registers.sort_unstable();
        registers.dedup();
        ImagePlans { name: name.into(), registers, fixed: None, by_values: BTreeMap::new() }
    }

    fn find(&self, registers: &[i64], values: &mut Vec<i64>) -> Option<Arc<T>> {
        if self.registers.is_empty() {
            return self.fixed.clone();
        }
        values.clear();
        values.extend(self.registers.iter().map(|id| {
            registers.get(*id as usize).copied().or_broken("an image names registers of the program")
        }));
        self.by_values.get(values.as_slice()).cloned()
    }

    fn keep(&mut self, plan: T, values: &[i64]) -> Arc<T> {
        let plan = Arc::new(plan);
        if self.registers.is_empty() {
            self.fixed = Some(plan.clone());
        } else {
            if self.by_values.len() >= KEPT {
                self.by_values.clear();
            }
            self.by_values.insert(values.into(), plan.clone());
        }
        plan
    }
}

/// All plans of a program.
#[derive(Debug)]
pub(crate) struct PlanCache {
    execs: Vec<ImagePlans<ExecPlan>>,
    transfers: Vec<ImagePlans<TransferPlan>>,
    values: Vec<i64>,
    made: u64,
    pub(crate) speeds: ContentionSpeeds,
}

impl PlanCache {
    pub(crate) fn new(program: &Program) -> PlanCache {
        let execs = program.execs.iter().map(|exec| ImagePlans::new(&exec.name, exec_registers(exec)));
        let transfers = program.transfers.iter().map(|transfer| {
            let sizes = transfer.loops.iter().filter_map(|row| register(row.size));
            ImagePlans::new(&transfer.name, sizes.collect())
        });
        let (execs, transfers) = (execs.collect(), transfers.collect());
        PlanCache { execs, transfers, values: Vec::new(), made: 0, speeds: ContentionSpeeds::default() }
    }

    /// Names of all executions.
    pub(crate) fn exec_names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.execs.iter().map(|kept| &kept.name)
    }

    /// Names of all transfers.
    pub(crate) fn transfer_names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.transfers.iter().map(|kept| &kept.name)
    }

    /// Forgets plans of register values where they became many.
    pub(crate) fn trim(&mut self) {
        let execs: usize = self.execs.iter().map(|kept| kept.by_values.len()).sum();
        let transfers: usize = self.transfers.iter().map(|kept| kept.by_values.len()).sum();
        if execs.exact_add(transfers) > KEPT_BETWEEN {
            self.execs.iter_mut().for_each(|kept| kept.by_values.clear());
            self.transfers.iter_mut().for_each(|kept| kept.by_values.clear());
        }
    }

    pub(crate) fn exec(
        &mut self,
        (machine, program): (&Tcp, &Program),
        id: ExecId,
        registers: &[i64],
        span: Span,
    ) -> Result<Arc<ExecPlan>, SimError> {
        let (index, unknown) = (id.0 as usize, SimError::Unknown { what: "image", id: id.0, span });
        let (Some(kept), Some(exec)) = (self.execs.get_mut(index), program.execs.get(index)) else {
            return Err(unknown);
        };
        if let Some(plan) = kept.find(registers, &mut self.values) {
            return Ok(plan);
        }
        let exec = Arc::new(if kept.registers.is_empty() { exec.clone() } else { exec.resolved(registers) });
        let counts = counts(machine, &exec);
        let energy_fj = energy_fj(machine, &counts);
        let cycles = exec_cycles(machine, &exec);
        let longest_cycles = longest_cycles(machine, &exec, &cycles);
        let occupies = exclusive_use(machine, &exec);
        let longest = cycles.total_cycles.max(occupies.bank_accesses);
        let work = ImageWork::of(machine, &exec).filter(|_| is_counted(&energy_fj, longest));
        let work = work.ok_or(SimError::TooLong)?;
        self.made = self.made.wrapping_add(1);
        let plan = ExecPlan {
            number: self.made,
            image: id.0,
            traffic: OnceLock::new(),
            bank_shares: OnceLock::new(),
            name: kept.name.clone(),
            cycles,
            longest_cycles,
            occupies,
            energy_fj,
            counts,
            touched: touched::exec(machine, &exec),
            work,
            exec,
        };
        Ok(kept.keep(plan, &self.values))
    }

    pub(crate) fn transfer(
        &mut self,
        (machine, program): (&Tcp, &Program),
        id: TransferId,
        registers: &[i64],
        span: Span,
    ) -> Result<Arc<TransferPlan>, SimError> {
        let (index, unknown) = (id.0 as usize, SimError::Unknown { what: "transfer", id: id.0, span });
        let (Some(kept), Some(transfer)) = (self.transfers.get_mut(index), program.transfers.get(index))
        else {
            return Err(unknown);
        };
        if let Some(plan) = kept.find(registers, &mut self.values) {
            return Ok(plan);
        }
        let transfer =
            Arc::new(if kept.registers.is_empty() { transfer.clone() } else { transfer.resolved(registers) });
        let on_chips = |cost: &TransferCost| cost.source.chip.max(cost.target.chip) < program.chips;
        let Some(cost) = transfer_cost(machine, &transfer).filter(on_chips) else {
            return Err(SimError::NoMemory { name: transfer.name.clone(), span });
        };
        let counts = counts_transfer(machine, &cost);
        let energy_fj = energy_fj(machine, &counts);
        if moved_bytes(&transfer).is_none() || !is_counted(&energy_fj, cost.moved_cycles) {
            return Err(SimError::TooLong);
        }
        let touched = match cost.target.medium {
            MemoryInstance::Dm { slice } => {
                let capacity_bytes = machine.dm.capacity_bytes;
                let dm = touched::transfer(capacity_bytes, &transfer, cost.target.offset, false);
                let pe = slice / machine.pe.slices.max(1);
                Some((cost.target.chip, pe, TouchedMemory { dm, ..TouchedMemory::default() }))
            }
            MemoryInstance::Spm { pe } => {
                let capacity_bytes = machine.cpu.spm_bytes;
                let spm = touched::transfer(capacity_bytes, &transfer, cost.target.offset, false);
                Some((cost.target.chip, pe, TouchedMemory { spm, ..TouchedMemory::default() }))
            }
            MemoryInstance::Hbm => None,
        };
        let plan = TransferPlan {
            image: id.0,
            name: kept.name.clone(),
            uses: Arc::new(ResourceUses::new(&cost)),
            energy_fj,
            counts,
            touched,
            transfer,
            cost,
        };
        Ok(kept.keep(plan, &self.values))
    }
}

impl ExecPlan {
    /// What it takes of ports and banks.
    pub(crate) fn traffic(&self, machine: &Tcp) -> &Traffic {
        self.traffic.get_or_init(|| traffic(machine, &self.exec))
    }

    /// The part of its busy cycles in which it accesses each bank.
    pub(crate) fn bank_shares(&self, machine: &Tcp) -> &[u64] {
        self.bank_shares.get_or_init(|| bank_shares_q32(machine, self.traffic(machine)))
    }

    /// Energy of all components.
    pub(crate) fn all_fj(&self) -> u64 {
        self.energy_fj.iter().fold(0, |sum: u64, part| sum.exact_add(*part))
    }

    /// Index of the context: main, sub.
    pub(crate) fn context(&self) -> usize {
        context_index(self.exec.context)
    }
}

impl TransferPlan {
    /// Energy of all components.
    pub(crate) fn all_fj(&self) -> u64 {
        self.energy_fj.iter().fold(0, |sum: u64, part| sum.exact_add(*part))
    }
}

/// Whether the energy and the cycles of a command are numbers: whoever counts stops at the largest that
/// there is.
fn is_counted(energy_fj: &[u64; COMPONENTS], cycles: u64) -> bool {
    let all = energy_fj.iter().try_fold(0_u64, |sum, part| sum.checked_add(*part));
    all.is_some_and(|all| all < u64::MAX) && cycles < MOST_CYCLES
}

/// Main is 0, sub is 1.
pub(crate) fn context_index(context: Context) -> usize {
    match context {
        Context::Main => 0,
        Context::Sub => 1,
    }
}

fn exec_registers(exec: &Exec) -> Vec<u32> {
    let mut registers = Vec::new();
    exec.clone().each_count(&mut |count| registers.extend(register(*count)));
    registers
}

fn register(count: Count) -> Option<u32> {
    match count {
        Count::Fixed(_) => None,
        Count::Register(RegisterId(id)) => Some(id),
    }
}
