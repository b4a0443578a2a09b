//! A genetic search over the priorities of list scheduling, on the model of `issue`.
//!
//! An individual is a rule and a factor for the rank of each stretch of commands, the same for all PEs. The
//! first are the rules themselves; children cross two of the best and change some genes. The best that was
//! ever seen is what the search gives, so that it never ends behind the rules.

use rayon::prelude::*;
use tilewright_base::invariant::{OrBroken, to_index};
use tilewright_base::random::below;

use super::issue::{Figures, Graph, Rule, Run, Schedule};
use super::issue_search::run_twice;

/// Individuals that live on.
const POPULATION: usize = 8;
/// Children that are evaluated together.
const BROOD: usize = 8;
/// Genes of an individual at most: stretches of commands of a PE.
const MOST_GENES: usize = 256;
/// What a gene is added to, in parts of a path: half of it.
const LEAST_PARTS: u64 = 8;
/// Parts of a path.
const PARTS: u64 = 16;
/// Genes are below it; the one in the middle leaves a path as it is.
const MOST_GENE: u64 = 17;
const AHEAD: [usize; 4] = [32, 64, 128, 256];
const PASSED: [usize; 5] = [1, 2, 4, 8, 16];

/// What a schedule is made by.
#[derive(Clone)]
struct Individual {
    rule: Rule,
    /// Parts of the path of each stretch of commands, beyond the least.
    genes: Vec<u8>,
}

/// The best schedule of so many children, or none if no rule is given.
pub(super) fn bred(
    figures: &Figures,
    graphs: &[Graph<'_>],
    rules: &[Rule],
    children: usize,
    seed: u64,
) -> Option<Schedule> {
    let longest = graphs.iter().map(|graph| graph.jobs.len()).max().unwrap_or_default();
    let genes = vec![8; longest.clamp(1, MOST_GENES)];
    let first: Vec<Individual> =
        rules.iter().map(|rule| Individual { rule: *rule, genes: genes.clone() }).collect();
    let mut living = evaluated(figures, graphs, first);
    let mut draw = seed;
    let mut left = children;
    while left > 0 && !living.is_empty() {
        let brood: Vec<Individual> = (0..left.min(BROOD)).map(|_| child(&living, &mut draw)).collect();
        left -= brood.len();
        living.extend(evaluated(figures, graphs, brood));
        // Of equals the first stays.
        living.sort_by_key(|(_, schedule)| schedule.cycles);
        living.truncate(POPULATION);
    }
    living.into_iter().next().map(|(_, schedule)| schedule)
}

fn evaluated(figures: &Figures, graphs: &[Graph<'_>], all: Vec<Individual>) -> Vec<(Individual, Schedule)> {
    let mut found: Vec<(Individual, Schedule)> = all
        .into_par_iter()
        .filter_map(|one| {
            let ranks: Vec<Vec<u64>> = graphs.iter().map(|graph| ranks(graph, &one.genes)).collect();
            let best = run_twice(|| Run::new(figures, graphs, one.rule).ranked(&ranks))?;
            Some((one, best))
        })
        .collect();
    found.sort_by_key(|(_, schedule)| schedule.cycles);
    found
}

/// Paths of a PE's commands, each by the factor of its stretch.
fn ranks(graph: &Graph<'_>, genes: &[u8]) -> Vec<u64> {
    let many = graph.path.len().max(1);
    let rank = |(at, path): (usize, &u64)| {
        let gene = genes[(at * genes.len() / many).min(genes.len() - 1)];
        path.saturating_mul(LEAST_PARTS + u64::from(gene)) / PARTS
    };
    graph.path.iter().enumerate().map(rank).collect()
}

/// Genes of two of the best, some of them changed.
fn child(living: &[(Individual, Schedule)], draw: &mut u64) -> Individual {
    let parent = |draw: &mut u64| -> &Individual {
        let many = living.len() as u64;
        let at = below(draw, many).min(below(draw, many));
        &living.get(to_index(at)).or_broken("some live").0
    };
    let (one, other) = (parent(draw), parent(draw));
    let mut child = one.clone();
    // A stretch of one parent's genes stays together: neighbours depend on each other.
    let (first, second) = (below(draw, child.genes.len() as u64), below(draw, child.genes.len() as u64));
    let stretch = to_index(first.min(second))..to_index(first.max(second));
    child.genes[stretch.clone()].copy_from_slice(&other.genes[stretch]);
    for _ in 0..=below(draw, 4) {
        let at = to_index(below(draw, child.genes.len() as u64));
        child.genes[at] = u8::try_from(below(draw, MOST_GENE)).or_broken("a gene is small");
    }
    match below(draw, 8) {
        0 => child.rule.ahead = AHEAD[to_index(below(draw, AHEAD.len() as u64))].min(child.rule.ahead * 2),
        1 => child.rule.passed = PASSED[to_index(below(draw, PASSED.len() as u64))],
        2 => child.rule.by_path = true,
        _ => {}
    }
    child
}
