//! Off-chip memory, data memory networks, ports of PEs and PCIe links as a fluid: whoever moves data takes a share of the time of each,
//! and shares are fair.
//!
//! A transfer alone goes at the pace of its closed form and then keeps each channel busy for a known part of the time. When the
//! parts of all transfers under way exceed what a channel gives (the machine's efficiency, which contains refresh, applied once), each gets
//! an equal share, except those that want less. Whoever is held back by one thing takes less of all others, which is divided among the rest:
//! nothing stands idle while someone waits for it alone. A network gives what commands leave of the banks behind it: DMA comes last there, and a
//! network is taken to work off its requests in order, so that a slice that is late holds it. A transfer goes as fast as its
//! scarcest share lets it. Speeds change only when a transfer or such a command starts or ends. All arithmetic is in integers:
//! times in 2^-32 cycles, speeds and shares in parts of 2^32.

use std::collections::BTreeMap;

use tilewright_machine::tcp::Tcp;
use tilewright_tcp::cost::hbm::reached_q32;
use tilewright_tcp::cost::image::networks::Path;
use tilewright_tcp::cost::image::{TransferCost, transfer::OffChip};

use crate::contention::FULL_Q32;

/// What transfers share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Shared {
    /// Off-chip memory of a chip.
    Hbm(u64),
    /// The link out of a chip.
    Out(u64),
    /// The link into a chip.
    In(u64),
    /// A data memory network or the port of a PE.
    Path(Path),
}

/// The part of a shared thing's time that a transfer takes at its own pace.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Use {
    of: Shared,
    /// Of its busiest channel.
    most_q32: u64,
    /// Of each channel; empty if all are alike.
    channels_q32: Vec<u64>,
}

/// What a transfer takes of everything that is shared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uses(Vec<Use>);

impl Uses {
    /// From the cost of a transfer alone.
    pub fn new(cost: &TransferCost) -> Uses {
        let mut uses = Uses::default();
        let cycles = cost.moved_cycles;
        for side in [&cost.read, &cost.written].into_iter().flatten() {
            uses.add_off_chip(side, cycles);
        }
        if cost.link_cycles > 0 {
            let most_q32 = part(u128::from(cost.link_cycles) << 32, cycles);
            for of in [Shared::Out(cost.source.chip), Shared::In(cost.target.chip)] {
                uses.0.push(Use { of, most_q32, channels_q32: Vec::new() });
            }
        }
        for used in &cost.paths {
            let (of, time) = (Shared::Path(used.path), part(used.cycles_q32, cycles));
            match uses.0.iter_mut().find(|other| other.of == of) {
                // Both sides on one network: one after the other.
                Some(other) => other.most_q32 = other.most_q32.saturating_add(time).min(FULL_Q32),
                None => uses.0.push(Use { of, most_q32: time, channels_q32: Vec::new() }),
            }
        }
        uses
    }

    /// The data memory networks among them: chip and number.
    pub fn networks(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().filter_map(|used| match used.of {
            Shared::Path(Path::Network { chip, network }) => Some((chip, network)),
            _ => None,
        })
    }

    fn add_off_chip(&mut self, side: &OffChip, cycles: u64) {
        let of = Shared::Hbm(side.chip);
        let most_q32 = part(side.busiest_q32, cycles);
        let channels_q32: Vec<u64> = side.channels_q32.iter().map(|time| part(*time, cycles)).collect();
        let Some(other) = self.0.iter_mut().find(|used| used.of == of) else {
            return self.0.push(Use { of, most_q32, channels_q32 });
        };
        // Both sides in one memory: one after the other, so the parts add up.
        let (first, second) = (std::mem::take(&mut other.channels_q32), channels_q32);
        let count = first.len().max(second.len());
        let at = |uses: &[u64], even: u64, channel: usize| uses.get(channel).copied().unwrap_or(even);
        let sum = |channel| {
            at(&first, other.most_q32, channel).saturating_add(at(&second, most_q32, channel)).min(FULL_Q32)
        };
        other.channels_q32 = (0..count).map(sum).collect();
        let both = other.most_q32.saturating_add(most_q32).min(FULL_Q32);
        other.most_q32 = other.channels_q32.iter().copied().max().unwrap_or(both);
    }
}

/// Time as a part of so many cycles, rounded up, at most all of it.
fn part(time_q32: u128, cycles: u64) -> u64 {
    let part = time_q32.div_ceil(u128::from(cycles.max(1)));
    u64::try_from(part).unwrap_or(FULL_Q32).min(FULL_Q32)
}

/// Something that transfers share, with those that are under way.
#[derive(Debug)]
struct Thing {
    /// What it gives.
    capacity_q32: u64,
    /// What they want of it at their own pace.
    wanted_q32: u64,
    /// How many they are.
    users: u64,
}

/// A transfer under way.
#[derive(Debug)]
struct Moving {
    /// Its engine.
    owner: u32,
    uses: std::sync::Arc<Uses>,
    /// Which things it uses, use by use.
    things: Vec<usize>,
    left_q32: u128,
    speed_q32: u64,
    ends_at: u64,
}

/// All transfers that move data.
#[derive(Debug)]
pub struct Fluid {
    moving: Vec<Moving>,
    at_cycles: u64,
    hbm_q32: u64,
    /// What was ever shared.
    things: Vec<Thing>,
    /// Places of things in their order.
    known: BTreeMap<Shared, usize>,
    next_end: u64,
    /// Kept between calls.
    speeds: Vec<u64>,
}

impl Fluid {
    /// Nothing moves.
    pub fn new(machine: &Tcp) -> Fluid {
        let hbm_q32 = reached_q32(machine);
        Fluid {
            moving: Vec::new(),
            at_cycles: 0,
            hbm_q32,
            things: Vec::new(),
            known: BTreeMap::new(),
            next_end: u64::MAX,
            speeds: Vec::new(),
        }
    }

    /// A transfer under way uses this network.
    pub fn uses_network(&self, chip: u64, network: u64) -> bool {
        let known = self.known.get(&Shared::Path(Path::Network { chip, network }));
        known.and_then(|at| self.things.get(*at)).is_some_and(|thing| thing.users > 0)
    }

    /// The place of something that is shared.
    fn thing(&mut self, of: Shared) -> usize {
        let capacity_q32 = if matches!(of, Shared::Hbm(_)) { self.hbm_q32 } else { FULL_Q32 };
        let things = &mut self.things;
        *self.known.entry(of).or_insert_with(|| {
            things.push(Thing { capacity_q32, wanted_q32: 0, users: 0 });
            things.len() - 1
        })
    }

    /// From now on commands leave so much of the banks behind a network. Whether that changes any speed.
    pub fn leave(&mut self, now: u64, (chip, network): (u64, u64), left_q32: u64) -> bool {
        let at = self.thing(Shared::Path(Path::Network { chip, network }));
        let Some(thing) = self.things.get_mut(at) else { return false };
        let before = std::mem::replace(&mut thing.capacity_q32, left_q32);
        if before == left_q32 || thing.wanted_q32 <= before.min(left_q32) {
            return false;
        }
        self.advance(now);
        self.share();
        true
    }

    /// When the next transfer ends; `u64::MAX` if none is under way.
    pub fn next_end(&self) -> u64 {
        self.next_end
    }

    /// A transfer of so many cycles starts to move.
    pub fn start(&mut self, now: u64, owner: u32, cycles: u64, uses: std::sync::Arc<Uses>) {
        self.advance(now);
        let left_q32 = u128::from(cycles) << 32;
        let mut things = Vec::with_capacity(uses.0.len());
        for used in &uses.0 {
            let at = self.thing(used.of);
            things.push(at);
            let thing = &mut self.things[at];
            thing.wanted_q32 = thing.wanted_q32.saturating_add(used.most_q32);
            thing.users += 1;
        }
        self.moving.push(Moving { owner, uses, things, left_q32, speed_q32: FULL_Q32, ends_at: now });
        self.share();
    }

    /// Takes the transfer that ends next, and lets the others have its share.
    pub fn end(&mut self) -> Option<(u64, u32)> {
        let at = self.moving.iter().position(|moving| moving.ends_at == self.next_end)?;
        let now = self.next_end;
        self.advance(now);
        let ended = self.moving.remove(at);
        for (used, at) in ended.uses.0.iter().zip(&ended.things) {
            let thing = &mut self.things[*at];
            thing.wanted_q32 = thing.wanted_q32.saturating_sub(used.most_q32);
            thing.users -= 1;
        }
        self.share();
        Some((now, ended.owner))
    }

    /// The speed of each transfer under way, by owner.
    pub fn speeds(&self) -> impl Iterator<Item = (u32, u64)> {
        self.moving.iter().map(|moving| (moving.owner, moving.speed_q32))
    }

    fn advance(&mut self, now: u64) {
        let passed = u128::from(now.saturating_sub(self.at_cycles));
        for moving in &mut self.moving {
            moving.left_q32 = moving.left_q32.saturating_sub(passed * u128::from(moving.speed_q32));
        }
        self.at_cycles = now;
    }

    /// Gives every transfer its speed, and says when the first ends.
    fn share(&mut self) {
        self.speeds.clear();
        self.speeds.resize(self.moving.len(), FULL_Q32);
        self.fill();
        self.next_end = u64::MAX;
        for (moving, speed) in self.moving.iter_mut().zip(&self.speeds) {
            moving.speed_q32 = (*speed).max(1);
            let cycles = cycles_at(moving.left_q32, moving.speed_q32);
            moving.ends_at = self.at_cycles.saturating_add(cycles).min(u64::MAX - 1);
            self.next_end = self.next_end.min(moving.ends_at);
        }
    }

    /// Those under way that use a thing, and how.
    fn users(&self, thing: usize) -> Vec<(usize, &Use)> {
        let moving = self.moving.iter().enumerate();
        let uses = moving.filter_map(|(at, moving)| {
            let used = moving.things.iter().position(|used| *used == thing)?;
            Some((at, moving.uses.0.get(used)?))
        });
        uses.collect()
    }

    /// Everything that is wanted more than it gives, channel by channel: what it gives, who wants how much.
    fn scarce(&self) -> Vec<Scarce> {
        let mut scarce = Vec::new();
        for at in self.known.values().copied() {
            let Some(thing) = self.things.get(at) else { continue };
            if thing.wanted_q32 <= thing.capacity_q32 {
                continue;
            }
            let users = self.users(at);
            let channels = users.iter().map(|(_, used)| used.channels_q32.len()).max().unwrap_or(0);
            for channel in 0..channels.max(1) {
                let want = |used: &Use| used.channels_q32.get(channel).copied().unwrap_or(used.most_q32);
                let wants = users.iter().map(|(at, used)| (want(used), *at)).collect();
                scarce.push(Scarce { left: thing.capacity_q32, wants });
            }
        }
        scarce
    }

    /// Fills up: whatever is scarcest for those who want it is divided first. Those whom it holds back take less of everything else,
    /// which leaves more to others.
    fn fill(&mut self) {
        let mut scarce = self.scarce();
        let mut held = vec![false; self.moving.len()];
        loop {
            let mut slowest: Option<(u64, usize, u64)> = None;
            for (index, one) in scarce.iter_mut().enumerate() {
                let level = level(&mut one.wants, one.left);
                // The last one wants the most, so the level slows it most.
                let Some((most, _)) = one.wants.last().filter(|(want, _)| *want > level) else { continue };
                let speed = level.saturating_mul(FULL_Q32) / (*most).max(1);
                if slowest.is_none_or(|(other, ..)| speed < other) {
                    slowest = Some((speed, index, level));
                }
            }
            let Some((_, index, level)) = slowest else { return };
            for (want, at) in scarce.get(index).map_or(Vec::new(), |one| one.wants.clone()) {
                if want > level {
                    // The level is below what is wanted, which is at most 2^32.
                    self.speeds[at] = level.saturating_mul(FULL_Q32) / want.max(1);
                    held[at] = true;
                }
            }
            for one in &mut scarce {
                for (want, at) in one.wants.iter().filter(|(_, at)| held[*at]) {
                    let taken = (u128::from(*want) * u128::from(self.speeds[*at])) >> 32;
                    one.left = one.left.saturating_sub(u64::try_from(taken).unwrap_or(u64::MAX));
                }
                one.wants.retain(|(_, at)| !held[*at]);
            }
        }
    }
}

/// Something that is wanted more than it gives.
#[derive(Debug)]
struct Scarce {
    /// What is left of it for those who want it.
    left: u64,
    /// How much each wants, and who.
    wants: Vec<(u64, usize)>,
}

/// Cycles that are left at a speed, rounded up; nearly always within 64 bits, where division is quick.
fn cycles_at(left_q32: u128, speed_q32: u64) -> u64 {
    match u64::try_from(left_q32) {
        Ok(left) => left.div_ceil(speed_q32),
        Err(_) => u64::try_from(left_q32.div_ceil(u128::from(speed_q32))).unwrap_or(u64::MAX),
    }
}

/// The most that anyone gets: those who want less get what they want, and the rest is divided evenly.
fn level(wants: &mut [(u64, usize)], capacity: u64) -> u64 {
    wants.sort_unstable();
    let (mut left, mut others) = (capacity, wants.len() as u64);
    for (want, _) in wants.iter() {
        let share = left / others.max(1);
        if *want > share {
            return share;
        }
        left -= want;
        others -= 1;
    }
    u64::MAX
}

#[cfg(test)]
mod tests {
    #[test]
    fn who_wants_little_gets_it_and_the_rest_is_even() {
        let level = |wants: &[u64], capacity| {
            super::level(&mut wants.iter().copied().zip(0..).collect::<Vec<_>>(), capacity)
        };
        assert_eq!(level(&[10, 100, 100], 110), 50);
        assert_eq!(level(&[60, 60], 100), 50);
        assert_eq!(level(&[20, 30], 100), u64::MAX);
    }
}
