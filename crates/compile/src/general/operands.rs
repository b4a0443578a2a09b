//! Values that enter chains by strides, over axes that all of them walk alike; several streams that read the
//! same value at regular distances are one.

use tilewright_base::invariant::OrBroken;

use super::view::{View, signed};

/// Part of a value that shares may run over at its end, and elements at most.
const SLACK_PART: u64 = 8;
const MOST_SLACK: u64 = 1 << 16;
/// Elements up to which a value may be run over by as many as it has.
const LEAST_SLACK: u64 = 1 << 13;

/// A value that enters a chain, by strides over the axes of the chain, and what it takes to fetch it.
#[derive(Clone, Debug)]
pub(super) struct Operand {
    /// First element.
    pub(super) first: i64,
    /// Stride of each axis.
    pub(super) strides: Vec<i64>,
    /// Bytes of an element.
    pub(super) element_bytes: u64,
    /// Stride and size of the steps by which streams that read the same elements are apart; none for one
    /// stream alone.
    pub(super) steps: Vec<(i64, u64)>,
    /// Streams that read it.
    pub(super) streams: u64,
    /// The contraction engine reads it, as one stream.
    pub(super) contracted: bool,
    /// Elements from the first of its value on that may be read.
    pub(super) room: u64,
    /// Elements before the first of its value that may be read.
    pub(super) ahead: u64,
}

/// Elements behind or before so many of a value that shares may run over, where positions of an axis do not
/// make up whole shares, or of which a mask leaves nothing: HBM has room for them, and nobody looks at what
/// lies there.
pub(super) fn slack(count: u64) -> u64 {
    (count / SLACK_PART).max(count.min(LEAST_SLACK)).min(MOST_SLACK)
}

/// Axes that all operands walk alike are one: sizes, and the operands on them.
pub(super) fn coalesced(inputs: &[View], element_bytes: &[u64]) -> (Vec<u64>, Vec<Operand>) {
    let mut dims: Vec<u64> = Vec::new();
    let mut operands: Vec<Operand> = inputs
        .iter()
        .zip(element_bytes)
        .map(|(view, bytes)| Operand {
            first: view.first,
            strides: Vec::new(),
            element_bytes: *bytes,
            steps: Vec::new(),
            streams: 1,
            contracted: false,
            room: u64::MAX,
            ahead: 0,
        })
        .collect();
    let rank = inputs.first().map_or(0, |view| view.axes.len());
    for axis in 0..rank {
        let size = inputs[0].axes[axis].0;
        if size == 1 {
            continue;
        }
        let next: Vec<i64> = inputs.iter().map(|view| view.axes[axis].1).collect();
        let follows =
            |(operand, next): (&Operand, &i64)| operand.strides.last() == Some(&(next * signed(size)));
        let one = !dims.is_empty() && operands.iter().zip(&next).all(follows);
        match dims.last_mut().filter(|_| one) {
            Some(last) => *last *= size,
            None => dims.push(size),
        }
        for (operand, next) in operands.iter_mut().zip(next) {
            match operand.strides.last_mut().filter(|_| one) {
                Some(last) => *last = next,
                None => operand.strides.push(next),
            }
        }
    }
    if dims.is_empty() {
        dims.push(1);
        operands.iter_mut().for_each(|operand| operand.strides.push(0));
    }
    (dims, operands)
}

/// Distance and number of a step.
type Stride = (i64, u64);

/// How many of each step a stream is from the first.
type Counts = Vec<i64>;

/// The number of what several streams have in common, and where one begins in it.
type Member = (usize, Counts);

/// Operands that read the same value by the same strides from other first elements on, as one: what they have
/// in common, and for each operand the number of the common one and its steps in it. Those that are spread
/// over an axis stay alone, unless the contraction engine takes them.
pub(super) fn shared(dims: &[u64], operands: &[(usize, Operand)]) -> (Vec<(usize, Operand)>, Vec<Member>) {
    let mut common: Vec<(usize, Operand)> = Vec::new();
    let mut places = vec![(usize::MAX, Vec::new()); operands.len()];
    for at in 0..operands.len() {
        if places[at].0 != usize::MAX {
            continue;
        }
        let (value, own) = &operands[at];
        let spread = own.strides.iter().zip(dims).any(|(stride, size)| *stride == 0 && *size > 1);
        let same = |other: &usize| {
            let (its, operand) = &operands[*other];
            let alike = operand.strides == own.strides && operand.contracted == own.contracted;
            its == value && alike && places[*other].0 == usize::MAX
        };
        let alone = spread && !own.contracted;
        let members: Vec<usize> = if alone { vec![at] } else { (at..operands.len()).filter(same).collect() };
        let least = members.iter().map(|other| operands[*other].1.first).min().unwrap_or(own.first);
        let apart: Vec<i64> = members.iter().map(|other| operands[*other].1.first - least).collect();
        match steps(&apart) {
            Some((steps, taken)) if members.len() > 1 => {
                let one = Operand { first: least, steps, streams: members.len() as u64, ..own.clone() };
                for (member, taken) in members.iter().zip(taken) {
                    places[*member] = (common.len(), taken);
                }
                common.push((*value, one));
            }
            _ => {
                places[at] = (common.len(), Vec::new());
                common.push((*value, own.clone()));
            }
        }
    }
    (common, places)
}

/// Distances as multiples of at most two steps: stride and size of each, and how many of each a distance is.
fn steps(apart: &[i64]) -> Option<(Vec<Stride>, Vec<Counts>)> {
    let Some(short) = apart.iter().copied().filter(|distance| *distance > 0).min() else {
        return Some((Vec::new(), vec![Vec::new(); apart.len()]));
    };
    let row = |distance: i64| (0..).take_while(|at| at * short <= distance).find(|at| at * short == distance);
    let most = (1..)
        .take_while(|at| apart.contains(&(at * short)))
        .last()
        .or_broken("the shortest distance is one of them");
    let long = apart.iter().copied().filter(|distance| row(*distance).is_none_or(|at| at > most)).min();
    let taken = |distance: &i64| {
        let rows = long.map_or(0, |long| distance / long);
        let rest = distance - rows * long.unwrap_or(0);
        let at = row(rest).filter(|at| *at <= most)?;
        Some(if long.is_some() { vec![rows, at] } else { vec![at] })
    };
    let taken = apart.iter().map(taken).collect::<Option<Vec<Vec<i64>>>>()?;
    let size = |at: usize| {
        let most = taken.iter().filter_map(|steps| steps.get(at)).copied().max();
        u64::try_from(most.or_broken("each distance has its steps"))
            .or_broken("distances are from the first on")
            + 1
    };
    let all = match long {
        Some(long) => vec![(long, size(0)), (short, size(1))],
        None => vec![(short, size(0))],
    };
    Some((all, taken))
}
