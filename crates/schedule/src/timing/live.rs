//! What lies where, and from when to when: bytes of the first slice, of the register files and of HBM, from
//! who writes them to who reads them last.

use std::collections::BTreeMap;

use tilewright_base::Span;
use tilewright_compile::Compiled;
use tilewright_compile::compiled::ProgramOutline;
use tilewright_compile::schedule_text::LiveArea;
use tilewright_machine::tcp::Tcp;
use tilewright_tcp_isa::footprint::{MemoryAccess, MemoryKind, of_exec, of_transfer};
use tilewright_tcp_isa::program::event::{PeId, Ticket};

use super::{ResolvedImage, TimedCommand};

/// Bytes from one place on that one command wrote, or that were there before.
#[derive(Clone, Debug, PartialEq, Eq)]
struct WrittenRange {
    end: u64,
    by: Option<Ticket>,
    readers: Vec<Ticket>,
}

/// A memory, piece by piece: which ones there are, and which were before them.
#[derive(Default)]
struct MemoryLiveness {
    pieces: BTreeMap<u64, WrittenRange>,
    over: Vec<(u64, WrittenRange)>,
}

impl MemoryLiveness {
    /// Makes a piece begin at a byte, if one holds it.
    fn cut(&mut self, at: u64) {
        let before = self.pieces.range_mut(..at).next_back();
        if let Some((_, piece)) = before.filter(|(_, piece)| piece.end > at) {
            let behind = piece.clone();
            piece.end = at;
            self.pieces.insert(at, behind);
        }
    }

    fn read(&mut self, (start, end): (u64, u64), ticket: Ticket) {
        self.cut(start);
        self.cut(end);
        // What nobody wrote was there before.
        let mut at = start;
        let mut gaps = Vec::new();
        for (first, piece) in self.pieces.range_mut(start..end) {
            if at < *first {
                gaps.push((at, *first));
            }
            at = piece.end;
            if piece.readers.last() != Some(&ticket) {
                piece.readers.push(ticket);
            }
        }
        if at < end {
            gaps.push((at, end));
        }
        for (first, end) in gaps {
            self.pieces.insert(first, WrittenRange { end, by: None, readers: vec![ticket] });
        }
    }

    fn write(&mut self, (start, end): (u64, u64), ticket: Ticket) {
        self.cut(start);
        self.cut(end);
        let old: Vec<u64> = self.pieces.range(start..end).map(|(first, _)| *first).collect();
        for first in old {
            let piece = self.pieces.remove(&first);
            self.over.extend(piece.filter(|piece| piece.by != Some(ticket)).map(|piece| (first, piece)));
        }
        self.pieces.insert(start, WrittenRange { end, by: Some(ticket), readers: Vec::new() });
    }

    /// All pieces that there were; those side by side that the same commands touch are one.
    fn all(self) -> Vec<(u64, WrittenRange)> {
        let mut all: Vec<(u64, WrittenRange)> = self.over;
        all.extend(self.pieces);
        all.sort_by(|(a, one), (b, other)| (one.by, &one.readers, a).cmp(&(other.by, &other.readers, b)));
        let mut joined: Vec<(u64, WrittenRange)> = Vec::new();
        for (start, piece) in all {
            match joined.last_mut() {
                Some((_, last)) if last.end == start && last.is_alike(&piece) => last.end = piece.end,
                _ => joined.push((start, piece)),
            }
        }
        joined
    }

    /// The same as areas: pieces as long as each other and as far apart are one, told by how many there are
    /// more and how far.
    fn areas(self) -> Vec<(u64, WrittenRange, (u64, u64))> {
        let mut areas: Vec<(u64, WrittenRange, (u64, u64))> = Vec::new();
        for (start, piece) in self.all() {
            if let Some((first, last, more)) = areas.last_mut()
                && last.is_alike(&piece)
                && last.end - *first == piece.end - start
            {
                let (count, stride) = *more;
                let far = start - *first;
                if count == 0 || far == (count + 1) * stride {
                    *more = (count + 1, if count == 0 { far } else { stride });
                    continue;
                }
            }
            areas.push((start, piece, (0, 0)));
        }
        areas
    }
}

impl WrittenRange {
    /// The same commands touch it.
    fn is_alike(&self, other: &WrittenRange) -> bool {
        (self.by, &self.readers) == (other.by, &other.readers)
    }
}

/// Areas of the first PE's first slice and of HBM.
pub(super) fn areas(
    machine: &Tcp,
    compiled: &Compiled,
    outline: &ProgramOutline,
    commands: &BTreeMap<Ticket, TimedCommand>,
    pe: PeId,
) -> Vec<LiveArea> {
    let mut order: Vec<(&Ticket, &TimedCommand)> = commands.iter().collect();
    order.sort_by_key(|(ticket, command)| (command.start, **ticket));
    let mut memories: BTreeMap<MemoryKind, MemoryLiveness> = BTreeMap::new();
    for (ticket, command) in order {
        let accesses = touched(machine, command, pe);
        for write in [false, true] {
            for access in accesses.iter().filter(|access| access.write == write) {
                let memory = memories.entry(access.memory).or_default();
                for run in access.bytes.runs() {
                    if write { memory.write(*run, *ticket) } else { memory.read(*run, *ticket) }
                }
            }
        }
    }
    let names = named(compiled, outline);
    let mut all = Vec::new();
    for (memory, pieces) in memories {
        for (start, WrittenRange { end, by, readers }, more) in pieces.areas() {
            let from = by.and_then(|by| commands.get(&by)).map_or(0, |writer| writer.start);
            let ends = by.iter().chain(&readers).filter_map(|ticket| commands.get(ticket));
            let to = ends.map(|command| command.end).max().unwrap_or(from);
            let place = names.range(..=(memory, start)).next_back();
            let name =
                place.filter(|((of, _), _)| *of == memory).map_or(String::new(), |(_, name)| name.join("/"));
            let (bytes, live, span) = ((start, end), (from, to), Span::default());
            all.push(LiveArea { memory, bytes, more, live, by, readers, name, span });
        }
    }
    all.sort_by_key(|area| (area.memory, area.bytes, area.live));
    all
}

/// What a command touches in the first slice of a PE and in its chip's HBM.
fn touched(machine: &Tcp, command: &TimedCommand, pe: PeId) -> Vec<MemoryAccess> {
    let mut accesses = match &command.ran {
        ResolvedImage::Exec(exec) => of_exec(machine, exec, command.pe, &[]).accesses,
        ResolvedImage::Transfer(transfer) => of_transfer(machine, transfer, &[]).accesses,
    };
    let first = pe.pe * machine.pe.slices;
    accesses.retain(|access| {
        let here = access.memory == MemoryKind::Hbm || (access.slices.0..access.slices.1).contains(&first);
        // What comes from tables is somewhere in what they lead to.
        access.chip == pe.chip && here && access.bytes.is_exact()
    });
    accesses
}

/// Names of places by memory and first byte; each ends where the next begins.
fn named(compiled: &Compiled, outline: &ProgramOutline) -> BTreeMap<(MemoryKind, u64), Vec<&'static str>> {
    let plan = &compiled.plan;
    let mut all: BTreeMap<(MemoryKind, u64), Vec<&'static str>> = BTreeMap::new();
    let weights = plan.packed.first().and_then(|packed| packed.fills.first()).map(|fill| fill.at);
    let hbm = [
        ("embedding", plan.embedding),
        ("angles", plan.angles),
        ("caches", plan.caches_start()),
        ("tables", plan.token_table),
        ("logits", plan.logits),
    ];
    let hbm = hbm
        .into_iter()
        .chain(weights.map(|at| ("weights", at)))
        .map(|(name, at)| (MemoryKind::Hbm, name, at));
    let dm = outline.places.named().into_iter().map(|(name, at)| (MemoryKind::Dm, name, at));
    let files = [(MemoryKind::Trf, "register files", 0), (MemoryKind::Vrf, "vector registers", 0)];
    for (memory, name, at) in hbm.chain(dm).chain(files) {
        all.entry((memory, at)).or_default().push(name);
    }
    all
}
