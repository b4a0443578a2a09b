//! Array files that programs name.

use std::path::Path;

use tilewright_num::RuleSet;
use tilewright_runtime::{Array, ArrayError, npy, tensors};
use tilewright_tcp::program::Tensor;
use tilewright_tcp::program::tensor::Data;

use crate::host::Host;

/// The array of a tensor whose data is a file: `x.npy`, or `x.safetensors:NAME`.
pub(super) fn read(tensor: &Tensor, rules: &RuleSet, host: &dyn Host) -> Result<Array, ArrayError> {
    let Data::File(written) = &tensor.data else { return Err(ArrayError::Format("no file is named".into())) };
    let bytes = |path: &str| {
        host.read(Path::new(path))
            .map_err(|error| ArrayError::Format(format!("cannot read `{path}`: {error}")))
    };
    match written.rsplit_once(".safetensors:") {
        Some((stem, name)) => {
            tensors::read(&bytes(&format!("{stem}.safetensors"))?, name, tensor.dtype, rules)
        }
        None if written.ends_with(".npy") => npy::read(&bytes(written)?, tensor.dtype, rules),
        None => Err(ArrayError::Format(format!("`{written}` is neither FILE.npy nor FILE.safetensors:NAME"))),
    }
}

/// A tensor's name as a file name.
pub(super) fn safe(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let safe: String = name.chars().map(plain).collect();
    if safe.starts_with('.') { format!("_{safe}") } else { safe }
}
