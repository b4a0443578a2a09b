//! The machine files that come with the project.

/// Names and texts, in the order in which they are listed.
const BUILTIN: &[(&str, &str)] = &[
    ("tcp", include_str!("../../../machines/tcp.toml")),
    ("inferentia2", include_str!("../../../machines/inferentia2.toml")),
    ("trainium1", include_str!("../../../machines/trainium1.toml")),
    ("trainium2", include_str!("../../../machines/trainium2.toml")),
    ("trainium3", include_str!("../../../machines/trainium3.toml")),
    ("toy-tcp", include_str!("../../../machines/toy-tcp.toml")),
    ("toy-neuron", include_str!("../../../machines/toy-neuron.toml")),
];

/// The text of a machine file that comes with the project.
pub fn builtin(name: &str) -> Option<&'static str> {
    BUILTIN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// Names of the machines that come with the project.
pub fn builtin_names() -> Vec<&'static str> {
    BUILTIN.iter().map(|(name, _)| *name).collect()
}
