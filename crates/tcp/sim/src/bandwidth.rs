//! Off-chip memory, data memory networks, ports of PEs and PCIe links with max-min fair sharing of bandwidth:
//! every transfer takes a share of the time of each.
//!
//! A transfer alone goes at the pace of its closed form and then keeps each channel busy for a known part of
//! the time. When the parts of all transfers under way exceed what a channel gives (the machine's efficiency,
//! which contains refresh, applied once), each gets an equal share, except those that want less. Whoever is
//! held back by one thing takes less of all others, which is divided among the rest: nothing stands idle
//! while someone waits for it alone. A network gives what commands leave of the banks behind it: DMA comes
//! last there, and a network is taken to work off its requests in order, so that a slice that is late holds
//! it. A transfer goes as fast as its scarcest share lets it. Speeds change only when a transfer or such a
//! command starts or ends, and only those of transfers that want the same scarce things, or whose neighbours
//! do. All arithmetic is in integers: times in 2^-32 cycles, speeds and shares in parts of 2^32.

mod max_min;

use std::collections::BTreeMap;
use std::sync::Arc;

use tilewright_base::invariant::Exact;
use tilewright_machine::tcp::Tcp;
use tilewright_tcp_cost::cycles::hbm::reached_q32;
use tilewright_tcp_cost::cycles::image::TransferCost;
use tilewright_tcp_cost::cycles::image::networks::SharedPath;
use tilewright_tcp_cost::cycles::image::transfer::HbmUse;

use self::max_min::MaxMinFill;
use crate::contention::FULL_Q32;

/// A resource whose bandwidth transfers share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SharedResource {
    /// Off-chip memory of a chip.
    Hbm(u64),
    /// The link out of a chip.
    Out(u64),
    /// The link into a chip.
    In(u64),
    /// A data memory network or the port of a PE.
    Path(SharedPath),
}

/// The share of a resource's time that a transfer takes at its own pace.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ResourceUse {
    of: SharedResource,
    /// Of its busiest channel.
    most_q32: u64,
    /// Share of each channel's time; empty if all channels have the same.
    channels_q32: Vec<u64>,
}

impl ResourceUse {
    /// Of one channel.
    fn of_channel(&self, channel: usize) -> u64 {
        self.channels_q32.get(channel).copied().unwrap_or(self.most_q32)
    }
}

/// The shares that a transfer takes of all resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceUses(Vec<ResourceUse>);

impl ResourceUses {
    /// From the cost of a transfer alone.
    pub fn new(cost: &TransferCost) -> ResourceUses {
        let mut uses = ResourceUses::default();
        let cycles = cost.moved_cycles;
        for side in [&cost.read, &cost.written].into_iter().flatten() {
            uses.add_off_chip(side, cycles);
        }
        if cost.link_cycles > 0 {
            let most_q32 = part(u128::from(cost.link_cycles) << 32, cycles);
            for of in [SharedResource::Out(cost.source.chip), SharedResource::In(cost.target.chip)] {
                uses.0.push(ResourceUse { of, most_q32, channels_q32: Vec::new() });
            }
        }
        for used in &cost.paths {
            let (of, time) = (SharedResource::Path(used.path), part(used.cycles_q32, cycles));
            match uses.0.iter_mut().find(|other| other.of == of) {
                // Both sides on one network: one after the other.
                Some(other) => other.most_q32 = other.most_q32.exact_add(time).min(FULL_Q32),
                None => uses.0.push(ResourceUse { of, most_q32: time, channels_q32: Vec::new() }),
            }
        }
        uses
    }

    /// The data memory networks among them: chip and number.
    pub fn networks(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().filter_map(|used| match used.of {
            SharedResource::Path(SharedPath::Network { chip, network }) => Some((chip, network)),
            _ => None,
        })
    }

    fn add_off_chip(&mut self, side: &HbmUse, cycles: u64) {
        let of = SharedResource::Hbm(side.chip);
        let most_q32 = part(side.busiest_q32, cycles);
        let channels_q32: Vec<u64> = side.channels_q32.iter().map(|time| part(*time, cycles)).collect();
        let Some(other) = self.0.iter_mut().find(|used| used.of == of) else {
            return self.0.push(ResourceUse { of, most_q32, channels_q32 });
        };
        // Both sides in one memory: one after the other, so the parts add up.
        let (first, second) = (std::mem::take(&mut other.channels_q32), channels_q32);
        let count = first.len().max(second.len());
        let at = |uses: &[u64], even: u64, channel: usize| uses.get(channel).copied().unwrap_or(even);
        let sum = |channel| {
            at(&first, other.most_q32, channel).exact_add(at(&second, most_q32, channel)).min(FULL_Q32)
        };
        other.channels_q32 = (0..count).map(sum).collect();
        let both = other.most_q32.exact_add(most_q32).min(FULL_Q32);
        other.most_q32 = other.channels_q32.iter().copied().max().unwrap_or(both);
    }
}

/// Time as a part of so many cycles, rounded up, at most all of it.
fn part(time_q32: u128, cycles: u64) -> u64 {
    let part = time_q32.div_ceil(u128::from(cycles.max(1)));
    u64::try_from(part).unwrap_or(FULL_Q32).min(FULL_Q32)
}

/// A shared resource with the transfers under way that use it.
#[derive(Debug)]
struct ResourceState {
    of: SharedResource,
    /// What it gives.
    capacity_q32: u64,
    /// What they want of it at their own pace.
    wanted_q32: u64,
    /// Who they are, and which of their uses this is.
    users: Vec<(u32, usize)>,
    /// When it was last looked at.
    seen: u64,
}

impl ResourceState {
    fn is_scarce(&self) -> bool {
        self.wanted_q32 > self.capacity_q32
    }
}

/// A transfer under way.
#[derive(Debug)]
struct ActiveTransfer {
    /// Its engine, which has no other.
    owner: u32,
    uses: Arc<ResourceUses>,
    /// Which things it uses, use by use.
    things: Vec<usize>,
    /// What was left when it last got a speed, and when that was.
    left_q32: u128,
    at_cycles: u64,
    speed_q32: u64,
    ends_at: u64,
    /// When it was last looked at.
    seen: u64,
}

impl ActiveTransfer {
    /// It has a speed from now on.
    fn go_on(&mut self, now: u64, speed_q32: u64) {
        let passed = u128::from(now.exact_sub(self.at_cycles));
        self.left_q32 = self.left_q32.saturating_sub(passed * u128::from(self.speed_q32));
        self.at_cycles = now;
        self.speed_q32 = speed_q32.max(1);
        let cycles = cycles_at(self.left_q32, self.speed_q32);
        self.ends_at = now.saturating_add(cycles).min(u64::MAX - 1);
    }
}

/// Bandwidth sharing among all transfers under way.
#[derive(Debug)]
pub struct BandwidthSharing {
    /// In the order in which they started.
    moving: Vec<ActiveTransfer>,
    /// Where each owner's is among them.
    places: Vec<usize>,
    hbm_q32: u64,
    /// What was ever shared.
    things: Vec<ResourceState>,
    /// Their places.
    known: BTreeMap<SharedResource, usize>,
    next_end: u64,
    /// How often neighbours were looked for.
    looks: u64,
    /// Those whose speeds change together; kept between calls, as all that follows.
    neighbours: Vec<u32>,
    scarce: Vec<usize>,
    fill: MaxMinFill,
}

impl BandwidthSharing {
    /// Nothing moves.
    pub fn new(machine: &Tcp) -> BandwidthSharing {
        BandwidthSharing {
            moving: Vec::new(),
            places: Vec::new(),
            hbm_q32: reached_q32(machine),
            things: Vec::new(),
            known: BTreeMap::new(),
            next_end: u64::MAX,
            looks: 0,
            neighbours: Vec::new(),
            scarce: Vec::new(),
            fill: MaxMinFill::default(),
        }
    }

    /// A transfer under way uses this network.
    pub fn uses_network(&self, chip: u64, network: u64) -> bool {
        let known = self.known.get(&SharedResource::Path(SharedPath::Network { chip, network }));
        known.and_then(|at| self.things.get(*at)).is_some_and(|thing| !thing.users.is_empty())
    }

    /// The place of something that is shared.
    fn thing(&mut self, of: SharedResource) -> usize {
        let capacity_q32 = if matches!(of, SharedResource::Hbm(_)) { self.hbm_q32 } else { FULL_Q32 };
        let things = &mut self.things;
        *self.known.entry(of).or_insert_with(|| {
            things.push(ResourceState { of, capacity_q32, wanted_q32: 0, users: Vec::new(), seen: 0 });
            things.len() - 1
        })
    }

    /// From now on commands leave so much of the banks behind a network. Whether that changes any speed.
    pub fn leave(&mut self, now: u64, (chip, network): (u64, u64), left_q32: u64) -> bool {
        let at = self.thing(SharedResource::Path(SharedPath::Network { chip, network }));
        let thing = &mut self.things[at];
        let before = thing.capacity_q32;
        if before == left_q32 || thing.wanted_q32 <= before.min(left_q32) {
            thing.capacity_q32 = left_q32;
            return false;
        }
        // Scarce before or after: whoever shares it is found with the lesser.
        thing.capacity_q32 = before.min(left_q32);
        self.look_from_thing(at);
        self.things[at].capacity_q32 = left_q32;
        self.share(now);
        true
    }

    /// When the next transfer ends; `u64::MAX` if none is under way.
    pub fn next_end(&self) -> u64 {
        self.next_end
    }

    /// A transfer of so many cycles starts to move. Its owner has no other under way.
    pub fn start(&mut self, now: u64, owner: u32, cycles: u64, uses: Arc<ResourceUses>) {
        let mut things = Vec::with_capacity(uses.0.len());
        for (at_use, used) in uses.0.iter().enumerate() {
            let at = self.thing(used.of);
            things.push(at);
            let thing = &mut self.things[at];
            thing.wanted_q32 = thing.wanted_q32.exact_add(used.most_q32);
            thing.users.push((owner, at_use));
        }
        let place = owner as usize;
        if self.places.len() <= place {
            self.places.resize(place + 1, usize::MAX);
        }
        self.places[place] = self.moving.len();
        self.moving.push(ActiveTransfer {
            owner,
            uses,
            things,
            left_q32: u128::from(cycles) << 32,
            at_cycles: now,
            speed_q32: FULL_Q32,
            ends_at: now,
            seen: 0,
        });
        self.look_from(owner);
        self.share(now);
    }

    /// Takes the transfer that ends next, and lets the others have its share.
    pub fn end(&mut self) -> Option<(u64, u32)> {
        let at = self.moving.iter().position(|moving| moving.ends_at == self.next_end)?;
        let (now, owner) = (self.next_end, self.moving[at].owner);
        self.look_from(owner);
        self.neighbours.retain(|other| *other != owner);
        let ended = self.moving.remove(at);
        for later in &self.moving[at..] {
            self.places[later.owner as usize] -= 1;
        }
        for (used, at) in ended.uses.0.iter().zip(&ended.things) {
            let thing = &mut self.things[*at];
            thing.wanted_q32 = thing.wanted_q32.exact_sub(used.most_q32);
            thing.users.retain(|(user, _)| *user != owner);
        }
        self.share(now);
        Some((now, owner))
    }

    /// The speed of each transfer under way, by owner.
    pub fn speeds(&self) -> impl Iterator<Item = (u32, u64)> {
        self.moving.iter().map(|moving| (moving.owner, moving.speed_q32))
    }

    /// Finds all whose speeds depend on that of one.
    fn look_from(&mut self, owner: u32) {
        self.looks += 1;
        self.neighbours.clear();
        self.meet(owner);
        self.look_on(0);
    }

    /// The same for those who use a thing that is scarce.
    fn look_from_thing(&mut self, thing: usize) {
        self.looks += 1;
        self.neighbours.clear();
        self.meet_users(thing);
        self.look_on(0);
    }

    fn meet(&mut self, owner: u32) {
        let moving = &mut self.moving[self.places[owner as usize]];
        if std::mem::replace(&mut moving.seen, self.looks) != self.looks {
            self.neighbours.push(owner);
        }
    }

    fn meet_users(&mut self, thing: usize) {
        let found = &mut self.things[thing];
        if !found.is_scarce() || std::mem::replace(&mut found.seen, self.looks) == self.looks {
            return;
        }
        for at in 0..found.users.len() {
            self.meet(self.things[thing].users[at].0);
        }
    }

    /// Everyone who wants a scarce thing that a neighbour wants is one.
    fn look_on(&mut self, mut next: usize) {
        while let Some(owner) = self.neighbours.get(next) {
            let place = self.places[*owner as usize];
            for at in 0..self.moving[place].things.len() {
                self.meet_users(self.moving[place].things[at]);
            }
            next += 1;
        }
    }

    /// Gives every neighbour its speed, and says when the first of all ends.
    fn share(&mut self, now: u64) {
        self.find_scarce();
        self.fill.begin();
        for at in &self.scarce {
            let thing = &self.things[*at];
            let uses = thing.users.iter().filter_map(|(owner, at)| {
                let moving = self.moving.get(*self.places.get(*owner as usize)?)?;
                Some((*owner, moving.uses.0.get(*at)?))
            });
            self.fill.add(thing.capacity_q32, &uses);
        }
        self.fill.run();
        for owner in &self.neighbours {
            self.moving[self.places[*owner as usize]].go_on(now, self.fill.speed_q32(*owner));
        }
        self.next_end = self.moving.iter().map(|moving| moving.ends_at).min().unwrap_or(u64::MAX);
    }

    /// What neighbours want more of than there is, in its order.
    fn find_scarce(&mut self) {
        self.looks += 1;
        self.scarce.clear();
        for owner in &self.neighbours {
            for at in &self.moving[self.places[*owner as usize]].things {
                let thing = &mut self.things[*at];
                if thing.is_scarce() && std::mem::replace(&mut thing.seen, self.looks) != self.looks {
                    self.scarce.push(*at);
                }
            }
        }
        self.scarce.sort_unstable_by_key(|at| self.things[*at].of);
    }
}

/// Cycles that are left at a speed, rounded up; nearly always within 64 bits, where division is quick.
fn cycles_at(left_q32: u128, speed_q32: u64) -> u64 {
    match u64::try_from(left_q32) {
        Ok(left) => left.div_ceil(speed_q32),
        Err(_) => u64::try_from(left_q32.div_ceil(u128::from(speed_q32))).unwrap_or(u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tilewright_tcp_cost::cycles::image::networks::SharedPath;

    use super::{BandwidthSharing, FULL_Q32, ResourceUse, ResourceUses, SharedResource};

    /// A sequence of numbers that looks random.
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, end: u64) -> u64 {
            tilewright_base::random::below(&mut self.0, end)
        }

        fn part(&mut self) -> u64 {
            FULL_Q32 / 16 * (1 + self.below(16))
        }

        /// A network of one of two chips, perhaps its off-chip memory, with channels or without, and perhaps
        /// a link.
        fn uses(&mut self) -> ResourceUses {
            let chip = self.below(2);
            let channels_q32: Vec<u64> = (0..4 * self.below(2)).map(|_| self.part()).collect();
            let most_q32 = channels_q32.iter().copied().max().unwrap_or_else(|| self.part());
            let plain = |of, most_q32| ResourceUse { of, most_q32, channels_q32: Vec::new() };
            let path = SharedResource::Path(SharedPath::Network { chip, network: self.below(4) });
            let mut uses = vec![plain(path, self.part())];
            if self.below(2) == 0 {
                uses.push(ResourceUse { of: SharedResource::Hbm(chip), most_q32, channels_q32 });
            }
            if self.below(3) == 0 {
                uses.push(plain(SharedResource::In(self.below(2)), self.part()));
            }
            ResourceUses(uses)
        }
    }

    fn empty() -> BandwidthSharing {
        BandwidthSharing {
            moving: Vec::new(),
            places: Vec::new(),
            hbm_q32: FULL_Q32 / 10 * 9,
            things: Vec::new(),
            known: std::collections::BTreeMap::new(),
            next_end: u64::MAX,
            looks: 0,
            neighbours: Vec::new(),
            scarce: Vec::new(),
            fill: super::MaxMinFill::default(),
        }
    }

    /// Dividing everything anew changes nothing: whoever was left out has the speed that he would get.
    #[test]
    fn only_neighbours_change_their_speed() {
        let mut held_back = 0;
        for seed in 0..200 {
            let (mut dice, mut bandwidth, mut now) = (Dice(seed), empty(), 0);
            for step in 0..100 {
                let free = (0..12).find(|owner| bandwidth.moving.iter().all(|moving| moving.owner != *owner));
                match (dice.below(4), free) {
                    (0 | 1, Some(owner)) => {
                        bandwidth.start(now, owner, 50 + dice.below(100), Arc::new(dice.uses()));
                    }
                    (2, _) => {
                        let network = (dice.below(2), dice.below(4));
                        bandwidth.leave(now, network, dice.part());
                    }
                    _ => now = bandwidth.end().map_or(now, |(at, _)| at),
                }
                let state = |bandwidth: &BandwidthSharing| {
                    let each = bandwidth
                        .moving
                        .iter()
                        .map(|moving| (moving.owner, moving.speed_q32, moving.ends_at));
                    each.collect::<Vec<_>>()
                };
                let found = state(&bandwidth);
                held_back += found.iter().filter(|(_, speed, _)| *speed < FULL_Q32).count();
                bandwidth.neighbours = bandwidth.moving.iter().map(|moving| moving.owner).collect();
                bandwidth.share(now);
                assert_eq!(found, state(&bandwidth), "seed {seed}, step {step}");
                now = now.saturating_add(dice.below(5)).min(bandwidth.next_end());
            }
        }
        assert!(held_back > 10_000, "{held_back}");
    }
}
