//! The reader of lowered texts: what stage 3 decided, the kernels, and what is stated of each.
//!
//! ```text
//! lowered 2
//! chip tcp
//! program prefill
//! dtype int8
//! cache bf16
//! pes 2
//! chips 1
//! context 128
//! choices rows=2 slots=4 parts=4 fills=8,4,8
//! name small
//! ...
//! combine x1: features[64] = x + a * wo[64x64]
//!   gives    x1 BL_2E f32 @dm+0 e^8[8] | l^1[64] e^1[8]
//! ```
//!
//! A line `batch N` says for how many sequences, if there are several. Lines that begin with a space state
//! something of the kernel before them. They may be left out, one kind of them at a time.

use std::collections::BTreeMap;

use tilewright_base::{Diagnostic, SourceId, Span};
use tilewright_num::Dtype;

use crate::kernel::Kernels;
use crate::kernel_text::{self, KernelTextReading};
use crate::scan::{self, ScanResult, TextLine};
use crate::tcp::choices::{Choices, ChoicesError, EXAMPLE};
use crate::tcp::mixed::Named;
use crate::tcp::plan::Options;

const SYNTAX: &str = "lowered/syntax";
/// Programs that have kernels.
const PROGRAMS: [&str; 3] = ["decode", "prefill", "batch"];
/// Lines that every text has.
const DECIDED: [&str; 8] = ["chip", "program", "dtype", "cache", "pes", "chips", "context", "choices"];
/// Lines that a text may have besides.
const OPTIONAL: [&str; 2] = ["set", "batch"];
/// What lines of a kernel may be about.
pub(super) const STATED: [&str; 11] =
    ["input", "residual", "cache", "weight", "fill", "gives", "tactic", BEST, "move", "run", "cycles"];
/// What the explorer finds.
pub(super) const BEST: &str = "best";
/// Lines of that kind in a text.
const MOST_STATED: usize = 1 << 20;

/// What a line says of a kernel.
#[derive(Clone, Debug)]
pub(super) struct StatedLine {
    /// Index of the kernel.
    pub(super) kernel: usize,
    /// One of [`STATED`].
    pub(super) what: &'static str,
    /// Its words.
    pub(super) words: String,
    pub(super) span: Span,
}

/// A text as it was read: decisions, and what is stated about what follows from them.
#[derive(Clone, Debug)]
pub struct LoweredText {
    /// A machine by name.
    pub chip: String,
    /// Figures that differ from its own.
    pub set: Vec<String>,
    /// The program that the text is of.
    pub program: &'static str,
    /// Types, processing elements, context.
    pub options: Options,
    /// What templates leave open.
    pub choices: Choices,
    /// Stage 2.
    pub kernels: Kernels,
    pub(super) stated: Vec<StatedLine>,
    /// Lines of decisions by their first words.
    pub(super) spans: BTreeMap<&'static str, Span>,
}

/// The name of a type of keys and values.
pub(super) fn cache_name(dtype: Dtype) -> &'static str {
    if dtype == Dtype::I8 { "int8" } else { "bf16" }
}

/// Reads a text.
///
/// # Errors
/// With every complaint about it, or about the kernels that it describes.
pub fn read(text: &str, source: SourceId) -> Result<LoweredText, Vec<Diagnostic>> {
    let mut reader = LoweredReader::default();
    let mut kernels = KernelTextReading::default();
    let mut lines = scan::lines(text, source, SYNTAX);
    match lines.next() {
        Some(line) => kernels.head(line, "lowered"),
        None => kernels.complain(Diagnostic::error(SYNTAX, "the text is empty").allowed("lowered 2")),
    }
    for line in lines {
        let mut first = line;
        let word = first.name().unwrap_or_default();
        let wants_more = if line.is_indented() {
            let read = reader.stated(line, kernels.count());
            read.unwrap_or_else(|complaint| kernels.complain(*complaint));
            kernels.wants_more()
        } else if let Some(word) = DECIDED.iter().chain(&OPTIONAL).find(|known| **known == word) {
            let read = reader.decided(word, first);
            read.unwrap_or_else(|complaint| kernels.complain(*complaint));
            kernels.wants_more()
        } else {
            kernels.line(line.coded(kernel_text::SYNTAX))
        };
        if !wants_more {
            break;
        }
    }
    for missing in DECIDED.iter().filter(|word| !reader.spans.contains_key(*word)) {
        let complaint = Diagnostic::error(SYNTAX, format!("no line begins with `{missing}`"));
        kernels.complain(complaint.allowed(format!("a line for each of {}", DECIDED.join(", "))));
    }
    let (kernels, _) = kernels.finish()?;
    reader.finish(kernels)
}

#[derive(Default)]
struct LoweredReader {
    chip: String,
    set: Vec<String>,
    program: &'static str,
    types: Option<Named>,
    cache: Option<Dtype>,
    numbers: BTreeMap<&'static str, u64>,
    choices: Choices,
    stated: Vec<StatedLine>,
    spans: BTreeMap<&'static str, Span>,
}

impl LoweredReader {
    /// What a line decides, behind its first word.
    fn decided(&mut self, word: &'static str, mut line: TextLine<'_>) -> ScanResult<()> {
        let span = line.span();
        if word == "set" {
            self.set.push(line.words());
            return Ok(());
        }
        if self.spans.insert(word, span).is_some() {
            let complaint = Diagnostic::error(SYNTAX, format!("`{word}` is decided twice"));
            return Err(Box::new(complaint.at(span, "").allowed("one line")));
        }
        match word {
            "chip" => self.chip = line.words(),
            "choices" => {
                self.choices = line.words().parse().map_err(|ChoicesError { text, what }| {
                    let complaint = Diagnostic::error("lowered/choice", format!("`{text}`: {what}"));
                    Box::new(complaint.at(span, "").allowed(EXAMPLE))
                })?;
            }
            "program" => {
                let name = line.name()?;
                let known = PROGRAMS.into_iter().find(|known| *known == name);
                self.program = known.ok_or_else(|| unknown(span, "program", name, &PROGRAMS.join(", ")))?;
                line.ends()?;
            }
            "dtype" => {
                let name = line.name()?;
                let found = Named::find(name);
                self.types = Some(found.ok_or_else(|| unknown(span, "type", name, &Named::names()))?);
                line.ends()?;
            }
            "cache" => {
                let name = line.name()?;
                let known = [Dtype::Bf16, Dtype::I8].into_iter().find(|dtype| cache_name(*dtype) == name);
                self.cache = Some(known.ok_or_else(|| unknown(span, "type of a cache", name, "bf16, int8"))?);
                line.ends()?;
            }
            _ => {
                self.numbers.insert(word, line.number()?);
                line.ends()?;
            }
        }
        Ok(())
    }

    /// What a line states of the kernel before it.
    fn stated(&mut self, mut line: TextLine<'_>, kernels: usize) -> ScanResult<()> {
        let span = line.span();
        let word = line.name()?;
        let Some(what) = STATED.into_iter().find(|known| *known == word) else {
            return Err(unknown(span, "part of a lowered kernel", word, &STATED.join(", ")));
        };
        let Some(kernel) = kernels.checked_sub(1) else {
            let complaint = Diagnostic::error(SYNTAX, format!("`{word}` belongs to no kernel"));
            return Err(Box::new(complaint.at(span, "").allowed("such lines below a kernel")));
        };
        if self.stated.len() >= MOST_STATED {
            let complaint = Diagnostic::error(SYNTAX, format!("more than {MOST_STATED} lines of kernels"));
            return Err(Box::new(complaint.at(span, "").allowed(format!("{MOST_STATED} lines"))));
        }
        self.stated.push(StatedLine { kernel, what, words: line.words(), span });
        Ok(())
    }

    /// Everything together; types and sizes are there, or something was complained about.
    fn finish(self, kernels: Kernels) -> Result<LoweredText, Vec<Diagnostic>> {
        let number = |word: &str| self.numbers.get(word).copied().unwrap_or(1);
        let (pes, chips, context) = (number("pes"), number("chips"), number("context"));
        if context == 0 || context > kernels.positions {
            let complaint = Diagnostic::error("lowered/target", format!("a context of {context} tokens"));
            let allowed = format!("1 to {}, the positions of the model", kernels.positions);
            let span = self.spans.get("context").copied().unwrap_or_default();
            return Err(vec![complaint.at(span, "").allowed(allowed)]);
        }
        let batch = number("batch");
        if self.program == "batch" && batch < 2 {
            let complaint =
                Diagnostic::error("lowered/target", format!("a program `batch` for a batch of {batch}"));
            let span = self.spans.get("program").copied().unwrap_or_default();
            let complaint =
                complaint.at(span, "").allowed("decode, prefill").instead("a line `batch N` of 2 and more");
            return Err(vec![complaint]);
        }
        let types = self.types.unwrap_or(Named::ALL[0]);
        let (dtype, mixed, cache) = (types.dtype, types.mixed, self.cache.unwrap_or(Dtype::Bf16));
        let options = Options { dtype, mixed, cache, context, pes, chips, batch };
        Ok(LoweredText {
            chip: self.chip,
            set: self.set,
            program: self.program,
            options,
            choices: self.choices,
            kernels,
            stated: self.stated,
            spans: self.spans,
        })
    }
}

fn unknown(span: Span, what: &str, found: &str, allowed: &str) -> Box<Diagnostic> {
    let complaint = Diagnostic::error(SYNTAX, format!("`{found}` is no {what}"));
    Box::new(complaint.at(span, "").allowed(allowed.to_string()))
}
