//! The text form of programs, below any one chip family: words, numbers and blocks, without a meaning yet.
//!
//! ```text
//! text      := statement*
//! statement := word value* ( '{' statement* '}' | ';' | line end )
//! value     := word | integer | float | "text" | sign | '(' value* ')' | '[' value* ']'
//! word      := letter or _, then letters, digits, _, and dots before a letter; perhaps ! at the end
//! integer   := ['-'] decimal or 0x hexadecimal digits, with _ between digits
//! float     := ['-'] digits, then .digits or an exponent or both
//! sign      := = == != : , + - * / % < <= > >= -> ..
//! ```
//!
//! A comment runs from `//` to the end of its line. Line ends count for nothing between brackets. A minus
//! right before a digit belongs to the number unless an operand touches it from the left. Another language is
//! embedded as a quoted text.
//!
//! - [`lexer`]: characters to tokens, each a span of the text;
//! - [`tree`]: statements and values in two flat lists, and the views of them that readers use;
//! - [`parser`]: tokens to the tree, going on after a complaint;
//! - [`args`]: the values of one statement, taken one by one;
//! - [`fields`]: the statements of a block by name, and the log of complaints;
//! - [`mod@print`]: statements to their one canonical text;
//! - [`binary`]: the same as bytes, in a file of checked sections.
//!
//! ```
//! use tilewright_base::SourceId;
//! use tilewright_ir::{Fields, Log, parser};
//!
//! let mut log = Log::default();
//! let tree = parser::parse("fetch at 0x10 { loops (16:128)(8:1); packet 64 }", SourceId(0), &mut log);
//! let fetch = tree.statements().next().unwrap();
//! assert_eq!(fetch.head().text, "fetch");
//! let fields = Fields::new(fetch, &["loops", "packet"], &mut log);
//! assert_eq!(fields.one("packet", &mut log, |args| args.unsigned("elements")), Some(64));
//! assert!(log.is_empty());
//! ```

pub mod args;
pub mod binary;
pub mod fields;
pub mod lexer;
pub mod parser;
pub mod print;
pub mod tree;

pub use args::{Args, Quoted, Read, Word};
pub use fields::{Fields, Log};
pub use print::{BlockLayout, Item};
pub use tree::{Bracket, Kind, Node, Sign, Tree};
