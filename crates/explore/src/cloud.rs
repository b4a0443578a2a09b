//! Where legal candidates lie in time and power, coarsely: what a picture needs of the whole space.

use std::collections::BTreeSet;

/// Buckets of a doubling of ticks, and of power.
const BUCKETS: f64 = 20.0;

/// Occupied buckets; as many as a picture has room for, whatever the space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cloud {
    buckets: BTreeSet<(u16, u16)>,
    /// Costs that were marked lately, each at a place of its own: candidates near one another in the search
    /// often take the same.
    lately: Vec<(u64, u64)>,
}

/// Places for costs that were marked lately, as a power of two.
const LATELY_LOG2: u32 = 10;

impl Cloud {
    /// Marks a candidate.
    pub fn add(&mut self, ticks: u64, energy_fj: u64) {
        if ticks == 0 {
            return;
        }
        self.lately.resize(1 << LATELY_LOG2, (0, 0));
        let mixed = (ticks ^ energy_fj.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let place =
            usize::try_from(mixed >> (u64::BITS - LATELY_LOG2)).ok().and_then(|at| self.lately.get_mut(at));
        if place.is_some_and(|place| std::mem::replace(place, (ticks, energy_fj)) == (ticks, energy_fj)) {
            return;
        }
        #[expect(clippy::cast_precision_loss, reason = "a place in a picture")]
        let (ticks, energy) = (ticks as f64, energy_fj as f64);
        self.buckets.insert((bucket(ticks), bucket(energy / ticks)));
    }

    /// Marks all of another's.
    pub fn merge(&mut self, other: &Cloud) {
        self.buckets.extend(&other.buckets);
    }

    /// Cycles and fJ a cycle in the middle of each bucket.
    pub fn points(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let middle = |bucket: u16| ((f64::from(bucket) + 0.5) / BUCKETS).exp2();
        self.buckets.iter().map(move |(ticks, power)| (middle(*ticks), middle(*power)))
    }
}

fn bucket(value: f64) -> u16 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped first")]
    let bucket = (value.max(1.0).log2() * BUCKETS).clamp(0.0, 65_535.0) as u16;
    bucket
}
