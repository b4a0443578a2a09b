//! Runs as scripts of events, for checkers that know only events.

use std::collections::BTreeMap;
use std::sync::Arc;

use tilewright_num::Dtype;
use tilewright_tcp_isa::program::event::{CommandImage, ExecUnit, PeId, RunEvent, Ticket};
use tilewright_tcp_isa::program::transfer::Address;
use tilewright_tcp_isa::program::{Exec, Program, Transfer};
use tilewright_tcp_sim::findings::{Finding, FindingsChecker};

use crate::checked::build::span;
use crate::checked::tcp;

/// One thing that happens; commands are named by their number in the script's order of issue.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Happens {
    Exec(u64, usize),
    Dma(u64, usize),
    Waited(u64, u64),
    Synced(u64),
    /// A core saw a command done.
    Awaited(u64, u64),
    Posted(u64, u64),
    Received(u64, u64),
    /// The core has pushed all that its queue issues until the same comes again, or until it syncs.
    Ahead(u64),
    /// A core that synced reads a word.
    Read(u64, Address),
}

pub(crate) fn pe(pe: u64) -> PeId {
    PeId { chip: 0, pe }
}

/// Tells a checker a whole run.
pub(crate) fn findings_of(program: &Program, script: &[Happens]) -> Vec<Finding> {
    let mut checker = FindingsChecker::new(tcp(), program);
    tell(&mut checker, &program.execs, &program.transfers, script);
    checker.finish()
}

/// What the script knows of a core.
#[derive(Clone, Copy, Debug, Default)]
struct Core {
    received: u64,
    /// Messages that it had taken when it went ahead of its queue.
    pushed: Option<u64>,
}

pub(crate) fn tell(
    checker: &mut FindingsChecker<'_>,
    execs: &[Exec],
    transfers: &[Transfer],
    script: &[Happens],
) {
    let execs: Vec<Arc<Exec>> = execs.iter().cloned().map(Arc::new).collect();
    let transfers: Vec<Arc<Transfer>> = transfers.iter().cloned().map(Arc::new).collect();
    let mut tickets = 0_u64;
    let mut cores: BTreeMap<u64, Core> = BTreeMap::new();
    for happens in script {
        let event = match *happens {
            Happens::Exec(at, exec) => {
                let image = CommandImage::Exec(&execs[exec]);
                issue(&mut tickets, at, ExecUnit::of(execs[exec].context), image, &cores)
            }
            Happens::Dma(at, transfer) => {
                issue(&mut tickets, at, ExecUnit::Dma, CommandImage::Transfer(&transfers[transfer]), &cores)
            }
            Happens::Waited(at, ticket) => RunEvent::Waited { pe: pe(at), ticket: Ticket(ticket) },
            Happens::Synced(at) => {
                cores.entry(at).or_default().pushed = None;
                RunEvent::Synced { pe: pe(at) }
            }
            Happens::Awaited(at, ticket) => {
                cores.entry(at).or_default().received += 1;
                RunEvent::Awaited { pe: pe(at), ticket: Ticket(ticket) }
            }
            Happens::Posted(from, to) => RunEvent::Posted { from: pe(from), to: pe(to) },
            Happens::Received(at, from) => {
                cores.entry(at).or_default().received += 1;
                RunEvent::Received { pe: pe(at), from: pe(from) }
            }
            Happens::Ahead(at) => {
                let core = cores.entry(at).or_default();
                core.pushed = if core.pushed.is_some() { None } else { Some(core.received) };
                continue;
            }
            Happens::Read(at, address) => {
                let (ticket, span) = (Ticket(1 << 40), span(7));
                RunEvent::Read { ticket, pe: pe(at), address, dtype: Dtype::I32, span, at_cycles: 5 }
            }
        };
        checker.observe(&event);
    }
}

fn issue<'a>(
    tickets: &mut u64,
    at: u64,
    unit: ExecUnit,
    image: CommandImage<'a>,
    cores: &BTreeMap<u64, Core>,
) -> RunEvent<'a> {
    let ticket = Ticket(*tickets);
    let id = u8::try_from(*tickets % 251).unwrap_or(0);
    let place = span(u32::try_from(*tickets % 1_000_000).unwrap_or(0));
    let at_cycles = *tickets * 10;
    *tickets += 1;
    let core = cores.get(&at).copied().unwrap_or_default();
    let received = core.pushed.unwrap_or(core.received);
    RunEvent::Issue { ticket, pe: pe(at), unit, id, image, received, span: place, at_cycles }
}
