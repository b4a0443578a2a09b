//! Footprints of the images that ran, each worked out once; and what two of them have against each other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tilewright_base::invariant::Exact;
use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;

use tilewright_tcp_isa::footprint::self_overlap::{self, SelfOverlap};
use tilewright_tcp_isa::footprint::{
    ByteSet, Footprint, MemoryAccess, MemoryKind, of_exec, of_read, of_transfer,
};
use tilewright_tcp_isa::program::event::{CommandImage, PeId};
use tilewright_tcp_isa::program::transfer::Address;
use tilewright_tcp_isa::program::{Exec, Transfer};

/// Index of a known image.
pub(super) type ImageId = usize;

/// A part of memory that commands are compared in: all memories of a PE, or a chip's HBM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FindingRegion {
    Pe(u64, u64),
    Hbm(u64),
}

#[derive(Clone, Debug)]
enum ImageBody {
    Exec(Arc<Exec>, PeId),
    Transfer(Arc<Transfer>),
    /// A core's read: where, and how many bytes.
    Read(Address, u64),
}

/// What a core's read is called in findings.
pub(super) const READ: &str = "read";

impl ImageBody {
    fn is(&self, image: CommandImage<'_>, pe: PeId) -> bool {
        match (self, image) {
            (ImageBody::Exec(known, at), CommandImage::Exec(exec)) => *at == pe && known == exec,
            (ImageBody::Transfer(known), CommandImage::Transfer(transfer)) => known == transfer,
            _ => false,
        }
    }
}

/// An image, on a PE if that matters.
#[derive(Clone, Debug)]
pub(super) struct KnownImage {
    body: ImageBody,
    pub(super) footprint: Footprint,
    pub(super) regions: Vec<FindingRegion>,
    /// Where it is a transfer that needs the banks of data memories.
    pub(super) moves: Vec<FindingRegion>,
    /// Its reads and writes are accounted for: sets of filled bytes only grow.
    pub(super) settled: bool,
    /// Longest hold of a bank, once it was asked for.
    pub(super) hold: Option<u64>,
}

impl KnownImage {
    pub(super) fn exec(&self) -> Option<&Exec> {
        match &self.body {
            ImageBody::Exec(exec, _) => Some(exec),
            ImageBody::Transfer(_) | ImageBody::Read(..) => None,
        }
    }

    /// What the image overwrites before it reads it.
    pub(super) fn self_overlap(&self, machine: &Tcp) -> Option<SelfOverlap> {
        match &self.body {
            ImageBody::Exec(exec, _) => self_overlap::of_exec_image(exec, &self.footprint),
            ImageBody::Transfer(transfer) => {
                self_overlap::of_transfer_image(machine, transfer, &self.footprint)
            }
            ImageBody::Read(..) => None,
        }
    }

    pub(super) fn name(&self) -> &str {
        match &self.body {
            ImageBody::Exec(exec, _) => &exec.name,
            ImageBody::Transfer(transfer) => &transfer.name,
            ImageBody::Read(..) => READ,
        }
    }
}

/// All images so far.
#[derive(Clone, Debug, Default)]
pub(super) struct ImageTable {
    known: Vec<KnownImage>,
    /// By name, the one used last first.
    by_name: BTreeMap<String, Vec<ImageId>>,
    conflicts: BTreeMap<(ImageId, ImageId), Vec<AccessConflict>>,
    /// By later and earlier image, whether they have any conflict, as far as it was asked.
    quarrels: Vec<Vec<Option<bool>>>,
}

/// Images whose conflicts are looked up in a table; those of others are searched for.
const TABLED: usize = 4096;

impl ImageTable {
    pub(super) fn get(&self, id: ImageId) -> Option<&KnownImage> {
        self.known.get(id)
    }

    pub(super) fn get_mut(&mut self, id: ImageId) -> Option<&mut KnownImage> {
        self.known.get_mut(id)
    }

    /// The image, with its footprint.
    pub(super) fn intern(
        &mut self,
        machine: &Tcp,
        image: CommandImage<'_>,
        pe: PeId,
        objects: &[MemoryAccess],
    ) -> ImageId {
        let name = name_of(image);
        if let Some(ids) = self.by_name.get_mut(name) {
            let same = |id: &ImageId| self.known.get(*id).is_some_and(|known| known.body.is(image, pe));
            if let Some(at) = ids.iter().position(same) {
                ids[..=at].rotate_right(1);
                return ids[0];
            }
        }
        let (body, footprint) = match image {
            CommandImage::Exec(exec) => {
                (ImageBody::Exec(exec.clone(), pe), of_exec(machine, exec, pe, objects))
            }
            CommandImage::Transfer(transfer) => {
                (ImageBody::Transfer(transfer.clone()), of_transfer(machine, transfer, objects))
            }
        };
        self.add(machine, name, body, footprint)
    }

    /// A core's read, with its footprint.
    pub(super) fn intern_read(&mut self, machine: &Tcp, address: Address, dtype: Dtype) -> ImageId {
        let bytes = dtype.size_bytes(1) as u64;
        let is = |id: &&ImageId| {
            let known = self.known.get(**id);
            known.is_some_and(
                |known| matches!(known.body, ImageBody::Read(at, of) if (at, of) == (address, bytes)),
            )
        };
        if let Some(id) = self.by_name.get(READ).and_then(|ids| ids.iter().find(is)) {
            return *id;
        }
        self.add(machine, READ, ImageBody::Read(address, bytes), of_read(machine, address, bytes))
    }

    fn add(&mut self, machine: &Tcp, name: &str, body: ImageBody, footprint: Footprint) -> ImageId {
        let all = |wanted: &dyn Fn(&&MemoryAccess) -> bool| {
            let accesses = footprint.accesses.iter().filter(wanted);
            let regions: BTreeSet<FindingRegion> =
                accesses.flat_map(|access| regions_of(machine, access)).collect();
            regions.into_iter().collect::<Vec<_>>()
        };
        let regions = all(&|_| true);
        let moves = match body {
            ImageBody::Transfer(_) => all(&|access| access.memory == MemoryKind::Dm),
            ImageBody::Exec(..) | ImageBody::Read(..) => Vec::new(),
        };
        let id = self.known.len();
        self.known.push(KnownImage { body, footprint, regions, moves, settled: false, hold: None });
        self.by_name.entry(name.to_owned()).or_default().insert(0, id);
        id
    }

    /// Whether two images that may run at once have anything against each other.
    pub(super) fn quarrel(&mut self, machine: &Tcp, first: ImageId, second: ImageId) -> bool {
        if first.max(second) >= TABLED {
            return !self.conflicts(machine, first, second).is_empty();
        }
        if self.quarrels.len() <= second {
            self.quarrels.resize(second + 1, Vec::new());
        }
        let known = self.quarrels.get(second).and_then(|row| row.get(first)).copied().flatten();
        if let Some(known) = known {
            return known;
        }
        let any = !self.conflicts(machine, first, second).is_empty();
        if let Some(row) = self.quarrels.get_mut(second) {
            if row.len() <= first {
                row.resize(first + 1, None);
            }
            row[first] = Some(any);
        }
        any
    }

    /// What two images that may run at once have against each other, one conflict a kind.
    pub(super) fn conflicts(&mut self, machine: &Tcp, first: ImageId, second: ImageId) -> &[AccessConflict] {
        let known = &self.known;
        self.conflicts.entry((first, second)).or_insert_with(|| match (known.get(first), known.get(second)) {
            (Some(first), Some(second)) => between(machine, &first.footprint, &second.footprint),
            _ => Vec::new(),
        })
    }
}

/// The name of an image.
pub(super) fn name_of(image: CommandImage<'_>) -> &str {
    match image {
        CommandImage::Exec(exec) => &exec.name,
        CommandImage::Transfer(transfer) => &transfer.name,
    }
}

fn regions_of(machine: &Tcp, access: &MemoryAccess) -> impl Iterator<Item = FindingRegion> + use<> {
    let (chip, memory) = (access.chip, access.memory);
    let per_pe = if memory == MemoryKind::Spm { 1 } else { machine.pe.slices.max(1) };
    let (first, end) = (access.slices.0 / per_pe, access.slices.1.div_ceil(per_pe));
    (first..end).map(move |pe| {
        if memory == MemoryKind::Hbm { FindingRegion::Hbm(chip) } else { FindingRegion::Pe(chip, pe) }
    })
}

/// Two accesses that must not meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AccessConflict {
    pub(super) code: &'static str,
    pub(super) memory: MemoryKind,
    pub(super) chip: u64,
    pub(super) slice: u64,
    pub(super) bytes: (u64, u64),
    /// What the two do: write or read.
    pub(super) writes: (bool, bool),
    pub(super) certain: bool,
}

fn between(machine: &Tcp, first: &Footprint, second: &Footprint) -> Vec<AccessConflict> {
    let mut found: Vec<AccessConflict> = Vec::new();
    for one in &first.accesses {
        for other in second.accesses.iter().filter(|other| one.meets(other) && (one.write || other.write)) {
            let Some(conflict) = conflict(machine, one, other) else { continue };
            match found.iter_mut().find(|known| known.code == conflict.code) {
                Some(known) if !known.certain && conflict.certain => *known = conflict,
                Some(_) => {}
                None => found.push(conflict),
            }
        }
    }
    // A half is no news where bytes are fought over.
    if found.iter().any(|conflict| conflict.code == "tcp/race-trf") {
        found.retain(|conflict| conflict.code != "tcp/trf-half");
    }
    found
}

fn conflict(machine: &Tcp, one: &MemoryAccess, other: &MemoryAccess) -> Option<AccessConflict> {
    let overlap = one.bytes.overlap(&other.bytes);
    let half = || match one.memory {
        MemoryKind::Trf if one.write != other.write => halves(machine, one).overlap(&halves(machine, other)),
        _ => None,
    };
    let (code, bytes) = match overlap {
        Some(bytes) => (race_code(one.memory), bytes),
        None => ("tcp/trf-half", half()?),
    };
    Some(AccessConflict {
        code,
        memory: one.memory,
        chip: one.chip,
        slice: one.slices.0.max(other.slices.0),
        bytes,
        writes: (one.write, other.write),
        certain: one.bytes.is_exact() && other.bytes.is_exact(),
    })
}

fn race_code(memory: MemoryKind) -> &'static str {
    match memory {
        MemoryKind::Hbm => "tcp/race-hbm",
        MemoryKind::Dm => "tcp/race-dm",
        MemoryKind::Trf => "tcp/race-trf",
        MemoryKind::Vrf => "tcp/race-vrf",
        MemoryKind::Spm => "tcp/race-spm",
    }
}

/// The halves of lanes that an access touches, whole (vISA book: rows are filled and read by halves).
fn halves(machine: &Tcp, access: &MemoryAccess) -> ByteSet {
    let parts = access.lanes.max(1).exact_mul(machine.trf.halves.max(1));
    let size = (MemoryKind::Trf.capacity_bytes(machine) / parts).max(1);
    let whole = |run: &(u64, u64)| (run.0 / size * size, run.1.div_ceil(size) * size);
    ByteSet::from_runs(access.bytes.runs().iter().map(whole).collect())
}
