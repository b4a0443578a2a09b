//! Activation functions of recurrent layers, by name, with the factors that some of them take.

use tilewright_base::invariant::OrBroken;
use tilewright_graph::rich::{Attrs, RichOp};
use tilewright_graph::{Binary, BuildResult, Builder, Unary, ValueId};

use crate::error::ImportResult;
use crate::onnx::node::Call;
use crate::onnx::ops::activation::{softsign, thresholded};

/// Names, and the factors alpha and beta where nothing else is said; those without one take none.
const FUNCTIONS: [(&str, Option<f64>, Option<f64>); 11] = [
    ("Relu", None, None),
    ("Tanh", None, None),
    ("Sigmoid", None, None),
    ("Affine", Some(1.0), Some(0.0)),
    ("LeakyRelu", Some(0.01), None),
    ("ThresholdedRelu", Some(1.0), None),
    ("ScaledTanh", Some(1.0), Some(1.0)),
    ("HardSigmoid", Some(0.2), Some(0.5)),
    ("Elu", Some(1.0), None),
    ("Softsign", None, None),
    ("Softplus", None, None),
];

/// A function with its factors.
#[derive(Clone, Copy)]
pub(super) struct ActivationFunction {
    name: &'static str,
    alpha: f64,
    beta: f64,
}

/// The functions of a node for all directions. Factors are taken in order by the functions that have one.
pub(super) fn functions(
    call: &Call<'_, '_>,
    defaults: &'static [&'static str],
    directions: i64,
) -> ImportResult<Vec<ActivationFunction>> {
    let count = defaults.len() * usize::try_from(directions).or_broken("one direction or two");
    let given = call.words("activations").unwrap_or_default();
    if !given.is_empty() && given.len() != count {
        return Err(call
            .refuse(format!("{} `activations`", given.len()))
            .allowed(format!("{count}, or none, which asks for {} in each direction", defaults.join(", "))));
    }
    let names: Vec<String> = if given.is_empty() {
        defaults.iter().cycle().take(count).map(ToString::to_string).collect()
    } else {
        given
    };
    let factors = |name: &str| call.attribute(name).map(|a| a.floats.clone()).unwrap_or_default();
    let mut alphas = factors("activation_alpha").into_iter().map(f64::from);
    let mut betas = factors("activation_beta").into_iter().map(f64::from);
    let mut all = Vec::new();
    for name in names {
        let known = FUNCTIONS.iter().find(|(known, ..)| known.eq_ignore_ascii_case(&name));
        let (name, alpha, beta) = known.ok_or_else(|| {
            let known: Vec<&str> = FUNCTIONS.iter().map(|(known, ..)| *known).collect();
            call.refuse(format!("activation `{name}`")).allowed(known.join(", "))
        })?;
        let mut alpha_of = |default: f64| alphas.next().unwrap_or(default);
        let mut beta_of = |default: f64| betas.next().unwrap_or(default);
        let (alpha, beta) = (alpha.map_or(0.0, &mut alpha_of), beta.map_or(0.0, &mut beta_of));
        all.push(ActivationFunction { name, alpha, beta });
    }
    Ok(all)
}

impl ActivationFunction {
    pub(super) fn build(&self, b: &mut Builder, x: ValueId) -> BuildResult<ValueId> {
        #[expect(clippy::cast_possible_truncation, reason = "factors are f32 in files")]
        let (alpha, beta) = (self.alpha as f32, self.beta as f32);
        let attrs = || Attrs::default().float("alpha", alpha);
        match self.name {
            "Relu" => b.rich_one(RichOp::Relu, &[x], Attrs::default()),
            "Tanh" => b.unary(Unary::Tanh, x),
            "Sigmoid" => b.unary(Unary::Sigmoid, x),
            "Affine" => {
                let scaled = b.with(Binary::Mul, x, self.alpha)?;
                b.with(Binary::Add, scaled, self.beta)
            }
            "LeakyRelu" => b.rich_one(RichOp::LeakyRelu, &[x], attrs()),
            "ThresholdedRelu" => thresholded(b, x, self.alpha),
            "ScaledTanh" => {
                let scaled = b.with(Binary::Mul, x, self.beta)?;
                let bent = b.unary(Unary::Tanh, scaled)?;
                b.with(Binary::Mul, bent, self.alpha)
            }
            "HardSigmoid" => b.rich_one(RichOp::HardSigmoid, &[x], attrs().float("beta", beta)),
            "Elu" => b.rich_one(RichOp::Elu, &[x], attrs()),
            "Softsign" => softsign(b, x),
            _ => b.rich_one(RichOp::Softplus, &[x], Attrs::default()),
        }
    }
}
