//! What any cost has: a command takes at least as long as each of its stages, more work never takes less
//! time, and no number makes a cost panic.

use proptest::option;
use proptest::prelude::*;
use proptest::sample::Index;
use tilewright_notation::algebra::access::{AccessLoop, AccessPattern};
use tilewright_tcp_cost::cycles::batches::BatchCycles;
use tilewright_tcp_cost::cycles::cast::CastStage;
use tilewright_tcp_cost::cycles::collect::{self, CollectStage};
use tilewright_tcp_cost::cycles::commit::{self, CommitStage};
use tilewright_tcp_cost::cycles::dma::{DmaRoute, DmaSide, requests, transfer_cycles};
use tilewright_tcp_cost::cycles::fetch::{self, FetchStage};
use tilewright_tcp_cost::cycles::hbm::{Direction, HbmAccess, HbmChannels};
use tilewright_tcp_cost::cycles::load::LoadStage;
use tilewright_tcp_cost::cycles::switch::SwitchStage;
use tilewright_tcp_cost::cycles::vector::VectorStage;
use tilewright_tcp_cost::cycles::{CommandStages, ContractionPace, PipelineStage, command_cycles};
use tilewright_tcp_isa::contraction::ContractionStage;
use tilewright_tcp_isa::program::exec::{Context, Drain};
use tilewright_tcp_isa::switch::{Ring, Topology};
use tilewright_tcp_isa::transpose::TransposeStage;
use tilewright_tcp_isa::{switch as exchange, transpose as tile};

use crate::cycles::tcp;

/// Any number, small ones, powers of two and the ends of the range more often.
fn number() -> impl Strategy<Value = u64> {
    let power = (0..64_u32).prop_map(|exponent| 1 << exponent);
    prop_oneof![3 => 0..300_u64, 1 => power, 1 => Just(u64::MAX), 1 => any::<u64>()]
}

fn context() -> impl Strategy<Value = Context> {
    prop_oneof![Just(Context::Main), Just(Context::Sub)]
}

pub(crate) fn direction() -> impl Strategy<Value = Direction> {
    prop_oneof![Just(Direction::Read), Just(Direction::Write)]
}

fn topology() -> impl Strategy<Value = Topology> {
    let ring = || (number(), number()).prop_map(|(slice1, slice0)| Ring { slice1, slice0 });
    prop_oneof![
        Just(Topology::Forwarding),
        (ring(), number()).prop_map(|(ring, time0)| Topology::Broadcast01(ring, time0)),
        ring().prop_map(Topology::Broadcast1),
        ring().prop_map(Topology::Transpose),
        (ring(), number()).prop_map(|(ring, time0)| Topology::InterTranspose(ring, time0)),
        ring().prop_map(Topology::TransposedBroadcast1),
        number().prop_map(Topology::Custom),
    ]
}

fn fetched() -> impl Strategy<Value = FetchStage> {
    (context(), [number(), number(), number()], any::<bool>()).prop_map(
        |(context, [packets, packet_bytes, read_bytes], cast)| FetchStage {
            context,
            packets,
            packet_bytes,
            read_bytes,
            cast,
        },
    )
}

fn switched() -> impl Strategy<Value = SwitchStage> {
    (topology(), number(), number()).prop_map(|(topology, packets, packet_flits)| SwitchStage {
        topology,
        packets,
        packet_flits,
    })
}

fn contraction() -> impl Strategy<Value = ContractionStage> {
    let drain = prop_oneof![Just(Drain::Interleaved), Just(Drain::Sequential)];
    ([number(), number(), number(), number()], [number(), number(), number(), number()], drain).prop_map(
        |(
            [packet_elements, packet_bytes, repeats, groups],
            [group_steps, outputs, lanes, columns],
            drain,
        )| {
            let group_output_steps = outputs;
            ContractionStage {
                packet_elements,
                packet_bytes,
                repeats,
                groups,
                group_steps,
                group_output_steps,
                lanes,
                columns,
                drain,
            }
        },
    )
}

fn vector() -> impl Strategy<Value = VectorStage> {
    ([number(), number(), number()], any::<bool>(), any::<bool>()).prop_map(
        |([flits, units, reduced_slices], narrow, upper_half_padding)| VectorStage {
            flits,
            chain_flits: flits,
            narrow,
            upper_half_padding,
            units,
            reduced_slices,
        },
    )
}

fn tiles() -> impl Strategy<Value = TransposeStage> {
    ([number(), number(), number()], [number(), number(), number()]).prop_map(
        |([element_bits, rows, columns], [output_rows, flit_elements, tiles])| TransposeStage {
            element_bits,
            rows,
            columns,
            output_rows,
            flit_elements,
            tiles,
        },
    )
}

fn committed() -> impl Strategy<Value = CommitStage> {
    (context(), [number(), number(), number()]).prop_map(|(context, [flits, valid_bytes, write_bytes])| {
        CommitStage { context, flits, valid_bytes, write_bytes }
    })
}

fn command() -> impl Strategy<Value = CommandStages> {
    let collect =
        (number(), number()).prop_map(|(packets, packet_bytes)| CollectStage { packets, packet_bytes });
    let cast = number().prop_map(|flits| CastStage { flits });
    let load = (context(), number()).prop_map(|(context, slice_bytes)| LoadStage { context, slice_bytes });
    let front =
        (option::of(fetched()), option::of(switched()), option::of(collect), option::of(contraction()));
    let back = (option::of(vector()), option::of(cast), option::of(tiles()), option::of(committed()));
    (front, back, option::of(load)).prop_map(|(front, back, load)| {
        let (fetch, switch, collect, contraction) = front;
        let (vector, cast, transpose, commit) = back;
        CommandStages { fetch, switch, collect, contraction, vector, cast, transpose, commit, load }
    })
}

/// Sizes of a command that make it longer, one after the other. Groups and tiles are no sizes: more of them
/// cut the same flits into smaller batches, which overlap better; [`repeated`] makes more of them with all
/// that passes them.
fn sizes(command: &mut CommandStages) -> Vec<&mut u64> {
    let mut sizes = Vec::new();
    if let Some(fetch) = &mut command.fetch {
        sizes.extend([&mut fetch.packets, &mut fetch.packet_bytes]);
    }
    if let Some(switch) = &mut command.switch {
        sizes.extend([&mut switch.packets, &mut switch.packet_flits]);
        match &mut switch.topology {
            Topology::Broadcast1(ring) | Topology::Transpose(ring) => sizes.push(&mut ring.slice1),
            Topology::Custom(ring_slices) => sizes.push(ring_slices),
            _ => {}
        }
    }
    if let Some(collect) = &mut command.collect {
        sizes.extend([&mut collect.packets, &mut collect.packet_bytes]);
    }
    if let Some(ce) = &mut command.contraction {
        sizes.extend([&mut ce.packet_bytes, &mut ce.lanes, &mut ce.columns]);
        sizes.extend([&mut ce.group_steps, &mut ce.group_output_steps]);
    }
    if let Some(vector) = &mut command.vector {
        sizes.extend([
            &mut vector.flits,
            &mut vector.chain_flits,
            &mut vector.units,
            &mut vector.reduced_slices,
        ]);
    }
    if let Some(tiles) = &mut command.transpose {
        sizes.extend([&mut tiles.rows, &mut tiles.columns, &mut tiles.output_rows]);
    }
    if let Some(commit) = &mut command.commit {
        sizes.extend([&mut commit.flits, &mut commit.valid_bytes]);
    }
    sizes.extend(command.cast.as_mut().map(|cast| &mut cast.flits));
    sizes.extend(command.load.as_mut().map(|load| &mut load.slice_bytes));
    sizes
}

/// A command that does everything so many times as often, in batches of the same size; `None` if that cannot
/// be counted.
fn repeated(mut command: CommandStages, times: u64) -> Option<CommandStages> {
    let counts = [
        command.fetch.as_mut().map(|fetch| &mut fetch.packets),
        command.switch.as_mut().map(|switch| &mut switch.packets),
        command.collect.as_mut().map(|collect| &mut collect.packets),
        command.contraction.as_mut().map(|ce| &mut ce.groups),
        command.cast.as_mut().map(|cast| &mut cast.flits),
        command.transpose.as_mut().map(|tiles| &mut tiles.tiles),
        command.commit.as_mut().map(|commit| &mut commit.flits),
        command.load.as_mut().map(|load| &mut load.slice_bytes),
    ];
    let vector = command.vector.as_mut().into_iter();
    let flits = vector.flat_map(|vector| [&mut vector.flits, &mut vector.chain_flits]);
    for count in counts.into_iter().flatten().chain(flits) {
        *count = count.checked_mul(times)?;
    }
    Some(command)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn what_is_done_more_often_never_takes_less_time(once in command(), times in 1..300_u64) {
        let machine = tcp();
        let Some(often) = repeated(once, times) else { return Ok(()) };
        let cycles = [once, often].map(|command| command_cycles(&machine, &command).total_cycles);
        prop_assert!(cycles[0] <= cycles[1], "{cycles:?}, then {times} times {once:?}");
    }

    #[test]
    fn a_command_takes_at_least_its_overhead_and_each_of_its_stages(command in command()) {
        let cost = command_cycles(&tcp(), &command);
        for stage in PipelineStage::ALL {
            prop_assert!(cost.total_cycles >= cost.overhead_cycles.saturating_add(cost.stage_cycles(stage)));
            prop_assert!(cost.stage_cycles(cost.binding) >= cost.stage_cycles(stage));
        }
    }

    #[test]
    fn a_contraction_with_open_widths_takes_what_it_takes_with_each(
        command in command(), widths in [number(), number()], groups in 1..300_u64,
    ) {
        let machine = tcp();
        let mut command = CommandStages { transpose: None, ..command };
        if let Some(pace) = ContractionPace::new(&machine, &command) {
            // Steps may be grouped otherwise, as long as they are as many.
            if let Some(ce) = command.contraction.as_mut().filter(|ce| ce.groups.is_multiple_of(groups)) {
                ce.group_steps = ce.group_steps.saturating_mul(ce.groups / groups);
                ce.group_output_steps = ce.group_output_steps.saturating_mul(ce.groups / groups);
                ce.groups = groups;
            }
            if let Some(fetch) = &mut command.fetch {
                fetch.read_bytes = widths[0];
            }
            if let Some(commit) = &mut command.commit {
                commit.write_bytes = widths[1];
            }
            let groups = command.contraction.map_or(0, |ce| ce.groups);
            let fetched = command.fetch.map_or(0, |fetch| fetch::stream_cycles(&machine, &fetch));
            let committed = command.commit.map_or(0, |commit| commit::stream_cycles(&machine, &commit));
            let front = BatchCycles::new(pace.front_cycles(fetched), groups);
            let behind = BatchCycles::new(pace.behind_cycles(committed), groups);
            let asked = command_cycles(&machine, &command).total_cycles;
            prop_assert_eq!(pace.total_cycles(front, behind), asked);
        } else {
            prop_assert!(command.contraction.is_none_or(|ce| ce.groups == 0));
        }
    }

    #[test]
    fn more_work_never_takes_less_time(smaller in command(), which: Index, more in number()) {
        let (mut larger, machine) = (smaller, tcp());
        let mut sizes = sizes(&mut larger);
        prop_assume!(!sizes.is_empty());
        let size = which.get_mut(&mut sizes);
        **size = size.saturating_add(more);
        let cycles = [smaller, larger].map(|command| command_cycles(&machine, &command).total_cycles);
        prop_assert!(cycles[0] <= cycles[1], "{cycles:?}, then {larger:?}");
    }

    #[test]
    fn rings_and_tiles_of_any_size_are_checked(
        topology in topology(), slices in number(), packets in number(), tiles in tiles(),
    ) {
        let machine = tcp();
        if exchange::check(&machine, topology, slices, packets).is_ok() {
            prop_assert!(exchange::ring_slices(topology) <= machine.network.snoop_entries);
        }
        exchange::delivered_packets(topology, packets);
        if tile::check(&machine, &tiles).is_ok() {
            prop_assert!(machine.transpose.columns.contains(&tiles.columns));
        }
    }

    #[test]
    fn widths_of_any_packet_are_widths_of_the_machine(
        context in context(), run in number(), stride in 0..2_u64, packet in number(), bits in number(),
    ) {
        let machine = tcp();
        prop_assert!(collect::padding_bytes(&machine, packet) < machine.network.flit_bytes);
        let write = commit::write_bytes(&machine, context, packet, run);
        prop_assert!(machine.commit.main_widths_bytes.contains(&write));
        let pattern = AccessPattern { loops: [AccessLoop::new(run, stride)].into_iter().collect() };
        let read = fetch::read_bytes(&machine, context, &pattern, packet, bits);
        prop_assert!(machine.fetch.main_widths_bytes.contains(&read));
    }

    #[test]
    fn a_transfer_takes_at_least_its_start_up_and_each_side(
        [startup, packets, packet] in [number(), number(), number()],
        [engines, dmns, more] in [number(), number(), number()],
        misaligned: bool,
    ) {
        let machine = tcp();
        let sent = requests(&machine, packets, packet);
        let side = |sent, misaligned| DmaSide::data_memory(&machine, sent, engines, dmns, misaligned);
        let (read, write) = (side(sent, false), side(sent, misaligned));
        let across = transfer_cycles(startup, DmaRoute::AcrossTiers, read, write).total_cycles;
        let within = transfer_cycles(startup, DmaRoute::WithinTier, read, write).total_cycles;
        prop_assert!(across >= startup.saturating_add(read.cycles().max(write.cycles())));
        prop_assert!(within >= across);
        prop_assert!(side(sent.saturating_add(more), false).cycles() >= read.cycles());
    }

    #[test]
    fn more_packets_never_take_the_channels_less_time(
        direction in direction(), base_bytes in number(), packet_bytes in 0..5000_u64,
        outer in (0..40_u64, number()), inner in (0..40_u64, number()),
    ) {
        let machine = tcp();
        let cycles = [0, 1].map(|more| {
            let nest = [AccessLoop::new(outer.0 + more, outer.1), AccessLoop::new(inner.0, inner.1)];
            let mut channels = HbmChannels::new(&machine);
            let access = HbmAccess { direction, base_bytes, loops_bytes: &nest, packet_bytes };
            channels.add(&machine, &access).expect("few loops");
            channels.busiest_cycles(&machine)
        });
        prop_assert!(cycles[0] <= cycles[1], "{cycles:?}");
    }
}

proptest! {
    // Each may walk as many requests as are ever walked.
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn channels_take_any_nest(
        direction in direction(), base_bytes in number(), packet_bytes in number(),
        nest in prop::collection::vec((number(), number()), 0..=8),
    ) {
        let machine = tcp();
        let nest: Vec<AccessLoop> = nest.into_iter().map(|(size, stride)| AccessLoop::new(size, stride))
            .collect();
        let mut channels = HbmChannels::new(&machine);
        let access = HbmAccess { direction, base_bytes, loops_bytes: &nest, packet_bytes };
        channels.add(&machine, &access).expect("at most 8 loops");
        prop_assert!(channels.accesses() > 0 || packet_bytes == 0 || nest.iter().any(|l| l.size == 0));
        channels.busiest_cycles(&machine);
    }
}
