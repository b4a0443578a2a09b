//! What prefill and decode programs of a model share: sizes, and where everything lies in HBM, at the same
//! places on every chip.
//!
//! Weights are cut into fills, each as much as the register files take at once. A fill lies in HBM as the
//! slices want it: slice after slice, in each the rows of its columns, so that it is moved by long packets.

use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;
use tilewright_tcp_isa::program::event::PeId;

use super::choices::{Choices, classes};
use super::constants::{Constants, Norms};
use super::image::bytes;
use super::mixed::Mixed;
use super::sizes::{Features, Packets, groups_of_fill};
use crate::CompileError;
use crate::kernel::{Kernel, Kernels, Norm, WeightMatrix};

/// How a model is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Type of weights and activations in projections and combinations: bf16 or i8.
    pub dtype: Dtype,
    /// What differs from it.
    pub mixed: Mixed,
    /// Type of queries, keys and values: bf16 or i8.
    pub cache: Dtype,
    /// Longest context; at most the positions of the model.
    pub context: u64,
    /// Processing elements of each chip.
    pub pes: u64,
    /// Chips, joined by PCIe.
    pub chips: u64,
    /// Sequences; with more than one there is a program for single tokens of all of them.
    pub batch: u64,
}

impl Options {
    /// Processing elements of all chips: weights are dealt out over them.
    pub fn all_pes(&self) -> u64 {
        self.pes.saturating_mul(self.chips)
    }

    /// Rows of a run that takes a token of each sequence: a slice has one of each row.
    pub fn batch_rows(&self, slices: u64) -> u64 {
        self.batch.div_ceil(slices.max(1)).max(1)
    }

    /// Where a processing element is, counted chip by chip.
    pub fn home(&self, pe: u64) -> PeId {
        let pes = self.pes.max(1);
        PeId { chip: pe / pes, pe: pe % pes }
    }
}

/// A part of a weight that the register files hold at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// First group of eight columns.
    pub first: u64,
    /// Groups.
    pub groups: u64,
    /// Where it begins in the HBM of each chip, for its first processing element.
    pub at: u64,
    /// Bytes from one processing element to the next.
    pub pe_bytes: u64,
    /// Bytes of each slice.
    pub slice_bytes: u64,
    /// Networks of data memory whose slices take turns in HBM; with one they lie in their order. Slices of
    /// two networks side by side keep both busy: a network moves half of what an engine does.
    pub networks: u64,
}

impl Fill {
    /// The slice at each place of a processing element's part, of so many.
    pub fn slices_in_order(&self, slices: u64) -> impl Iterator<Item = u64> {
        let (networks, of_network) = (self.networks.max(1), slices / self.networks.max(1));
        (0..slices).map(move |place| place % networks * of_network + place / networks)
    }
}

/// A weight as the chip holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// Index of its kernel.
    pub kernel: usize,
    /// Type in contractions.
    pub dtype: Dtype,
    /// Type in HBM and data memory.
    pub held: Dtype,
    /// Elements of a row: what one slice contracts.
    pub row: u64,
    /// The same as packets.
    pub packets: Packets,
    /// Slices that hold any of it.
    pub slices: u64,
    /// Columns of all groups together: of each slice for a combination, of all for a projection.
    pub columns: u64,
    /// Whether something is added to columns.
    pub biased: bool,
    /// Its parts.
    pub fills: Vec<Fill>,
}

/// First columns of the parts of a projection, and the width of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// First column of each.
    pub first: Vec<u64>,
    /// Columns of all.
    pub width: u64,
}

/// Whether something is added to the embedding, position by position.
fn adds_places(kernels: &Kernels) -> bool {
    let adds = |kernel: &Kernel| matches!(kernel, Kernel::Embed { places, .. } if !places.is_empty());
    kernels.kernels.iter().any(adds)
}

/// Places and sizes of weights, tables and caches in HBM.
#[derive(Clone, Debug)]
pub struct Plan {
    /// As asked.
    pub options: Options,
    /// As chosen.
    pub choices: Choices,
    /// Tokens of each slice that a prefill program takes at once.
    pub prefill_rows: u64,
    /// Rows of keys whose weights the register files hold at once.
    pub held_rows: u64,
    /// Constants come window by window; else data memory keeps all of them.
    pub streams: bool,
    /// Columns of the model dealt out over slices.
    pub features: Features,
    /// Weights by kernel.
    pub packed: Vec<Packed>,
    /// The embedding, a bf16 row for each token, padded as `features`.
    pub embedding: u64,
    /// Bytes of a row of it.
    pub embedding_row: u64,
    /// What is added to it, a row for each position, likewise.
    pub places: u64,
    /// Sines, cosines and minus sines of each position, f32.
    pub angles: u64,
    /// Bytes of a row of them; 0 without rotation.
    pub angles_row: u64,
    /// Gains and scales that slices keep.
    pub constants: Constants,
    /// Gains and biases of norms, in order.
    pub norms: Vec<(String, Option<String>)>,
    /// What integers of queries, keys and values are worth, by cache.
    units: Vec<[f32; 3]>,
    /// Caches: first byte of each, for the first processing element of a chip.
    pub caches: Vec<u64>,
    /// Bytes of a token in a cache: keys, then values.
    pub cache_row: u64,
    /// Bytes of one sequence in a cache.
    pub sequence_bytes: u64,
    /// Bytes of a cache of one processing element.
    pub cache_bytes: u64,
    /// Byte offsets of embedding rows, by token, those of each processing element side by side.
    pub token_table: u64,
    /// Byte offsets of rows by position, like those of the embedding, if such rows are added.
    pub place_table: Option<u64>,
    /// Byte offsets of angles, by token.
    pub angle_table: u64,
    /// Byte offsets of cache rows, by token.
    pub cache_table: u64,
    /// For each row of a prompt, where the cache has the first of its tokens, if all its places have one.
    pub row_table: u64,
    /// Where the sequence that a prompt is of begins in every cache, if there is more than one.
    pub sequence_table: Option<u64>,
    /// Logits of the last token, or the vector of all tokens, f32.
    pub logits: u64,
    /// Logits, padding included.
    pub logit_words: u64,
    /// First byte past everything.
    pub end: u64,
}

/// The greatest magnitude of queries, keys and values that integers show, where nothing better is known.
const RANGE: f32 = 16.0;
/// Integers on either side of zero.
const STEPS: f32 = 127.0;

/// What integers of each cache are worth.
fn units(kernels: &Kernels) -> Vec<[f32; 3]> {
    let range = |cache| kernels.ranges.get(&cache).copied().unwrap_or([RANGE; 3]);
    (0..kernels.caches).map(|cache| range(cache).map(|greatest| greatest / STEPS)).collect()
}

/// Words of what a model gives: logits of all processing elements, or a vector.
fn logit_words(kernels: &Kernels, features: Features, options: &Options) -> u64 {
    let head = kernels.kernels.iter().find_map(|kernel| match kernel {
        Kernel::Head { weight, .. } => Some(weight.rows.stored()),
        _ => None,
    });
    let pooled = if kernels.pools() { features.share * features.slices } else { 0 };
    (head.unwrap_or(0) * options.all_pes()).max(pooled).next_multiple_of(8)
}

impl Plan {
    /// Lays a model out.
    ///
    /// # Errors
    /// A model that does not fit, or whose shape no template has.
    pub fn new(
        machine: &Tcp,
        kernels: &Kernels,
        options: Options,
        choices: &Choices,
        (prefill_rows, streams): (u64, bool),
    ) -> Result<Plan, CompileError> {
        let width = kernels.values.first().map_or(0, |value| value.width);
        let features = Features::new(machine, options.dtype, width, choices.bands);
        let mut hbm = Hbm { next: 0 };
        let embedding_row = bytes(Dtype::Bf16, features.share * features.slices);
        let embedding = hbm.take(embedding_row * kernels.vocabulary);
        let added = adds_places(kernels);
        let places = hbm.take(if added { embedding_row * kernels.positions } else { 0 });
        let (half, kv) = heads(kernels);
        let angles_row = bytes(Dtype::F32, 3 * half);
        let angles = hbm.take(angles_row * kernels.positions.max(1));
        let norms: Vec<(String, Option<String>)> = kernels.kernels.iter().filter_map(gain).collect();
        let centred =
            kernels.kernels.iter().any(|kernel| matches!(kernel, Kernel::Norm { norm: Norm::Layer, .. }));
        let mut packed = Vec::new();
        let classes = classes(kernels);
        for (index, kernel) in kernels.kernels.iter().enumerate() {
            if let Some(weights) = weights_of(kernel) {
                let out = matches!(kernel, Kernel::Combine { .. });
                let most = |most| choices.groups(classes.get(index).copied().flatten(), most);
                let of = (index, contracted(kernels, &options, kernel));
                packed.push((pack(machine, &options, features, of, &weights, (out, &most), &mut hbm), out));
            }
        }
        let scaled = options.scaled();
        let of_norms = (0..).zip(&kernels.kernels).filter(|(_, kernel)| gain(kernel).is_some());
        let kept = Norms { kernels: of_norms.map(|(index, _)| index).collect(), centred };
        let mut constants = Constants::new(machine, features.share, &kept, &packed, scaled);
        constants.at = hbm.take(constants.bytes * machine.pe.slices * options.pes);
        let packed = packed.into_iter().map(|(packed, _)| packed).collect();
        let cache_row = 2 * bytes(options.cache, kv);
        // One row more takes what no token needs.
        let sequence_bytes = (cache_row * (options.context + 1)).next_multiple_of(256);
        let cache_bytes = sequence_bytes * options.batch.max(1);
        let caches = (0..kernels.caches).map(|_| hbm.take(cache_bytes * options.pes)).collect();
        let tokens = prefill_rows.max(options.batch_rows(machine.pe.slices)) * machine.pe.slices;
        let logit_words = logit_words(kernels, features, &options);
        let table = bytes(Dtype::U32, tokens);
        let plan = Plan {
            options,
            choices: choices.clone(),
            prefill_rows,
            held_rows: super::teams::held_rows(machine, options.cache),
            streams,
            features,
            packed,
            embedding,
            embedding_row,
            places,
            angles,
            angles_row,
            constants,
            norms,
            units: units(kernels),
            caches,
            cache_row,
            sequence_bytes,
            cache_bytes,
            token_table: hbm.take(table),
            place_table: added.then(|| hbm.take(table)),
            angle_table: hbm.take(table),
            cache_table: hbm.take(table),
            row_table: hbm.take(bytes(Dtype::U32, prefill_rows)),
            sequence_table: (options.batch > 1).then(|| hbm.take(bytes(Dtype::U32, 1))),
            logits: hbm.take(bytes(Dtype::F32, logit_words * options.batch.max(1))),
            logit_words,
            end: hbm.next,
        };
        let capacity = machine.hbm_capacity_bytes();
        if plan.end > capacity {
            return Err(CompileError::Hbm { needed: plan.end, capacity });
        }
        Ok(plan)
    }

    /// The most rows that any program of the model has.
    pub fn most_rows(&self, slices: u64) -> u64 {
        self.prefill_rows.max(self.options.batch_rows(slices))
    }

    /// The most rows of keys of a slice, in whole eights.
    pub fn most_key_rows(&self, machine: &Tcp) -> u64 {
        self.options.context.div_ceil(machine.pe.slices).next_multiple_of(machine.ce.lanes)
    }

    /// What integers of queries, keys and values of a cache are worth.
    pub fn units(&self, cache: usize) -> [f32; 3] {
        *self.units.get(cache).or_broken("a cache has its scales")
    }

    /// Bytes of constants in data memory.
    pub fn constants_bytes(&self) -> u64 {
        let constants = &self.constants;
        if self.streams { constants.common_bytes + 2 * constants.window_bytes() } else { constants.bytes }
    }

    /// Where caches begin: behind the weights.
    pub fn caches_start(&self) -> u64 {
        self.caches.first().copied().unwrap_or(self.token_table)
    }

    /// The weight of a kernel.
    pub fn packed(&self, kernel: usize) -> Option<&Packed> {
        self.packed.iter().find(|packed| packed.kernel == kernel)
    }

    /// Parts of a projection side by side, each padded so that a combination can contract it.
    pub fn parts(&self, machine: &Tcp, weights: &[WeightMatrix]) -> Parts {
        parts(machine, &self.options, weights)
    }
}

/// Parts of a projection side by side.
pub fn parts(machine: &Tcp, options: &Options, weights: &[WeightMatrix]) -> Parts {
    let mut all = Parts { first: Vec::new(), width: 0 };
    for weight in weights {
        all.first.push(all.width);
        all.width += options.whole_rows(machine, weight.rows.stored());
    }
    all
}

/// Type in which a kernel contracts.
fn contracted(kernels: &Kernels, options: &Options, kernel: &Kernel) -> Dtype {
    match kernel {
        Kernel::Combine { input, .. } if !kernels.attended(*input) => options.activated(),
        _ => options.dtype,
    }
}

/// Weights of a kernel that contracts.
pub fn weights_of(kernel: &Kernel) -> Option<Vec<WeightMatrix>> {
    match kernel {
        Kernel::Project { parts, .. } => Some(parts.clone()),
        Kernel::Combine { weight, .. } | Kernel::Head { weight, .. } => Some(vec![weight.clone()]),
        _ => None,
    }
}

/// The gain and the bias of a norm, by name.
pub(super) fn gain(kernel: &Kernel) -> Option<(String, Option<String>)> {
    match kernel {
        Kernel::Norm { gain, bias, .. } => Some((gain.clone(), bias.clone())),
        _ => None,
    }
}

/// Half a head's width if there is a rotation, and the columns of keys.
fn heads(kernels: &Kernels) -> (u64, u64) {
    let found = kernels.kernels.iter().find_map(|kernel| match kernel {
        Kernel::Rotate { heads, tables, .. } => {
            Some((if tables.is_some() { heads.depth / 2 } else { 0 }, heads.kv_width()))
        }
        _ => None,
    });
    found.unwrap_or((0, 0))
}

fn pack(
    machine: &Tcp,
    options: &Options,
    features: Features,
    (kernel, dtype): (usize, Dtype),
    weights: &[WeightMatrix],
    (combines, chosen): (bool, &dyn Fn(u64) -> u64),
    hbm: &mut Hbm,
) -> Packed {
    let held = options.weights(dtype);
    let lanes = machine.ce.lanes;
    let (row, columns) = if combines {
        let contracted = weights.first().map_or(0, |weight| weight.columns.stored());
        (options.whole_rows(machine, contracted), features.share)
    } else {
        (features.share, parts(machine, options, weights).width)
    };
    let packets = Packets::new(machine, dtype, row);
    let mut most = groups_of_fill(machine, dtype, row, packets);
    // Scales and biases of all columns are in the vector register file, with as much left for rows.
    let biased = weights.iter().any(|weight| weight.bias.is_some());
    let kept = u64::from(!held.is_float()) + u64::from(biased);
    if kept > 0 {
        most = most.min(machine.vrf.capacity_bytes / (kept + 1) / bytes(Dtype::F32, lanes));
    }
    let groups = columns.div_ceil(lanes);
    let most = chosen(most.min(groups));
    let mut fills = Vec::new();
    let mut first = 0;
    while first < groups {
        let count = most.min(groups - first);
        let slice_bytes = bytes(held, row) * lanes * count;
        let pe_bytes = apart(machine, (slice_bytes * features.slices).next_multiple_of(256));
        let at = hbm.take(pe_bytes * options.pes);
        let networks = if features.slices == machine.pe.slices { machine.pe.dmns } else { 1 };
        fills.push(Fill { first, groups: count, at, pe_bytes, slice_bytes, networks });
        first += count;
    }
    Packed { kernel, dtype, held, row, packets, slices: features.slices, columns, biased, fills }
}

/// Processing elements read their parts of a fill at the same time: parts that begin as far apart as rows of
/// a bank would want other rows of the same bank all the way. An odd number of banks apart they do not meet.
fn apart(machine: &Tcp, bytes: u64) -> u64 {
    let lowest = machine.hbm.bank_bit_positions.iter().min().copied().or_broken("HBM has banks");
    let lowest = u32::try_from(lowest).or_broken("a bit of an address");
    let bank = 1_u64.checked_shl(lowest).or_broken("a bit of an address of 64 bits");
    let banks = bytes.div_ceil(bank);
    // Small parts are read before they come to another bank.
    if bytes / bank < 8 {
        return bytes;
    }
    (banks + u64::from(banks.is_multiple_of(2))).exact_mul(bank)
}

/// Addresses of HBM, one behind the other.
struct Hbm {
    next: u64,
}

impl Hbm {
    /// Whole access units, so that no transfer shares one.
    fn take(&mut self, bytes: u64) -> u64 {
        let at = self.next;
        // Sizes come from models: more than 64 bits is more than any chip has, which is refused.
        self.next = at.saturating_add(bytes.next_multiple_of(256));
        at
    }
}
