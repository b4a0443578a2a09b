//! Depthwise sums through the contraction engine: a few products at each position of each channel.
//!
//! Packets are neighbouring channels of one position, the tree adds nothing, and one lane holds the weights
//! of all taps: the accumulators add the taps one after the other (paper Fig. 8, middle; section IV-C). What
//! windows share is fetched again, not stored again.
//!
//! The sum is a chain of products and sums of words, in the order in which the accumulators add, so that the
//! vector engine gives the same bits where no cut of the channels takes whole packets.

use std::collections::BTreeMap;

use tilewright_graph::{Binary, Dtype};
use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype as Pattern;
use tilewright_tcp_isa::contraction::full_packet_elements;
use tilewright_tcp_isa::program::Exec;
use tilewright_tcp_isa::program::exec::{Contract, Drain, Memory, Stream};

use super::elementwise::{Arg, Refused, Writer};
use super::kernel::{Kernel, Kernels, Packing, Work};
use super::plan::WORD_BYTES;
use super::view::View;
use super::words::Line;
use crate::tcp::image::{commit, contraction, copy, fetch, main, n, nest, steps};

/// Channels of a flit in bf16: packets are one or two of them.
pub(super) const FLIT_CHANNELS: u64 = 16;
/// Products of a sum below which the vector engine takes it.
pub(super) const LEAST_TAPS: u64 = 3;
/// Words that leave the contraction engine at once.
const DRAINED_WORDS: u64 = 8;

/// A depthwise sum: streams of its chain, tap by tap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Taps {
    /// Elements of windows.
    pub(super) windows: Vec<usize>,
    /// Their weights.
    pub(super) weights: Vec<usize>,
}

/// Steps of a sum of products of neighbouring streams; one that starts from zero is what accumulators give.
pub(super) fn tap_lines(taps: usize, dtype: Dtype, from_zero: bool) -> Result<Writer, Refused> {
    let mut writer = Writer::new(2 * taps);
    let mut sum = from_zero.then_some(Arg::Word(0));
    for tap in 0..taps {
        let product = writer.binary(Binary::Mul, dtype, Arg::Stream(2 * tap), Arg::Stream(2 * tap + 1))?;
        sum = Some(Arg::Stream(match sum {
            None => product,
            Some(Arg::Word(_)) => writer.binary(Binary::Add, dtype, Arg::Stream(product), Arg::Word(0))?,
            Some(sum) => writer.binary(Binary::Add, dtype, sum, Arg::Stream(product))?,
        }));
    }
    Ok(writer)
}

impl Taps {
    /// The sum that a kernel is; `None` if it is something else.
    pub(super) fn of(all: &Kernels, kernel: &Kernel) -> Option<Taps> {
        let Work::Chain { inputs, lines, streams } = &kernel.work else { return None };
        let taps = inputs.len() / 2;
        let last = (inputs.len() + lines.len()).checked_sub(1)?;
        if inputs.len() % 2 == 1 || lines.len() != inputs.len() || streams[..] != [last] {
            return None;
        }
        let [windows, weights] = [0, 1].map(|own| (0..taps).map(|tap| 2 * tap + own).collect::<Vec<usize>>());
        let known: Vec<Line> = tap_lines(taps, Dtype::F32, true).ok()?.lines;
        let halves = inputs.iter().all(|view| all.values[view.value].packing == Packing::Half);
        let alike = |streams: &[usize]| {
            streams.windows(2).all(|pair| {
                let (a, b) = (&inputs[pair[0]], &inputs[pair[1]]);
                a.value == b.value && a.axes == b.axes
            })
        };
        let fits = halves
            && alike(&windows)
            && alike(&weights)
            && is_channels(&inputs[windows[0]], &inputs[weights[0]])
            && *lines == known;
        fits.then_some(Taps { windows, weights })
    }
}

/// Whether the innermost axis is channels of both, whole flits of them, and weights have no other axis.
fn is_channels(windows: &View, weights: &View) -> bool {
    let live = |view: &View| view.axes.iter().copied().filter(|axis| axis.0 > 1).collect::<Vec<(u64, i64)>>();
    let (windows, weights) = (live(windows), live(weights));
    let (Some((window, outer)), Some((weight, others))) = (windows.split_last(), weights.split_last()) else {
        return false;
    };
    let runs = |axis: &(u64, i64)| axis.1 == 1 && axis.0.is_multiple_of(FLIT_CHANNELS);
    runs(window)
        && runs(weight)
        && others.iter().all(|axis| axis.1 == 0)
        && outer.iter().all(|axis| axis.1 >= 0)
}

/// What a slice has of both operands of a sum in data memory, in elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// Channels of the slice.
    pub(super) channels: u64,
    /// Positions: size, and stride in what windows look at.
    pub(super) positions: Vec<(u64, u64)>,
    /// Taps: size, and strides in what windows look at and in the weights.
    pub(super) taps: Vec<(u64, u64, u64)>,
}

impl Share {
    /// A share, by the places of each tap's first element in both operands; `None` if no loops walk over them
    /// or the register file is too small.
    pub(super) fn new(machine: &Tcp, walk: &[(u64, i64)], [windows, weights]: [&[i64]; 2]) -> Option<Share> {
        let ((channels, 1), around) = walk.split_last()? else { return None };
        let stride = |stride: i64| u64::try_from(stride).ok();
        let positions = around.iter().filter(|(size, _)| *size > 1);
        let positions =
            positions.map(|(size, step)| Some((*size, stride(*step)?))).collect::<Option<Vec<_>>>()?;
        let share = Share { channels: *channels, positions, taps: tap_loops(windows, weights)? };
        let sequencer = &machine.sequencer;
        let most = sequencer.entry_size_max;
        let loops = share.positions.len() + share.taps.len() + 2;
        let held = machine.ce.lanes * machine.trf_lane_payload_bytes();
        let fits = loops as u64 <= sequencer.entries
            && share.count() <= most
            && share.held_bytes() <= held
            && share.weights_flits() <= most
            && channels.is_multiple_of(FLIT_CHANNELS);
        fits.then_some(share)
    }

    /// Positions of the slice.
    fn count(&self) -> u64 {
        self.positions.iter().map(|(size, _)| size).product()
    }

    fn tap_count(&self) -> u64 {
        self.taps.iter().map(|(size, ..)| size).product()
    }

    /// Bytes of the weights in the register file.
    fn held_bytes(&self) -> u64 {
        self.channels * self.tap_count() * Packing::Half.element_bytes()
    }

    fn weights_flits(&self) -> u64 {
        self.channels / FLIT_CHANNELS * self.tap_count()
    }

    /// Channels of a packet.
    fn packet(&self, machine: &Tcp) -> u64 {
        packet(machine, self.channels)
    }

    /// Weights from a byte of data memory to the register file, packet by packet of channels and in each tap
    /// by tap.
    pub(super) fn load(&self, machine: &Tcp, from: u64) -> Exec {
        let packet = self.packet(machine);
        let mut walk = vec![(n(self.channels / packet), packet)];
        walk.extend(self.taps.iter().map(|(size, _, stride)| (n(*size), *stride)));
        walk.extend([(n(packet / FLIT_CHANNELS), FLIT_CHANNELS), (n(FLIT_CHANNELS), 1)]);
        let flit = machine.network.flit_bytes;
        let to = [(n(self.weights_flits()), flit)];
        let stream = copy(
            fetch(Pattern::Bf16, from, &walk, FLIT_CHANNELS),
            commit(Memory::Trf { lanes: 1 }, 0, &to, flit),
        );
        main("load_taps", stream)
    }

    /// The sums of all positions and channels, as words one after the other.
    pub(super) fn contract(&self, machine: &Tcp, from: u64, to: u64) -> Exec {
        let packet = self.packet(machine);
        let (blocks, count, taps) = (self.channels / packet, self.count(), self.tap_count());
        let mut walk: Vec<_> = self.positions.iter().map(|(size, stride)| (n(*size), *stride)).collect();
        walk.push((n(blocks), packet));
        walk.extend(self.taps.iter().map(|(size, stride, _)| (n(*size), *stride)));
        walk.push((n(packet), 1));
        let held = [(n(count), 0), (n(blocks), taps * packet), (n(taps), packet), (n(packet), 1)];
        let contract = Contract {
            flits: packet / FLIT_CHANNELS,
            loops: nest(&held),
            tree: 1,
            steps: steps(&[(n(count), false), (n(blocks), false), (n(taps), true)]),
            ..contraction(Pattern::Bf16, 1, Drain::Sequential)
        };
        let bytes = DRAINED_WORDS * WORD_BYTES;
        let flits = count * self.channels / DRAINED_WORDS;
        let stream = Stream {
            contract: Some(contract),
            ..copy(
                fetch(Pattern::Bf16, from, &walk, packet),
                commit(Memory::Dm, to, &[(n(flits), bytes)], bytes),
            )
        };
        main("contract_taps", stream)
    }
}

/// Channels of a packet, of so many.
fn packet(machine: &Tcp, channels: u64) -> u64 {
    let full = full_packet_elements(machine, Pattern::Bf16);
    if channels.is_multiple_of(full) { full } else { FLIT_CHANNELS }
}

/// Cycles of a sum over so many elements, channels of them together: flits that are fetched.
pub(super) fn cycles(machine: &Tcp, elements: u64, taps: u64) -> u64 {
    2 * machine.command.overhead_cycles + elements / FLIT_CHANNELS * taps
}

/// Loops that walk over taps in their order, by the places of each in both operands.
fn tap_loops(windows: &[i64], weights: &[i64]) -> Option<Vec<(u64, u64, u64)>> {
    let mut left: Vec<[i64; 2]> =
        windows.iter().zip(weights).map(|(window, weight)| [*window, *weight]).collect();
    let mut loops = Vec::new();
    // The innermost loop goes as far as its step stays the same; what it begins at is walked by the others.
    while left.len() > 1 {
        let apart = |a: [i64; 2], b: [i64; 2]| [b[0] - a[0], b[1] - a[1]];
        let step = apart(left[0], left[1]);
        let same = left.windows(2).take_while(|pair| apart(pair[0], pair[1]) == step).count() + 1;
        let size = if left.len().is_multiple_of(same) { same } else { return None };
        let even = left.chunks(size).all(|run| run.windows(2).all(|pair| apart(pair[0], pair[1]) == step));
        let [window, weight] = step.map(|step| u64::try_from(step).ok());
        loops.push((size as u64, window?, weight?));
        if !even {
            return None;
        }
        left = left.chunks(size).map(|run| run[0]).collect();
    }
    loops.reverse();
    Some(loops)
}

/// Depthwise sums of some kernels, by number.
pub(super) fn sums(all: &Kernels, kernels: &[usize]) -> BTreeMap<usize, Taps> {
    kernels.iter().filter_map(|number| Some((*number, Taps::of(all, &all.kernels[*number])?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taps_of_a_window_are_rows_and_columns() {
        let windows = [0, 32, 64, 1000, 1032, 1064];
        let weights = [0, 16, 32, 48, 64, 80];
        assert_eq!(tap_loops(&windows, &weights), Some(vec![(2, 1000, 48), (3, 32, 16)]));
        // Steps of the weights go on where those of windows do not.
        assert_eq!(tap_loops(&[0, 8, 24], &[0, 16, 32]), None);
        assert_eq!(tap_loops(&[0, -8], &[0, 16]), None);
    }

    #[test]
    fn a_share_is_whole_flits_of_channels() {
        let machine = tilewright_testkit::tcp();
        let share =
            |channels| Share::new(&machine, &[(4, 64), (channels, 1)], [&[0, 64, 128], &[0, 64, 128]]);
        assert_eq!(share(24), None);
        let share = share(48).unwrap();
        assert_eq!((share.count(), share.tap_count(), share.packet(&machine)), (4, 3, FLIT_CHANNELS));
        assert_eq!(share.held_bytes(), 48 * 3 * 2);
    }
}
