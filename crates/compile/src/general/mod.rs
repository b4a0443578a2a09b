//! The general path: any graph of primitives with fixed sizes as one program of the TCP, kernel by kernel
//! (paper sections V-B and V-C).
//!
//! | file | owns |
//! |---|---|
//! | [`kernel`] | the kernel level: values in HBM, moves, chains, contractions, reductions |
//! | [`view`] | strided looks at values |
//! | `form`, `contract`, `pad`, `constants` | stage 2: a graph of primitives to kernels |
//! | `facts` | whole numbers and bounds of values, for shorter conversions |
//! | `integers`, `integer_ranges` | integers of 64 bits as words, where bounds of inputs allow it |
//! | `float8` | conversions to f8e4m3, which only the cast engine rounds to |
//! | [`elementwise`], [`words`] | elementwise primitives as steps on 32-bit words, and what a step gives |
//! | `early` | conversions before padding and windows |
//! | `entry` | how inputs lie in HBM |
//! | `input_order` | in which order axes of inputs lie, where the host may choose |
//! | `padded_first` | padding of inputs before elementwise work |
//! | `folds` | reductions, by rows or tap by tap |
//! | `spread` | moves of the same elements to many places |
//! | `maxima` | maxima of windows over narrow elements |
//! | `relaid` | padding of what becomes narrow, at whole access units again |
//! | `merge` | chains that read one another as one |
//! | `unread` | what nobody reads is left out |
//! | `pairs` | weights of four bits, two to a byte |
//! | `parts` | long sums in parts |
//! | `strided` | contractions that read operands by strides instead of copies |
//! | `share` | contractions of the same rows as one |
//! | `turned` | contractions whose results are read columns first |
//! | `group` | reductions with the chains around them, row by row |
//! | `cut`, `hull`, `operands`, `legal` | shares of chains that read by strides; what must be moved first |
//! | `residents` | values that stay in data memory between two contractions |
//! | `matched` | tiles that are changed so that values can stay |
//! | `share_ranges` | which shares of a group each PE takes at once |
//! | `even_pitch` | chains over rows of odd pitch, filled up |
//! | `repitch`, `masked` | permutations of rows that lie apart; padding as chains under masks |
//! | `tap_folds` | folds of elements at regular distances in one command |
//! | `group_plan`, `plan_groups` | how groups are cut, and which kernels run together |
//! | [`passes`](mod@passes) | steps as commands of the vector engine |
//! | [`tactic`], [`image`] | contractions by the explorer's tactics; their shapes seen from HBM |
//! | [`contraction_facts`] | what holds for one contraction whatever is chosen for it |
//! | [`link`], [`choose`](mod@choose) | which tactics together take least, bridges included: dynamic programming |
//! | [`tiled`] | contractions in tiles over several PEs: a producer of candidates |
//! | `tilings` | which tiles each contraction of a graph has: epilogue, windows and padding by cost |
//! | [`bound`] | what a graph takes at least |
//! | [`moves`] | loops over elements as transfers |
//! | `emit`, `commands_*`, [`plan`](mod@plan) | the program |
//! | `fused` | PEs that run executions together: who moves what, and messages between them |
//! | `order`, `issue` | which commands come behind which; the order in which PEs issue them |
//! | `signals` | which PE wrote which bytes of HBM, and signals by which others learn it |
//! | `issue_search`, `issue_windows`, `issue_genetic` | which orders are tried: rules, integer programs over windows, priorities |
//! | [`tensors`] | tensors as words |
//! | [`interface`](mod@interface) | a planned graph from outside: inputs, results and constants in HBM |
//! | [`text`] | kernels as text, with what was chosen and what it takes |
//! | [`explain`](mod@explain) | what bounds a kernel, and what would have to change |
//! | [`reference`](mod@reference) | what kernels must give, from what they read alone |
//! | [`without`] | parts that can be left out, by name |
//! | [`refusal`] | what is not lowered, and why |

pub mod bound;
pub mod choose;
pub mod contraction_facts;
pub mod elementwise;
pub mod explain;
pub mod image;
pub mod interface;
mod issue;
mod issue_genetic;
mod issue_search;
mod issue_windows;
pub mod kernel;
pub mod link;
pub mod moves;
pub mod passes;
pub mod plan;
pub mod reference;
pub mod refusal;
pub mod run_sizes;
pub mod sequence;
pub mod tactic;
pub mod tensors;
pub mod text;
pub mod tiled;
mod tilings;
pub mod view;
pub mod without;
pub mod words;

mod commands_chain;
mod commands_contract;
mod commands_group;
mod commands_hulls;
mod commands_keep;
mod commands_pad;
mod commands_reduce;
mod commands_rows;
mod constants;
mod contract;
mod cut;
mod depthwise;
mod early;
mod emit;
mod entry;
mod even_pitch;
mod facts;
mod float8;
mod folds;
mod form;
mod fused;
mod group;
mod group_plan;
mod host;
mod hull;
mod input_order;
mod integer_ranges;
mod integers;
mod legal;
mod masked;
mod matched;
mod maxima;
mod merge;
mod operands;
mod options;
mod order;
mod pad;
mod padded_first;
mod pairs;
mod parts;
mod plan_groups;
mod relaid;
mod repitch;
mod residents;
mod share;
mod share_ranges;
mod signals;
mod spread;
mod strided;
mod tap_folds;
mod turned;
mod unread;
mod widen;

pub(crate) use contract::is_vector_work;
pub use issue_search::OrderSearch;
pub use options::{Options, Weighing};
pub use pairs::{FourBits, four_bits};
pub use parts::Parts;
pub use plan::{Planned, Spread, plan};
pub use refusal::Refusal;
pub use residents::Resident;
pub use without::{Choice, Without};
