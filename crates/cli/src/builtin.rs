//! What comes with the binary and can be named in any folder beside the model `fables`: example programs as
//! `builtin:NAME`, and what published rows are compared with.

use std::io::Error;
use std::path::PathBuf;

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
    "attention" ".tcp" "gelu" ".tcp" "qk-fig10" ".tw" "quantise" ".tcp" "residual" ".tcp" "rmsnorm" ".tcp"
        "rope" ".tcp"
    "silu" ".tcp" "softmax" ".tcp"
}

macro_rules! nki_kernels {
    ($($name:literal)*) => {
        /// NKI kernels that published rows are compared with, by the name of their file.
        const NKI_KERNELS: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../kernels/nki/", $name)))),*];
    };
}

nki_kernels! {
    "attention.py" "backward.py" "decode.py" "elementwise.py" "fused.py" "mamba.py" "matmul.py" "norm.py"
        "pictures.py" "placed.py"
    "probes.py"
}

/// Lays the NKI kernels and a file of published rows down where Python finds them; gives the paths of both.
///
/// # Errors
/// What writing gives, or a host without such a place.
pub(crate) fn lay_down_published(host: &mut dyn Host, rows: &str) -> Result<(PathBuf, PathBuf), Error> {
    let folder = host.scratch_folder(concat!("published-", env!("CARGO_PKG_VERSION")))?;
    let kernels = folder.join("kernels");
    host.create_folder(&kernels)?;
    for (name, text) in NKI_KERNELS {
        host.write(&kernels.join(name), text.as_bytes())?;
    }
    let file = folder.join("published.toml");
    host.write(&file, rows.as_bytes())?;
    Ok((file, kernels))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Every kernel that a published row names comes with the binary.
    #[test]
    fn published_rows_have_their_kernels() {
        let rows = tilewright_study::rows::FILE;
        let named: Vec<&str> = rows
            .split("kernel = \"")
            .skip(1)
            .filter_map(|rest| rest.split("::").next())
            .filter(|name| !name.contains('"'))
            .collect();
        assert!(named.len() > 100, "{} rows name kernels", named.len());
        for name in named {
            assert!(NKI_KERNELS.iter().any(|(known, _)| *known == name), "{name} does not come with us");
        }
    }

    #[test]
    fn names_of_programs_are_told_from_files() {
        assert!(text("kernels/attention.tcp").is_none());
        assert!(text("builtin:attention").is_some_and(|found| found.is_ok()));
        let near = text("builtin:sofmax").and_then(Result::err).unwrap_or_default();
        assert!(near.contains("= instead: builtin:softmax"), "{near}");
    }
}
