//! What a target's candidates look like to people. Tables, JSON and pictures of a search are made from this,
//! whatever the target.

use serde_json::Value;
use tilewright_explore::refusal::CandidateRefusal;
use tilewright_explore::search::SearchResultOf;
use tilewright_explore::{Candidate, SearchTarget};
use tilewright_verify::CandidateCheck;

use super::args::ExploreArgs;

/// A candidate of a target.
pub(crate) type CandidateOf<T> = Candidate<<T as SearchTarget>::Choice>;

/// One candidate, ready to be shown.
#[derive(Clone, Debug)]
pub(crate) struct CandidateView {
    /// Its row of the table.
    pub(crate) row: Vec<String>,
    /// It as data.
    pub(crate) value: Value,
    /// Lines that spell it out.
    pub(crate) spelled: String,
    /// It in a few words.
    pub(crate) brief: String,
    /// Ticks that it takes.
    pub(crate) ticks: u64,
    /// Its energy.
    pub(crate) energy_fj: u64,
    /// Its average power.
    pub(crate) milliwatts: u64,
    /// Energy by component, in fJ.
    pub(crate) parts_fj: Vec<f64>,
    /// Where it lies under the roof.
    pub(crate) roof: (f64, f64),
}

/// A roofline.
#[derive(Clone, Debug)]
pub(crate) struct Roofline {
    /// Its title.
    pub(crate) title: &'static str,
    /// Label of the horizontal axis.
    pub(crate) x: &'static str,
    /// Label of the vertical axis.
    pub(crate) y: &'static str,
    /// The flat part.
    pub(crate) peak: f64,
    /// The slope of the other part.
    pub(crate) slope: f64,
    /// What the flat part is.
    pub(crate) peak_name: &'static str,
    /// What the roof is.
    pub(crate) legend: &'static str,
}

/// A target and how its candidates are shown.
pub(crate) trait CandidateDisplay {
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
    /// What to say below the bound.
    fn notes(&self) -> String;
    /// The least change that would let the closest candidate through.
    fn advice(&self, refusal: CandidateRefusal) -> String;
    /// The roof over candidates.
    fn roof(&self) -> Roofline;
    /// Runs the first of the best, until it is told to stop.
    fn verify(
        &self,
        found: &SearchResultOf<Self::Target>,
        args: &ExploreArgs,
        stop: &mut dyn FnMut() -> bool,
    ) -> Vec<CandidateCheck>;
    /// What was run, in a few words, and its unit of time.
    fn ran(&self, ticks: u64) -> String;
}
