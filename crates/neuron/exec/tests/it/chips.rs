//! Chips for tests.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

use tilewright_neuron_isa::Chip;

/// A chip of a machine file that comes with us.
pub(crate) fn chip(name: &str) -> Chip {
    let mut sources = tilewright_base::Sources::default();
    let id = sources.add(name, tilewright_machine::builtin(name).unwrap());
    let bases = |name: &str| tilewright_machine::builtin(name).map(str::to_owned);
    let loaded = tilewright_machine::load(&mut sources, id, &bases).unwrap();
    Chip::new(name, loaded.machine.neuron().unwrap().clone())
}
