//! Where flits end: commit unit or register file (vISA book, commit engine and tensor register file).

use tilewright_machine::tcp::Tcp;
use tilewright_tcp_cost::cycles::commit::CommitStage;
use tilewright_tcp_cost::cycles::load::LoadStage;
use tilewright_tcp_isa::program::exec::Context;

use crate::banks::{AccessWalk, touched};
use crate::fifo::Fifo;
use crate::register_file::RegisterFile;

/// The last unit of a command.
#[derive(Clone, Debug)]
pub(crate) enum PipelineSink {
    /// Writes to data memory.
    Commit(CommitUnit),
    /// Stores to the register file.
    Store(StoreUnit),
}

/// A commit unit at work.
#[derive(Clone, Debug)]
pub(crate) struct CommitUnit {
    walk: AccessWalk,
    width_bytes: u64,
    flit_writes: u64,
    writes: u64,
    writes_left: u64,
}

impl CommitUnit {
    pub(crate) fn new(machine: &Tcp, commit: &CommitStage, walk: AccessWalk) -> CommitUnit {
        let width_bytes = match commit.context {
            Context::Main => commit.write_bytes,
            Context::Sub => machine.commit.sub_width_bytes,
        }
        .max(1);
        let flit_writes = commit.valid_bytes.div_ceil(width_bytes).max(1);
        CommitUnit { walk, width_bytes, flit_writes, writes: 0, writes_left: commit.flits * flit_writes }
    }

    /// Banks of the next write, if a flit waits.
    pub(crate) fn request(&self, machine: &Tcp, now: u64, input: &Fifo) -> Option<u128> {
        (self.writes_left > 0 && input.is_ready(now))
            .then(|| touched(machine, &self.walk, self.writes, self.width_bytes))
    }

    /// The write that was asked for takes place; a flit is given up with its last.
    pub(crate) fn write(&mut self, input: &mut Fifo) {
        self.writes += 1;
        self.writes_left -= 1;
        if self.writes.is_multiple_of(self.flit_writes) {
            input.pop();
        }
    }
}

/// A register file load at work: the main context stores a flit at once, the sub context as much as it
/// fetches in a cycle.
#[derive(Clone, Debug)]
pub(crate) struct StoreUnit {
    width_bytes: u64,
    flit_bytes: u64,
    stored_bytes: u64,
    slice_bytes: u64,
}

impl StoreUnit {
    pub(crate) fn new(machine: &Tcp, load: &LoadStage) -> StoreUnit {
        let flit_bytes = machine.network.flit_bytes;
        let width_bytes = match load.context {
            Context::Main => flit_bytes,
            Context::Sub => machine.fetch.sub_width_bytes,
        };
        StoreUnit { width_bytes, flit_bytes, stored_bytes: 0, slice_bytes: load.slice_bytes }
    }

    fn step(&mut self, now: u64, input: &mut Fifo, file: &mut RegisterFile) -> bool {
        if self.stored_bytes >= self.slice_bytes || !input.is_ready(now) || !file.store(self.stored_bytes) {
            return false;
        }
        self.stored_bytes += self.width_bytes;
        if self.stored_bytes.is_multiple_of(self.flit_bytes) || self.stored_bytes >= self.slice_bytes {
            input.pop();
        }
        true
    }
}

impl PipelineSink {
    /// One cycle: whether anything was written.
    pub(crate) fn step(
        &mut self,
        now: u64,
        granted: bool,
        input: &mut Fifo,
        file: &mut RegisterFile,
    ) -> bool {
        match self {
            PipelineSink::Commit(unit) => {
                if granted {
                    unit.write(input);
                }
                granted
            }
            PipelineSink::Store(unit) => unit.step(now, input, file),
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        match self {
            PipelineSink::Commit(unit) => unit.writes_left == 0,
            PipelineSink::Store(unit) => unit.stored_bytes >= unit.slice_bytes,
        }
    }
}
