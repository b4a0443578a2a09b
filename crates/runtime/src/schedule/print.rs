//! A schedule as text.

use std::fmt::Write as _;

use tilewright_tcp::program::event::Unit;

use super::{EXPLAINED_PERCENT, Schedule};

/// Reasons that are told.
const REASONS: usize = 6;

fn percent(part: u64, whole: u64) -> u64 {
    u64::try_from(u128::from(part) * 100 / u128::from(whole.max(1))).unwrap_or(u64::MAX)
}

impl Schedule {
    /// As text: the bound, what forces more, prefetch, placement, and every command.
    pub fn print(&self) -> String {
        let mut text = format!("schedule 1\nprogram {}\n", self.name);
        self.print_bound(&mut text);
        self.print_memory(&mut text);
        let _ = writeln!(text, "\ncommands: issued start end, pe unit name");
        for command in self.commands.values() {
            let (pe, unit) = (command.pe.pe, command.unit.name());
            let times = format!("{:>9} {:>9} {:>9}", command.issued, command.start, command.end);
            let _ = writeln!(text, "  {times}  {pe} {unit:<4} {}", command.name);
        }
        text
    }

    /// The bound alone.
    pub fn print_bound(&self, text: &mut String) {
        let ratio = self.ratio_thousandths();
        let _ = writeln!(text, "cycles {}, of them {} for launch and finish", self.cycles, self.fixed_cycles);
        let busy: Vec<String> = [Unit::Main, Unit::Sub, Unit::Dma]
            .into_iter()
            .map(|unit| format!("{} {}", unit.name(), self.busy.get(&unit).copied().unwrap_or(0)))
            .collect();
        let _ = writeln!(text, "busy {}", busy.join(", "));
        let (whole, parts) = (ratio / 1000, ratio % 1000);
        let _ = writeln!(text, "bound {}, time / bound = {whole}.{parts:03}", self.bound_cycles());
        let split = self.split;
        let all = split.both + split.tensor_unit + split.dma + split.neither;
        let _ = writeln!(
            text,
            "time of pe 0: tensor unit and dma {} %, tensor unit alone {} %, dma alone {} %, neither {} %",
            percent(split.both, all),
            percent(split.tensor_unit, all),
            percent(split.dma, all),
            percent(split.neither, all)
        );
        if ratio * 100 > EXPLAINED_PERCENT * 1000 {
            let _ = writeln!(text, "more than the bound because the main context of pe 0 stands still:");
            for blame in self.blames.iter().take(REASONS) {
                let share = percent(blame.cycles, self.cycles);
                let _ = writeln!(
                    text,
                    "  {:>9} cycles ({share} %) before {} x {}, for {}",
                    blame.cycles, blame.before, blame.count, blame.on
                );
            }
        }
    }

    fn print_memory(&self, text: &mut String) {
        let waits = self.ahead.iter().filter(|ahead| ahead.ready_cycles == 0).count();
        let fills = self.ahead.iter().map(|ahead| ahead.fills).max().unwrap_or(0);
        let ready: u64 = self.ahead.iter().map(|ahead| ahead.ready_cycles).sum();
        let mean = ready / (self.ahead.len() as u64).max(1);
        let _ = writeln!(
            text,
            "\nprefetch: {} fills, at most {fills} more under way when one is loaded; ready {mean} cycles before on average, {waits} not before",
            self.ahead.len()
        );
        let _ = writeln!(text, "\nplacement: memory first..end, live from..to, what (slice 0 of pe 0)");
        for area in &self.areas {
            let (from, to) = area.live.unwrap_or_default();
            let (start, end) = area.bytes;
            let memory = area.memory.name();
            let _ = writeln!(text, "  {memory:<4} {start:>11}..{end:<11} {from:>9}..{to:<9} {}", area.name);
        }
    }
}
