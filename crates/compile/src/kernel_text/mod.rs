//! The text of kernels, as [`Kernels::print`] writes it: a line each, read back and verified.
//!
//! ```text
//! kernels 2
//! name small
//! positions 256
//! vocabulary 512
//! embed x: features[64] = table
//! norm n: features[64] = rms x * gain eps=1e-5
//! project qkv: rows[192] = n * [wq[64{4x1(1)x16~}x64], wk[64{4x1(1)x16~}x64], wv[64{4x1(1)x16}x64]]
//! ```
//!
//! Behind the kernels, `amax n = 3.5` gives the absolute maximum of a value that was found beforehand.
//!
//! A weight is its name and its axes, rows first: the size, `/n` if it is sharded over `n` PEs, and in braces
//! its order by heads: groups, heads of a group, places for them, width; `~` if pairs of a rotation are
//! neighbours.

mod verify;

use std::collections::BTreeMap;

use tilewright_base::{Diagnostic, SourceId, Span};

use crate::kernel::{
    Activation, AxisOrder, Heads, Kernel, Kernels, Norm, ValueId, ValueLayout, WeightAxis, WeightMatrix,
};
use crate::scan::{self, ScanResult, TextLine};

/// The code of what is no kernel.
pub(crate) const SYNTAX: &str = "kernels/syntax";
/// Kernels of a text.
pub(crate) const MOST_KERNELS: usize = 1 << 14;
/// Complaints about one text.
pub(crate) const MOST_COMPLAINTS: usize = 20;

/// Reads a text.
///
/// # Errors
/// With every complaint about the text, or about the kernels that it describes.
pub fn read(text: &str, source: SourceId) -> Result<Kernels, Vec<Diagnostic>> {
    let mut reading = KernelTextReading::default();
    let mut lines = scan::lines(text, source, SYNTAX);
    match lines.next() {
        Some(line) => reading.head(line, "kernels"),
        None => {
            reading.complain(Diagnostic::error("kernels/syntax", "the text is empty").allowed("kernels 2"));
        }
    }
    for line in lines {
        if !reading.line(line) {
            break;
        }
    }
    reading.finish().map(|(kernels, _)| kernels)
}

/// Kernels as they are read, line by line.
#[derive(Default)]
pub(crate) struct KernelTextReading {
    reader: KernelReader,
    complaints: Vec<Diagnostic>,
    /// The line of each kernel.
    lines: Vec<Span>,
}

impl KernelTextReading {
    /// The first line: which text it is, in which version.
    pub(crate) fn head(&mut self, mut line: TextLine<'_>, word: &str) {
        self.complaints.extend(line.version(word).err().map(|complaint| *complaint));
    }

    /// Another line; whether more is wanted.
    pub(crate) fn line(&mut self, line: TextLine<'_>) -> bool {
        match self.reader.line(line) {
            Ok(true) => self.lines.push(line.span()),
            Ok(false) => {}
            Err(complaint) => {
                self.complaints.push(*complaint);
                self.reader.pretend(line);
            }
        }
        self.wants_more()
    }

    /// Something else that is wrong with the text.
    pub(crate) fn complain(&mut self, complaint: Diagnostic) {
        self.complaints.push(complaint);
    }

    pub(crate) fn wants_more(&self) -> bool {
        self.complaints.len() < MOST_COMPLAINTS && self.lines.len() <= MOST_KERNELS
    }

    /// Kernels so far.
    pub(crate) fn count(&self) -> usize {
        self.lines.len()
    }

    /// The kernels, verified, and the line of each.
    pub(crate) fn finish(mut self) -> Result<(Kernels, Vec<Span>), Vec<Diagnostic>> {
        if self.lines.len() > MOST_KERNELS {
            let complaint = Diagnostic::error("kernels/size", format!("more than {MOST_KERNELS} kernels"));
            self.complaints.push(complaint.allowed(format!("{MOST_KERNELS} kernels")));
        }
        if self.complaints.is_empty() {
            for (kernel, complaint) in verify::verify(&self.reader.out) {
                let span = kernel.and_then(|kernel| self.lines.get(kernel)).copied();
                self.complaints.push(match span {
                    Some(span) => complaint.at(span, ""),
                    None => complaint,
                });
            }
        }
        if self.complaints.is_empty() { Ok((self.reader.out, self.lines)) } else { Err(self.complaints) }
    }
}

#[derive(Default)]
struct KernelReader {
    out: Kernels,
    by_name: BTreeMap<String, ValueId>,
}

impl KernelReader {
    /// Whether the line is a kernel.
    fn line(&mut self, mut line: TextLine<'_>) -> ScanResult<bool> {
        let word = line.name()?;
        match word {
            "name" => {
                // Models may have names of several words.
                let words = line.words();
                line.name()?;
                self.out.name = words;
                return Ok(false);
            }
            "positions" => self.out.positions = line.number()?,
            "vocabulary" => self.out.vocabulary = line.number()?,
            "amax" => {
                let value = self.value(&mut line)?;
                line.expect("=")?;
                let amax = line.float()?;
                self.out.amax.insert(value, amax);
            }
            "range" => {
                let cache = usize::try_from(line.number()?).unwrap_or(usize::MAX);
                line.expect("=")?;
                let range = [line.float()?, line.float()?, line.float()?];
                self.out.ranges.insert(cache, range);
            }
            _ => {
                let kernel = self.kernel(word, &mut line)?;
                line.ends()?;
                self.out.kernels.push(kernel);
                return Ok(true);
            }
        }
        line.ends()?;
        Ok(false)
    }

    /// The result of a line that was refused is defined all the same, so that it is not missed further on.
    fn pretend(&mut self, mut line: TextLine<'_>) {
        if line.name().is_ok()
            && let Ok(out) = self.result(&mut line)
        {
            let _ = self.define(&line, out);
        }
    }

    fn kernel(&mut self, word: &str, line: &mut TextLine<'_>) -> ScanResult<Kernel> {
        Ok(match word {
            "embed" => {
                let out = self.result(line)?;
                line.expect("=")?;
                let table = line.name()?.to_string();
                let mut places = Vec::new();
                while line.has("+") {
                    places.push(line.name()?.to_string());
                }
                Kernel::Embed { table, places, out: self.define(line, out)? }
            }
            "norm" => self.norm(line)?,
            "project" => self.project(line)?,
            "rotate" => self.rotate(line)?,
            "attend" => self.attend(line)?,
            "activate" => {
                let out = self.result(line)?;
                line.expect("=")?;
                let activation = match line.name()? {
                    "gated_silu" => Activation::GatedSilu,
                    "gelu" => Activation::Gelu,
                    other => return unknown(line, "activation", other, "gated_silu, gelu"),
                };
                let input = self.value(line)?;
                Kernel::Activate { input, activation, out: self.define(line, out)? }
            }
            "combine" => {
                let out = self.result(line)?;
                line.expect("=")?;
                let residual = self.value(line)?;
                line.expect("+")?;
                let input = self.value(line)?;
                line.expect("*")?;
                let weight = weight(line)?;
                Kernel::Combine { input, weight, residual, out: self.define(line, out)? }
            }
            "pool" => Kernel::Pool { input: self.value(line)? },
            "head" => {
                let input = self.value(line)?;
                line.expect("*")?;
                Kernel::Head { input, weight: weight(line)? }
            }
            other => {
                let words = "embed, norm, project, rotate, attend, activate, combine, pool, head";
                return unknown(line, "kernel", other, words);
            }
        })
    }

    fn norm(&mut self, line: &mut TextLine<'_>) -> ScanResult<Kernel> {
        let out = self.result(line)?;
        line.expect("=")?;
        let norm = match line.name()? {
            "rms" => Norm::Rms,
            "layer" => Norm::Layer,
            other => return unknown(line, "norm", other, "rms, layer"),
        };
        let input = self.value(line)?;
        line.expect("*")?;
        let gain = line.name()?.to_string();
        let bias = if line.has("+") { Some(line.name()?.to_string()) } else { None };
        line.expect("eps=")?;
        let epsilon = line.float()?;
        Ok(Kernel::Norm { norm, input, gain, bias, epsilon, out: self.define(line, out)? })
    }

    fn project(&mut self, line: &mut TextLine<'_>) -> ScanResult<Kernel> {
        let out = self.result(line)?;
        line.expect("=")?;
        let input = self.value(line)?;
        line.expect("*")?;
        line.expect("[")?;
        let mut parts = vec![weight(line)?];
        while line.has(",") {
            parts.push(weight(line)?);
        }
        line.expect("]")?;
        Ok(Kernel::Project { input, parts, out: self.define(line, out)? })
    }

    fn rotate(&mut self, line: &mut TextLine<'_>) -> ScanResult<Kernel> {
        let out = self.result(line)?;
        line.expect(",")?;
        let cache = self.cache(line)?;
        line.expect("=")?;
        let input = self.value(line)?;
        line.expect("heads=")?;
        let heads = heads(line)?;
        line.expect("tables=")?;
        let tables = if line.has("(") {
            let cos = line.name()?.to_string();
            line.expect(",")?;
            let sin = line.name()?.to_string();
            line.expect(")")?;
            Some((cos, sin))
        } else {
            line.expect("none")?;
            None
        };
        Ok(Kernel::Rotate { input, heads, tables, cache, out: self.define(line, out)? })
    }

    fn attend(&mut self, line: &mut TextLine<'_>) -> ScanResult<Kernel> {
        let out = self.result(line)?;
        line.expect("=")?;
        let input = self.value(line)?;
        line.expect(",")?;
        let cache = self.cache(line)?;
        line.expect("heads=")?;
        let heads = heads(line)?;
        line.expect("scale=")?;
        let scale = line.float()?;
        let causal = !line.has("noncausal");
        Ok(Kernel::Attend { input, heads, cache, scale, causal, out: self.define(line, out)? })
    }

    /// `x: features[64]`; it is defined once the line is read.
    fn result<'t>(&self, line: &mut TextLine<'t>) -> ScanResult<(&'t str, ValueLayout, u64)> {
        let name = line.name()?;
        line.expect(":")?;
        let layout = match line.name()? {
            "features" => ValueLayout::Features,
            "rows" => ValueLayout::Rows,
            other => return unknown(line, "layout", other, "features, rows"),
        };
        line.expect("[")?;
        let width = line.number()?;
        line.expect("]")?;
        Ok((name, layout, width))
    }

    fn define(
        &mut self,
        line: &TextLine<'_>,
        (name, layout, width): (&str, ValueLayout, u64),
    ) -> ScanResult<ValueId> {
        if self.by_name.contains_key(name) {
            let complaint = Diagnostic::error("kernels/value", format!("`{name}` is defined twice"));
            return Err(Box::new(complaint.at(line.span(), "").allowed("one definition of each value")));
        }
        let id = self.out.add(name, width, layout);
        self.by_name.insert(name.to_string(), id);
        Ok(id)
    }

    fn value(&self, line: &mut TextLine<'_>) -> ScanResult<ValueId> {
        let name = line.name()?;
        self.by_name.get(name).copied().ok_or_else(|| {
            let complaint = Diagnostic::error("kernels/value", format!("`{name}` is not defined before"));
            Box::new(complaint.at(line.span(), "").allowed("results of kernels that come before"))
        })
    }

    fn cache(&mut self, line: &mut TextLine<'_>) -> ScanResult<usize> {
        line.expect("cache")?;
        let cache = usize::try_from(line.number()?).unwrap_or(usize::MAX);
        self.out.caches = self.out.caches.max(cache.saturating_add(1));
        Ok(cache)
    }
}

fn unknown<T>(line: &TextLine<'_>, what: &str, found: &str, allowed: &str) -> ScanResult<T> {
    let complaint = Diagnostic::error("kernels/syntax", format!("`{found}` is no {what}"));
    Err(Box::new(complaint.at(line.span(), "").allowed(allowed.to_string())))
}

/// `4x2(2)x16`.
fn heads(line: &mut TextLine<'_>) -> ScanResult<Heads> {
    let kv = line.number()?;
    line.expect("x")?;
    let group = line.number()?;
    line.expect("(")?;
    let slots = line.number()?;
    line.expect(")x")?;
    Ok(Heads { kv, group, slots, depth: line.number()? })
}

/// `w[64{4x1(1)x16~}x64] + bias`.
fn weight(line: &mut TextLine<'_>) -> ScanResult<WeightMatrix> {
    let name = line.name()?.to_string();
    line.expect("[")?;
    let rows = axis(line)?;
    line.expect("x")?;
    let columns = axis(line)?;
    line.expect("]")?;
    let bias = if line.has("+") { Some(line.name()?.to_string()) } else { None };
    Ok(WeightMatrix { name, rows, columns, bias })
}

fn axis(line: &mut TextLine<'_>) -> ScanResult<WeightAxis> {
    let size = line.number()?;
    let parts = if line.has("/") { line.number()? } else { 1 };
    let copies = if line.has("*") { line.number()? } else { 1 };
    let mut order = AxisOrder::Plain;
    if line.has("{") {
        let Heads { kv, group, slots, depth } = heads(line)?;
        let interleaved = line.has("~");
        line.expect("}")?;
        order = AxisOrder::Heads { groups: kv, group, slots, depth, interleaved };
    }
    Ok(WeightAxis { size, order, parts, copies })
}
