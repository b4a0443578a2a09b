//! Activation functions of the Scalar engine as values: the function in double precision, rounded to FP32.
//!
//! The tables of the hardware are not published, so the exact function stands in for them; only the behaviour
//! of `sin` outside its range is documented, a cubic that runs away (NKI instruction pages, activation).

use std::f64::consts::{FRAC_2_SQRT_PI, LN_2, LOG2_E, PI, SQRT_2};

use tilewright_num::widest;

/// An activation function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names are the functions")]
pub enum ActivationFunction {
    Copy,
    Square,
    Sigmoid,
    Relu,
    Gelu,
    GeluDx,
    GeluTanh,
    GeluSigmoid,
    GeluSigmoidDx,
    Silu,
    SiluDx,
    Tanh,
    Softplus,
    Mish,
    Erf,
    ErfDx,
    Exp,
    Log,
    Sin,
    Arctan,
    Sqrt,
    Rsqrt,
    Reciprocal,
    Sign,
    Abs,
}

/// Functions with the names that kernels use.
pub const NAMES: &[(&str, ActivationFunction)] = &[
    ("copy", ActivationFunction::Copy),
    ("square", ActivationFunction::Square),
    ("sigmoid", ActivationFunction::Sigmoid),
    ("relu", ActivationFunction::Relu),
    ("gelu", ActivationFunction::Gelu),
    ("gelu_dx", ActivationFunction::GeluDx),
    ("gelu_apprx_tanh", ActivationFunction::GeluTanh),
    ("gelu_apprx_sigmoid", ActivationFunction::GeluSigmoid),
    ("gelu_apprx_sigmoid_dx", ActivationFunction::GeluSigmoidDx),
    ("silu", ActivationFunction::Silu),
    ("silu_dx", ActivationFunction::SiluDx),
    ("tanh", ActivationFunction::Tanh),
    ("softplus", ActivationFunction::Softplus),
    ("mish", ActivationFunction::Mish),
    ("erf", ActivationFunction::Erf),
    ("erf_dx", ActivationFunction::ErfDx),
    ("exp", ActivationFunction::Exp),
    ("log", ActivationFunction::Log),
    ("sin", ActivationFunction::Sin),
    ("arctan", ActivationFunction::Arctan),
    ("sqrt", ActivationFunction::Sqrt),
    ("rsqrt", ActivationFunction::Rsqrt),
    ("reciprocal", ActivationFunction::Reciprocal),
    ("sign", ActivationFunction::Sign),
    ("abs", ActivationFunction::Abs),
    ("absolute", ActivationFunction::Abs),
];

impl ActivationFunction {
    /// The function of that name.
    pub fn from_name(name: &str) -> Option<ActivationFunction> {
        NAMES.iter().find(|(spelling, _)| *spelling == name).map(|&(_, function)| function)
    }

    /// The name in kernels.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, function)| *function == self).map_or("", |(name, _)| name)
    }

    /// The set of tables that it needs; none for functions that every set has (an assumption).
    pub const fn table(self) -> Option<ActivationFunction> {
        match self {
            ActivationFunction::Copy
            | ActivationFunction::Square
            | ActivationFunction::Relu
            | ActivationFunction::Abs
            | ActivationFunction::Sign => None,
            ActivationFunction::GeluDx | ActivationFunction::GeluTanh => Some(ActivationFunction::Gelu),
            ActivationFunction::GeluSigmoid
            | ActivationFunction::GeluSigmoidDx
            | ActivationFunction::Silu
            | ActivationFunction::SiluDx => Some(ActivationFunction::Sigmoid),
            ActivationFunction::ErfDx => Some(ActivationFunction::Erf),
            other => Some(other),
        }
    }

    /// True if a value lies where its table does not reach.
    pub fn leaves_table(self, values: &[f32]) -> bool {
        self == ActivationFunction::Sin && values.iter().any(|value| value.abs() > SINE_REACH)
    }

    /// The function of each value.
    pub fn apply_slice(self, values: &mut [f32]) {
        match self {
            ActivationFunction::Copy => {}
            ActivationFunction::Exp => exp_slice(values),
            ActivationFunction::Sigmoid => sigmoid_slice(values),
            ActivationFunction::Silu => silu_slice(values),
            ActivationFunction::Square => values.iter_mut().for_each(|value| *value *= *value),
            _ => values.iter_mut().for_each(|value| *value = self.apply(*value)),
        }
    }

    /// The function of one value.
    #[expect(clippy::cast_possible_truncation, reason = "results are rounded to FP32")]
    pub fn apply(self, value: f32) -> f32 {
        let x = f64::from(value);
        let result = match self {
            ActivationFunction::Copy => return value,
            ActivationFunction::Square => return value * value,
            ActivationFunction::Relu => return if value > 0.0 || value.is_nan() { value } else { 0.0 },
            ActivationFunction::Abs => return value.abs(),
            ActivationFunction::Sign => {
                return if value == 0.0 || value.is_nan() { value } else { value.signum() };
            }
            ActivationFunction::Sigmoid => sigmoid(x),
            ActivationFunction::Gelu => x * normal(x),
            ActivationFunction::GeluDx => normal(x) + x * density(x),
            ActivationFunction::GeluTanh => 0.5 * x * (1.0 + libm::tanh(gelu_inner(x))),
            ActivationFunction::GeluSigmoid => x * sigmoid(1.702 * x),
            ActivationFunction::GeluSigmoidDx => {
                let s = sigmoid(1.702 * x);
                s + 1.702 * x * s * (1.0 - s)
            }
            ActivationFunction::Silu => x * sigmoid(x),
            ActivationFunction::SiluDx => {
                let s = sigmoid(x);
                s * (1.0 + x * (1.0 - s))
            }
            ActivationFunction::Tanh => libm::tanh(x),
            ActivationFunction::Softplus => softplus(x),
            ActivationFunction::Mish => x * libm::tanh(softplus(x)),
            ActivationFunction::Erf => libm::erf(x),
            ActivationFunction::ErfDx => FRAC_2_SQRT_PI * exp(-x * x),
            ActivationFunction::Exp => exp(x),
            ActivationFunction::Log => libm::log(x),
            ActivationFunction::Sin => sin(x),
            ActivationFunction::Arctan => libm::atan(x),
            ActivationFunction::Sqrt => x.sqrt(),
            ActivationFunction::Rsqrt => 1.0 / x.sqrt(),
            ActivationFunction::Reciprocal => 1.0 / x,
        };
        result as f32
    }
}

/// e to the x, to about 2^-45: far finer than FP32, with nothing but sums and products, which every host
/// rounds alike.
#[inline(always)]
pub fn exp(x: f64) -> f64 {
    const COEFFICIENTS: [f64; 12] = [
        1.0,
        1.0,
        1.0 / 2.0,
        1.0 / 6.0,
        1.0 / 24.0,
        1.0 / 120.0,
        1.0 / 720.0,
        1.0 / 5040.0,
        1.0 / 40_320.0,
        1.0 / 362_880.0,
        1.0 / 3_628_800.0,
        1.0 / 39_916_800.0,
    ];
    const ROUND: f64 = 6_755_399_441_055_744.0;
    let bounded = if x > 200.0 { 200.0 } else { x };
    let bounded = if bounded < -200.0 { -200.0 } else { bounded };
    let shifted = bounded * LOG2_E + ROUND;
    let steps = shifted - ROUND;
    let rest = bounded - steps * LN_2;
    let mut sum = 0.0;
    for coefficient in COEFFICIENTS.iter().rev() {
        sum = sum * rest + coefficient;
    }
    // The low bits of `shifted` are the integer; NaN falls through as NaN.
    let exponent = (shifted.to_bits() << 52).wrapping_add(1023 << 52);
    sum * f64::from_bits(exponent)
}

widest! {
    /// e to the power of each value.
    #[expect(clippy::cast_possible_truncation, reason = "results are rounded to FP32")]
    fn exp_slice(values: &mut [f32]) {
        values.iter_mut().for_each(|value| *value = exp(f64::from(*value)) as f32);
    }
}

widest! {
    /// The sigmoid of each value.
    #[expect(clippy::cast_possible_truncation, reason = "results are rounded to FP32")]
    fn sigmoid_slice(values: &mut [f32]) {
        values.iter_mut().for_each(|value| *value = sigmoid(f64::from(*value)) as f32);
    }
}

widest! {
    /// Each value times its sigmoid.
    #[expect(clippy::cast_possible_truncation, reason = "results are rounded to FP32")]
    fn silu_slice(values: &mut [f32]) {
        values.iter_mut().for_each(|value| *value = (f64::from(*value) * sigmoid(f64::from(*value))) as f32);
    }
}

#[inline(always)]
fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + exp(-x))
}

fn softplus(x: f64) -> f64 {
    if x > 30.0 { x } else { libm::log1p(exp(x)) }
}

/// The normal distribution function.
fn normal(x: f64) -> f64 {
    0.5 * (1.0 + libm::erf(x / SQRT_2))
}

/// The normal density.
fn density(x: f64) -> f64 {
    exp(-0.5 * x * x) * FRAC_2_SQRT_PI / (2.0 * SQRT_2)
}

fn gelu_inner(x: f64) -> f64 {
    (2.0 / PI).sqrt() * (x + 0.044_715 * x * x * x)
}

/// Just beyond pi: arguments that were reduced to it in FP32 count as inside.
const SINE_REACH: f32 = std::f32::consts::PI + 1e-5;

/// Inside [-pi, pi] the sine; outside, the last cubic of the table runs on: sin(9) is about 27.65.
fn sin(x: f64) -> f64 {
    if x.abs() <= PI {
        return libm::sin(x);
    }
    let beyond = x.abs() - PI;
    let cubic = -beyond + beyond * beyond * beyond / 6.0;
    x.signum() * cubic
}

/// One over the square root.
#[expect(clippy::cast_possible_truncation, reason = "results are rounded to FP32")]
pub fn rsqrt(value: f32) -> f32 {
    (1.0 / f64::from(value).sqrt()) as f32
}

/// a to the b.
#[expect(clippy::cast_possible_truncation, reason = "results are rounded to FP32")]
pub fn power(a: f32, b: f32) -> f32 {
    libm::pow(f64::from(a), f64::from(b)) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::cast_possible_truncation, reason = "results are rounded to FP32")]
    fn exp_is_the_nearest_fp32_nearly_everywhere() {
        let mut off = 0;
        for step in -8800..8800 {
            let x = f64::from(step) / 100.0;
            let (ours, theirs) = (exp(x) as f32, libm::exp(x) as f32);
            assert!((ours - theirs).abs() <= f32::EPSILON * theirs, "exp({x}) = {ours}, not {theirs}");
            off += u32::from(ours != theirs);
        }
        assert!(off < 10, "{off} of 17600 are not the nearest");
        assert_eq!(exp(-200.0) as f32, 0.0);
        assert_eq!(exp(f64::INFINITY) as f32, f32::INFINITY);
        assert!(exp(f64::NAN).is_nan());
    }

    #[test]
    fn slices_give_the_bits_of_single_values() {
        let edges = [0.0, -0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MIN_POSITIVE, 1e-40, 3e38];
        let inputs: Vec<f32> =
            edges.into_iter().chain((-4000..4000).map(|step| step as f32 / 37.0)).collect();
        for (name, function) in NAMES {
            let mut found = inputs.clone();
            function.apply_slice(&mut found);
            for (input, found) in inputs.iter().zip(&found) {
                let wanted = function.apply(*input);
                let same = wanted.to_bits() == found.to_bits() || (wanted.is_nan() && found.is_nan());
                assert!(same, "{name}({input}) = {found}, not {wanted}");
            }
        }
    }

    #[test]
    fn names_lead_back() {
        for (name, function) in NAMES {
            assert_eq!(ActivationFunction::from_name(name), Some(*function));
        }
    }
}
