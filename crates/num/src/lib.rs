//! Scalar number formats of tensor accelerators, bit for bit.
