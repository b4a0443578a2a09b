//! What comes with the binary and can be named in any folder: the model `fables`, and example programs as
//! `builtin:NAME`.

use std::io::{Error, ErrorKind};
use std::path::Path;

use tilewright_base::nearest::near;

use crate::host::Host;

/// What names of example programs begin with.
const PREFIX: &str = "builtin:";

macro_rules! kernels {
    ($($name:literal $extension:literal)*) => {
        /// Example programs by name.
        const KERNELS: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../kernels/", $name, $extension)))),*];
    };
}

kernels! {
    "attention" ".tcp" "gelu" ".tcp" "qk-fig10" ".tw" "quantise" ".tcp" "residual" ".tcp" "rmsnorm" ".tcp" "rope" ".tcp"
    "silu" ".tcp" "softmax" ".tcp"
}

/// Whether a name is meant as that of an example program.
pub(crate) fn is_builtin(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// The text of an example program; `None` if the name is of a file.
///
/// # Errors
/// A name that no example has.
pub(crate) fn text(name: &str) -> Option<Result<&'static str, String>> {
    let asked = name.strip_prefix(PREFIX)?;
    let names = || KERNELS.iter().map(|(name, _)| *name);
    let found = KERNELS.iter().find(|(known, _)| *known == asked).map(|(_, text)| *text);
    Some(found.ok_or_else(|| {
        let instead =
            near(asked, names()).map_or(String::new(), |name| format!("\n  = instead: {PREFIX}{name}"));
        let allowed: Vec<String> = names().map(|name| format!("{PREFIX}{name}")).collect();
        format!("no program is called `{name}`\n  = allowed: {}{instead}", allowed.join(", "))
    }))
}

/// The name of the model that comes with the binary.
pub(crate) const FABLES: &str = "fables";

/// Files of that model, in Hugging Face's layout.
const FABLES_FILES: [(&str, &[u8]); 3] = [
    ("config.json", include_bytes!("../../../models/fables/config.json")),
    ("model.safetensors", include_bytes!("../../../models/fables/model.safetensors")),
    ("tokenizer.json", include_bytes!("../../../models/fables/tokenizer.json")),
];

/// A file of a model: of the host, or else of the model that comes with the binary, whose name reads as that of
/// a folder.
///
/// # Errors
/// What reading gives where neither has it.
pub(crate) fn read_model_file(host: &dyn Host, path: &Path) -> Result<Vec<u8>, Error> {
    let own = || {
        let name = path.strip_prefix(FABLES).ok()?.to_str()?;
        FABLES_FILES.iter().find(|(known, _)| *known == name).map(|(_, bytes)| bytes.to_vec())
    };
    match host.read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => own().ok_or(error),
        read => read,
    }
}
