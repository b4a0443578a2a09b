//! Machine files, checked and resolved into plain data.
//!
//! A machine file is TOML: figures with units in their keys, a source for each of them, and
//! published figures to be set beside what follows from them. A variant names a base and states
//! what differs. The folder `machines/` holds the files and a README of the format.
//!
//! ```
//! use tilewright_base::Sources;
//! use tilewright_machine::{builtin, load};
//!
//! let mut sources = Sources::default();
//! let id = sources.add("machines/tcp.toml", builtin("tcp").unwrap());
//! let bases = |name: &str| builtin(name).map(str::to_owned);
//! let loaded = load(&mut sources, id, &bases).unwrap();
//! let tcp = loaded.machine.tcp().unwrap();
//! assert_eq!(tcp.dm.capacity_bytes, 512 << 10);
//! assert_eq!(tcp.slices(), 512);
//!
//! let larger = loaded.override_with(&mut sources, &["dm.capacity_bytes=1048576"]).unwrap();
//! assert_eq!(larger.machine.tcp().unwrap().dm_chip_bytes(), 512 << 20);
//! ```

mod architecture;
mod builtin;
mod chain;
mod check;
mod derived;
mod document;
mod fingerprint;
mod json;
mod keys;
mod load;
use tilewright_base::nearest;
pub mod neuron;
mod numerics;
mod provenance;
mod published;
mod remarks;
mod repeated;
mod resolve;
mod set;
mod show;
pub mod tcp;
mod value;

pub use architecture::{Architecture, Machine};
pub use builtin::{builtin, builtin_names};
pub use chain::BaseTexts;
pub use derived::Derived;
pub use json::{JsonMachine, json};
pub use keys::{Allowed, KeySpec, SectionSpec};
pub use load::{KeyValue, LoadedMachine, load};
pub use neuron::Neuron;
pub use numerics::{NumberRules, Numerics};
pub use provenance::{Provenance, SourceKind};
pub use published::{Comparison, Published};
pub use remarks::Band;
pub use show::show;
pub use tcp::Tcp;
pub use value::{List, Value};
