//! Low-level einsum: einsum notation extended by lowered shapes and tactics (TCP paper, sections II and VI).
//!
//! - [`syntax`]: what may be written, and its one canonical print;
//! - [`sizes`], [`problem`]: symbols replaced by numbers;
//! - [`radix`]: whether the digits of each axis cover it exactly once;
//! - [`algebra`]: a lowered shape as a mixed-radix map from coordinates to (slice, offset), with inverse,
//!   composition, refinement, bridges and access patterns;
//! - [`reuse`]: how often a fetched element is used;
//! - [`walk`]: the loops of a tactic, run literally;
//! - [`window`]: stored axes that loops slide over, as convolutions need them.
//!
//! Nothing here knows a machine; legality on a chip is asked of its engine.
//!
//! ```
//! use tilewright_base::SourceId;
//! use tilewright_notation::{algebra::RadixMap, problem::Problem, radix, syntax::ast::Operand,
//! syntax::parser};
//!
//! let text = "ble; dims b=4, l=4, e=64; in0 = b²[2] e^{E/2}[2] | b[2] l[4] e[E/2]";
//! let program = parser::program(text, SourceId(0)).unwrap();
//! assert_eq!(program.in0.as_ref().unwrap().to_string(), "b^2[2] e^{E/2}[2] | b^1[2] l^1[4] e^1[E/2]");
//!
//! let problem = Problem::new(&program).unwrap();
//! assert!(radix::check(&problem).is_empty());
//! let map = RadixMap::of_shape(&problem, problem.shape(Operand::In0).unwrap()).unwrap();
//! // Element b=3, l=1, e=40 is on slice 2*(3/2) + 40/32 = 3, at offset (1*4 + 1)*32 + 8.
//! assert_eq!(map.apply(&[3, 1, 40]).as_slice(), [3, 168]);
//! assert_eq!(map.source_of(&[3, 168]).unwrap().as_slice(), [3, 1, 40]);
//! ```

pub mod algebra;
pub mod problem;
pub mod radix;
pub mod reuse;
pub mod sizes;
pub mod syntax;
pub mod walk;
pub mod window;
