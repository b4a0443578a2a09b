//! Runs as scripts of events, for judges that know only events.

use tilewright_tcp::findings::{Finding, Judge};
use tilewright_tcp::program::event::{Event, Image, PeId, Ticket, Unit};
use tilewright_tcp::program::{Exec, Program, Transfer};

use crate::build::span;
use crate::tcp;

/// One thing that happens; commands are named by their number in the script's order of issue.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Happens {
    Exec(u64, usize),
    Dma(u64, usize),
    Waited(u64, u64),
    Synced(u64),
    Posted(u64, u64),
    Received(u64, u64),
}

pub(crate) fn pe(pe: u64) -> PeId {
    PeId { chip: 0, pe }
}

/// Tells a judge a whole run.
pub(crate) fn judged(program: &Program, script: &[Happens]) -> Vec<Finding> {
    let mut judge = Judge::new(tcp(), program);
    tell(&mut judge, &program.execs, &program.transfers, script);
    judge.finish()
}

pub(crate) fn tell(judge: &mut Judge<'_>, execs: &[Exec], transfers: &[Transfer], script: &[Happens]) {
    let mut tickets = 0_u64;
    for happens in script {
        let event = match *happens {
            Happens::Exec(at, exec) => {
                let image = Image::Exec(&execs[exec]);
                issue(&mut tickets, at, Unit::of(execs[exec].context), image)
            }
            Happens::Dma(at, transfer) => {
                issue(&mut tickets, at, Unit::Dma, Image::Transfer(&transfers[transfer]))
            }
            Happens::Waited(at, ticket) => Event::Waited { pe: pe(at), ticket: Ticket(ticket) },
            Happens::Synced(at) => Event::Synced { pe: pe(at) },
            Happens::Posted(from, to) => Event::Posted { from: pe(from), to: pe(to) },
            Happens::Received(at, from) => Event::Received { pe: pe(at), from: pe(from) },
        };
        judge.observe(&event);
    }
}

fn issue<'a>(tickets: &mut u64, at: u64, unit: Unit, image: Image<'a>) -> Event<'a> {
    let ticket = *tickets;
    *tickets += 1;
    let id = u8::try_from(ticket % 251).unwrap_or(0);
    let place = span(u32::try_from(ticket % 1_000_000).unwrap_or(0));
    Event::Issue { ticket: Ticket(ticket), pe: pe(at), unit, id, image, span: place, at_cycles: ticket * 10 }
}
