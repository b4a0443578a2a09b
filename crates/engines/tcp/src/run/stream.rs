//! The engines of one command in order: fetch, switch, collect, contraction, vector, cast, transpose, commit (paper section IV).

use rayon::prelude::*;
use tilewright_machine::tcp::Tcp;
use tilewright_num::{Dtype, RuleSet};

use super::cast::cast;
use super::collect::collect;
use super::commit::Writer;
use super::contract::{Plan, RegisterFile, contract};
use super::fault::{Fault, Problem, Stage, divide, equal, product};
use super::fetch::Fetcher;
use super::packets::{Packets, flits_of, words};
use super::state::{Group, Sizes, SliceMemory, State};
use super::switch::Exchange;
use super::transpose::transpose;
use super::{MAX_GROUP_BYTES, MAX_SLICE, VectorUnit, index, rules};
use crate::cost::switch::Topology;
use crate::memory::payload_bits;
use crate::program::exec::{Memory, Stream};
use crate::program::vector::Vector;

/// Runs a command on a group of slices.
pub(super) fn run(
    machine: &Tcp,
    state: &mut State,
    group: Group,
    image: &Stream,
    vector: VectorUnit,
) -> Result<(), Fault> {
    let sizes = state.sizes;
    let writer = Writer::new(&sizes, &image.commit).map_err(|problem| problem.at(Stage::Commit))?;
    let engines = Engines::new(machine, group, image, &writer)?;
    let memories = state.slices(group);
    let mut flits = engines.results(&memories)?;
    if let Some(unit) = &image.vector {
        flits = engines.vector(unit, flits, &memories, vector)?;
    }
    let flits = engines.written(flits)?;
    engines.commit(&sizes, state.slices_mut(group), &flits);
    Ok(())
}

struct Engines<'a> {
    rules: &'a RuleSet,
    image: &'a Stream,
    writer: &'a Writer<'a>,
    fetcher: Fetcher<'a>,
    exchange: Exchange<'a>,
    contraction: Option<Plan<'a>>,
    flit_bytes: usize,
    vrf_bytes: u64,
}

impl<'a> Engines<'a> {
    /// Checks everything that does not depend on memory.
    fn new(machine: &Tcp, group: Group, image: &'a Stream, writer: &'a Writer<'a>) -> Result<Self, Fault> {
        let rules = rules(machine);
        let fetcher = Fetcher::new(rules, &image.fetch).map_err(|problem| problem.at(Stage::Fetch))?;
        let held = |what, factors: [u64; 3]| product(what, factors, MAX_GROUP_BYTES);
        held("bytes fetched", [fetcher.packets, fetcher.packet_bytes, group.slices])
            .map_err(|problem| problem.at(Stage::Fetch))?;
        let exchange = Exchange::new(machine, &image.switch, group.slices, fetcher.packets)
            .map_err(|problem| problem.at(Stage::Switch))?;
        let received = (0..group.slices).map(|slice| exchange.received(slice)).max().unwrap_or(0);
        let packet = fetcher.packet_bytes.next_multiple_of(machine.network.flit_bytes);
        product("bytes received on a slice", [received, packet], MAX_SLICE)
            .map_err(|problem| problem.at(Stage::Switch))?;
        let plan = |image| Plan::new(machine, rules, image, fetcher.leaves());
        let contraction = image
            .contract
            .as_ref()
            .map(plan)
            .transpose()
            .map_err(|problem| problem.at(Stage::Contraction))?;
        let kept = contraction.map_or(received.saturating_mul(packet), |plan| plan.words().saturating_mul(4));
        held("bytes of results", [kept, group.slices, 1])
            .map_err(|problem| problem.at(Stage::Contraction))?;
        let flit_bytes = index(machine.network.flit_bytes);
        Ok(Engines {
            rules,
            image,
            writer,
            fetcher,
            exchange,
            contraction,
            flit_bytes,
            vrf_bytes: machine.vrf.capacity_bytes,
        })
    }

    /// What enters the vector engine on every slice; nothing where it would never be used.
    fn results(&self, memories: &[&SliceMemory]) -> Result<Vec<Packets>, Fault> {
        let fetch = |slice: usize| {
            let fetched = self.fetcher.fetch(memories[slice].dm(), slice as u64);
            fetched.map_err(|problem| problem.at(Stage::Fetch))
        };
        let used = |slice: usize| self.image.vector.is_some() || self.writer.writes(slice as u64);
        if self.image.switch.topology == Topology::Forwarding {
            return each(memories.len(), |slice| match used(slice) {
                true => self.result(memories[slice], fetch(slice)?),
                false => Ok(Packets::default()),
            });
        }
        let sent = each(memories.len(), fetch)?;
        each(memories.len(), |slice| match used(slice) {
            true => self.result(memories[slice], self.exchange.deliver(&sent, slice as u64)),
            false => Ok(Packets::default()),
        })
    }

    /// What becomes of the packets that a slice receives.
    fn result(&self, memory: &SliceMemory, received: Packets) -> Result<Packets, Fault> {
        let flits = collect(received, self.flit_bytes);
        let Some(plan) = &self.contraction else { return Ok(flits) };
        let (bytes, extra) = memory.trf();
        let words = contract(plan, flits, RegisterFile { bytes, extra });
        let words = words.map_err(|problem| problem.at(Stage::Contraction))?;
        Ok(flits_of(&words, self.flit_bytes))
    }

    fn vector(
        &self,
        image: &Vector,
        flits: Vec<Packets>,
        memories: &[&'a SliceMemory],
        unit: VectorUnit,
    ) -> Result<Vec<Packets>, Fault> {
        let fail = |problem: Problem| problem.at(Stage::Vector);
        if self.dtype().is_some_and(|dtype| !matches!(dtype, Dtype::I32 | Dtype::F32)) {
            return Err(fail(Problem::Dtype(self.dtype().unwrap_or(Dtype::I32))));
        }
        let streams: Vec<Vec<u32>> = flits.iter().map(words).collect::<Result<_, _>>().map_err(fail)?;
        drop(flits);
        let zeros = vec![0; index(self.vrf_bytes)];
        let file = |memory: &&'a SliceMemory| match memory.bytes(Memory::Vrf) {
            [] => zeros.as_slice(),
            bytes => bytes,
        };
        let files: Vec<&[u8]> = memories.iter().map(file).collect();
        let streams =
            unit(self.rules, image, streams, &files).map_err(|error| fail(Problem::Vector(error)))?;
        equal("slices", streams.len() as u64, "slices of the group", files.len() as u64).map_err(fail)?;
        for stream in &streams {
            divide("words", stream.len() as u64, self.flit_bytes as u64 / 4).map_err(fail)?;
        }
        Ok(streams.iter().map(|stream| flits_of(stream, self.flit_bytes)).collect())
    }

    /// The type of the elements that leave the contraction engine; `None` for words, whose type the image does not say.
    fn dtype(&self) -> Option<Dtype> {
        self.contraction.is_none().then(|| self.fetcher.leaves())
    }

    /// Flits as the commit unit writes them.
    fn written(&self, flits: Vec<Packets>) -> Result<Vec<Packets>, Fault> {
        let words = self.contraction.is_some() || self.image.vector.is_some();
        let bits = match (self.image.cast, words) {
            (Some(cast), _) => payload_bits(cast),
            (None, true) => payload_bits(Dtype::I32),
            (None, false) => payload_bits(self.fetcher.leaves()),
        };
        let narrow = !words && !matches!(self.fetcher.leaves(), Dtype::I32 | Dtype::F32);
        if narrow && (self.image.cast.is_some() || self.image.commit.to_bf16) {
            return Err(Problem::Dtype(self.fetcher.leaves()).at(Stage::Cast));
        }
        each_of(flits, |slice, mut flits| {
            if !self.writer.writes(slice as u64) {
                return Ok(Packets::default());
            }
            if flits.extra.is_some() && (self.image.cast.is_some() || self.image.transpose.is_some()) {
                return Err(Problem::Dtype(self.fetcher.leaves()).at(Stage::Cast));
            }
            if let Some(to) = self.image.cast {
                flits = cast(self.rules, &flits, to).map_err(|problem| problem.at(Stage::Cast))?;
            }
            if let Some(tiles) = &self.image.transpose {
                flits = transpose(tiles, bits, &flits).map_err(|problem| problem.at(Stage::Transpose))?;
            }
            self.writer.convert(self.rules, flits).map_err(|problem| problem.at(Stage::Commit))
        })
    }

    fn commit(&self, sizes: &Sizes, memories: Vec<&mut SliceMemory>, flits: &[Packets]) {
        memories.into_par_iter().zip(flits).enumerate().for_each(|(slice, (memory, flits))| {
            if self.writer.writes(slice as u64) {
                self.writer.write(sizes, memory, flits);
            }
        });
    }
}

/// The same on every slice, in parallel; of several faults, that of the lowest slice.
fn each<T: Send>(
    slices: usize,
    run: impl Fn(usize) -> Result<T, Fault> + Sync + Send,
) -> Result<Vec<T>, Fault> {
    let all: Vec<Result<T, Fault>> =
        (0..slices).into_par_iter().map(|slice| run(slice).map_err(|fault| fault.on(slice))).collect();
    all.into_iter().collect()
}

/// [`each`], with something of the slice's own.
fn each_of<I: Send, T: Send>(
    items: Vec<I>,
    run: impl Fn(usize, I) -> Result<T, Fault> + Sync + Send,
) -> Result<Vec<T>, Fault> {
    let indexed = items.into_par_iter().enumerate();
    let all: Vec<Result<T, Fault>> =
        indexed.map(|(slice, item)| run(slice, item).map_err(|fault| fault.on(slice))).collect();
    all.into_iter().collect()
}
