//! The kernel level: clusters of operators that one pass over the chip computes (paper section V-C, stage 2).
//!
//! A kernel reads, contracts, runs a chain of vector operators and writes. Values are two-dimensional, tokens
//! by width, and are of two kinds: [`ValueLayout::Features`] are sharded over the slices by column,
//! [`ValueLayout::Rows`] by token. Projections go from features to rows, combinations from rows to features,
//! so that no value is ever moved between them by itself.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// How a value lies on the chip, before any address is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueLayout {
    /// Columns over slices, all tokens in each.
    Features,
    /// Whole rows, tokens over slices (or the same rows in all of them).
    Rows,
}

/// Index of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ValueId(pub usize);

/// A value between kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// Its name.
    pub name: String,
    /// Columns.
    pub width: u64,
    /// How it lies.
    pub layout: ValueLayout,
}

/// How an axis of a weight is put in order before it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AxisOrder {
    /// As it is.
    Plain,
    /// Heads of `depth` places, `group` of them to each of so many groups of `slots`; slots without a head
    /// are zero. Interleaved pairs of a rotation become halves.
    Heads {
        /// Groups.
        groups: u64,
        /// Heads of a group.
        group: u64,
        /// Places of a group: a power of two.
        slots: u64,
        /// Rows of a head.
        depth: u64,
        /// Rows `2i` and `2i + 1` rotate together; they become `i` and `i + depth / 2`.
        interleaved: bool,
    },
}

/// An axis of a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightAxis {
    /// Size in the graph.
    pub size: u64,
    /// Order of its places.
    pub order: AxisOrder,
    /// Parts that it is sharded in, one for each processing element (section VI, `E_n`).
    pub parts: u64,
    /// Processing elements that have the same part.
    pub copies: u64,
}

/// What parts are rounded up to, so that they begin at whole flits.
const PART: u64 = 8;

impl WeightAxis {
    /// Places of one part.
    pub fn stored(&self) -> u64 {
        match self.order {
            AxisOrder::Plain if self.parts > 1 => self.size.div_ceil(self.parts).next_multiple_of(PART),
            AxisOrder::Plain => self.size,
            AxisOrder::Heads { groups, slots, depth, .. } => {
                groups.div_ceil(self.parts.max(1)) * slots * depth
            }
        }
    }

    /// What comes to a place of a part; `None` is zero.
    pub fn source(&self, part: u64, place: u64) -> Option<u64> {
        let part = if self.parts > 1 { part / self.copies.max(1) } else { 0 };
        let source = match self.order {
            AxisOrder::Plain => Some(part * self.stored() + place),
            AxisOrder::Heads { groups, group, slots, depth, interleaved } => {
                let (head, within) = (place / depth, place % depth);
                let (of, slot) = (part * groups.div_ceil(self.parts.max(1)) + head / slots, head % slots);
                let half = depth / 2;
                let within = match interleaved {
                    true if within < half => 2 * within,
                    true => 2 * (within - half) + 1,
                    false => within,
                };
                (slot < group && of < groups).then_some((of * group + slot) * depth + within)
            }
        };
        source.filter(|source| *source < self.size && place < self.stored())
    }

    /// Deals it out over so many processing elements. Queries of a head of keys and values go to several if
    /// there are more of them than such heads; `queries` says how many each has.
    fn deal_out(&mut self, parts: u64, queries: impl Fn(u64) -> u64) {
        (self.parts, self.copies) = (parts, 1);
        let AxisOrder::Heads { groups, group, slots, .. } = &mut self.order else { return };
        let sharing = sharing(*groups, queries(*groups), parts);
        if sharing == 1 {
            return;
        }
        if *group == queries(*groups) {
            (*groups, *group) = (*groups * sharing, *group / sharing);
            *slots = group.next_power_of_two();
        } else {
            (self.parts, self.copies) = (*groups, sharing);
        }
    }
}

/// Processing elements that share a head of keys and values, if there are fewer heads than elements and their
/// queries can be sharded evenly.
fn sharing(heads: u64, group: u64, parts: u64) -> u64 {
    let each = parts / heads.max(1);
    if parts.is_multiple_of(heads.max(1)) && group.is_multiple_of(each.max(1)) { each.max(1) } else { 1 }
}

/// A weight matrix by the name of its value in the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightMatrix {
    /// Name of the value.
    pub name: String,
    /// Rows.
    pub rows: WeightAxis,
    /// Columns: what is contracted.
    pub columns: WeightAxis,
    /// Name of a bias for each row.
    pub bias: Option<String>,
}

/// Heads of an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    /// Heads of keys and values.
    pub kv: u64,
    /// Heads of queries for each.
    pub group: u64,
    /// Places for them: a power of two.
    pub slots: u64,
    /// Elements of a head.
    pub depth: u64,
}

impl Heads {
    /// Columns of the queries, padding included.
    pub fn query_width(&self) -> u64 {
        self.kv * self.slots * self.depth
    }

    /// Columns of keys, and of values.
    pub fn kv_width(&self) -> u64 {
        self.kv * self.depth
    }
}

/// Elementwise ends of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `silu(gate) * up`: the first half of the columns gates the second.
    GatedSilu,
    /// The Gaussian error linear unit, by the error function.
    Gelu,
}

/// Norms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Norm {
    /// Root mean square.
    Rms,
    /// Mean and variance.
    Layer,
}

/// A cluster of operators of the graph, compiled as one kernel.
#[derive(Clone, Debug, PartialEq)]
pub enum Kernel {
    /// Rows of a table by token, and of others by position.
    Embed {
        /// Name of the table.
        table: String,
        /// Names of tables by position; their sum is rounded once. One row stands for all positions.
        places: Vec<String>,
        /// Result.
        out: ValueId,
    },
    /// A norm over the columns.
    Norm {
        /// Which.
        norm: Norm,
        /// Of what.
        input: ValueId,
        /// Name of the factors.
        gain: String,
        /// Name of the addends.
        bias: Option<String>,
        /// Bits of what keeps the root away from zero.
        epsilon: f32,
        /// Result.
        out: ValueId,
    },
    /// Features to rows: the parts side by side.
    Project {
        /// Of what.
        input: ValueId,
        /// Weights.
        parts: Vec<WeightMatrix>,
        /// Result.
        out: ValueId,
    },
    /// Queries and new keys and values from projected rows: rotation, rounding, and the rows of the cache.
    Rotate {
        /// Queries, keys and values side by side.
        input: ValueId,
        /// Heads.
        heads: Heads,
        /// Tables of cosines and sines by position, `positions x depth / 2`; none leaves everything as it is.
        tables: Option<(String, String)>,
        /// Which cache the keys and values go to.
        cache: usize,
        /// Queries.
        out: ValueId,
    },
    /// Softmax of scores, times values.
    Attend {
        /// Queries.
        input: ValueId,
        /// Heads.
        heads: Heads,
        /// Which cache.
        cache: usize,
        /// What scores are multiplied by.
        scale: f32,
        /// Queries see no key behind their own position.
        causal: bool,
        /// Result, by query head.
        out: ValueId,
    },
    /// Elementwise on rows.
    Activate {
        /// Of what.
        input: ValueId,
        /// What.
        activation: Activation,
        /// Result.
        out: ValueId,
    },
    /// Rows to features, added to what is there.
    Combine {
        /// Of what.
        input: ValueId,
        /// Weight.
        weight: WeightMatrix,
        /// What the sum is added to.
        residual: ValueId,
        /// Result.
        out: ValueId,
    },
    /// The mean over the tokens, scaled to length 1.
    Pool {
        /// Of what.
        input: ValueId,
    },
    /// Logits of the last token.
    Head {
        /// Of what.
        input: ValueId,
        /// Weight.
        weight: WeightMatrix,
    },
}

/// A model as kernels in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kernels {
    /// What it is called.
    pub name: String,
    /// Values.
    pub values: Vec<Value>,
    /// Kernels in order.
    pub kernels: Vec<Kernel>,
    /// Positions that there are.
    pub positions: u64,
    /// Tokens that there are.
    pub vocabulary: u64,
    /// Caches, one for each attention.
    pub caches: usize,
    /// The absolute maxima of values that integers are made of, if they were found beforehand: one scale for
    /// all tokens. Without, each token has its own.
    pub amax: BTreeMap<ValueId, f32>,
    /// The absolute maxima of queries, keys and values by cache, likewise: what eight bits of them stand for.
    /// Without, a range that is the same for all.
    pub ranges: BTreeMap<usize, [f32; 3]>,
}

impl Kernels {
    /// A value.
    pub fn value(&self, id: ValueId) -> Option<&Value> {
        self.values.get(id.0)
    }

    /// Columns of a value; 0 if there is none.
    pub fn width(&self, id: ValueId) -> u64 {
        self.value(id).map_or(0, |value| value.width)
    }

    /// Adds a value.
    pub fn add(&mut self, name: impl Into<String>, width: u64, layout: ValueLayout) -> ValueId {
        self.values.push(Value { name: name.into(), width, layout });
        ValueId(self.values.len() - 1)
    }

    /// Weights of contractions, in the order in which they are used.
    pub fn weights(&self) -> impl Iterator<Item = &WeightMatrix> {
        self.kernels.iter().flat_map(|kernel| match kernel {
            Kernel::Project { parts, .. } => parts.iter().collect::<Vec<_>>(),
            Kernel::Combine { weight, .. } | Kernel::Head { weight, .. } => vec![weight],
            _ => Vec::new(),
        })
    }

    /// The same for one of so many processing elements: heads and inner widths are sharded, one-dimensional
    /// weight stationary (section VI). Combinations then give partial sums. Heads of keys and values that are
    /// fewer than parts are shared.
    #[must_use]
    pub fn sharded(&self, parts: u64) -> Kernels {
        let parts = parts.max(1);
        let queries = |groups: u64| {
            let group = self.kernels.iter().find_map(|kernel| match kernel {
                Kernel::Attend { heads, .. } if heads.kv == groups => Some(heads.group),
                _ => None,
            });
            group.unwrap_or(1)
        };
        let mut sharded = self.clone();
        for kernel in &mut sharded.kernels {
            match kernel {
                Kernel::Project { parts: weights, .. } => {
                    weights.iter_mut().for_each(|weight| weight.rows.deal_out(parts, queries));
                }
                Kernel::Combine { weight, .. } => weight.columns.deal_out(parts, queries),
                Kernel::Head { weight, .. } => weight.rows.deal_out(parts, queries),
                Kernel::Rotate { heads, .. } | Kernel::Attend { heads, .. } => {
                    let sharing = sharing(heads.kv, heads.group, parts);
                    let group = heads.group / sharing;
                    let slots = if sharing > 1 { group.next_power_of_two() } else { heads.slots };
                    *heads = Heads { kv: (heads.kv * sharing).div_ceil(parts), group, slots, ..*heads };
                }
                _ => {}
            }
        }
        sharded
    }

    /// Whether something is added to a value later: it is then kept in full, besides what contractions take.
    pub fn stays(&self, id: ValueId) -> bool {
        self.kernels.iter().any(|kernel| match kernel {
            Kernel::Combine { residual, .. } => *residual == id,
            Kernel::Pool { input } => *input == id,
            _ => false,
        })
    }

    /// One scale for all tokens of whatever is contracted, though nothing is known of it: for models without
    /// weights, whose times do not depend on what a unit is worth.
    pub fn assume_peaks(&mut self) {
        let inputs = self.kernels.iter().filter_map(|kernel| match kernel {
            Kernel::Project { input, .. } | Kernel::Combine { input, .. } | Kernel::Head { input, .. } => {
                Some((*input, 1.0))
            }
            _ => None,
        });
        self.amax = inputs.collect();
    }

    /// The absolute maximum of what a kernel contracts, if it was found beforehand.
    pub fn peak_into(&self, kernel: usize) -> Option<f32> {
        match self.kernels.get(kernel)? {
            Kernel::Project { input, .. } | Kernel::Combine { input, .. } | Kernel::Head { input, .. } => {
                self.amax.get(input).copied()
            }
            _ => None,
        }
    }

    /// Whether a value is what attention gives.
    pub fn attended(&self, id: ValueId) -> bool {
        self.kernels.iter().any(|kernel| matches!(kernel, Kernel::Attend { out, .. } if *out == id))
    }

    /// Whether the result is a vector of all tokens, not logits of the last.
    pub fn pools(&self) -> bool {
        self.kernels.iter().any(|kernel| matches!(kernel, Kernel::Pool { .. }))
    }

    /// As text.
    pub fn print(&self) -> String {
        let mut text = format!("kernels 2\n{}", self.head());
        for kernel in &self.kernels {
            let _ = writeln!(text, "{}", self.line(kernel));
        }
        text + &self.scales()
    }

    /// The lines before those of kernels.
    pub(crate) fn head(&self) -> String {
        let name = if self.name.is_empty() { String::new() } else { format!("name {}\n", self.name) };
        format!("{name}positions {}\nvocabulary {}\n", self.positions, self.vocabulary)
    }

    /// The lines behind those of kernels.
    pub(crate) fn scales(&self) -> String {
        let mut text = String::new();
        for (value, amax) in &self.amax {
            let _ = writeln!(text, "amax {} = {amax:?}", self.name(*value));
        }
        for (cache, [query, key, value]) in &self.ranges {
            let _ = writeln!(text, "range {cache} = {query:?} {key:?} {value:?}");
        }
        text
    }

    fn named(&self, id: ValueId) -> String {
        self.value(id).map_or_else(String::new, |value| {
            let layout = if value.layout == ValueLayout::Features { "features" } else { "rows" };
            format!("{}: {layout}[{}]", value.name, value.width)
        })
    }

    fn name(&self, id: ValueId) -> &str {
        self.value(id).map_or("", |value| &value.name)
    }

    pub(crate) fn line(&self, kernel: &Kernel) -> String {
        match kernel {
            Kernel::Embed { table, places, out } => {
                let places: String = places.iter().map(|place| format!(" + {place}")).collect();
                format!("embed {} = {table}{places}", self.named(*out))
            }
            Kernel::Norm { norm, input, gain, bias, epsilon, out } => {
                let rule = if *norm == Norm::Rms { "rms" } else { "layer" };
                let bias = bias.as_ref().map_or(String::new(), |bias| format!(" + {bias}"));
                format!(
                    "norm {} = {rule} {} * {gain}{bias} eps={epsilon:?}",
                    self.named(*out),
                    self.name(*input)
                )
            }
            Kernel::Project { input, parts, out } => {
                let parts: Vec<String> = parts.iter().map(spell).collect();
                format!("project {} = {} * [{}]", self.named(*out), self.name(*input), parts.join(", "))
            }
            Kernel::Rotate { input, heads, tables, cache, out } => {
                let tables =
                    tables.as_ref().map_or("none".to_string(), |(cos, sin)| format!("({cos}, {sin})"));
                let (out, input) = (self.named(*out), self.name(*input));
                format!("rotate {out}, cache{cache} = {input} heads={} tables={tables}", spell_heads(heads))
            }
            Kernel::Attend { input, heads, cache, scale, causal, out } => format!(
                "attend {} = {}, cache{cache} heads={} scale={scale:?}{}",
                self.named(*out),
                self.name(*input),
                spell_heads(heads),
                if *causal { "" } else { " noncausal" }
            ),
            Kernel::Activate { input, activation, out } => {
                let what = if *activation == Activation::GatedSilu { "gated_silu" } else { "gelu" };
                format!("activate {} = {what} {}", self.named(*out), self.name(*input))
            }
            Kernel::Combine { input, weight, residual, out } => format!(
                "combine {} = {} + {} * {}",
                self.named(*out),
                self.name(*residual),
                self.name(*input),
                spell(weight)
            ),
            Kernel::Pool { input } => format!("pool {}", self.name(*input)),
            Kernel::Head { input, weight } => format!("head {} * {}", self.name(*input), spell(weight)),
        }
    }
}

fn spell_heads(heads: &Heads) -> String {
    format!("{}x{}({})x{}", heads.kv, heads.group, heads.slots, heads.depth)
}

fn spell(weight: &WeightMatrix) -> String {
    let bias = weight.bias.as_ref().map_or(String::new(), |bias| format!(" + {bias}"));
    format!("{}[{}x{}]{bias}", weight.name, spell_axis(&weight.rows), spell_axis(&weight.columns))
}

fn spell_axis(axis: &WeightAxis) -> String {
    let mut text = axis.size.to_string();
    if axis.parts > 1 {
        let _ = write!(text, "/{}", axis.parts);
    }
    if axis.copies > 1 {
        let _ = write!(text, "*{}", axis.copies);
    }
    if let AxisOrder::Heads { groups, group, slots, depth, interleaved } = axis.order {
        let heads = spell_heads(&Heads { kv: groups, group, slots, depth });
        let _ = write!(text, "{{{heads}{}}}", if interleaved { "~" } else { "" });
    }
    text
}
