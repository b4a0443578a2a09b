//! How scarce things are divided: fair shares by progressive filling.
//!
//! Whatever is scarcest for those who want it is divided first. Those whom it holds back take less of
//! everything else, which leaves more to others.

use super::ResourceUse;
use crate::contention::FULL_Q32;
use tilewright_base::invariant::{Exact, OrBroken};

/// Max-min fair division of contended channels by progressive filling; its buffers are kept between two
/// divisions.
#[derive(Debug, Default)]
pub(super) struct MaxMinFill {
    /// The first `count` are of this filling.
    scarce: Vec<ContendedChannel>,
    count: usize,
    /// Of those who are held back, by owner; zero for all others.
    speeds_q32: Vec<u64>,
    held: Vec<u32>,
    /// Those whom the last division held back, and what they want of what was divided.
    last: Vec<(u64, u32)>,
    /// What all want of each channel.
    sums: Vec<u64>,
}

/// A channel of which more is wanted than it has.
#[derive(Debug, Default)]
struct ContendedChannel {
    /// What is left of it for those who want it.
    left: u64,
    /// How much each wants, and who.
    wants: Vec<(u64, u32)>,
    /// What each gets at most; to be found again if someone left.
    level: Option<u64>,
}

impl MaxMinFill {
    /// Nothing is scarce, nobody is held back.
    pub(super) fn begin(&mut self) {
        self.count = 0;
        for owner in self.held.drain(..) {
            self.speeds_q32[owner as usize] = 0;
        }
    }

    /// Channels of a thing that are wanted more than it gives. Those that are not never will be: who is held
    /// back takes less.
    pub(super) fn add<'u>(
        &mut self,
        capacity: u64,
        uses: &(impl Iterator<Item = (u32, &'u ResourceUse)> + Clone),
    ) {
        let channels = uses.clone().map(|(_, used)| used.channels_q32.len()).max().unwrap_or(0).max(1);
        self.sums.clear();
        self.sums.resize(channels, 0);
        for (_, used) in uses.clone() {
            for (channel, sum) in self.sums.iter_mut().enumerate() {
                *sum = sum.exact_add(used.of_channel(channel));
            }
        }
        for (channel, sum) in self.sums.iter().enumerate() {
            if *sum <= capacity {
                continue;
            }
            if self.scarce.len() == self.count {
                self.scarce.push(ContendedChannel::default());
            }
            let one = &mut self.scarce[self.count];
            (one.left, one.level) = (capacity, None);
            one.wants.clear();
            one.wants.extend(uses.clone().map(|(owner, used)| (used.of_channel(channel), owner)));
            one.wants.sort_unstable();
            self.count += 1;
        }
    }

    /// Divides everything.
    pub(super) fn run(&mut self) {
        while let Some((index, level)) = self.scarcest() {
            self.hold_back(index, level);
            for one in &mut self.scarce[..self.count] {
                let (speeds, before) = (&self.speeds_q32, one.wants.len());
                let held = |owner: u32| speeds.get(owner as usize).copied().filter(|speed| *speed > 0);
                for (want, speed) in one.wants.iter().filter_map(|(want, at)| Some((*want, held(*at)?))) {
                    let taken = (u128::from(want) * u128::from(speed)) >> 32;
                    one.left =
                        one.left.saturating_sub(u64::try_from(taken).or_broken("a part of what is wanted"));
                }
                one.wants.retain(|(_, owner)| held(*owner).is_none());
                if one.wants.len() != before {
                    one.level = None;
                }
            }
        }
    }

    /// What slows someone most, and what it gives each at most.
    fn scarcest(&mut self) -> Option<(usize, u64)> {
        let mut slowest: Option<(u64, usize, u64)> = None;
        for (index, one) in self.scarce[..self.count].iter_mut().enumerate() {
            let level = *one.level.get_or_insert_with(|| level(&one.wants, one.left));
            // The last one wants the most, so the level slows it most.
            let Some((most, _)) = one.wants.last().filter(|(want, _)| *want > level) else { continue };
            let speed = level.exact_mul(FULL_Q32) / (*most).max(1);
            if slowest.is_none_or(|(other, ..)| speed < other) {
                slowest = Some((speed, index, level));
            }
        }
        slowest.map(|(_, index, level)| (index, level))
    }

    /// Whoever wants more than the level gets no more.
    fn hold_back(&mut self, index: usize, level: u64) {
        self.last.clear();
        self.last.extend(self.scarce[index].wants.iter().filter(|(want, _)| *want > level));
        for (want, owner) in &self.last {
            let place = *owner as usize;
            if self.speeds_q32.len() <= place {
                self.speeds_q32.resize(place + 1, 0);
            }
            // The level is below what is wanted, which is at most 2^32. No transfer stalls.
            self.speeds_q32[place] = (level.exact_mul(FULL_Q32) / (*want).max(1)).max(1);
            self.held.push(*owner);
        }
    }

    /// What someone got.
    pub(super) fn speed_q32(&self, owner: u32) -> u64 {
        match self.speeds_q32.get(owner as usize) {
            Some(0) | None => FULL_Q32,
            Some(speed) => *speed,
        }
    }
}

/// The most that anyone gets: those who want less get what they want, and the rest is divided evenly. Wants
/// are in their order.
fn level(wants: &[(u64, u32)], capacity: u64) -> u64 {
    let (mut left, mut others) = (capacity, wants.len() as u64);
    for (want, _) in wants {
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
            super::level(&wants.iter().copied().zip(0..).collect::<Vec<_>>(), capacity)
        };
        assert_eq!(level(&[10, 100, 100], 110), 50);
        assert_eq!(level(&[60, 60], 100), 50);
        assert_eq!(level(&[20, 30], 100), u64::MAX);
    }
}
