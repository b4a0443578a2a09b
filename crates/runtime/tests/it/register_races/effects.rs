//! What commands do to memories, found by running them: whether two give the same in both orders, and which
//! halves of the register file they use.

use tilewright_base::random;
use tilewright_machine::Tcp;
use tilewright_tcp_exec::state::SliceAddress;
use tilewright_tcp_exec::{MemoryState, exec};
use tilewright_tcp_isa::footprint::MemoryKind;
use tilewright_tcp_isa::program::Exec;
use tilewright_tcp_isa::program::event::PeId;
use tilewright_tcp_isa::program::exec::{ExecBody, Memory};

use super::PES;

/// A command: its image and the PE that issues it.
type Placed<'a> = (&'a Exec, u64);

/// The tensor register file, whole.
const TRF: Memory = Memory::Trf { lanes: 8 };
/// Memories of a slice, whole.
const MEMORIES: [Memory; 3] = [Memory::Dm, TRF, Memory::Vrf];
/// Halves of eight lanes: the smallest there are.
const PIECES: usize = 16;

/// Random memories of all slices, from which commands are tried.
pub(super) struct Effects<'m> {
    machine: &'m Tcp,
    start: MemoryState,
}

impl Effects<'_> {
    pub(super) fn new(machine: &Tcp) -> Effects<'_> {
        let mut start = MemoryState::new(machine, 1);
        let mut seed = 7;
        for slice in 0..PES * machine.pe.slices {
            for memory in MEMORIES {
                let count = usize::try_from(capacity_bytes(machine, memory)).unwrap();
                let bytes: Vec<u8> = (0..count).map(|_| random::next(&mut seed).to_le_bytes()[3]).collect();
                start.write_slice(SliceAddress { chip: 0, slice, memory, offset: 0 }, &bytes).unwrap();
            }
        }
        Effects { machine, start }
    }

    /// Both orders leave the same bytes.
    pub(super) fn commute(&self, one: Placed<'_>, other: Placed<'_>) -> bool {
        let in_order = |commands: [Placed<'_>; 2]| {
            let mut state = self.start.clone();
            commands.into_iter().for_each(|command| self.run(&mut state, command));
            state
        };
        let (there, back) = (in_order([one, other]), in_order([other, one]));
        self.slices().all(|slice| {
            MEMORIES
                .into_iter()
                .all(|memory| self.bytes(&there, slice, memory) == self.bytes(&back, slice, memory))
        })
    }

    /// One writes a half of a lane that the other reads.
    pub(super) fn share_half(&self, one: Placed<'_>, other: Placed<'_>) -> bool {
        let meet = |writer: Placed<'_>, reader: Placed<'_>| {
            let written = self.written(writer);
            if !written.iter().flatten().any(|written| *written) {
                return false;
            }
            let read = self.read(reader);
            written.iter().zip(&read).any(|(written, read)| {
                let (written, read) = (halves(writer.0, written), halves(reader.0, read));
                written.iter().zip(&read).any(|(written, read)| *written && *read)
            })
        };
        meet(one, other) || meet(other, one)
    }

    /// Pieces of the register file of each slice that a command changes; a piece is half of a lane of eight.
    fn written(&self, command: Placed<'_>) -> Vec<Vec<bool>> {
        let after = self.after(self.start.clone(), command);
        let piece = self.piece_bytes();
        let of_slice = |slice: u64| {
            let (before, after) = (self.bytes(&self.start, slice, TRF), self.bytes(&after, slice, TRF));
            before.chunks(piece).zip(after.chunks(piece)).map(|(before, after)| before != after).collect()
        };
        self.slices().map(of_slice).collect()
    }

    /// Pieces of the register file of each slice whose content shows in what a command writes elsewhere.
    fn read(&self, command: Placed<'_>) -> Vec<Vec<bool>> {
        let plain = self.after(self.start.clone(), command);
        let mut shows = vec![Vec::new(); self.slices().count()];
        for at in 0..PIECES {
            let changed = self.after(self.with_piece_changed(at), command);
            for (slice, shows) in self.slices().zip(&mut shows) {
                let differs =
                    |memory| self.bytes(&plain, slice, memory) != self.bytes(&changed, slice, memory);
                shows.push(differs(Memory::Dm) || differs(Memory::Vrf));
            }
        }
        shows
    }

    /// Other bytes in one piece of the register file of every slice.
    fn with_piece_changed(&self, at: usize) -> MemoryState {
        let mut changed = self.start.clone();
        let piece = self.piece_bytes();
        for slice in self.slices() {
            let held = self.bytes(&self.start, slice, TRF);
            let other: Vec<u8> = held[at * piece..][..piece].iter().map(|byte| byte ^ 0x5a).collect();
            let place = SliceAddress { chip: 0, slice, memory: TRF, offset: (at * piece) as u64 };
            changed.write_slice(place, &other).unwrap();
        }
        changed
    }

    fn after(&self, mut state: MemoryState, command: Placed<'_>) -> MemoryState {
        self.run(&mut state, command);
        state
    }

    fn run(&self, state: &mut MemoryState, (image, pe): Placed<'_>) {
        exec(self.machine, state, PeId { chip: 0, pe }, image).unwrap();
    }

    fn bytes(&self, state: &MemoryState, slice: u64, memory: Memory) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(capacity_bytes(self.machine, memory)).unwrap()];
        state.read_slice(SliceAddress { chip: 0, slice, memory, offset: 0 }, &mut bytes).unwrap();
        bytes
    }

    fn slices(&self) -> impl Iterator<Item = u64> + use<> {
        0..PES * self.machine.pe.slices
    }

    fn piece_bytes(&self) -> usize {
        usize::try_from(MemoryKind::Trf.capacity_bytes(self.machine)).unwrap() / PIECES
    }
}

/// Pieces that belong to a half of a lane of which the command uses a piece.
fn halves(exec: &Exec, pieces: &[bool]) -> Vec<bool> {
    let lanes = match &exec.body {
        ExecBody::Stream(stream) => match &stream.contract {
            Some(contract) => contract.lanes,
            None => lanes_of(stream.commit.memory),
        },
        ExecBody::Fill(fill) => lanes_of(fill.commit.memory),
        ExecBody::Short(short) => lanes_of(short.memory),
    };
    let half = pieces.len() / usize::try_from(2 * lanes).unwrap();
    pieces.chunks(half).flat_map(|half| vec![half.contains(&true); half.len()]).collect()
}

fn lanes_of(memory: Memory) -> u64 {
    match memory {
        Memory::Trf { lanes } => lanes,
        Memory::Dm | Memory::Vrf => 1,
    }
}

fn capacity_bytes(machine: &Tcp, memory: Memory) -> u64 {
    let kind = match memory {
        Memory::Dm => MemoryKind::Dm,
        Memory::Trf { .. } => MemoryKind::Trf,
        Memory::Vrf => MemoryKind::Vrf,
    };
    kind.capacity_bytes(machine)
}
