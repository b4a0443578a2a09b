//! How main commands slow sub commands beside them through ports and banks: the rule is `tilewright_tcp::cost::image::beside`, asked once
//! for each pair of images.

use std::collections::BTreeMap;

use tilewright_machine::tcp::Tcp;
use tilewright_tcp::cost::image::{sub_speed_q32, traffic};

use crate::plan::ExecPlan;

/// Full speed.
pub(crate) const FULL_Q32: u64 = 1 << 32;
/// Pairs that are kept.
const KEPT: usize = 1 << 16;

/// Speeds of sub commands beside main commands, by the numbers of their plans.
#[derive(Debug, Default)]
pub(crate) struct Speeds {
    known: BTreeMap<(u32, u32), u64>,
    /// Asked last: loops ask for the same pair again and again.
    last: Option<((u32, u32), u64)>,
}

impl Speeds {
    /// The speed of a sub command past its overhead while a main command is busy, as a part of 2^32.
    pub(crate) fn of(&mut self, machine: &Tcp, sub: &ExecPlan<'_>, main: &ExecPlan<'_>) -> u64 {
        let key = (sub.number, main.number);
        if let Some((_, speed)) = self.last.filter(|(last, _)| *last == key) {
            return speed;
        }
        if let Some(speed) = self.known.get(&key).copied() {
            self.last = Some((key, speed));
            return speed;
        }
        if self.known.len() >= KEPT {
            self.known.clear();
        }
        let of = |plan: &ExecPlan<'_>| *plan.traffic.get_or_init(|| traffic(machine, &plan.exec));
        let speed = sub_speed_q32(machine, &of(sub), &of(main));
        self.known.insert(key, speed);
        self.last = Some((key, speed));
        speed
    }
}
