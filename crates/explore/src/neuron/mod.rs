//! The NeuronCore as a target.
