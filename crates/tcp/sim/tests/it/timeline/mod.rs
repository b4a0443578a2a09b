//! Timelines of small programs whose every cycle can be counted by hand, and properties that any timeline
//! has.

mod build;
mod contention;
mod control;
#[path = "../../../../../record/tests/it/decode/mod.rs"]
mod decode;
mod energy;
mod exchange_reference;
mod moves;
mod overlap;
mod properties;
mod resources;
mod sharing;
mod streams;
mod traces;

use std::sync::LazyLock;

use tilewright_base::{Sources, render};
use tilewright_machine::tcp::Tcp;
use tilewright_machine::{builtin, load};

/// The paper's chip.
fn tcp() -> Tcp {
    static LOADED: LazyLock<Tcp> = LazyLock::new(|| {
        let mut sources = Sources::default();
        let id = sources.add("machines/tcp.toml", builtin("tcp").expect("a known machine"));
        let loaded = load(&mut sources, id, &|name: &str| builtin(name).map(str::to_owned))
            .unwrap_or_else(|diagnostics| panic!("{}", render::plain(&sources, &diagnostics)));
        loaded.machine.tcp().expect("a tensor contraction processor").clone()
    });
    LOADED.clone()
}
