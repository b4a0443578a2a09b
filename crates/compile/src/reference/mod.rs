//! What a chip must give, from kernels, weights and the lowered sizes alone: a reference of templates and
//! command programs, bit for bit.
//!
//! It walks the kernels with plain loops and knows no command, address or register. Every place where the
//! chip rounds is written here a second time, from the rules, not from the templates:
//!
//! | value | type |
//! |---|---|
//! | embedding, weights, normalised residual, queries, keys, values, weights of values, rows that are combined | bf16 (i8: in units of the absolute maximum over 127) |
//! | queries, keys, values and their weights with an 8-bit cache | i8, in units of the plan; weights in units of 1/127 |
//! | residual, sums, projected rows, scores | f32 (i8 everywhere, the cache too: projected rows and activations bf16) |
//! | what activation functions leave | bf16; f32 where integers are made of it |
//! | weights of integers | i8 or i4, in units of the absolute maximum of their output; floats meet them as they are, sums are multiplied |
//! | partial sums between processing elements | bf16 for prompts, f32 for single tokens |
//!
//! Orders of sums: a contraction adds the products of a packet as a tree, packets one after the other,
//! starting from zero; a projection is contracted by each slice for its own columns, then added from the
//! lowest slice on; sums over a token's columns are of fours as a tree, then of what a slice has, then from
//! the lowest slice on; partial sums of processing elements are added from the first on. Softmax of many
//! queries adds the weights of keys as values meet them, a packet of keys after the other; of one query, each
//! slice adds the weights of its own keys in fours before they are rounded, then slices are added. Packets
//! and columns of a slice are those of the [`Plan`].

mod arith;
mod attend;
mod calibrate;
mod contract;
mod features;
mod rows;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use tilewright_base::invariant::to_index;

use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;

use crate::CompileError;
use crate::kernel::{Kernel, Kernels, Norm, WeightMatrix};
use crate::tcp::pack::Constants;
use crate::tcp::plan::Plan;
use crate::weights::Matrix;
use arith::{UNIT, bf16};
pub use calibrate::calibrated;
use contract::ContractionInput;

/// Rows of tokens.
type TokenRows = Vec<Vec<f32>>;

/// Keys and values of one processing element, by position.
#[derive(Clone, Debug, Default)]
struct KvRows {
    keys: TokenRows,
    values: TokenRows,
}

/// A model, with one sequence.
pub struct ReferenceModel<'j> {
    machine: &'j Tcp,
    kernels: &'j Kernels,
    plan: &'j Plan,
    constants: BTreeMap<String, Matrix>,
    /// In the place of one that is not there.
    nothing: Matrix,
    /// By cache, then by processing element.
    caches: Vec<Vec<KvRows>>,
    seen: usize,
    /// The absolute maxima so far of what integers are made of, if somebody asks.
    watched: Option<calibrate::ObservedRanges>,
}

/// What kernels leave to each other for the tokens of a run.
struct KernelState {
    one: bool,
    x: TokenRows,
    normal: Vec<ContractionInput>,
    /// By processing element.
    rows: Vec<Vec<ShardedRow>>,
    queries: Vec<TokenRows>,
    ready: Vec<TokenRows>,
    out: Vec<f32>,
}

/// A projected row, part by part.
type ShardedRow = Vec<Vec<f32>>;

impl<'j> ReferenceModel<'j> {
    /// A reference for kernels as they are sharded, with all constants that they name.
    ///
    /// # Errors
    /// A constant that cannot be had.
    pub fn new(
        machine: &'j Tcp,
        kernels: &'j Kernels,
        plan: &'j Plan,
        constants: &Constants<'_>,
    ) -> Result<ReferenceModel<'j>, CompileError> {
        let mut known = BTreeMap::new();
        for name in kernels.kernels.iter().flat_map(names) {
            if let Entry::Vacant(free) = known.entry(name) {
                let matrix = constants(free.key())?;
                free.insert(matrix);
            }
        }
        let pes = to_index(plan.options.all_pes());
        let caches = vec![vec![KvRows::default(); pes]; kernels.caches];
        let nothing = Matrix { rows: 0, columns: 1, elements: std::sync::Arc::default() };
        Ok(ReferenceModel {
            machine,
            kernels,
            plan,
            constants: known,
            nothing,
            caches,
            seen: 0,
            watched: None,
        })
    }

    /// Forgets all tokens.
    pub fn restart(&mut self) {
        self.seen = 0;
        self.caches.iter_mut().flatten().for_each(|cache| *cache = KvRows::default());
    }

    /// Logits behind tokens that follow those before, or the vector of a text.
    pub fn feed(&mut self, tokens: &[u64]) -> Vec<f32> {
        let mut state = KernelState {
            one: tokens.len() == 1,
            x: Vec::new(),
            normal: Vec::new(),
            rows: Vec::new(),
            queries: Vec::new(),
            ready: Vec::new(),
            out: Vec::new(),
        };
        let kernels = self.kernels;
        for (index, kernel) in kernels.kernels.iter().enumerate() {
            match kernel {
                Kernel::Embed { table, places, .. } => state.x = self.embed(tokens, table, places),
                Kernel::Norm { norm, gain, bias, epsilon, out, .. } => {
                    let how = (*epsilon, kernels.amax.get(out).copied());
                    self.normalise(&mut state, (*norm, gain, bias.as_deref()), how, kernels.stays(*out));
                    self.watch(*out, &state);
                }
                Kernel::Project { parts, .. } => self.project(&mut state, index, parts),
                Kernel::Rotate { heads, tables, cache, .. } => {
                    self.rotate(&mut state, heads, tables.as_ref(), *cache);
                    self.watch_cache(*cache, &state);
                }
                Kernel::Attend { heads, cache, scale, causal, out, .. } => {
                    let unit = kernels.amax.get(out).map(|peak| peak / UNIT).filter(|_| self.integers());
                    self.attend(&mut state, heads, *cache, (*scale, unit), *causal);
                }
                Kernel::Activate { activation, out, .. } => {
                    self.activate(&mut state, *activation, kernels.amax.get(out).copied());
                }
                Kernel::Combine { weight, input, .. } => {
                    self.watch_rows(*input, index, weight, &state);
                    self.combine(&mut state, index, weight);
                }
                Kernel::Pool { .. } => state.out = self.pool(&state.x),
                Kernel::Head { .. } if self.watched.is_some() => {}
                Kernel::Head { weight, .. } => state.out = self.head(&state, index, weight),
            }
        }
        self.seen += tokens.len();
        state.out
    }

    /// Processing elements of a chip: tokens are sharded over them.
    fn pes(&self) -> u64 {
        self.plan.options.pes
    }

    /// Processing elements of all chips: weights are sharded over them.
    fn all_pes(&self) -> u64 {
        self.plan.options.all_pes()
    }

    fn integers(&self) -> bool {
        self.plan.options.dtype == Dtype::I8
    }

    /// Whether nothing but integers is made of projected rows.
    fn eight(&self) -> bool {
        self.integers() && self.short_integers() && self.plan.options.activated() == Dtype::I8
    }

    /// Whether queries, keys and values are integers.
    fn short_integers(&self) -> bool {
        self.plan.options.cache == Dtype::I8
    }

    fn constant(&self, name: &str) -> &Matrix {
        self.constants.get(name).unwrap_or(&self.nothing)
    }

    fn embed(&self, tokens: &[u64], table: &str, places: &[String]) -> TokenRows {
        let (table, width) = (self.constant(table), self.plan.features.width);
        let first = self.seen as u64;
        let row = |(position, token): (u64, &u64)| {
            (0..width)
                .map(|column| {
                    let word = bf16(table.at(*token, column));
                    if places.is_empty() {
                        return word;
                    }
                    let by_position = places.iter().fold(0.0, |sum, place| {
                        let table = self.constant(place);
                        sum + table.at(if table.rows == 1 { 0 } else { position }, column)
                    });
                    arith::add(word, bf16(by_position))
                })
                .collect()
        };
        (first..).zip(tokens).map(row).collect()
    }

    fn normalise(
        &self,
        state: &mut KernelState,
        (norm, gain, bias): (Norm, &str, Option<&str>),
        (epsilon, known): (f32, Option<f32>),
        stays: bool,
    ) {
        let (gain, bias) = (self.constant(gain), bias.map(|bias| self.constant(bias)));
        state.normal.clear();
        for x in &mut state.x {
            match norm {
                Norm::Rms => state.normal.push(self.rms(x, gain, epsilon, known)),
                Norm::Layer => {
                    let (kept, taken) = self.layer(x, gain, bias, (epsilon, known));
                    state.normal.push(taken);
                    if stays {
                        *x = kept;
                    }
                }
            }
        }
    }
}

/// Constants that a kernel names.
fn names(kernel: &Kernel) -> Vec<String> {
    let of = |weight: &WeightMatrix| [Some(weight.name.clone()), weight.bias.clone()];
    match kernel {
        Kernel::Embed { table, places, .. } => places.iter().chain([table]).cloned().collect(),
        Kernel::Norm { gain, bias, .. } => [Some(gain.clone()), bias.clone()].into_iter().flatten().collect(),
        Kernel::Project { parts, .. } => parts.iter().flat_map(of).flatten().collect(),
        Kernel::Combine { weight, .. } | Kernel::Head { weight, .. } => {
            of(weight).into_iter().flatten().collect()
        }
        Kernel::Rotate { tables: Some((cos, sin)), .. } => vec![cos.clone(), sin.clone()],
        _ => Vec::new(),
    }
}
