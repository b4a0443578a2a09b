//! The written form: lexer, parser, trees and their canonical print.

pub mod ast;
pub mod expr;
mod lexer;
pub mod parser;
mod uses;
