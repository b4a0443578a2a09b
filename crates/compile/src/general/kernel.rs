//! Kernels of a general graph: moves, chains, contractions and reductions between values that lie in HBM
//! (stage 2).

use tilewright_base::invariant::OrBroken;
use tilewright_graph::{Dtype, Fold};
use tilewright_num::{Dtype as Pattern, RuleSet, convert};
use tilewright_tcp_isa::program::vector::Word;

use super::view::{View, signed};
use super::words::Line;

/// How the elements of a value lie in HBM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Packing {
    /// Words of 32 bits: what the vector engine computes with.
    #[default]
    Words,
    /// bf16: floats that contractions multiply.
    Half,
    /// Bytes: integers of eight bits that contractions multiply.
    Byte,
    /// f8e4m3: floats of eight bits that contractions multiply.
    Float8,
    /// Integers of four bits, two to a byte, the first in the low half: constants that contractions hold and
    /// that become bytes on the way to the register files. An element of such a value is one of these bytes.
    Pairs,
}

impl Packing {
    /// Every way in which inputs and results lie.
    pub const ALL: [Packing; 4] = [Packing::Words, Packing::Half, Packing::Byte, Packing::Float8];

    /// Bytes of an element.
    pub const fn element_bytes(self) -> u64 {
        match self {
            Packing::Words => 4,
            Packing::Half => 2,
            Packing::Byte | Packing::Float8 | Packing::Pairs => 1,
        }
    }

    /// Numbers that an element holds.
    pub const fn numbers(self) -> u64 {
        match self {
            Packing::Pairs => 2,
            Packing::Words | Packing::Half | Packing::Byte | Packing::Float8 => 1,
        }
    }

    /// Its name in texts.
    pub const fn name(self) -> &'static str {
        match self {
            Packing::Words => "words",
            Packing::Half => "bf16",
            Packing::Byte => "int8",
            Packing::Float8 => "f8e4m3",
            Packing::Pairs => "i4x2",
        }
    }

    /// The type that words are cast to; none for words.
    pub const fn cast(self) -> Option<Pattern> {
        match self {
            Packing::Words | Packing::Pairs => None,
            Packing::Half => Some(Pattern::Bf16),
            Packing::Byte => Some(Pattern::I8),
            Packing::Float8 => Some(Pattern::F8E4M3Fn),
        }
    }

    /// Words that are cast to it.
    pub const fn word(self) -> Word {
        match self {
            Packing::Words | Packing::Byte | Packing::Pairs => Word::I32,
            Packing::Half | Packing::Float8 => Word::F32,
        }
    }

    /// Whether elements are narrower than words.
    pub const fn is_narrow(self) -> bool {
        !matches!(self, Packing::Words)
    }

    /// A word as the pattern of an element.
    pub fn narrowed(self, rules: &RuleSet, word: u32) -> u32 {
        let to = |from: Pattern, to: Pattern| {
            convert(rules, from, to, word).or_broken("a word has a narrow pattern")
        };
        match self {
            Packing::Words | Packing::Pairs => word,
            Packing::Half => to(Pattern::F32, Pattern::Bf16),
            Packing::Byte => to(Pattern::I32, Pattern::I8),
            Packing::Float8 => to(Pattern::F32, Pattern::F8E4M3Fn),
        }
    }

    /// The pattern of an element as a word.
    pub fn widened(self, rules: &RuleSet, pattern: u32) -> u32 {
        let from = |from: Pattern, to: Pattern| {
            convert(rules, from, to, pattern).or_broken("a narrow pattern has a word")
        };
        match self {
            Packing::Words | Packing::Pairs => pattern,
            Packing::Half => from(Pattern::Bf16, Pattern::F32),
            Packing::Byte => from(Pattern::I8, Pattern::I32),
            Packing::Float8 => from(Pattern::F8E4M3Fn, Pattern::F32),
        }
    }
}

/// A value that is kept: elements one after the other, row-major.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// Its name.
    pub name: String,
    /// Sizes.
    pub dims: Vec<u64>,
    /// What elements stand for.
    pub dtype: Dtype,
    /// How they lie; operands of a contraction are narrow.
    pub packing: Packing,
    /// Where it comes from.
    pub origin: Origin,
    /// Which of its elements the host gives or takes, if it is an input or a result and they are not all.
    pub host: Option<HostBox>,
}

/// Elements of a value that the host gives or takes, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostBox {
    /// The first.
    pub first: u64,
    /// Sizes and strides, outermost first.
    pub axes: Vec<(u64, u64)>,
}

impl Value {
    /// The number of elements.
    pub fn count(&self) -> u64 {
        super::view::count(&self.dims)
    }

    /// The number of elements that the host gives or takes, if it does.
    pub fn host_count(&self) -> u64 {
        self.host.as_ref().map_or_else(|| self.count(), |host| host.axes.iter().map(|axis| axis.0).product())
    }

    /// Bytes of an element.
    pub fn element_bytes(&self) -> u64 {
        self.packing.element_bytes()
    }
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// An input of the graph.
    Input,
    /// Patterns that are known.
    Constant(Vec<u32>),
    /// Inputs of the graph that lie one behind the other.
    Parts(Vec<usize>),
    /// A kernel.
    Kernel,
    /// A kernel that writes some of its elements; the others are this word, which the host writes once.
    Filled(u32),
}

impl Origin {
    /// Whether a kernel writes it.
    pub fn is_made(&self) -> bool {
        matches!(self, Origin::Kernel | Origin::Filled(_))
    }
}

/// Elements that go from one value to another: loops of size, stride in the source and stride in the target.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    /// The source.
    pub from: usize,
    /// Its first element.
    pub from_first: i64,
    /// First element of the target.
    pub to_first: i64,
    /// Outermost first.
    pub loops: Vec<(u64, i64, i64)>,
}

impl Part {
    /// The copy with source and target exchanged.
    #[must_use]
    pub fn turned(&self) -> Part {
        let loops = self.loops.iter().map(|(size, from, to)| (*size, *to, *from)).collect();
        Part { from: self.from, from_first: self.to_first, to_first: self.from_first, loops }
    }

    /// Calls a function with the place of every element at both ends.
    pub fn each(&self, mut take: impl FnMut(usize, usize)) {
        let mut places = vec![(self.from_first, self.to_first)];
        for (size, from, to) in &self.loops {
            let step = |(a, b): (i64, i64)| (0..signed(*size)).map(move |at| (a + at * from, b + at * to));
            places = places.into_iter().flat_map(step).collect();
        }
        for (from, to) in places {
            if let (Ok(from), Ok(to)) = (usize::try_from(from), usize::try_from(to)) {
                take(from, to);
            }
        }
    }
}

/// Where the elements of a contraction's operand lie in their value, those of a sum one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Strides {
    /// The first element.
    pub first: u64,
    /// From one position of the batch to the next.
    pub batch: u64,
    /// From one row, or column, to the next.
    pub own: u64,
}

/// Runs of a sum that windows of few channels are read in: whole flits, of which the first elements count.
/// What the rows have behind them is not multiplied, whatever it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Runs {
    /// Elements of a run.
    pub size: u64,
    /// How many of them count.
    pub live: u64,
}

/// Sizes of a contraction, `bmk, bnk -> bmn`, how its operands lie, and the type of what it multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sizes {
    /// In both inputs and in the result.
    pub batch: u64,
    /// In the first input and in the result.
    pub rows: u64,
    /// In the second input and in the result.
    pub columns: u64,
    /// Summed.
    pub summed: u64,
    /// Products of each sum that the graph asks for: without those that padding adds.
    pub counted: u64,
    /// Runs of the sum, if not all of their elements count.
    pub runs: Option<Runs>,
    /// What is multiplied: bf16 or f8e4m3 with sums in f32, or bytes with sums in i32.
    pub operands: Packing,
    /// How the second operand lies: as what is multiplied, or in pairs.
    pub held: Packing,
    /// How the two operands lie.
    pub strides: [Strides; 2],
}

impl Sizes {
    /// Operands that are all of their values, row-major.
    pub fn new(batch: u64, rows: u64, columns: u64, summed: u64, operands: Packing) -> Sizes {
        let dense = |own: u64| Strides { first: 0, batch: own.saturating_mul(summed), own: summed };
        let strides = [dense(rows), dense(columns)];
        Sizes { batch, rows, columns, summed, counted: summed, runs: None, operands, held: operands, strides }
    }

    /// Numbers that an element of an operand's value holds.
    pub const fn numbers(&self, operand: usize) -> u64 {
        if operand == 1 { self.held.numbers() } else { 1 }
    }

    /// Whether operands are all of their values, row-major.
    pub fn is_dense(&self) -> bool {
        let Sizes { batch, rows, columns, summed, operands, .. } = *self;
        self.strides == Sizes::new(batch, rows, columns, summed, operands).strides
    }

    /// An operand as strided access to a value.
    pub fn view(&self, value: usize, operand: usize) -> View {
        let Strides { first, batch, own } = self.strides[operand];
        let count = if operand == 0 { self.rows } else { self.columns };
        let numbers = self.numbers(operand);
        let [first, batch, own] = [first, batch, own].map(|step| signed(step / numbers));
        View { value, first, axes: vec![(self.batch, batch), (count, own), (self.summed / numbers, 1)] }
    }
}

/// What a kernel does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Elements to other places.
    Move(Vec<Part>),
    /// Rows of an axis by number: `[outer, size, inner]` to `[outer, indices, inner]`, byte offsets of the
    /// rows in a table.
    Gather {
        /// The value.
        from: usize,
        /// Offsets in bytes.
        table: usize,
        /// Elements before the axis, of it, and behind it.
        around: (u64, u64, u64),
    },
    /// Rows of the target replaced by others.
    Scatter {
        /// What the target holds elsewhere.
        base: usize,
        /// Offsets in bytes.
        table: usize,
        /// The rows.
        rows: usize,
        /// Elements of a row.
        inner: u64,
    },
    /// Steps on elements, one after the other in row-major order of the sizes that all its inputs have.
    Chain {
        /// Streams that enter: values as they are, or strided access to them.
        inputs: Vec<View>,
        /// Steps.
        lines: Vec<Line>,
        /// Streams that are written, in the order of the kernel's results.
        streams: Vec<usize>,
    },
    /// Sums of products of two values in bf16, f8e4m3 or bytes.
    Contract {
        /// `[batch, rows, summed]`.
        a: usize,
        /// `[batch, columns, summed]`.
        b: usize,
        /// Sizes.
        sizes: Sizes,
    },
    /// One result of each row.
    Reduce {
        /// `[rows, columns]`.
        from: usize,
        /// How.
        fold: Fold,
        /// Columns of a row.
        columns: u64,
    },
}

/// A kernel and the values that it makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// What it does.
    pub work: Work,
    /// What it gives.
    pub results: Vec<usize>,
}

impl Kernel {
    /// Values that it reads.
    pub fn reads(&self) -> Vec<usize> {
        match &self.work {
            Work::Move(parts) => parts.iter().map(|part| part.from).collect(),
            Work::Gather { from, table, .. } => vec![*from, *table],
            Work::Scatter { base, table, rows, .. } => vec![*base, *table, *rows],
            Work::Chain { inputs, .. } => inputs.iter().map(|input| input.value).collect(),
            Work::Contract { a, b, .. } => vec![*a, *b],
            Work::Reduce { from, .. } => vec![*from],
        }
    }

    /// Its name in texts.
    pub fn name(&self) -> &'static str {
        match &self.work {
            Work::Move(_) => "move",
            Work::Gather { .. } => "gather",
            Work::Scatter { .. } => "scatter",
            Work::Chain { .. } => "chain",
            Work::Contract { .. } => "contract",
            Work::Reduce { .. } => "reduce",
        }
    }
}

/// A result of the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Result {
    /// Its name.
    pub name: String,
    /// The value.
    pub value: usize,
    /// Sizes as the graph has them.
    pub dims: Vec<u64>,
    /// Type as the graph has it.
    pub dtype: Dtype,
}

impl Kernels {
    /// Whether a view is all of its value, in its order.
    pub fn is_whole(&self, view: &View) -> bool {
        view.is_plain() && self.values[view.value].count() == super::view::count(&view.dims())
    }

    /// Whether a view of a chain goes on before the first or behind the last element of its value.
    pub(super) fn runs_over(&self, inputs: &[View]) -> bool {
        let end = |view: &View, of: &dyn Fn(i64) -> i64| {
            view.first + view.axes.iter().map(|(size, stride)| (signed(*size) - 1) * of(*stride)).sum::<i64>()
        };
        let last = |view: &View| end(view, &|stride| stride.max(0));
        inputs.iter().any(|view| {
            last(view) >= signed(self.values[view.value].count()) || end(view, &|stride| stride.min(0)) < 0
        })
    }

    /// The values that enter a chain, if it reads all of them as they are.
    pub fn whole_inputs(&self, inputs: &[View]) -> Option<Vec<usize>> {
        let whole = |view: &View| self.is_whole(view) && !self.values[view.value].packing.is_narrow();
        inputs.iter().all(whole).then(|| inputs.iter().map(|input| input.value).collect())
    }
}

/// A general graph as kernels, in an order in which each comes behind what it reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kernels {
    /// What the graph is called.
    pub name: String,
    /// Every value.
    pub values: Vec<Value>,
    /// Every kernel.
    pub kernels: Vec<Kernel>,
    /// Inputs, by number of their value, in the order of the graph.
    pub inputs: Vec<usize>,
    /// Results.
    pub results: Vec<Result>,
}
