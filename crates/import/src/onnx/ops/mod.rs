//! What each operator of ONNX becomes, a file a family. The table says which function converts which
//! operator.

mod activation;
mod bits;
mod blocks;
mod contract;
mod control;
mod deform;
mod einsum;
mod elementwise;
mod grid;
mod index;
mod loss;
mod norm;
mod place;
mod quantized;
mod recurrent;
mod recurrent_function;
mod roi;
mod shape;
mod shrink;
mod signal;
mod state;
mod trigonometry;
mod unrolled;

use tilewright_graph::ValueId;

use crate::error::ImportResult;
use crate::onnx::node::Call;

/// What an operator becomes.
type Outputs = ImportResult<Vec<ValueId>>;
type Convert = fn(&mut Call<'_, '_>) -> Outputs;

macro_rules! operators {
    ($($module:ident :: $function:ident: $($name:literal)*;)*) => {
        /// Every operator that is known.
        pub(super) const NAMES: &[&str] = &[$($($name),*),*];

        fn function(name: &str) -> Option<Convert> {
            match name {
                $($($name)|* => Some($module::$function),)*
                _ => None,
            }
        }
    };
}

operators! {
    elementwise::unary: "Neg" "Abs" "Exp" "Log" "Sqrt" "Reciprocal" "Sin" "Cos" "Tanh" "Sigmoid" "Erf" "Floor"
        "Ceil" "Round" "Sign" "Not" "IsNaN" "IsInf";
    elementwise::binary: "Add" "Sub" "Mul" "Div" "And" "Or" "Xor" "Equal" "Less" "LessOrEqual" "Greater"
        "GreaterOrEqual";
    elementwise::pow: "Pow";
    elementwise::modulo: "Mod";
    elementwise::variadic: "Max" "Min" "Sum" "Mean";
    elementwise::select: "Where";
    elementwise::cast: "Cast";
    elementwise::bit_cast: "BitCast";
    elementwise::cast_like: "CastLike";
    activation::rich: "Relu" "LeakyRelu" "PRelu" "Elu" "Selu" "HardSigmoid" "HardSwish" "Softplus"
        "Mish" "Swish" "Gelu";
    activation::simple: "Celu" "Shrink" "Softsign" "ThresholdedRelu";
    activation::hardmax: "Hardmax";
    trigonometry::function: "Tan" "Sinh" "Cosh" "Asin" "Acos" "Atan" "Asinh" "Acosh" "Atanh";
    elementwise::clip: "Clip";
    norm::softmax: "Softmax" "LogSoftmax";
    norm::rows: "LayerNormalization" "RMSNormalization" "LpNormalization";
    norm::channels: "InstanceNormalization" "GroupNormalization" "LRN";
    norm::mean_variance: "MeanVarianceNormalization";
    norm::batch: "BatchNormalization";
    norm::dropout: "Dropout";
    contract::matmul: "MatMul";
    contract::gemm: "Gemm";
    einsum::einsum: "Einsum";
    contract::conv: "Conv" "ConvTranspose";
    quantized::integer: "MatMulInteger" "ConvInteger";
    quantized::qlinear_matmul: "QLinearMatMul";
    quantized::qlinear_conv: "QLinearConv";
    quantized::quantize: "QuantizeLinear" "DequantizeLinear" "DynamicQuantizeLinear";
    recurrent::layer: "LSTM" "GRU" "RNN";
    loss::negative_log: "NegativeLogLikelihoodLoss";
    loss::cross_entropy: "SoftmaxCrossEntropyLoss";
    contract::rotary: "RotaryEmbedding";
    contract::attention: "Attention";
    shrink::reduce: "ReduceSum" "ReduceMean" "ReduceMax" "ReduceMin" "ReduceProd" "ReduceL1" "ReduceL2"
        "ReduceLogSum" "ReduceLogSumExp" "ReduceSumSquare";
    shrink::arg: "ArgMax" "ArgMin";
    shrink::topk: "TopK";
    shrink::pool: "MaxPool" "AveragePool";
    shrink::lp_pool: "LpPool" "GlobalLpPool";
    shrink::global_pool: "GlobalAveragePool" "GlobalMaxPool";
    shape::identity: "Identity";
    shape::constant: "Constant";
    shape::constant_of_shape: "ConstantOfShape";
    shape::shape: "Shape";
    shape::size: "Size";
    shape::range: "Range";
    shape::reshape: "Reshape";
    shape::flatten: "Flatten";
    shape::squeeze: "Squeeze";
    shape::unsqueeze: "Unsqueeze";
    shape::transpose: "Transpose";
    shape::expand: "Expand";
    shape::tile: "Tile";
    shape::concat: "Concat";
    shape::split: "Split";
    shape::depth: "DepthToSpace" "SpaceToDepth";
    index::slice: "Slice";
    index::pad: "Pad";
    index::gather: "Gather";
    index::by_tuples: "GatherElements" "GatherND" "Scatter" "ScatterElements" "ScatterND" "TensorScatter";
    index::cumsum: "CumSum";
    place::cumulative_product: "CumProd";
    place::one_hot: "OneHot";
    place::reverse_sequence: "ReverseSequence";
    place::eye_like: "EyeLike";
    place::center_crop_pad: "CenterCropPad";
    place::compress: "Compress";
    place::non_zero: "NonZero";
    place::determinant: "Det";
    blocks::col2im: "Col2Im";
    blocks::max_unpool: "MaxUnpool";
    grid::sample: "GridSample";
    deform::conv: "DeformConv";
    roi::align: "RoiAlign";
    state::causal_conv: "CausalConvWithState";
    state::linear_attention: "LinearAttention";
    grid::affine: "AffineGrid";
    bits::not: "BitwiseNot";
    bits::pairwise: "BitwiseAnd" "BitwiseOr" "BitwiseXor";
    bits::shift: "BitShift";
    signal::window: "HannWindow" "HammingWindow" "BlackmanWindow";
    signal::mel_weights: "MelWeightMatrix";
    signal::dft: "DFT";
    signal::stft: "STFT";
    control::branch: "If";
    control::repeat: "Loop";
    control::scan: "Scan";
    index::trilu: "Trilu";
    index::resize: "Resize" "Upsample";
}

/// What a node becomes; `None` if its operator is not known.
pub(super) fn convert(call: &mut Call<'_, '_>) -> Option<Outputs> {
    function(&call.node.op).map(|function| function(call))
}
