//! The closed forms against the simulation by the cycle: one slice, ties, rings of 4 and 16, two contexts.

mod accumulators;
mod contexts;
mod fixed;
mod one_slice;
mod ring;
mod ties;
mod transfers;

use std::sync::LazyLock;

use proptest::prelude::*;
use tilewright_base::{Sources, render};
use tilewright_machine::tcp::Tcp;
use tilewright_machine::{builtin, load};
use tilewright_tcp_micro::MicroCommand;
use tilewright_tcp_micro::gap::CycleGap;
use tilewright_tcp_micro::sample::CHOICES;

/// The paper's chip.
fn tcp() -> &'static Tcp {
    static LOADED: LazyLock<Tcp> = LazyLock::new(|| {
        let mut sources = Sources::default();
        let id = sources.add("machines/tcp.toml", builtin("tcp").expect("a known machine"));
        let loaded = load(&mut sources, id, &|name: &str| builtin(name).map(str::to_owned))
            .unwrap_or_else(|diagnostics| panic!("{}", render::plain(&sources, &diagnostics)));
        loaded.machine.tcp().expect("a tensor contraction processor").clone()
    });
    &LOADED
}

/// What a command is drawn from; shrinks to smaller commands.
fn choices() -> impl Strategy<Value = Vec<u16>> {
    prop::collection::vec(any::<u16>(), CHOICES)
}

fn gap(work: &MicroCommand) -> CycleGap {
    CycleGap::of(tcp(), work).unwrap_or_else(|error| panic!("{error}: {work:?}"))
}
