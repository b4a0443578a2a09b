//! The text form of NeuronCore programs: every program prints to one text, and that text reads back as an
//! equal program.
//!
//! The grammar of statements and values is that of `tilewright_ir`; this is what the statements mean. What
//! stands in `[ ]` may be left out; the value meant then is behind it, and is not printed. `a to b` does not
//! include b. The first statement is `program neuron 1`. Tensors and instructions stand in the order in which
//! the kernel made and executed them, so that a tensor stands before the first instruction that was executed
//! after it was made.
//!
//! | statement of the top level | says |
//! |---|---|
//! | `program neuron 1` | what this text is; the number is the version of this grammar |
//! | `machine NAME` | the chip it was recorded for |
//! | `cores N` \[0\] | cores that run the programs of the launch side by side; 0 and 1: they follow each other on one |
//! | `in_order` | the kernel asks for its own order of instructions |
//! | `compiled` | the compiler of the first dialect may change it |
//! | `line N "FILE:LINE"` | a line of the kernel; numbers count from 0 |
//! | `tensor tN MEMORY bytes=N line=N` | a tensor; numbers count from 0. MEMORY `sbuf`, `psum`, `private_hbm`, `shared_hbm`; bytes are those of a partition, on chip, or of the whole, in HBM |
//! | .. `partitions=N` \[1\] `tiles=N` \[1\] `name=NAME` \[none\] | partitions of a tile, tiles that leading dimensions number, the kernel's name |
//! | .. `{ places (PARTITION: BYTE)* }` | where the kernel wants each tile, if it does not leave that to the compiler |
//! | `OPCODE ENGINE line=N { .. }` | an executed instruction. ENGINE `tensor`, `vector`, `scalar`, `gpsimd`, `dma`, `sync` |
//! | .. `program=N` \[0\] `barrier=N` \[0\] | program of the launch grid, or core; barriers of the cores that it has passed |
//!
//! | in an instruction | says |
//! |---|---|
//! | `busy_ps N` \[0\] | time until the engine can start its next instruction |
//! | `latency_ps N` \[0\] | time from then until the result can be read |
//! | `write REGION`, `read REGION` | bytes that it touches; dependencies follow from them. Once for each |
//! | `offset REGION` | those of its reads that say where operands lie, by the sequencer |
//! | `hbm_read_bytes N`, `hbm_written_bytes N` \[0\] | bytes of HBM |
//! | `dma engines=N data_ps=N bytes=N descriptors=N`, perhaps `software` | how a transfer spreads; `software`: GpSimd makes its descriptors |
//! | `macs N`, `operand_bits N` \[0\], `passes N` \[1\], `cells BITS` \[0: all\] | work of the tensor engine, and the cells of the array that it runs on |
//! | `full_rows`, `block_scaled` | a product with all passes of its type; MXFP8 or MXFP4 operands |
//! | `table FUNCTION` | function tables that the Scalar engine needs |
//! | `form FORM`, `digest BITS` \[other, 0\] | what it computes, for the compiler: `map`, `sum`, `reciprocal`, `product`, `copy`, `scaled`, `linear`; and a hash of it |
//! | `on_scalar busy_ps=N latency_ps=N`, `on_gpsimd ..` | what it takes there, if it may as well run there |
//! | `borrows_port` | Vector in a fast mode, with GpSimd's port of SBUF |
//! | `uninitialised`, `outside_table` | it read bytes that nobody wrote; a value lies where its table does not reach |
//! | `other_values` | it wrote other values than another program, which nothing orders with it, had written there |
//! | `merged` | another instruction does its work |
//! | `collective ranks=[N, ..] number=N start_ps=N links=[LINK: PS, ..]` | with whom it meets, how often they met before, when it begins (0: not known yet), how long it keeps links |
//!
//! A region is `tN bytes=FIRST to END`, with `tile=N` \[0\] and, for rows of a pitch, `rows=FIRST to END
//! pitch=BYTES` before the bytes, which are then those of a row; `sparse` behind them says that the pattern
//! leaves gaps.

mod instruction;
mod region;
mod tensor;
mod top;

pub use top::{ProgramText, VERSION, is_neuron, print, read};
