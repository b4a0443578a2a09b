//! The text form of TCP programs: every program prints to one text, and that text reads back as an equal
//! program.
//!
//! The grammar of statements and values is that of `tilewright_ir`; this is what the statements mean. Fields
//! in `[ ]` may be left out; the value meant then is behind them, and is not printed. `SIZE` is a number or
//! the name of a register, `(..)*` any number of groups side by side, outermost first. Names that are no
//! plain words stand in quotes. `a..b` includes b, `a to b` does not. Statements of the top level may come in
//! any order, except that the first is `program tcp 1`; names may be used before they are declared. Numbers
//! keep no spelling: addresses print in hexadecimal, counts in decimal.
//!
//! | statement of the top level | says |
//! |---|---|
//! | `program tcp 1` | what this text is; the number is the version of this grammar |
//! | `machine NAME` | the machine it was made for |
//! | `chips N` \[1\] | chips |
//! | `register NAME = FIRST in LEAST..MOST` | a control register; without `in`, any value |
//! | `tensor NAME: TYPE[AXIS=N, ..] ROLE at PLACE = "SHAPE" DATA` | named data; ROLE `input`, `output`, `both`; PLACE `hbm+BYTE` or `dm[SLICE]+BYTE`; SHAPE a lowered shape of the notation; DATA nothing, `zeros`, `random SEED`, `patterns [..]`, `file "NAME"` |
//! | `tensor NAME: TYPE[AXIS=N, ..] ROLE at PLACE { shape "SHAPE"; data DATA }` | the same where a line would be too long |
//! | `grant pe0 to 4 ADDRESS bytes=N write` | lets PEs 0, 1, 2, 3 touch a range; without `to`, one PE; without `write`, only read it; without any grant all share everything |
//! | `transfer NAME { .. }` | a DMA command |
//! | `exec NAME main { .. }`, `sub`, \[`pes=1`\] | a tensor unit command of a context |
//! | `queue pe0 { .. }`, `queue chip1.pe0 { .. }` | the steps of a PE's control core |
//!
//! An address is `hbm+BYTE`, `dm[SLICE]+BYTE`, `spm[PE]+BYTE`, with `chipN.` before it for another chip than
//! 0, or the bare number where no memory is mapped.
//!
//! | in `transfer` | says |
//! |---|---|
//! | `from ADDRESS`, `to ADDRESS` | first bytes |
//! | `loops (SIZE: SOURCE -> TARGET)*` \[none\] | bytes between iterations on both sides; `slice`, `4*slice` count strides between slices |
//! | `packet BYTES` | contiguous bytes |
//! | `gather ADDRESS as TYPE`, `scatter ADDRESS as TYPE` | rows by a table |
//!
//! | in `exec` | says |
//! |---|---|
//! | `fetch TYPE at BYTE { .. }` | fetch unit |
//! | `switch forwarding` \[this\], `switch broadcast01 S1 S0 time0=N`, `broadcast1 S1 S0`, `transpose S1 S0`, `inter_transpose S1 S0 time0=N`, `transposed_broadcast1 S1 S0`, `custom RING [[0, 1], ..]` | switch engine; the list has the sources of each slice of a ring |
//! | `contract { .. }` | contraction engine |
//! | `vector i32 { .. }`, `vector f32 { .. }` | vector engine, by the type of the words that enter |
//! | `cast TYPE` | cast engine |
//! | `transpose ROWS COLUMNS kept=N` \[COLUMNS\] | transpose engine |
//! | `commit MEMORY at BYTE { .. }` | commit unit; MEMORY `dm`, `trf(LANES)`, `vrf` |
//! | `fill WORD` | with `commit`: a fill |
//! | `short BYTES from BYTE to MEMORY at BYTE` | alone: a direct load |
//!
//! | in `fetch` | says |
//! |---|---|
//! | `loops (SIZE:STRIDE)*` \[none\] | addresses, in elements |
//! | `packet ELEMENTS` | elements of a packet |
//! | `interleave LOOP at BYTE` | the loop whose second iteration starts elsewhere |
//! | `indirect LOOP table BYTE` | the loop whose addresses come from a table |
//! | `limit SIZE slices (SIZE:STRIDE:WEIGHT)* weights [..]` | elements past it are zero; once for each limit |
//! | `lookup TYPE [PATTERN, ..]` | table lookup |
//! | `cast TYPE` | type after the cast |
//! | `zero_point N` | what is subtracted |
//!
//! | in `contract` | says |
//! |---|---|
//! | `op max` \[add\] | how products combine |
//! | `flits N` \[1\] | flits of a packet |
//! | `transpose ROWS COLUMNS` | in-flit transpose |
//! | `shift initial=N stride=N shifts=N pop=N` | convolution |
//! | `repeats SIZE` \[1\] | steps that a packet is held |
//! | `lanes N` | lanes |
//! | `trf TYPE at BYTE (SIZE:STRIDE)*` | register file type, base and addresses, in elements |
//! | `tree N` | neighbours that the tree combines |
//! | `steps SIZE sum(SIZE) ..` \[none\] | loops of all steps: those that survive and those that are summed |
//! | `drain sequential` \[interleaved\] | the order in which sums leave |
//!
//! | in `vector` | says |
//! |---|---|
//! | `trim`, `pair` | half flits; two groups |
//! | `tag < WORD`, with any relation | a tag bit; once for each, the first is bit 0 |
//! | `UNIT OPERAND* reversed keep` | a unit of the chain, in order: `and or xor shl shr`, `add add_sat sub sub_sat shl_sat mul mul_q31 shr_logic shr_arith shr_round`, `fadd fsub fmul fma`, `sqrt tanh sigmoid erf log sin cos fpu_div`, `exp exp_neg`, `mul0 mul1`, `div`, `clip_add clip_max clip_abs_max clip_min clip_abs_min`; `keep` stashes what enters |
//! | `to_float BITS`, `to_fixed BITS`, `filter MASK=VALUE` | units with a number of their own, before the operands |
//! | `reduce OP tree { steps ..; limit SIZE slices .. weights .. element N }` | reduction within the slice; OP `add`, `add_wrap`, `max`, `min`, `mul` |
//! | `between OP SLICES GIVES first` | reduction between slices; GIVES `first_slice`, `broadcast`, `scatter(INNER)`; `first`: before the chain |
//!
//! An operand is a word (f32 in decimal or as the pattern `0x..`, i32 as an integer), `vrf at BYTE
//! (SIZE:STRIDE)*`, `stash`, `pair`, or a choice by tag `[MASK=VALUE: OPERAND, else: OPERAND]`.
//!
//! | in `commit` | says |
//! |---|---|
//! | `loops (SIZE:STRIDE)*` \[none\] | addresses, in bytes |
//! | `bytes N`, `width N` | valid prefix of a flit; bytes of a write |
//! | `to_bf16`, `relu` | on the way |
//! | `slices A to B, ..` \[all\] | slices that write |
//!
//! | in `queue` | does |
//! |---|---|
//! | `dma TRANSFER ID`, `load EXEC`, `exec main ID`, `exec sub ID`, `wait_d ID`, `wait_e ID` | pushes a command |
//! | `push! COMMAND` | the same without looking for room |
//! | `set REGISTER = VALUE` | VALUE is a term, or two with `+ - * / % min max` between; a term is a number or a register |
//! | `read REGISTER = ADDRESS as TYPE` | reads the device |
//! | `for REGISTER = VALUE to VALUE { .. }` | counts |
//! | `if TERM < TERM { .. } else { .. }`, `while TERM < TERM { .. }` | branches, with any of `== != < <= > >=` |
//! | `sync` | waits for everything |
//! | `post pe1 VALUE`, `receive pe1 -> REGISTER` | messages; without `->` the message is dropped |

mod address;
mod commit;
mod contract;
mod control;
mod exec;
mod fetch;
mod grant;
mod loops;
mod names;
mod operand;
mod spans;
mod switch;
mod tensor;
mod top;
mod transfer;
mod vector;

pub use spans::erase_spans;
pub use tensor::lowered_shape;
pub use top::{VERSION, print, read};
