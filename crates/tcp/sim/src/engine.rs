//! The DMA engine of a PE: one transfer at a time, in the order in which the queue issued them (paper section
//! III-D).
//!
//! A transfer takes its start-up, then moves data as fast as [`crate::bandwidth`] lets it.

use tilewright_base::invariant::{Exact, OrBroken, to_index};
use tilewright_record::Sink;
use tilewright_tcp_isa::program::event::RunEvent;

use crate::SimError;
use crate::events::EventKind;
use crate::outcome::{EngineUnit, WaitReason};
use crate::state::{World, small};

impl<S: Sink> World<'_, '_, S> {
    /// Starts the next transfer, if the engine is free and nothing keeps DMA still.
    pub(crate) fn start_transfer(&mut self, pe: usize) -> Result<(), SimError> {
        let state = &mut self.pes[pe];
        if state.sending.is_some()
            || state.bank_accesses >= self.machine.starvation_accesses()
            || self.now < state.bitmap_until
        {
            return Ok(());
        }
        let Some(mut sending) = state.fifo.pop_front() else { return Ok(()) };
        state.used = true;
        sending.started = self.now;
        let (ticket, at_cycles) = (sending.ticket, self.now);
        let startup_cycles = sending.plan.cost.cycles.startup_cycles;
        state.sending = Some(sending);
        self.tell(&RunEvent::Start { ticket, at_cycles });
        let at = self.after(startup_cycles)?;
        self.events.plan(at, EventKind::Moves(small(pe)));
        Ok(())
    }

    /// Start-up is over.
    pub(crate) fn transfer_moves(&mut self, pe: usize) -> Result<(), SimError> {
        let Some(sending) = &self.pes[pe].sending else { return Ok(()) };
        let (cycles, uses) = (sending.plan.cost.moved_cycles, sending.plan.uses.clone());
        self.after(cycles)?;
        self.bandwidth.start(self.now, small(pe), cycles, uses.clone());
        self.leave_banks_to(&uses)?;
        self.transfer_power()
    }

    /// The data of the next transfer has arrived.
    pub(crate) fn transfer_done(&mut self) -> Result<(), SimError> {
        let Some((_, owner)) = self.bandwidth.end() else { return Ok(()) };
        let pe = owner as usize;
        let Some(sending) = self.pes[pe].sending.take() else { return Ok(()) };
        let (plan, chip) = (sending.plan.clone(), self.pes[pe].id.chip);
        self.trace.power(chip, self.now, sending.power, 0)?;
        self.transfer_power()?;
        let state = &mut self.pes[pe];
        state.transfers[usize::from(sending.id)].busy = false;
        let busy = &mut state.busy[EngineUnit::Dma as usize];
        *busy = busy.exact_add(self.now.exact_sub(sending.started));
        self.wake_core(pe, WaitReason::Command { transfer: true, id: sending.id });
        self.sums.transfers += 1;
        self.sums.counts.add(&plan.counts, 1);
        self.images.transfer(&plan, sending.started, self.now);
        self.sums.ledger.transfer(&plan, self.now - sending.started);
        self.trace.transfer(pe, &sending, self.now)?;
        self.touch(&plan)?;
        self.tell(&RunEvent::Done { ticket: sending.ticket, at_cycles: self.now });
        self.command_done(pe);
        self.pump_chip(pe)?;
        self.start_transfer(pe)
    }

    /// Marks the memory that a transfer wrote.
    fn touch(&mut self, plan: &crate::plan::TransferPlan) -> Result<(), SimError> {
        let Some((chip, pe, parts)) = plan.touched else { return Ok(()) };
        let at = to_index(chip).checked_mul(self.pes_per_chip).and_then(|at| at.checked_add(to_index(pe)));
        // A transfer may leave the machine, which is a finding of its own: nothing is held there.
        let Some((at, state)) = at.and_then(|at| Some((at, self.pes.get_mut(at)?))) else { return Ok(()) };
        let grew = state.touched.join(&parts);
        self.sums.ledger.holds(self.machine, state.id, &state.touched, self.now);
        if grew {
            let touched = state.touched;
            self.trace.memory(self.machine, at, self.now, touched)?;
        }
        Ok(())
    }

    /// Power and the rate of off-chip memory follow the speed of each transfer.
    pub(crate) fn transfer_power(&mut self) -> Result<(), SimError> {
        if !self.trace.follows_power() {
            return Ok(());
        }
        let mut rates = vec![0_u64; to_index(self.program.chips)];
        for (owner, speed_q32) in self.bandwidth.speeds() {
            let Some(sending) = &self.pes[owner as usize].sending else { continue };
            let cost = &sending.plan.cost;
            for side in [&cost.read, &cost.written].into_iter().flatten() {
                let chip = usize::try_from(side.chip).ok().and_then(|chip| rates.get_mut(chip));
                if let Some(rate) = chip {
                    let bytes = u128::from(side.unit_bytes) * u128::from(speed_q32);
                    let per_cycle = (bytes / u128::from(cost.moved_cycles.max(1))) >> 32;
                    *rate = rate.exact_add(u64::try_from(per_cycle).or_broken("bytes of a cycle"));
                }
            }
        }
        for (chip, rate) in rates.into_iter().enumerate() {
            self.trace.off_chip_rate(chip, self.now, rate)?;
        }
        for (owner, speed_q32) in self.bandwidth.speeds() {
            let state = &mut self.pes[owner as usize];
            let chip = state.id.chip;
            let Some(sending) = &mut state.sending else { continue };
            let full = self.trace.power_of(sending.plan.all_fj(), sending.plan.cost.moved_cycles);
            let power = u64::try_from((u128::from(full) * u128::from(speed_q32)) >> 32)
                .or_broken("power below full speed");
            let before = std::mem::replace(&mut sending.power, power);
            self.trace.power(chip, self.now, before, power)?;
        }
        Ok(())
    }
}
