//! Graphs that compilers are compared on: transformers, convolutional networks and single contractions.
//!
//! Shapes are those that their papers publish; weights are inputs without values, since only time is read. In
//! int8 the graphs are what `tilewright_compile::quantise` makes of them, with the integers and scales of
//! weights as inputs.

use std::collections::BTreeMap;

use tilewright_compile::quantise::narrowed;
use tilewright_graph::infer::BuildResult;
use tilewright_graph::rich::{Attrs, RichOp};
use tilewright_graph::{Builder, Dim, Dtype, Graph, Type, ValueId, primitives};

/// A graph with its name.
pub struct Case {
    /// What it is.
    pub name: String,
    /// Its primitives.
    pub graph: Graph,
}

/// A transformer's shape.
#[derive(Clone, Copy, Debug)]
pub struct Transformer {
    /// Blocks.
    pub layers: u32,
    /// Features of a token.
    pub width: i64,
    /// Heads of attention.
    pub heads: i64,
    /// Sequences at once.
    pub batch: i64,
    /// Tokens of a sequence.
    pub tokens: i64,
    /// The norm comes before attention and feed-forward (GPT-2), else behind them (BERT).
    pub norm_first: bool,
    /// Contractions with weights are in int8.
    pub int8: bool,
}

struct Net {
    b: Builder,
    weights: u32,
    /// Contractions with weights are in int8.
    int8: bool,
    /// Integers of values.
    bytes: BTreeMap<ValueId, ValueId>,
    /// What a relu was of.
    relus: BTreeMap<ValueId, ValueId>,
}

/// Steps of integers in one, for whatever is quantised: only time is read.
const STEPS: f64 = 16.0;

fn dims(sizes: &[i64]) -> Vec<Dim> {
    sizes.iter().map(|size| Dim::fixed(*size)).collect()
}

impl Net {
    fn new(name: &str) -> Net {
        let (bytes, relus) = (BTreeMap::new(), BTreeMap::new());
        Net { b: Builder::new(name), weights: 0, int8: false, bytes, relus }
    }

    fn input(&mut self, name: &str, sizes: &[i64]) -> BuildResult<ValueId> {
        self.b.input(name, Type::new(Dtype::F32, dims(sizes)))
    }

    fn weight(&mut self, sizes: &[i64]) -> BuildResult<ValueId> {
        self.weights += 1;
        self.input(&format!("w{}", self.weights), sizes)
    }

    /// A weight as integers, widened as sums take them.
    fn byte_weight(&mut self, sizes: &[i64]) -> BuildResult<ValueId> {
        self.weights += 1;
        let w = self.b.input(&format!("w{}", self.weights), Type::new(Dtype::I8, dims(sizes)))?;
        self.b.convert(w, Dtype::I32)
    }

    /// A value as integers, widened as sums take them; what a relu gives is clamped at zero.
    fn bytes(&mut self, x: ValueId) -> BuildResult<ValueId> {
        let known = self.bytes.get(&x).copied();
        let bytes = match known {
            Some(known) => known,
            None => {
                let steps = self.b.scalar(Dtype::F32, STEPS)?;
                let (from, least) = self.relus.get(&x).map_or((x, -127.0), |before| (*before, 0.0));
                narrowed(&mut self.b, from, steps, least)?
            }
        };
        self.bytes.insert(x, bytes);
        self.b.convert(bytes, Dtype::I32)
    }

    /// Sums of integers as floats: by a scale for each of so many channels, along an axis from the end.
    fn scaled(&mut self, sums: ValueId, channels: i64, behind: usize) -> BuildResult<ValueId> {
        let mut sizes = vec![channels];
        sizes.extend(std::iter::repeat_n(1, behind));
        let scales = self.weight(&[channels])?;
        let scales = self.b.reshape(scales, &dims(&sizes))?;
        let floats = self.b.convert(sums, Dtype::F32)?;
        self.b.mul(floats, scales)
    }

    fn rich(&mut self, op: RichOp, inputs: &[ValueId], attrs: Attrs) -> BuildResult<ValueId> {
        self.b.rich_one(op, inputs, attrs)
    }

    /// Rows times a weight, plus a bias.
    fn linear(&mut self, x: ValueId, from: i64, to: i64) -> BuildResult<ValueId> {
        if self.int8 {
            let (x, w) = (self.bytes(x)?, self.byte_weight(&[to, from])?);
            let sums = self.b.einsum("mk,nk->mn", &[x, w])?;
            let y = self.scaled(sums, to, 0)?;
            let bias = self.weight(&[to])?;
            return self.b.add(y, bias);
        }
        let (w, bias) = (self.weight(&[to, from])?, self.weight(&[to])?);
        let y = self.b.einsum("mk,nk->mn", &[x, w])?;
        self.b.add(y, bias)
    }

    fn norm(&mut self, x: ValueId, width: i64) -> BuildResult<ValueId> {
        let (scale, bias) = (self.weight(&[width])?, self.weight(&[width])?);
        Ok(self.b.rich(
            RichOp::LayerNorm,
            &[Some(x), Some(scale), Some(bias)],
            Attrs::default().int("axis", -1),
        )?[0])
    }

    fn attention(&mut self, x: ValueId, shape: Transformer) -> BuildResult<ValueId> {
        let Transformer { width, heads, batch, tokens, .. } = shape;
        let split = dims(&[batch, tokens, heads, width / heads]);
        let mut parts = Vec::new();
        for _ in 0..3 {
            let y = self.linear(x, width, width)?;
            let y = self.b.reshape(y, &split)?;
            parts.push(self.b.transpose(y, &[0, 2, 1, 3])?);
        }
        let scores = self.b.einsum("bhqd,bhkd->bhqk", &parts[..2])?;
        let scaled =
            self.b.with(tilewright_graph::Binary::Mul, scores, ((width / heads) as f64).powf(-0.5))?;
        let weights = self.rich(RichOp::Softmax, &[scaled], Attrs::default().int("axis", -1))?;
        let mixed = self.b.einsum("bhqk,bhkd->bhqd", &[weights, parts[2]])?;
        let mixed = self.b.transpose(mixed, &[0, 2, 1, 3])?;
        let rows = self.b.reshape(mixed, &dims(&[batch * tokens, width]))?;
        self.linear(rows, width, width)
    }

    fn feed_forward(&mut self, x: ValueId, width: i64) -> BuildResult<ValueId> {
        let wide = self.linear(x, width, 4 * width)?;
        let active = self.rich(RichOp::Gelu, &[wide], Attrs::default().word("approximate", "tanh"))?;
        self.linear(active, 4 * width, width)
    }

    /// A convolution with bias, padded so that a stride of 1 keeps sizes.
    fn conv(
        &mut self,
        x: ValueId,
        (from, to): (i64, i64),
        size: i64,
        stride: i64,
        groups: i64,
    ) -> BuildResult<ValueId> {
        let pad = size / 2;
        let attrs =
            Attrs::default().ints("pads", &[pad; 4]).ints("strides", &[stride; 2]).int("groups", groups);
        if self.int8 && groups == 1 {
            let (x, w) = (self.bytes(x)?, self.byte_weight(&[to, from, size, size])?);
            let sums = self.rich(RichOp::Conv, &[x, w], attrs)?;
            let y = self.scaled(sums, to, 2)?;
            let bias = self.weight(&[to])?;
            let bias = self.b.reshape(bias, &dims(&[to, 1, 1]))?;
            return self.b.add(y, bias);
        }
        let (w, bias) = (self.weight(&[to, from / groups, size, size])?, self.weight(&[to])?);
        self.rich(RichOp::Conv, &[x, w, bias], attrs)
    }

    fn relu(&mut self, x: ValueId) -> BuildResult<ValueId> {
        let y = self.rich(RichOp::Relu, &[x], Attrs::default())?;
        self.relus.insert(y, x);
        Ok(y)
    }

    /// A residual block with a narrow middle (ResNet-50).
    fn bottleneck(&mut self, x: ValueId, (from, middle): (i64, i64), stride: i64) -> BuildResult<ValueId> {
        let to = 4 * middle;
        let y = self.conv(x, (from, middle), 1, 1, 1)?;
        let y = self.relu(y)?;
        let y = self.conv(y, (middle, middle), 3, stride, 1)?;
        let y = self.relu(y)?;
        let y = self.conv(y, (middle, to), 1, 1, 1)?;
        let way = if from == to && stride == 1 { x } else { self.conv(x, (from, to), 1, stride, 1)? };
        let sum = self.b.add(y, way)?;
        self.relu(sum)
    }

    fn finish(mut self, name: &str, y: ValueId) -> BuildResult<Case> {
        self.b.output("y", y);
        Ok(Case { name: name.to_string(), graph: primitives(&self.b.finish())? })
    }
}

/// Blocks of a transformer.
///
/// # Errors
/// Sizes that do not fit each other.
pub fn transformer(name: &str, shape: Transformer) -> BuildResult<Case> {
    let mut net = Net { int8: shape.int8, ..Net::new(name) };
    let mut x = net.input("x", &[shape.batch * shape.tokens, shape.width])?;
    for _ in 0..shape.layers {
        for half in 0..2 {
            let from = if shape.norm_first { net.norm(x, shape.width)? } else { x };
            let y =
                if half == 0 { net.attention(from, shape)? } else { net.feed_forward(from, shape.width)? };
            x = net.b.add(x, y)?;
            if !shape.norm_first {
                x = net.norm(x, shape.width)?;
            }
        }
    }
    net.finish(name, x)
}

/// A residual network of bottlenecks: blocks of each of the four stages, in bf16 or int8.
///
/// # Errors
/// Sizes that do not fit each other.
pub fn resnet(name: &str, batch: i64, size: i64, stages: [u32; 4], int8: bool) -> BuildResult<Case> {
    let mut net = Net { int8, ..Net::new(name) };
    let x = net.input("x", &[batch, 3, size, size])?;
    let x = net.conv(x, (3, 64), 7, 2, 1)?;
    let x = net.relu(x)?;
    let attrs = Attrs::default().ints("kernel", &[3; 2]).ints("strides", &[2; 2]).ints("pads", &[1; 4]);
    let mut x = net.b.rich(RichOp::MaxPool, &[Some(x)], attrs)?[0];
    let mut from = 64;
    for (stage, blocks) in stages.into_iter().enumerate() {
        let middle = 64 << stage;
        for block in 0..blocks {
            let stride = if block == 0 && stage > 0 { 2 } else { 1 };
            x = net.bottleneck(x, (from, middle), stride)?;
            from = 4 * middle;
        }
    }
    let mean = net.b.mean(x, &[2, 3], false)?;
    let y = net.linear(mean, from, 1000)?;
    net.finish(name, y)
}

/// Depthwise and pointwise convolutions in turn (MobileNet).
///
/// # Errors
/// Sizes that do not fit each other.
pub fn mobilenet(name: &str, batch: i64, size: i64) -> BuildResult<Case> {
    let mut net = Net::new(name);
    let x = net.input("x", &[batch, 3, size, size])?;
    let mut x = net.conv(x, (3, 32), 3, 2, 1)?;
    let mut from = 32;
    for (to, stride) in [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)] {
        let y = net.conv(x, (from, from), 3, stride, from)?;
        let y = net.relu(y)?;
        let y = net.conv(y, (from, to), 1, 1, 1)?;
        x = net.relu(y)?;
        from = to;
    }
    net.finish(name, x)
}

/// A convolution of pixels and one of windows behind it, so that channels are last: batch, channels, size of
/// images, channels of the result, size of windows and stride.
///
/// # Errors
/// Sizes that do not fit each other.
pub fn convolution([batch, from, size, to, window, stride]: [i64; 6]) -> BuildResult<Case> {
    let mut net = Net::new("convolution");
    let x = net.input("x", &[batch, from, size, size])?;
    let x = net.conv(x, (from, from), 1, 1, 1)?;
    let x = net.relu(x)?;
    let y = net.conv(x, (from, to), window, stride, 1)?;
    let y = net.relu(y)?;
    net.finish(&format!("convolution {batch}x{from}x{size}x{to}x{window}x{stride}"), y)
}

/// One contraction: batch, rows, columns and summed.
///
/// # Errors
/// Sizes beyond what a graph takes.
pub fn contraction([batch, rows, columns, summed]: [i64; 4]) -> BuildResult<Case> {
    let name = format!("contraction {batch}x{rows}x{columns}x{summed}");
    let mut net = Net::new("contraction");
    let x = net.input("x", &[batch, rows, summed])?;
    let y = net.input("y", &[batch, columns, summed])?;
    let product = net.b.einsum("bmk,bnk->bmn", &[x, y])?;
    net.finish(&name, product)
}

/// The same of integers of eight bits with sums in i32.
///
/// # Errors
/// Sizes beyond what a graph takes.
pub fn byte_contraction([batch, rows, columns, summed]: [i64; 4]) -> BuildResult<Case> {
    let name = format!("contraction {batch}x{rows}x{columns}x{summed} int8");
    let mut net = Net::new("contraction");
    let mut operands = Vec::new();
    for sizes in [[batch, rows, summed], [batch, columns, summed]] {
        operands.push(net.byte_weight(&sizes)?);
    }
    let product = net.b.einsum("bmk,bnk->bmn", &operands)?;
    net.finish(&name, product)
}

/// The same of f8e4m3 with sums in f32.
///
/// # Errors
/// Sizes beyond what a graph takes.
pub fn float8_contraction([batch, rows, columns, summed]: [i64; 4]) -> BuildResult<Case> {
    let name = format!("contraction {batch}x{rows}x{columns}x{summed} f8e4m3");
    let mut net = Net::new("contraction");
    let mut operands = Vec::new();
    for (operand, sizes) in [("x", [batch, rows, summed]), ("y", [batch, columns, summed])] {
        let narrow = net.b.input(operand, Type::new(Dtype::F8E4M3, dims(&sizes)))?;
        operands.push(net.b.convert(narrow, Dtype::F32)?);
    }
    let product = net.b.einsum("bmk,bnk->bmn", &operands)?;
    net.finish(&name, product)
}

const GPT2: Transformer =
    Transformer { layers: 12, width: 768, heads: 12, batch: 1, tokens: 512, norm_first: true, int8: false };
const VIT: Transformer = Transformer { batch: 8, tokens: 197, ..GPT2 };
const BERT: Transformer = Transformer { batch: 8, tokens: 128, norm_first: false, ..GPT2 };

/// Blocks of transformers, and single contractions of one G multiply-accumulates and more.
///
/// # Errors
/// Sizes that do not fit each other.
pub fn blocks() -> BuildResult<Vec<Case>> {
    let mut all = vec![
        transformer("GPT-2 block, 512 tokens", Transformer { layers: 1, ..GPT2 })?,
        transformer("BERT block, batch 8 of 128 tokens", Transformer { layers: 1, ..BERT })?,
        transformer("ViT block, batch 8 of 197 tokens", Transformer { layers: 1, ..VIT })?,
    ];
    let shapes = [
        [1, 1024, 1024, 1024],
        [1, 512, 2048, 2048],
        [1, 2048, 2048, 512],
        [1, 4096, 4096, 4096],
        [1, 8192, 256, 1024],
        [1, 128, 1024, 16_384],
        [1, 1000, 1500, 3000],
        [1, 2048, 50_257, 768],
        [16, 512, 512, 512],
    ];
    for shape in shapes {
        all.push(contraction(shape)?);
    }
    all.push(transformer(
        "BERT block, batch 8, 128 tokens, int8",
        Transformer { layers: 1, int8: true, ..BERT },
    )?);
    all.push(byte_contraction([1, 4096, 4096, 4096])?);
    all.push(byte_contraction([1, 1024, 1024, 1024])?);
    all.push(float8_contraction([1, 1024, 1024, 1024])?);
    Ok(all)
}

/// Whole models.
///
/// # Errors
/// Sizes that do not fit each other.
pub fn models() -> BuildResult<Vec<Case>> {
    Ok(vec![
        transformer("GPT-2 small, 512 tokens", GPT2)?,
        transformer("BERT-base, batch 8 of 128 tokens", BERT)?,
        transformer("BERT-base, batch 8, 128 tokens, int8", Transformer { int8: true, ..BERT })?,
        resnet("ResNet-50 at 224, batch 8", 8, 224, [3, 4, 6, 3], false)?,
        resnet("ResNet-50 at 224, batch 8, int8", 8, 224, [3, 4, 6, 3], true)?,
        mobilenet("MobileNet at 224, batch 8", 8, 224)?,
    ])
}
