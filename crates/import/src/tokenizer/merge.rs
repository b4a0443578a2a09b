//! Joining neighbours, the best pair first: what both SentencePiece and byte pair encoding do. A heap of
//! candidate pairs finds the best, so long texts take little more than linear time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A token in the chain of a text; one that was joined to its left neighbour is empty.
#[derive(Clone, Debug)]
pub(super) struct TokenLink {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) token: u32,
    before: Option<usize>,
    next: Option<usize>,
}

/// A pair of neighbours that could be joined.
struct MergePair {
    score: f32,
    left: usize,
    right: usize,
    /// Bytes of both, to see whether the pair still stands.
    bytes: usize,
    token: u32,
}

impl PartialEq for MergePair {
    fn eq(&self, other: &MergePair) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for MergePair {}
impl PartialOrd for MergePair {
    fn partial_cmp(&self, other: &MergePair) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for MergePair {
    fn cmp(&self, other: &MergePair) -> Ordering {
        self.score.total_cmp(&other.score).then(other.left.cmp(&self.left))
    }
}

/// Joins tokens, given with the bytes of text that they take. `join` says what two neighbours become, and how
/// good that is.
pub(super) fn merged(
    tokens: &[(u32, usize)],
    join: impl Fn(&TokenLink, &TokenLink) -> Option<(f32, u32)>,
) -> Vec<u32> {
    let mut links: Vec<TokenLink> = Vec::with_capacity(tokens.len());
    let mut start = 0;
    for (at, (token, bytes)) in tokens.iter().enumerate() {
        let next = (at + 1 < tokens.len()).then_some(at + 1);
        links.push(TokenLink { start, end: start + bytes, token: *token, before: at.checked_sub(1), next });
        start += bytes;
    }
    let pair = |links: &[TokenLink], left: usize, right: usize| -> Option<MergePair> {
        let (a, b) = (links.get(left)?, links.get(right)?);
        let (score, token) = join(a, b)?;
        Some(MergePair { score, left, right, bytes: b.end - a.start, token })
    };
    let mut heap = BinaryHeap::new();
    for right in 1..links.len() {
        heap.extend(pair(&links, right - 1, right));
    }
    while let Some(best) = heap.pop() {
        let (left, right) = (&links[best.left], &links[best.right]);
        let stands = left.start < left.end && right.start < right.end && right.end - left.start == best.bytes;
        if !stands {
            continue;
        }
        let (end, next) = (right.end, right.next);
        links[best.right].end = links[best.right].start;
        let left = &mut links[best.left];
        (left.end, left.next, left.token) = (end, next, best.token);
        let before = left.before;
        if let Some(next) = next {
            links[next].before = Some(best.left);
            heap.extend(pair(&links, best.left, next));
        }
        if let Some(before) = before {
            heap.extend(pair(&links, before, best.left));
        }
    }
    links.iter().filter(|link| link.start < link.end).map(|link| link.token).collect()
}
