//! The graph of the Llama family: RMS norm, rotary positions, grouped attention over a key and value cache,
//! gated feed-forward.
//!
//! One graph serves prefill and decode: axis `seq` is the new tokens, `past` those in the cache. Caches are
//! state: inputs `past_kN`, `past_vN` and outputs `present_kN`, `present_vN`. A query sees the keys whose
//! place is at most its position.

use tilewright_base::invariant::OrBroken;
use tilewright_graph::rich::{Attrs, RichOp};
use tilewright_graph::{
    Binary, BuildResult, Builder, Dim, Dtype, Graph, StoredTensor, TensorStore, Type, ValueId,
};

/// Sequences that run together, at most.
pub const MOST_BATCH: u64 = 64;

/// Sizes and constants of a model of the family.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// What it is called.
    pub name: String,
    /// Elements of a token's vector.
    pub width: u64,
    /// Elements inside the feed-forward part.
    pub hidden: u64,
    /// Blocks.
    pub layers: u64,
    /// Query heads.
    pub heads: u64,
    /// Key and value heads.
    pub kv_heads: u64,
    /// Elements of a head.
    pub head_width: u64,
    /// Tokens of the vocabulary.
    pub vocabulary: u64,
    /// Longest sequence.
    pub context: u64,
    /// Added under the root of norms.
    pub norm_eps: f32,
    /// How positions turn vectors.
    pub rope: Rope,
    /// Whether the embedding matrix is also the output matrix.
    pub tied: bool,
}

/// Rotary positions.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// Base of the frequencies.
    pub theta: f64,
    /// Whether neighbours are rotated together (llama2.c, GGUF), or the halves of a head (Hugging Face).
    pub interleaved: bool,
    /// How frequencies are changed for longer contexts.
    pub scaling: Scaling,
}

/// Changes of the frequencies.
#[derive(Clone, Debug, PartialEq)]
pub enum Scaling {
    /// None.
    None,
    /// Positions divided by a factor.
    Linear(f64),
    /// Llama 3: low frequencies divided, high ones kept, those between blended.
    Llama3 {
        /// Divisor of low frequencies.
        factor: f64,
        /// Waves longer than the original context over this are low.
        low: f64,
        /// Waves shorter than the original context over this are high.
        high: f64,
        /// Context before scaling.
        original: f64,
    },
    /// Each frequency divided by a number of its own.
    Factors(Vec<f64>),
}

impl Rope {
    /// Radians a position for each pair of a head.
    pub fn frequencies(&self, head_width: u64) -> Vec<f64> {
        #[expect(clippy::cast_precision_loss, reason = "widths of heads are small")]
        let plain = |pair: u64| self.theta.powf(-2.0 * (pair as f64) / (head_width as f64));
        (0..head_width / 2).map(|pair| self.scaled(pair, plain(pair))).collect()
    }

    fn scaled(&self, pair: u64, frequency: f64) -> f64 {
        match &self.scaling {
            Scaling::Factors(factors) => {
                let factor = usize::try_from(pair).ok().and_then(|pair| factors.get(pair));
                frequency / factor.copied().unwrap_or(1.0)
            }
            Scaling::None => frequency,
            Scaling::Linear(factor) => frequency / factor,
            Scaling::Llama3 { factor, low, high, original } => {
                let wave = 2.0 * std::f64::consts::PI / frequency;
                if wave < original / high {
                    return frequency;
                }
                if wave > original / low {
                    return frequency / factor;
                }
                let smooth = (original / wave - low) / (high - low);
                (1.0 - smooth) * frequency / factor + smooth * frequency
            }
        }
    }

    /// Cosines and sines of all positions as stored tensors `[context, head_width / 2]`.
    fn tables(&self, head_width: u64, context: u64) -> Option<(StoredTensor, StoredTensor)> {
        let frequencies = self.frequencies(head_width);
        let dims = [context, head_width / 2];
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            reason = "rounded to float32"
        )]
        let table = |function: fn(f64) -> f64| {
            let angles = (0..context).flat_map(|at| frequencies.iter().map(move |f| at as f64 * f));
            StoredTensor::floats(&dims, &angles.map(|angle| function(angle) as f32).collect::<Vec<f32>>())
        };
        Some((table(f64::cos)?, table(f64::sin)?))
    }
}

/// Why no model has a configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ConfigError {
    /// A size that is 0 or too large.
    Size {
        /// Which.
        name: &'static str,
        /// What it is.
        value: u64,
        /// The largest that it may be.
        most: u64,
    },
    /// Query heads that key heads do not divide.
    Heads {
        /// Query heads.
        query: u64,
        /// Key heads.
        key: u64,
    },
    /// The width of a head, which is no multiple of two: positions rotate pairs.
    OddHead(u64),
    /// An epsilon of norms that is no number of float32.
    Epsilon(f32),
    /// A table of positions that is too long.
    Table {
        /// Positions.
        context: u64,
        /// Width of a head.
        head: u64,
    },
}

impl std::error::Error for ConfigError {}

impl std::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ConfigError::Size { name, value, most } => write!(f, "{name} is {value}; allowed is 1 to {most}"),
            ConfigError::Heads { query, key } => {
                write!(f, "{query} query heads cannot share {key} key heads evenly")
            }
            ConfigError::OddHead(width) => write!(f, "the width of a head is {width}; positions turn pairs"),
            ConfigError::Epsilon(epsilon) => {
                write!(f, "the epsilon of norms is {epsilon}; allowed are numbers of float32")
            }
            ConfigError::Table { context, head } => {
                write!(f, "a context of {context} with heads of {head} is too long")
            }
        }
    }
}

/// Elements of a rotary table, at most.
const MOST_TABLE: u64 = 1 << 24;

impl Config {
    /// Refuses sizes that no model has.
    ///
    /// # Errors
    /// The first size that is out of bounds or does not fit another.
    pub fn check(&self) -> Result<(), ConfigError> {
        let bounded = [
            ("width", self.width, 1 << 20),
            ("hidden width", self.hidden, 1 << 24),
            ("layers", self.layers, 1024),
            ("query heads", self.heads, 1 << 16),
            ("key heads", self.kv_heads, 1 << 16),
            ("width of a head", self.head_width, 1 << 16),
            ("vocabulary", self.vocabulary, 1 << 24),
            ("context", self.context, 1 << 24),
        ];
        for (name, value, most) in bounded {
            if value == 0 || value > most {
                return Err(ConfigError::Size { name, value, most });
            }
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            return Err(ConfigError::Heads { query: self.heads, key: self.kv_heads });
        }
        if !self.head_width.is_multiple_of(2) {
            return Err(ConfigError::OddHead(self.head_width));
        }
        if !self.norm_eps.is_finite() {
            return Err(ConfigError::Epsilon(self.norm_eps));
        }
        if self.context * (self.head_width / 2) > MOST_TABLE {
            return Err(ConfigError::Table { context: self.context, head: self.head_width });
        }
        Ok(())
    }

    /// Sizes of a weight by its role: `embedding`, `final_norm`, `output`, `layer3.wq`, ...
    pub fn weight_dims(&self, role: &str) -> Option<Vec<u64>> {
        let (q, kv) = (self.heads * self.head_width, self.kv_heads * self.head_width);
        Some(match role.rsplit('.').next()? {
            "embedding" | "output" => vec![self.vocabulary, self.width],
            "final_norm" | "attention_norm" | "feed_forward_norm" => vec![self.width],
            "wq" => vec![q, self.width],
            "wk" | "wv" => vec![kv, self.width],
            "wo" => vec![self.width, q],
            "gate" | "up" => vec![self.hidden, self.width],
            "down" => vec![self.width, self.hidden],
            _ => return None,
        })
    }

    /// Roles of all weights, in the order in which the graph uses them.
    pub fn roles(&self) -> Vec<String> {
        let mut roles = vec!["embedding".to_string()];
        for layer in 0..self.layers {
            let parts = ["attention_norm", "wq", "wk", "wv", "wo", "feed_forward_norm", "gate", "up", "down"];
            roles.extend(parts.iter().map(|part| format!("layer{layer}.{part}")));
        }
        roles.push("final_norm".to_string());
        if !self.tied {
            roles.push("output".to_string());
        }
        roles
    }
}

/// Gives the value of a weight by its role.
pub type Weight<'w> = dyn FnMut(&mut Builder, &str) -> BuildResult<ValueId> + 'w;

/// The graph of a model; tables of positions go into the store.
pub fn graph(config: &Config, store: &mut TensorStore, weight: &mut Weight<'_>) -> BuildResult<Graph> {
    let mut b = Builder::new(config.name.clone());
    let batch = b.axis("batch", 1, MOST_BATCH);
    let past = b.axis("past", 0, config.context.saturating_sub(1));
    let seq = b.axis("seq", 1, config.context);
    let tokens = b.input("tokens", Type::new(Dtype::I64, [batch.clone(), seq.clone()]))?;
    let positions = b.input("positions", Type::new(Dtype::I64, [batch.clone(), seq.clone()]))?;
    let mut model = LlamaBuilder { config, batch, seq, past, weight };
    let embedding = model.weight(&mut b, "embedding")?;
    let (cos, sin) = model.angles(&mut b, store, positions)?;
    let mask = model.mask(&mut b, positions)?;
    let mut x = b.called("x").gather(embedding, 0, tokens)?;
    let mut states = Vec::new();
    for layer in 0..config.layers {
        x = model.block(&mut b, layer, x, (cos, sin, mask), &mut states)?;
    }
    let x = model.norm(&mut b, x, "final_norm")?;
    let output = if config.tied { embedding } else { model.weight(&mut b, "output")? };
    let logits = b.called("logits").einsum("bse,fe->bsf", &[x, output])?;
    b.output("logits", logits);
    for (name, past, present) in states {
        let at = b.graph().outputs.len();
        b.output(&name, present);
        b.state(past, at);
    }
    Ok(b.finish())
}

/// Name of the output, the input and the value of a cache.
type CacheStates = Vec<(String, ValueId, ValueId)>;

struct LlamaBuilder<'p, 'w> {
    config: &'p Config,
    batch: Dim,
    seq: Dim,
    past: Dim,
    weight: &'p mut Weight<'w>,
}

fn fixed(number: u64) -> Dim {
    Dim::fixed(i64::try_from(number).or_broken("sizes of a configuration were checked"))
}

impl LlamaBuilder<'_, '_> {
    fn weight(&mut self, b: &mut Builder, role: &str) -> BuildResult<ValueId> {
        (self.weight)(b, role)
    }

    /// Cosines and sines of the positions, `[batch, 1, seq, head_width / 2]`.
    fn angles(
        &self,
        b: &mut Builder,
        store: &mut TensorStore,
        positions: ValueId,
    ) -> BuildResult<(ValueId, ValueId)> {
        let (width, context) = (self.config.head_width, self.config.context);
        let rows = |b: &mut Builder, name: &str| -> BuildResult<ValueId> {
            let table = b.stored(name, Dtype::F32, &[context, width / 2])?;
            let rows = b.gather(table, 0, positions)?;
            b.unsqueeze(rows, 1)
        };
        let angles = (rows(b, "rope.cos")?, rows(b, "rope.sin")?);
        if let Some((cos, sin)) = self.config.rope.tables(width, context) {
            store.tensors.insert("rope.cos".to_string(), cos);
            store.tensors.insert("rope.sin".to_string(), sin);
        }
        Ok(angles)
    }

    /// Which keys a query sees, `[batch, 1, seq, past + seq]`.
    fn mask(&self, b: &mut Builder, positions: ValueId) -> BuildResult<ValueId> {
        let keys = self.past.plus(&self.seq).or_broken("the sum of two axes has two terms");
        let places = b.iota(Dtype::I64, &[keys], 0)?;
        let positions = b.reshape(positions, &[self.batch.clone(), 1.into(), self.seq.clone(), 1.into()])?;
        b.called("mask").binary(Binary::Le, places, positions)
    }

    fn norm(&mut self, b: &mut Builder, x: ValueId, role: &str) -> BuildResult<ValueId> {
        let scale = self.weight(b, role)?;
        let attrs = Attrs::default().int("axis", -1).float("eps", self.config.norm_eps);
        b.called(format!("{role}.y")).rich_one(RichOp::RmsNorm, &[x, scale], attrs)
    }

    fn linear(&mut self, b: &mut Builder, x: ValueId, role: &str) -> BuildResult<ValueId> {
        let weight = self.weight(b, role)?;
        b.called(format!("{role}.y")).einsum("bse,fe->bsf", &[x, weight])
    }

    /// A projection as heads, `[batch, heads, seq, head_width]`.
    fn heads(&mut self, b: &mut Builder, x: ValueId, role: &str, heads: u64) -> BuildResult<ValueId> {
        let flat = self.linear(b, x, role)?;
        let dims = [self.batch.clone(), self.seq.clone(), fixed(heads), fixed(self.config.head_width)];
        let split = b.reshape(flat, &dims)?;
        b.transpose(split, &[0, 2, 1, 3])
    }

    /// A cache with new rows behind it.
    fn cached(
        &self,
        b: &mut Builder,
        name: &str,
        new: ValueId,
        states: &mut CacheStates,
    ) -> BuildResult<ValueId> {
        let dims = [
            self.batch.clone(),
            fixed(self.config.kv_heads),
            self.past.clone(),
            fixed(self.config.head_width),
        ];
        let past = b.input(&format!("past_{name}"), Type::new(b.dtype(new), dims))?;
        let present = b.called(format!("present_{name}")).concat(2, &[past, new])?;
        states.push((format!("present_{name}"), past, present));
        Ok(present)
    }

    fn block(
        &mut self,
        b: &mut Builder,
        layer: u64,
        x: ValueId,
        (cos, sin, mask): (ValueId, ValueId, ValueId),
        states: &mut CacheStates,
    ) -> BuildResult<ValueId> {
        let role = |part: &str| format!("layer{layer}.{part}");
        let config = self.config;
        let h = self.norm(b, x, &role("attention_norm"))?;
        let q = self.heads(b, h, &role("wq"), config.heads)?;
        let k = self.heads(b, h, &role("wk"), config.kv_heads)?;
        let v = self.heads(b, h, &role("wv"), config.kv_heads)?;
        let turn = |b: &mut Builder, x: ValueId| {
            let attrs = Attrs::default().int("interleaved", i64::from(config.rope.interleaved));
            b.rich_one(RichOp::Rope, &[x, cos, sin], attrs)
        };
        let (q, k) = (turn(b, q)?, turn(b, k)?);
        let keys = self.cached(b, &format!("k{layer}"), k, states)?;
        let values = self.cached(b, &format!("v{layer}"), v, states)?;
        let heads = b.called(role("attention")).rich_one(
            RichOp::Attention,
            &[q, keys, values, mask],
            Attrs::default(),
        )?;
        let joined = b.transpose(heads, &[0, 2, 1, 3])?;
        let dims = [self.batch.clone(), self.seq.clone(), fixed(config.heads * config.head_width)];
        let joined = b.reshape(joined, &dims)?;
        let y = self.linear(b, joined, &role("wo"))?;
        let x = b.called(role("attended")).add(x, y)?;
        let h = self.norm(b, x, &role("feed_forward_norm"))?;
        let gate = self.linear(b, h, &role("gate"))?;
        let gate = b.rich_one(RichOp::Silu, &[gate], Attrs::default())?;
        let up = self.linear(b, h, &role("up"))?;
        let product = b.mul(gate, up)?;
        let y = self.linear(b, product, &role("down"))?;
        b.called(role("x")).add(x, y)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn llama3_keeps_high_frequencies_and_divides_low_ones() {
        let scaling = Scaling::Llama3 { factor: 8.0, low: 1.0, high: 4.0, original: 8192.0 };
        let rope = |scaling| Rope { theta: 500_000.0, interleaved: false, scaling };
        let (plain, scaled) = (rope(Scaling::None).frequencies(128), rope(scaling).frequencies(128));
        assert_eq!(plain[0], 1.0);
        for (plain, scaled) in plain.iter().zip(&scaled) {
            let wave = 2.0 * std::f64::consts::PI / plain;
            let ratio = plain / scaled;
            match wave {
                wave if wave < 2048.0 => assert_eq!(ratio, 1.0),
                wave if wave > 8192.0 => assert!((ratio - 8.0).abs() < 1e-12),
                _ => assert!((1.0..=8.0).contains(&ratio)),
            }
        }
        assert!(
            plain.windows(2).all(|pair| pair[0] > pair[1]) && scaled.windows(2).all(|pair| pair[0] > pair[1])
        );
    }

    #[test]
    fn sizes_that_no_model_has_are_refused() {
        let good = Config {
            name: "m".into(),
            width: 8,
            hidden: 8,
            layers: 1,
            heads: 2,
            kv_heads: 1,
            head_width: 4,
            vocabulary: 4,
            context: 8,
            norm_eps: 1e-5,
            rope: Rope { theta: 1e4, interleaved: true, scaling: Scaling::None },
            tied: true,
        };
        assert_eq!(good.check(), Ok(()));
        for bad in [
            Config { kv_heads: 0, ..good.clone() },
            Config { heads: 3, kv_heads: 2, ..good.clone() },
            Config { head_width: 3, ..good.clone() },
            Config { layers: 1 << 40, ..good.clone() },
            Config { context: 1 << 24, head_width: 1 << 16, ..good },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
