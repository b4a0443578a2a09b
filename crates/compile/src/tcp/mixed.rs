//! Types of numbers by name: what is multiplied, what memories hold of weights, and what stays wider.
//!
//! The contraction engine takes two operands of one kind (vISA book, contraction engine), and the fetch unit
//! widens integers to i32 alone (vISA book, fetch engine). So weights that are narrower than what they meet
//! pass the vector and cast engines on their way to the register files: eight and four bits lose nothing
//! there, since bf16 has every integer up to 256.

use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;

use super::plan::Options;
use super::sizes::whole_packets;
use crate::types::SpelledTypes;

/// What differs from the one type of contractions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mixed {
    /// Type of weights in HBM and data memory: i8 or i4.
    pub weights: Option<Dtype>,
    /// Type of what activation functions leave for contractions: bf16.
    pub activated: Option<Dtype>,
}

/// Types by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// The name.
    pub name: &'static str,
    /// Type of activations in contractions.
    pub dtype: Dtype,
    /// What differs from it.
    pub mixed: Mixed,
}

impl Named {
    /// All there are.
    pub const ALL: [Named; 6] = [
        Named { name: "bf16", dtype: Dtype::Bf16, mixed: Mixed { weights: None, activated: None } },
        Named {
            name: "int8",
            dtype: Dtype::I8,
            mixed: Mixed { weights: None, activated: Some(Dtype::Bf16) },
        },
        Named { name: "w8a8", dtype: Dtype::I8, mixed: Mixed { weights: None, activated: None } },
        Named {
            name: "w8a16",
            dtype: Dtype::Bf16,
            mixed: Mixed { weights: Some(Dtype::I8), activated: None },
        },
        Named {
            name: "w4a8",
            dtype: Dtype::I8,
            mixed: Mixed { weights: Some(Dtype::I4), activated: Some(Dtype::Bf16) },
        },
        Named {
            name: "w4a16",
            dtype: Dtype::Bf16,
            mixed: Mixed { weights: Some(Dtype::I4), activated: None },
        },
    ];

    /// The one of a name.
    pub fn find(name: &str) -> Option<Named> {
        Named::ALL.into_iter().find(|named| named.name == name)
    }

    /// Types as they are written: a name, then types of weights in memory and of what activation functions
    /// leave (`int8,weights=int4`, `int8,activated=int8`).
    ///
    /// # Errors
    /// Names of no type or class, and types that models are not compiled in together; what is allowed
    /// instead.
    pub fn read(text: &str) -> Result<Named, String> {
        let spelled = SpelledTypes::read(text);
        let mut named = Named::find(&spelled.base).ok_or_else(Named::names)?;
        for (class, name) in &spelled.rules {
            match (class.as_str(), name.as_str()) {
                ("weights", "bf16") if named.dtype == Dtype::Bf16 => named.mixed.weights = None,
                ("weights", "int8") => {
                    named.mixed.weights = (named.dtype == Dtype::Bf16).then_some(Dtype::I8);
                }
                ("weights", "int4") => named.mixed.weights = Some(Dtype::I4),
                ("activated", "bf16") => {
                    named.mixed.activated = (named.dtype == Dtype::I8).then_some(Dtype::Bf16);
                }
                ("activated", "int8") if named.dtype == Dtype::I8 => named.mixed.activated = None,
                ("weights" | "activated", _) => return Err(Named::names()),
                _ => return Err(format!("classes weights, activated; or {}", Named::names())),
            }
        }
        let same = |known: &Named| (known.dtype, known.mixed) == (named.dtype, named.mixed);
        Named::ALL.into_iter().find(same).ok_or_else(Named::names)
    }

    /// All names, as complaints list them, each with what it means class by class.
    pub fn names() -> String {
        Named::ALL.map(|named| named.name).join(", ")
            + "; weights=int8 or int4 behind bf16 or int8, activated=int8 behind int8 (the same as w8a16, \
               w4a16, w4a8 and w8a8)"
    }
}

impl Options {
    /// The name of its types.
    pub fn dtype_name(&self) -> &'static str {
        let found = Named::ALL.iter().find(|named| (named.dtype, named.mixed) == (self.dtype, self.mixed));
        found.map_or(self.dtype.name(), |named| named.name)
    }

    /// Type of weights in HBM and data memory, for contractions in a type.
    pub fn weights(&self, contracted: Dtype) -> Dtype {
        // What stays wider beside integers meets the same integers.
        let narrow = if self.dtype == Dtype::I8 { Dtype::I8 } else { contracted };
        self.mixed.weights.unwrap_or(narrow)
    }

    /// Whether weights are integers with scales.
    pub fn scaled(&self) -> bool {
        !self.weights(self.dtype).is_float()
    }

    /// Type of what activation functions leave for contractions.
    pub fn activated(&self) -> Dtype {
        self.mixed.activated.unwrap_or(self.dtype)
    }

    /// Type of rows between kernels: rounded on the way only if nothing but integers of eight bits is made of
    /// them.
    pub fn between(&self) -> Dtype {
        let eight = [self.dtype, self.activated(), self.cache].iter().all(|dtype| *dtype == Dtype::I8);
        if eight { Dtype::Bf16 } else { Dtype::F32 }
    }

    /// Elements of rows, rounded up so that contractions in all their types take them.
    pub fn whole_rows(&self, machine: &Tcp, elements: u64) -> u64 {
        let mut whole = elements;
        loop {
            let next = [self.dtype, self.activated()]
                .into_iter()
                .fold(whole, |whole, dtype| whole_packets(machine, dtype, whole));
            if next == whole {
                return whole;
            }
            whole = next;
        }
    }
}

/// The greatest integer of weights: both signs have as many.
pub fn greatest(weights: Dtype) -> f32 {
    if weights == Dtype::I4 { 7.0 } else { super::rows::UNIT }
}
