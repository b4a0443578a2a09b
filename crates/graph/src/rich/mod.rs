//! Rich operators: those that models are written in and that stage 1 decomposes into primitives.
//!
//! An operator is a name, attributes and one function that writes it in primitives. Its types are those of
//! what that function writes, so there is no second rule to keep in step. One file a family.

mod activation;
mod attention;
mod contract;
mod index;
mod norm;
mod pool;
mod quant;
mod resize;

use std::collections::BTreeMap;
use tilewright_base::invariant::OrBroken;

use tilewright_base::Diagnostic;

use crate::build::Builder;
use crate::graph::{Type, ValueId};
use crate::infer::BuildResult;
use crate::known::KnownElements;

/// A value beside the operands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attr {
    /// A whole number.
    Int(i64),
    /// The pattern of an f32.
    Float(u32),
    /// Whole numbers.
    Ints(Vec<i64>),
    /// Patterns of f32.
    Floats(Vec<u32>),
    /// A word.
    Word(String),
}

/// Attributes by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attrs(pub BTreeMap<String, Attr>);

impl Attrs {
    /// Adds an attribute that is an integer.
    #[must_use]
    pub fn int(mut self, name: &str, value: i64) -> Attrs {
        self.0.insert(name.to_string(), Attr::Int(value));
        self
    }

    /// Adds an attribute that is a float.
    #[must_use]
    pub fn float(mut self, name: &str, value: f32) -> Attrs {
        self.0.insert(name.to_string(), Attr::Float(value.to_bits()));
        self
    }

    /// Adds an attribute that is a list of integers.
    #[must_use]
    pub fn ints(mut self, name: &str, values: &[i64]) -> Attrs {
        self.0.insert(name.to_string(), Attr::Ints(values.to_vec()));
        self
    }

    /// Adds an attribute that is a list of floats.
    #[must_use]
    pub fn floats(mut self, name: &str, values: &[f32]) -> Attrs {
        self.0.insert(name.to_string(), Attr::Floats(values.iter().map(|value| value.to_bits()).collect()));
        self
    }

    /// Adds an attribute that is a string.
    #[must_use]
    pub fn word(mut self, name: &str, value: &str) -> Attrs {
        self.0.insert(name.to_string(), Attr::Word(value.to_string()));
        self
    }
}

/// One use of a rich operator, as its function sees it.
pub(crate) struct RichCall<'c> {
    name: &'static str,
    inputs: &'c [Option<ValueId>],
    attrs: &'c Attrs,
}

impl RichCall<'_> {
    fn input(&self, at: usize) -> BuildResult<ValueId> {
        self.maybe(at).ok_or_else(|| {
            let what = format!("`{}` lacks operand {at}", self.name);
            Box::new(Diagnostic::error("graph/operands", what).allowed("an operand there"))
        })
    }

    fn maybe(&self, at: usize) -> Option<ValueId> {
        self.inputs.get(at).copied().flatten()
    }

    fn wrong(&self, name: &str, allowed: &str) -> Box<Diagnostic> {
        let what = format!("`{name}` of `{}` is of another kind", self.name);
        Box::new(Diagnostic::error("graph/attribute", what).allowed(allowed))
    }

    fn int(&self, name: &str, default: i64) -> BuildResult<i64> {
        match self.attrs.0.get(name) {
            None => Ok(default),
            Some(Attr::Int(value)) => Ok(*value),
            Some(_) => Err(self.wrong(name, "a whole number")),
        }
    }

    fn flag(&self, name: &str) -> BuildResult<bool> {
        Ok(self.int(name, 0)? != 0)
    }

    fn maybe_float(&self, name: &str) -> BuildResult<Option<f32>> {
        match self.attrs.0.get(name) {
            None => Ok(None),
            Some(Attr::Float(pattern)) => Ok(Some(f32::from_bits(*pattern))),
            Some(_) => Err(self.wrong(name, "a number with a point")),
        }
    }

    fn float(&self, name: &str, default: f32) -> BuildResult<f64> {
        Ok(f64::from(self.maybe_float(name)?.unwrap_or(default)))
    }

    fn ints(&self, name: &str) -> BuildResult<Option<&[i64]>> {
        match self.attrs.0.get(name) {
            None => Ok(None),
            Some(Attr::Ints(values)) => Ok(Some(values)),
            Some(_) => Err(self.wrong(name, "a list of whole numbers")),
        }
    }

    fn word(&self, name: &str, default: &'static str) -> BuildResult<&str> {
        match self.attrs.0.get(name) {
            None => Ok(default),
            Some(Attr::Word(value)) => Ok(value),
            Some(_) => Err(self.wrong(name, "a word")),
        }
    }

    /// An axis that may count from the end.
    fn axis(&self, b: &Builder, x: ValueId, name: &str, default: i64) -> BuildResult<usize> {
        axis_of(b, x, self.int(name, default)?)
    }

    fn refuse<T>(&self, what: &str, allowed: &str) -> BuildResult<T> {
        let what = format!("`{}` {what}", self.name);
        Err(Box::new(Diagnostic::error("graph/attribute", what).allowed(allowed)))
    }
}

/// An axis of a value that may count from the end.
pub fn axis_of(b: &Builder, x: ValueId, axis: i64) -> BuildResult<usize> {
    let rank = i64::try_from(b.rank(x)).or_broken("a rank fits 63 bits");
    let from_front = if axis < 0 { axis + rank } else { axis };
    let found = usize::try_from(from_front).ok().filter(|_| from_front < rank);
    found.ok_or_else(|| {
        crate::infer::shape_error(format!("axis {axis} of a tensor with {rank}"), "an axis that is there")
    })
}

type Decompose = fn(&mut Builder, &RichCall<'_>) -> BuildResult<Vec<ValueId>>;

macro_rules! rich {
    ($($(#[$doc:meta])* $kind:ident $text:literal $module:ident :: $function:ident),* $(,)?) => {
        /// A rich operator.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum RichOp { $($(#[$doc])* $kind),* }

        impl RichOp {
            /// Every one.
            pub const ALL: &[RichOp] = &[$(RichOp::$kind),*];

            /// As written.
            pub const fn name(self) -> &'static str {
                match self { $(RichOp::$kind => $text),* }
            }

            fn function(self) -> Decompose {
                match self { $(RichOp::$kind => $module::$function),* }
            }
        }
    };
}

rich! {
    /// max(x, 0).
    Relu "relu" activation::relu,
    /// x sigmoid(alpha x).
    Silu "silu" activation::silu,
    /// x times the normal distribution's integral; `approximate="tanh"`.
    Gelu "gelu" activation::gelu,
    /// Negative elements times `alpha`.
    LeakyRelu "leaky_relu" activation::leaky_relu,
    /// `prelu(x, slope)`.
    Prelu "prelu" activation::prelu,
    /// alpha (exp(x) - 1) below zero.
    Elu "elu" activation::elu,
    /// The same, times `gamma`.
    Selu "selu" activation::selu,
    /// alpha x + beta within 0 to 1.
    HardSigmoid "hard_sigmoid" activation::hard_sigmoid,
    /// x times a hard sigmoid.
    HardSwish "hard_swish" activation::hard_swish,
    /// ln(1 + exp(x)).
    Softplus "softplus" activation::softplus,
    /// x tanh(softplus(x)).
    Mish "mish" activation::mish,
    /// `clip(x, low, high)`.
    Clip "clip" activation::clip,
    /// softmax along `axis`.
    Softmax "softmax" norm::softmax,
    /// Its logarithm.
    LogSoftmax "log_softmax" norm::log_softmax,
    /// `rms_norm(x, scale)` over axes from `axis` on.
    RmsNorm "rms_norm" norm::rms_norm,
    /// `layer_norm(x, scale, bias)` over axes from `axis` on; also mean and 1/deviation.
    LayerNorm "layer_norm" norm::layer_norm,
    /// `batch_norm(x, scale, bias, mean, variance)`.
    BatchNorm "batch_norm" norm::batch_norm,
    /// `group_norm(x, scale, bias)` in `groups`.
    GroupNorm "group_norm" norm::group_norm,
    /// Rows divided by their norm.
    LpNorm "lp_norm" norm::lp_norm,
    /// Divided by a power of neighbouring channels.
    Lrn "lrn" norm::lrn,
    /// `matmul(x, y)` with the shapes of NumPy.
    Matmul "matmul" contract::matmul,
    /// `gemm(a, b, c)`.
    Gemm "gemm" contract::gemm,
    /// `conv(x, w, bias)`.
    Conv "conv" contract::conv,
    /// `conv_transpose(x, w, bias)`.
    ConvTranspose "conv_transpose" contract::conv_transpose,
    /// `max_pool(x)`; also the places of the maxima.
    MaxPool "max_pool" pool::max_pool,
    /// `avg_pool(x)`.
    AvgPool "avg_pool" pool::avg_pool,
    /// `lp_pool(x)`: the root of the sum of powers in a window.
    LpPool "lp_pool" pool::lp_pool,
    /// The place of the best element along an axis.
    ArgBest "arg_best" index::arg_best,
    /// The `k` best elements along an axis, and their places.
    TopK "topk" index::topk,
    /// Sums of all elements before.
    CumSum "cumsum" index::cumsum,
    /// `trilu(x, k)`: a triangle of a matrix.
    Trilu "trilu" index::trilu,
    /// `gather_elements(x, indices)`.
    GatherElements "gather_elements" index::gather_elements,
    /// `gather_nd(x, indices)`.
    GatherNd "gather_nd" index::gather_nd,
    /// `scatter_elements(x, indices, updates)`.
    ScatterElements "scatter_elements" index::scatter_elements,
    /// `scatter_nd(x, indices, updates)`.
    ScatterNd "scatter_nd" index::scatter_nd,
    /// `cache_write(cache, new, at)`.
    CacheWrite "cache_write" index::cache_write,
    /// `resize(x)`.
    Resize "resize" resize::resize,
    /// `quantize(x, scale, zero)`.
    Quantize "quantize" quant::quantize,
    /// `dequantize(x, scale, zero)`.
    Dequantize "dequantize" quant::dequantize,
    /// `dynamic_quantize(x)`; also scale and zero point.
    DynamicQuantize "dynamic_quantize" quant::dynamic_quantize,
    /// `rope(x, cos, sin)`: turns pairs of the last axis.
    Rope "rope" attention::rope,
    /// `attention(q, k, v, mask)` with grouped heads; also the scores.
    Attention "attention" attention::attention,
}

impl RichOp {
    /// The one of this name.
    pub fn by_name(name: &str) -> Option<RichOp> {
        RichOp::ALL.iter().copied().find(|rich| rich.name() == name)
    }

    /// Writes it in primitives.
    pub fn decompose(
        self,
        b: &mut Builder,
        inputs: &[Option<ValueId>],
        attrs: &Attrs,
    ) -> BuildResult<Vec<ValueId>> {
        self.function()(b, &RichCall { name: self.name(), inputs, attrs })
    }

    /// What its results are.
    pub(crate) fn infer(
        self,
        b: &mut Builder,
        inputs: &[Option<ValueId>],
        attrs: &Attrs,
    ) -> BuildResult<Vec<(Type, Option<KnownElements>)>> {
        b.trial(|b| {
            let outputs = self.decompose(b, inputs, attrs)?;
            Ok(outputs.iter().map(|id| (b.ty(*id).clone(), b.known(*id).cloned())).collect())
        })
    }
}
