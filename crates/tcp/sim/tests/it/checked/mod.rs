//! What runs did wrong: findings, against scripts of events.

#[path = "../../../../isa/tests/it/oracle/build.rs"]
mod build;
#[path = "../../../../isa/tests/it/oracle/enumerated.rs"]
mod enumerated;
mod findings;
mod orders;
mod script;
mod volume;

use std::sync::LazyLock;

use tilewright_base::{Sources, render};
use tilewright_machine::tcp::Tcp;
use tilewright_machine::{builtin, load};

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
