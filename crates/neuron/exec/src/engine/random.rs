//! Random numbers: seeds, states, raw bits and uniform floats (NKI instruction pages;
//! docs/hardware-rules.md#random-numbers).
//!
//! Generators with a state that kernels can set are XORWOW (Marsaglia, "Xorshift RNGs"), one for each
//! partition. How the hardware spreads a seed over lanes is not published, nor is the shift register of the
//! older Vector generator: the seeds of lanes are ours, drawn from a splitmix sequence.

use tilewright_base::invariant::OrBroken;
use tilewright_neuron_isa::cost::vector::{cost_on, plain_cost};
use tilewright_neuron_isa::pattern::as_u64;
use tilewright_neuron_isa::program::{EngineKind, Instruction};
use tilewright_neuron_isa::refusal::{Refusal, rule};
use tilewright_neuron_isa::{Chip, Generation, limits};
use tilewright_num::Dtype;

use super::ScalarOperand;
use crate::Tile;

/// Words of a XORWOW state.
pub const STATE_WORDS: usize = 6;

/// The state of one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Xorwow(pub [u32; STATE_WORDS]);

impl Xorwow {
    /// The next 32 bits.
    pub fn next_bits(&mut self) -> u32 {
        let [x, y, z, w, v, d] = self.0;
        let t = x ^ (x >> 2);
        let v2 = (v ^ (v << 4)) ^ (t ^ (t << 1));
        let d2 = d.wrapping_add(362_437);
        self.0 = [y, z, w, v, v2, d2];
        d2.wrapping_add(v2)
    }
}

/// The generators of one engine: one for each partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RandomLanes(Vec<Xorwow>);

impl RandomLanes {
    /// Lanes that start from a seed.
    pub fn seeded(partitions: usize, mut seed: u64) -> RandomLanes {
        let mut word = || {
            let bits = tilewright_base::random::next(&mut seed);
            u32::try_from(bits >> 32).or_broken("more than the high half")
        };
        let lane = |_| {
            let mut state = [0; STATE_WORDS];
            state.iter_mut().for_each(|one| *one = word());
            // A shift register of zeros stays zero.
            state[0] |= 1;
            Xorwow(state)
        };
        RandomLanes((0..partitions).map(lane).collect())
    }
}

/// dst = random bits, on the Vector or the GpSimd engine.
///
/// # Errors
/// If the result is not of integers, or the generation lacks the instruction on that engine.
pub fn rng(
    chip: &Chip,
    dst: &Tile,
    lanes: &mut RandomLanes,
    engine: EngineKind,
) -> Result<Instruction, Refusal> {
    const NAME: &str = "rng";
    limits::engine_of(NAME, engine, &[EngineKind::Vector, EngineKind::Gpsimd])?;
    if engine == EngineKind::Gpsimd {
        chip.needs("rng on the gpsimd engine", Generation::V3)?;
    }
    limits::operand(chip, engine, NAME, "the result", dst)?;
    rule(!dst.view.dtype.is_float(), || {
        Refusal::new(
            "neuron/dtype",
            format!("rng into {}", dst.view.type_name()),
            "integers of 8, 16 or 32 bits",
            "use rand2 for floats, or scale the bits",
        )
    })?;
    dst.write_words(&draw(dst, lanes, |lane| lane.next_bits()));
    let cost = cost_on(chip, engine, as_u64(dst.view.free_elements()), &[dst]);
    Ok(Instruction::new(NAME, engine, cost, &[dst], &[]))
}

/// dst = uniform floats from `low` to `high`.
///
/// # Errors
/// If an operand breaks a rule of the engine.
pub fn rand2(
    chip: &Chip,
    dst: &Tile,
    low: &ScalarOperand,
    high: &ScalarOperand,
    lanes: &mut RandomLanes,
) -> Result<Instruction, Refusal> {
    const NAME: &str = "rand2";
    const VALUES_PER_CYCLE: u64 = 4;
    chip.needs(NAME, Generation::V4)?;
    limits::operand(chip, EngineKind::Vector, NAME, "the result", dst)?;
    let (partitions, columns) = (dst.view.partitions(), dst.view.free_elements());
    let (lows, missing_low) = low.values(&chip.rules, partitions)?;
    let (highs, missing_high) = high.values(&chip.rules, partitions)?;
    let mut values = draw(dst, lanes, |lane| (lane.next_bits() >> 8) as f32 / 16_777_216.0);
    for ((row, low), high) in values.chunks_mut(columns.max(1)).zip(&lows).zip(&highs) {
        row.iter_mut().for_each(|value| *value = low + *value * (high - low));
    }
    dst.write(&chip.rules, &values);
    let cost = plain_cost(chip, as_u64(columns) / VALUES_PER_CYCLE, &[dst]);
    let reads: Vec<&Tile> = [low.tile(), high.tile()].into_iter().flatten().collect();
    Ok(Instruction::new(NAME, EngineKind::Vector, cost, &[dst], &reads).reading(missing_low | missing_high))
}

/// A value for each element, from the lane of its partition.
fn draw<T>(dst: &Tile, lanes: &mut RandomLanes, mut next: impl FnMut(&mut Xorwow) -> T) -> Vec<T> {
    let columns = dst.view.free_elements();
    let mut out = Vec::with_capacity(dst.elements());
    for lane in lanes.0.iter_mut().take(dst.view.partitions()) {
        out.extend((0..columns).map(|_| next(lane)));
    }
    out
}

/// Seeds the generator of the Vector engine from one word.
///
/// # Errors
/// If the seed is not one element of 32 bits.
pub fn set_rng_seed(chip: &Chip, src: &Tile, lanes: &mut RandomLanes) -> Result<Instruction, Refusal> {
    const NAME: &str = "set_rng_seed";
    limits::operand(chip, EngineKind::Vector, NAME, "the seed", src)?;
    rule(src.elements() == 1 && src.view.dtype.storage_bits() == 32, || {
        Refusal::new(
            "neuron/shape",
            format!("set_rng_seed from {:?} of {}", src.view.shape(), src.view.type_name()),
            "one element of 32 bits",
            "slice the seed",
        )
    })?;
    let read = src.read_words();
    let seed = u64::from(read.values.first().copied().unwrap_or_default());
    *lanes = RandomLanes::seeded(chip.partitions(), seed);
    let cost = plain_cost(chip, 1, &[src]);
    Ok(Instruction::new(NAME, EngineKind::Vector, cost, &[], &[src]).reading(read.uninitialised))
}

/// Sets the state of each lane from a row of words.
///
/// # Errors
/// If the generation lacks it, or the rows have another size.
pub fn rand_set_state(
    chip: &Chip,
    src: &Tile,
    lanes: &mut RandomLanes,
    engine: EngineKind,
) -> Result<Instruction, Refusal> {
    const NAME: &str = "rand_set_state";
    let words = state_operand(chip, NAME, src, engine)?;
    let read = src.read_words();
    for (lane, row) in lanes.0.iter_mut().zip(read.values.chunks_exact(words)) {
        // The Vector engine has four generators in a lane, of which one draws here.
        if let Some(state) = row.first_chunk() {
            *lane = Xorwow(*state);
        }
    }
    let cost = cost_on(chip, engine, as_u64(words), &[src]);
    Ok(Instruction::new(NAME, engine, cost, &[], &[src]).reading(read.uninitialised))
}

/// dst = the state of each lane.
///
/// # Errors
/// If the generation lacks it, or the rows have another size.
pub fn rand_get_state(
    chip: &Chip,
    dst: &Tile,
    lanes: &RandomLanes,
    engine: EngineKind,
) -> Result<Instruction, Refusal> {
    const NAME: &str = "rand_get_state";
    let words = state_operand(chip, NAME, dst, engine)?;
    let row = |lane: &Xorwow| lane.0.into_iter().cycle().take(words).collect::<Vec<u32>>();
    let values: Vec<u32> = lanes.0.iter().take(dst.view.partitions()).flat_map(row).collect();
    dst.write_words(&values);
    let cost = cost_on(chip, engine, as_u64(words), &[dst]);
    Ok(Instruction::new(NAME, engine, cost, &[dst], &[]))
}

/// Words of a state on that engine, if the tile has rows of as many.
fn state_operand(chip: &Chip, name: &str, tile: &Tile, engine: EngineKind) -> Result<usize, Refusal> {
    limits::engine_of(name, engine, &[EngineKind::Gpsimd, EngineKind::Vector])?;
    let on_vector = engine == EngineKind::Vector;
    let least = if on_vector { Generation::V4 } else { Generation::V3 };
    chip.needs(&format!("{name} on the {} engine", engine.name()), least)?;
    limits::operand(chip, engine, name, "the state", tile)?;
    let words = if on_vector { 4 * STATE_WORDS } else { STATE_WORDS };
    rule(tile.view.free_elements() == words && tile.view.dtype == Dtype::U32, || {
        Refusal::new(
            "neuron/shape",
            format!("{name} with a state of {:?} of {}", tile.view.shape(), tile.view.type_name()),
            format!("[P, {words}] of uint32"),
            "give each partition the words of one state",
        )
    })?;
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xorwow_follows_its_paper() {
        // The first words of Marsaglia's program with its own starting state.
        let mut lane = Xorwow([123_456_789, 362_436_069, 521_288_629, 88_675_123, 5_783_321, 6_615_241]);
        let (mut x, mut y, mut z, mut w, mut v, mut d) =
            (123_456_789_u32, 362_436_069_u32, 521_288_629_u32, 88_675_123_u32, 5_783_321_u32, 6_615_241_u32);
        for _ in 0..100 {
            let t = x ^ (x >> 2);
            (x, y, z, w) = (y, z, w, v);
            v = (v ^ (v << 4)) ^ (t ^ (t << 1));
            d = d.wrapping_add(362_437);
            assert_eq!(lane.next_bits(), d.wrapping_add(v));
        }
    }

    #[test]
    fn lanes_differ_and_seeds_repeat() {
        let (a, b) = (RandomLanes::seeded(128, 7), RandomLanes::seeded(128, 7));
        assert_eq!(a, b);
        assert_ne!(a, RandomLanes::seeded(128, 8));
        assert_ne!(a.0[0], a.0[1]);
    }
}
