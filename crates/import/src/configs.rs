//! Built-in configurations without weights (`models/configs`), for compiling and timing.

use tilewright_base::invariant::OrBroken;
use tilewright_graph::{BuildResult, Builder, Dtype, TensorStore, ValueId};

use crate::Model;
use crate::error::{ImportError, ImportResult};
use crate::hf::llama_config;
use crate::llama::graph;

macro_rules! configs {
    ($($name:literal)*) => {
        /// Names with the text of their `config.json`.
        const CONFIGS: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../models/configs/", $name, ".json")))),*];
    };
}

configs! { "llama2-7b" "llama2-13b" "llama2-70b" "llama3-8b" "llama3-70b" "mistral-7b" }

/// Names of all.
pub fn names() -> Vec<&'static str> {
    CONFIGS.iter().map(|(name, _)| *name).collect()
}

/// The graph of a configuration; its weights have names, types and sizes, but no bytes.
///
/// # Errors
/// If there is none of this name.
pub fn read(name: &str) -> ImportResult<Model> {
    let found = CONFIGS.iter().find(|(known, _)| *known == name);
    let (_, text) = found
        .ok_or_else(|| ImportError::new(name, "is no built-in configuration").allowed(names().join(", ")))?;
    read_text(name, text)
}

/// The graph of the text of a `config.json` of the Llama family, without weights.
///
/// # Errors
/// A text that is no such configuration.
pub fn read_text(name: &str, text: &str) -> ImportResult<Model> {
    let root = serde_json::from_str(text).map_err(|error| ImportError::new(name, error.to_string()))?;
    let config = llama_config(&root, name)?;
    let mut store = TensorStore::default();
    let mut weight = |b: &mut Builder, role: &str| -> BuildResult<ValueId> {
        let value =
            b.stored(role, Dtype::Bf16, &config.weight_dims(role).or_broken("every role has its sizes"))?;
        b.convert(value, Dtype::F32)
    };
    let graph = graph(&config, &mut store, &mut weight);
    let graph = graph.map_err(|complaint| ImportError::graph(name, "graph", &complaint))?;
    Ok(Model { graph, store })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Weights of the models as their checkpoints count them.
    #[test]
    fn every_configuration_has_the_weights_that_its_authors_count() {
        let published = [
            6_738_415_616,
            13_015_864_320,
            68_976_648_192,
            8_030_261_248,
            70_553_706_496,
            7_248_023_552_u128,
        ];
        for (name, weights) in names().iter().zip(published) {
            let model = read(name).unwrap();
            let tables: u128 =
                model.store.tensors.values().map(|t| u128::from(t.dims.iter().product::<u64>())).sum();
            assert_eq!(model.graph.stored_elements() - tables, weights, "{name}");
        }
    }
}
