//! All integration tests of this crate in one binary, which is linked once.

mod blocks;
mod config_json;
mod hostile;
mod models;
mod node_values;
mod nodes;
mod post_processors;
mod resize;
mod safetensors;
