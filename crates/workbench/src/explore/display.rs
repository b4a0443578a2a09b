//! What a target's candidates look like to people. Tables, JSON and pictures of a search are made from this,
//! whatever the target.

use serde_json::Value;
use tilewright_explore::refusal::CandidateRefusal;
use tilewright_explore::search::SearchResultOf;
use tilewright_explore::{Candidate, SearchTarget};
use tilewright_verify::{CandidateCheck, VerifyLimits};

/// A candidate of a target.
pub type CandidateOf<T> = Candidate<<T as SearchTarget>::Choice>;

/// One candidate, ready to be shown.
#[derive(Clone, Debug)]
pub struct CandidateView {
    /// Its row of the table.
    pub row: Vec<String>,
    /// It as data.
    pub value: Value,
    /// Lines that spell it out.
    pub spelled: String,
    /// It in a few words.
    pub brief: String,
    /// Ticks that it takes.
    pub ticks: u64,
    /// Its energy.
    pub energy_fj: u64,
    /// Its average power.
    pub milliwatts: u64,
    /// Energy by component, in fJ.
    pub parts_fj: Vec<f64>,
    /// Where it lies under the roof.
    pub roof: (f64, f64),
}

/// A candidate that the engine has accepted, as texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoweredText {
    /// Einsum, sizes, shapes and tactic, as a file holds them.
    pub notation: String,
    /// The program.
    pub program: String,
}

/// A change after which something is legal; whoever asked says how it is written.
#[derive(Clone, Debug, PartialEq)]
pub enum Remedy {
    /// Figures of the machine, by key.
    Figures(Vec<(String, u64)>),
    /// PEs fused into one.
    Pes(u64),
    /// Another size of an axis: its name and size.
    Size(String, u64),
    /// A goal with more watts.
    Watts(f64),
    /// Something that no single figure says.
    Words(&'static str),
}

/// A roofline.
#[derive(Clone, Debug)]
pub struct Roofline {
    /// Its title.
    pub title: &'static str,
    /// Label of the horizontal axis.
    pub x: &'static str,
    /// Label of the vertical axis.
    pub y: &'static str,
    /// The flat part.
    pub peak: f64,
    /// The slope of the other part.
    pub slope: f64,
    /// What the flat part is.
    pub peak_name: &'static str,
    /// What the roof is.
    pub legend: &'static str,
}

/// A target and how its candidates are shown.
pub trait CandidateDisplay {
    /// The target.
    type Target: SearchTarget;

    /// What is searched.
    fn target(&self) -> &Self::Target;
    /// The einsum as written.
    fn einsum(&self) -> String;
    /// On what, in a few words.
    fn place(&self) -> String;
    /// Axes and their sizes.
    fn sizes(&self) -> Vec<(String, u64)>;
    /// Products that the einsum asks for.
    fn macs(&self) -> u128;
    /// A time with its unit.
    fn time(&self, ticks: u64) -> String;
    /// A time as data: its key and value.
    fn time_value(&self, ticks: u64) -> (&'static str, Value);
    /// Titles of the table, and which columns are text.
    fn head(&self) -> (Vec<&'static str>, Vec<usize>);
    /// Names of the components of energy.
    fn parts(&self) -> Vec<&'static str>;
    /// Whose power is meant.
    fn power_of(&self) -> &'static str;
    /// What candidates are called.
    fn called(&self) -> &'static str;
    /// A candidate of a search.
    fn look(
        &self,
        found: &SearchResultOf<Self::Target>,
        candidate: &CandidateOf<Self::Target>,
        number: usize,
    ) -> Option<CandidateView>;
    /// A candidate in sentences.
    fn explain(&self, found: &SearchResultOf<Self::Target>, candidate: &CandidateOf<Self::Target>) -> String;
    /// One command of a candidate as a program for the machine of that name; none where candidates have no
    /// text of their own.
    fn lowered(
        &self,
        _found: &SearchResultOf<Self::Target>,
        _candidate: &CandidateOf<Self::Target>,
        _chip: &str,
    ) -> Option<LoweredText> {
        None
    }
    /// What to say below the bound.
    fn notes(&self) -> String;
    /// The least changes that would each let the closest candidate through.
    fn advice(&self, refusal: CandidateRefusal) -> Vec<Remedy>;
    /// The roof over candidates.
    fn roof(&self) -> Roofline;
    /// Runs the first of the best on the machine of that name, until it is asked to stop.
    fn verify(
        &self,
        found: &SearchResultOf<Self::Target>,
        chip: &str,
        limits: VerifyLimits,
        stop: &mut dyn FnMut() -> bool,
    ) -> Vec<CandidateCheck>;
    /// What was run, in a few words, and its unit of time.
    fn ran(&self, ticks: u64) -> String;
}
