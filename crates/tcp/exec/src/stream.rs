//! The engines of one command in order: fetch, switch, collect, contraction, vector, cast, transpose, commit
//! (paper section IV).
//!
//! Slices that receive the same packets share them. Two ways through the engines give the same bytes: the
//! literal one follows registers element by element and flit by flit, the other one takes runs and whole
//! streams at once.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_machine::tcp::Tcp;
use tilewright_num::{Dtype, RuleSet};
use tilewright_tcp_isa::program::exec::Stream;
use tilewright_tcp_isa::program::vector::Vector;
use tilewright_tcp_isa::switch::Topology;

use super::collect::collect;
use super::commit::CommitWriter;
use super::contract::{ContractionPlan, GroupContraction, RegisterFileView};
use super::copy::SliceCopy;
use super::equal_slices::SliceClasses;
use super::fault::{ExecFault, ExecProblem, ExecStage, divide, equal, product};
use super::fetch::Fetcher;
use super::output_stages::OutputStages;
use super::packets::{Packets, words};
use super::parallel::{HostWork, each, each_of};
use super::stage_data::StageData;
use super::state::{MemoryState, PeGroup, SliceMemory};
use super::switch::SwitchExchange;
use super::vector::{SharedWords, apply_for};
use crate::limits::{ExecMode, MAX_GROUP_BYTES, MAX_SLICE, index, rules};
use crate::state::sizes::MemorySizes;

/// Runs a command on a group of slices.
pub(super) fn run(
    machine: &Tcp,
    state: &mut MemoryState,
    group: PeGroup,
    image: &Stream,
    mode: ExecMode,
) -> Result<(), ExecFault> {
    let sizes = state.sizes;
    let writer = CommitWriter::new(&sizes, &image.commit).map_err(|problem| problem.at(ExecStage::Commit))?;
    let engines = CommandEngines::new(machine, group, image, &writer, mode)?;
    if let Some(copy) = SliceCopy::new(image, &engines.fetcher, &writer, engines.flit_bytes) {
        copy.run(&sizes, &writer, state.slices_mut(group));
        return Ok(());
    }
    let reads = engines.contraction.as_ref().and_then(GroupContraction::reads);
    let fetched = engines.fetcher.reads();
    for memory in state.slices_mut(group) {
        fetched.iter().for_each(|part| memory.settle_dm(part));
        if let Some(reads) = &reads {
            memory.settle_trf_part(&sizes, reads);
        }
    }
    let memories = state.slices(group);
    let streams = engines.received(&memories)?;
    let once = match mode {
        ExecMode::Bulk => engines.written_once(&sizes, &memories),
        ExecMode::Literal => None,
    };
    let written = once.map_or_else(|| engines.written(&sizes, &memories, &streams), Ok)?;
    engines.commit(&sizes, state.slices_mut(group), &written);
    Ok(())
}

/// Packets that slices receive.
struct ReceivedPackets {
    packets: Vec<Packets>,
    /// Which of them a slice receives.
    of: Vec<usize>,
}

/// What slices write.
struct WrittenFlits<'s> {
    flits: Vec<Cow<'s, Packets>>,
    /// Which of them a slice writes, if any.
    of: Vec<Option<usize>>,
}

struct CommandEngines<'a> {
    rules: &'a RuleSet,
    image: &'a Stream,
    writer: &'a CommitWriter<'a>,
    fetcher: Fetcher<'a>,
    exchange: SwitchExchange<'a>,
    contraction: Option<GroupContraction<'a>>,
    mode: ExecMode,
    flit_bytes: usize,
    vrf_bytes: u64,
    /// What the command takes of the host.
    work: HostWork,
}

impl<'a> CommandEngines<'a> {
    /// Checks everything that does not depend on memory.
    fn new(
        machine: &Tcp,
        group: PeGroup,
        image: &'a Stream,
        writer: &'a CommitWriter<'a>,
        mode: ExecMode,
    ) -> Result<Self, ExecFault> {
        let rules = rules(machine);
        let fetcher =
            Fetcher::new(rules, &image.fetch, mode).map_err(|problem| problem.at(ExecStage::Fetch))?;
        let held = |what, factors: [u64; 3]| product(what, factors, MAX_GROUP_BYTES);
        let fetched = held("bytes fetched", [fetcher.packets, fetcher.packet_bytes, group.slices])
            .map_err(|problem| problem.at(ExecStage::Fetch))?;
        let exchange = SwitchExchange::new(machine, &image.switch, group.slices, fetcher.packets)
            .map_err(|problem| problem.at(ExecStage::Switch))?;
        let received = (0..group.slices).map(|slice| exchange.received(slice)).max();
        let received = received.or_broken("a group of PEs has slices");
        let packet = fetcher.packet_bytes.next_multiple_of(machine.network.flit_bytes);
        product("bytes received on a slice", [received, packet], MAX_SLICE)
            .map_err(|problem| problem.at(ExecStage::Switch))?;
        let plan = |image| ContractionPlan::new(machine, rules, image, fetcher.leaves());
        let plan = image
            .contract
            .as_ref()
            .map(plan)
            .transpose()
            .map_err(|problem| problem.at(ExecStage::Contraction))?;
        let kept = plan.map_or(received.exact_mul(packet), |plan| plan.words().exact_mul(4));
        let kept = held("bytes of results", [kept, group.slices, 1])
            .map_err(|problem| problem.at(ExecStage::Contraction))?;
        let work = HostWork::of(image, fetched, kept, group.slices);
        let contraction = plan.map(|plan| GroupContraction::new(plan, mode));
        let flit_bytes = index(machine.network.flit_bytes);
        let vrf_bytes = machine.vrf.capacity_bytes;
        Ok(CommandEngines {
            rules,
            image,
            writer,
            fetcher,
            exchange,
            contraction,
            mode,
            flit_bytes,
            vrf_bytes,
            work,
        })
    }

    /// What slices write.
    fn written<'s>(
        &self,
        sizes: &MemorySizes,
        memories: &[&SliceMemory],
        streams: &'s ReceivedPackets,
    ) -> Result<WrittenFlits<'s>, ExecFault> {
        let mut flows = self.results(sizes, memories, streams)?;
        if let Some(unit) = &self.image.vector {
            flows = self.vector(unit, flows, memories)?;
        }
        self.leaving(flows)
    }

    /// [`Self::written`] by one slice of those that do the same; `None` if they do not, or if something is
    /// wrong with one of them.
    fn written_once(&self, sizes: &MemorySizes, memories: &[&SliceMemory]) -> Option<WrittenFlits<'static>> {
        let SliceClasses { representatives, of } = SliceClasses::new(self.image, &self.fetcher, memories)?;
        let memories: Vec<&SliceMemory> = representatives.iter().map(|slice| memories[*slice]).collect();
        let none = ReceivedPackets { packets: Vec::new(), of: Vec::new() };
        let written = self.written(sizes, &memories, &none).ok()?;
        let flits = written.flits.into_iter().map(|flits| Cow::Owned(flits.into_owned())).collect();
        let of = of.iter().map(|kind| written.of.get(*kind).copied().flatten()).collect();
        Some(WrittenFlits { flits, of })
    }

    /// Whether what a slice computes is ever used: by itself, or by others behind the vector engine.
    fn used(&self, slice: usize) -> bool {
        let between = self.image.vector.as_ref().is_some_and(|vector| vector.between.is_some());
        between || self.writes(slice)
    }

    fn writes(&self, slice: usize) -> bool {
        self.writer.writes(slice as u64)
    }

    fn fetch(&self, memories: &[&SliceMemory], slice: usize) -> Result<Packets, ExecFault> {
        let fetched = self.fetcher.fetch(memories[slice].dm(), slice as u64);
        fetched.map_err(|problem| problem.at(ExecStage::Fetch))
    }

    /// Whether the padding of packets would never be looked at: only their bytes are written.
    fn keeps_packets(&self, received: &Packets) -> bool {
        let image = self.image;
        let untouched = image.contract.is_none()
            && image.vector.is_none()
            && image.cast.is_none()
            && image.transpose.is_none()
            && !image.commit.to_bf16;
        let within = received.packet_bytes > 0 && received.packet_bytes <= self.flit_bytes;
        self.mode == ExecMode::Bulk
            && untouched
            && within
            && image.commit.bytes <= received.packet_bytes as u64
    }

    /// Flits or, where there is a contraction, packets as its lanes meet them.
    fn fed(&self, received: Packets) -> Result<Packets, ExecFault> {
        if self.keeps_packets(&received) {
            return Ok(received);
        }
        let flits = collect(received, self.flit_bytes);
        match &self.contraction {
            None => Ok(flits),
            Some(contraction) => {
                contraction.plan.feed(flits).map_err(|problem| problem.at(ExecStage::Contraction))
            }
        }
    }

    /// What comes through the switch; nothing where every slice keeps its own packets.
    fn received(&self, memories: &[&SliceMemory]) -> Result<ReceivedPackets, ExecFault> {
        if self.image.switch.topology == Topology::Forwarding {
            return Ok(ReceivedPackets { packets: Vec::new(), of: Vec::new() });
        }
        let sent = each(memories.len(), self.work.fetch, |slice| self.fetch(memories, slice))?;
        let mut first = vec![usize::MAX; memories.len()];
        let (mut firsts, mut of) = (Vec::new(), vec![0; memories.len()]);
        for slice in (0..memories.len()).filter(|slice| self.used(*slice)) {
            let number = match self.mode {
                ExecMode::Literal => slice,
                ExecMode::Bulk => index(self.exchange.stream_of(slice as u64)),
            };
            let Some(known) = first.get_mut(number) else { continue };
            if *known == usize::MAX {
                *known = firsts.len();
                firsts.push(slice);
            }
            of[slice] = *known;
        }
        let packets = each_of(firsts, self.work.fetch, |_, slice| {
            let fed = self.fed(self.exchange.deliver(&sent, slice as u64));
            fed.map_err(|fault| fault.on(slice))
        })?;
        Ok(ReceivedPackets { packets, of })
    }

    /// What enters the vector engine on every slice; nothing where it would never be used.
    fn results<'s>(
        &self,
        sizes: &MemorySizes,
        memories: &[&SliceMemory],
        streams: &'s ReceivedPackets,
    ) -> Result<Vec<StageData<'s>>, ExecFault> {
        let forwarding = self.image.switch.topology == Topology::Forwarding;
        let zeros: OnceLock<SharedWords> = OnceLock::new();
        each(memories.len(), self.work.compute, |slice| {
            if !self.used(slice) {
                return Ok(StageData::Flits(Cow::Owned(Packets::default())));
            }
            let shared = streams.of.get(slice).and_then(|of| streams.packets.get(*of));
            let packets = match shared {
                Some(packets) if !forwarding => Cow::Borrowed(packets),
                _ => Cow::Owned(self.fed(self.fetch(memories, slice)?)?),
            };
            let Some(contraction) = &self.contraction else {
                let words =
                    |packets: &Packets| words(packets).map_err(|problem| problem.at(ExecStage::Vector));
                let wide = matches!(self.fetcher.leaves(), Dtype::I32 | Dtype::F32);
                return match self.image.vector.is_some() && wide {
                    true => words(&packets).map(|words| StageData::Words(Arc::new(words))),
                    false => Ok(StageData::Flits(packets)),
                };
            };
            if self.mode == ExecMode::Bulk && contraction.gives_zeros(&packets) {
                let words = || Arc::new(vec![0; index(contraction.plan.words())]);
                return Ok(StageData::Words(Arc::clone(zeros.get_or_init(words))));
            }
            let memory = memories[slice];
            let takes_loads = contraction.takes_loads();
            let loads = memory.loads().filter(|_| takes_loads);
            if let Some(words) = loads.and_then(|loads| contraction.words_of_loads(&packets, loads)) {
                return Ok(StageData::Words(Arc::new(words)));
            }
            let bytes = if takes_loads { memory.trf(sizes) } else { memory.settled_trf() };
            let words =
                contraction.words(&packets, RegisterFileView { bytes: &bytes, extra: memory.extra() });
            Ok(StageData::Words(Arc::new(words.map_err(|problem| problem.at(ExecStage::Contraction))?)))
        })
    }

    fn vector<'s>(
        &self,
        image: &Vector,
        flows: Vec<StageData<'s>>,
        memories: &[&SliceMemory],
    ) -> Result<Vec<StageData<'s>>, ExecFault> {
        let fail = |problem: ExecProblem| problem.at(ExecStage::Vector);
        let dtype = self.contraction.is_none().then(|| self.fetcher.leaves());
        if let Some(dtype) = dtype.filter(|dtype| !matches!(dtype, Dtype::I32 | Dtype::F32)) {
            return Err(fail(ExecProblem::Dtype(dtype)));
        }
        let words = |flow: StageData<'s>| match flow {
            StageData::Words(words) => Ok(words),
            StageData::Flits(flits) => words(&flits).map(Arc::new),
        };
        let streams: Vec<SharedWords> =
            flows.into_iter().map(words).collect::<Result<_, _>>().map_err(fail)?;
        let unwritten = memories.iter().any(|memory| memory.vrf().is_empty());
        let zeros = vec![0; if unwritten { index(self.vrf_bytes) } else { 0 }];
        let files: Vec<&[u8]> = memories
            .iter()
            .map(|memory| match memory.vrf() {
                [] => zeros.as_slice(),
                bytes => bytes,
            })
            .collect();
        let wanted = |slice: usize| self.mode == ExecMode::Literal || self.writes(slice);
        let run =
            |wanted: &dyn Fn(usize) -> bool, streams| apply_for(self.rules, image, streams, &files, wanted);
        let streams = match image.between {
            // Faults are those of the first slice that has one, whether it writes or not.
            Some(_) => run(&wanted, streams.clone()).or_else(|_| run(&|_| true, streams)),
            None => run(&|slice| self.writes(slice), streams),
        };
        let streams = streams.map_err(|error| fail(ExecProblem::Vector(error.to_string())))?;
        equal("slices", streams.len() as u64, "slices of the group", files.len() as u64).map_err(fail)?;
        for stream in &streams {
            divide("words", stream.len() as u64, self.flit_bytes as u64 / 4).map_err(fail)?;
        }
        Ok(streams.into_iter().map(StageData::Words).collect())
    }

    /// Flits as the commit unit writes them; neighbours that write the same share them.
    fn leaving<'s>(&self, flows: Vec<StageData<'s>>) -> Result<WrittenFlits<'s>, ExecFault> {
        let leaving = OutputStages {
            rules: self.rules,
            image: self.image,
            writer: self.writer,
            leaves: self.fetcher.leaves(),
            words: self.contraction.is_some() || self.image.vector.is_some(),
            mode: self.mode,
            flit_bytes: self.flit_bytes,
        };
        leaving.check()?;
        let mut firsts: Vec<(usize, StageData<'s>)> = Vec::new();
        let mut of = vec![None; flows.len()];
        for (slice, flow) in flows.into_iter().enumerate() {
            if self.writer.writes(slice as u64) {
                if firsts.last().is_none_or(|(_, last)| self.mode == ExecMode::Literal || !last.is(&flow)) {
                    firsts.push((slice, flow));
                }
                of[slice] = firsts.len().checked_sub(1);
            }
        }
        let work = self.work.leave / (of.len() as u64).max(1) * firsts.len() as u64;
        let flits =
            each_of(firsts, work, |_, (slice, flow)| leaving.slice(flow).map_err(|fault| fault.on(slice)))?;
        Ok(WrittenFlits { flits, of })
    }

    fn commit(&self, sizes: &MemorySizes, memories: Vec<&mut SliceMemory>, written: &WrittenFlits<'_>) {
        let all: Vec<_> = memories.into_iter().zip(&written.of).collect();
        let target = self.writer.target(sizes);
        super::parallel::for_each(all, self.work.leave, |_, (memory, of)| {
            let Some(flits) = of.and_then(|of| written.flits.get(of)) else { return };
            if let Some(target) = target.as_ref().filter(|_| flits.extra.is_none()) {
                memory.make_way_for(sizes, target);
            }
            match self.mode {
                ExecMode::Literal => self.writer.write_flits(sizes, memory, flits),
                ExecMode::Bulk => self.writer.write(sizes, memory, flits),
            }
        });
    }
}
