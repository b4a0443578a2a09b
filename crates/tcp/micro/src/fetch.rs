//! Fetch unit: one access a cycle; bytes become flits, a packet's last flit may be partly filled (vISA book,
//! fetch engine).

use tilewright_machine::tcp::Tcp;
use tilewright_tcp_cost::cycles::fetch::FetchStage;
use tilewright_tcp_isa::program::exec::Context;

use crate::banks::{AccessWalk, touched};
use crate::fifo::Fifo;

/// A fetch unit at work.
#[derive(Clone, Debug)]
pub(crate) struct FetchUnit {
    walk: AccessWalk,
    width_bytes: u64,
    packet_bytes: u64,
    flit_bytes: u64,
    packets_left: u64,
    accesses: u64,
    /// Bytes of the current packet that were read.
    read_bytes: u64,
}

impl FetchUnit {
    pub(crate) fn new(machine: &Tcp, fetch: &FetchStage, walk: AccessWalk) -> FetchUnit {
        let width_bytes = match fetch.context {
            Context::Main => fetch.read_bytes,
            Context::Sub => machine.fetch.sub_width_bytes,
        };
        FetchUnit {
            walk,
            width_bytes: width_bytes.max(1),
            packet_bytes: fetch.packet_bytes,
            flit_bytes: machine.network.flit_bytes,
            packets_left: if fetch.packet_bytes == 0 { 0 } else { fetch.packets },
            accesses: 0,
            read_bytes: 0,
        }
    }

    /// Banks that the unit asks for; nothing while the flit that the access ends has no place to go.
    pub(crate) fn request(&self, machine: &Tcp, output: &Fifo) -> Option<u128> {
        let wants = self.packets_left > 0 && (!self.ends_flit() || output.has_room());
        wants.then(|| touched(machine, &self.walk, self.accesses, self.width_bytes))
    }

    /// The access that was asked for takes place.
    pub(crate) fn access(&mut self, now: u64, output: &mut Fifo) {
        if self.ends_flit() {
            output.push(now);
        }
        self.accesses += 1;
        self.read_bytes = self.after_access();
        if self.read_bytes == self.packet_bytes {
            self.read_bytes = 0;
            self.packets_left -= 1;
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.packets_left == 0
    }

    fn after_access(&self) -> u64 {
        (self.read_bytes + self.width_bytes).min(self.packet_bytes)
    }

    fn ends_flit(&self) -> bool {
        let after = self.after_access();
        after / self.flit_bytes > self.read_bytes / self.flit_bytes || after == self.packet_bytes
    }
}
