//! A general graph on the chip: kernels, their places in HBM, and one program (stages 3 to 5).
//!
//! Values of 32-bit words lie row-major over the slices of a PE: each slice's share is a block of whole
//! flits, the blocks follow each other, so that the elements of a value follow each other in HBM. What a
//! contraction hands straight on lies as its tactic leaves it.

use std::collections::BTreeMap;
use std::ops::Range;

use rayon::prelude::*;
use tilewright_base::invariant::{OrBroken, broken};
use tilewright_graph::{AxisUnits, Graph, TensorStore, padded_axes, simplified};
use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;
use tilewright_tcp_isa::program::Program;
use tilewright_tcp_isa::program::tensor::{Tensor, TensorData, TensorPlace, TensorRole};
use tilewright_tcp_isa::program::text::lowered_shape;
use tilewright_tcp_isa::vector::FLIT_WORDS;

use super::bound::LeastWork;
use super::early::narrowed_first;
use super::emit::{Emitted, Emitter};
use super::entry::entry_layouts;
use super::form::kernels;
use super::group_plan::GroupPlan;
use super::host::{cropped_results, inputs_by_host};
use super::integers::{WordGraph, named_unfit, word_integers};
use super::kernel::{Kernels, Origin, Packing, Value, Work};
use super::legal::{legal, walked_moves};
use super::link::{Chosen, chosen};
use super::matched::match_tiles;
use super::maxima::narrow_maxima;
use super::merge::{close, merged};
use super::options::{Options, Weighing};
use super::padded_first::padded_first;
use super::pairs::paired_columns;
use super::parts::sums_in_parts;
use super::passes::passes;
use super::plan_groups::{ahead, reach};
use super::refusal::{Lowered, Refusal};
use super::residents::{Resident, residents};
use super::share::{compacted, narrowed_early, shared_rows};
use super::strided::strided_operands;
use super::tactic::Placed;
use super::tiled::TileSearches;
use super::turned::turned_results;
use super::unread::without_unread;
use super::without::Choice;
use crate::check::{check_plan, plan_fault};

/// Bytes of a word.
pub(super) const WORD_BYTES: u64 = 4;

/// A graph that is ready to run on a chip.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Its kernels.
    pub kernels: Kernels,
    /// First byte of each value in HBM.
    pub places: Vec<u64>,
    /// Bytes of HBM before the place of each value that are its own: nobody looks at what lies there.
    pub ahead: Vec<u64>,
    /// Bytes of HBM from the place of each value on that are its own: shares may run over its end.
    pub rooms: Vec<u64>,
    /// Values that lie as a tactic leaves them, and nowhere else; none if they never leave data memory.
    pub laid: BTreeMap<usize, Option<Laid>>,
    /// Constants that lie as a tactic takes them.
    pub blocks: Vec<Ready>,
    /// Bytes of HBM that it takes.
    pub hbm_bytes: u64,
    /// What was chosen for contractions.
    pub chosen: Chosen,
    /// How their tiles were weighed.
    pub weighing: Weighing,
    /// The kernel of each transfer of the program.
    pub kernel_of_transfer: Vec<usize>,
    /// The kernel of each execution of the program.
    pub kernel_of_exec: Vec<usize>,
    /// Kernels that run row by row together.
    pub groups: Vec<Range<usize>>,
    /// Values that stay in data memory between two contractions.
    pub residents: Vec<Resident>,
    /// All commands.
    pub program: Program,
    /// When the last command ends, by the model that their order is from.
    pub cycles: u64,
    /// What the graph has to do at least, padding of axes not counted.
    pub least: LeastWork,
    /// How far from zero elements of inputs of 32 and 64 bits are at most, if the program needs that.
    pub most_integer: Option<u64>,
}

/// A value in the shape of a contraction's result.
#[derive(Clone, Debug)]
pub struct Laid {
    /// First byte in HBM.
    pub base: u64,
    /// The shape.
    pub placed: Placed,
    /// Stride and positions of each axis in row-major order.
    pub axes: Vec<(i64, u64)>,
}

/// Patterns that the host writes before the first run.
#[derive(Clone, Debug)]
pub struct Ready {
    /// First byte in HBM.
    pub base: u64,
    /// How they lie.
    pub packing: Packing,
    /// One for each element, padding included.
    pub patterns: Vec<u32>,
}

/// Elements of a contraction's result below which its columns stay as they are.
const LEAST_PADDED: i64 = 1 << 13;
/// Words beyond which a slice's share is whole access units of HBM, in bf16 too.
const WIDE_WORDS: u64 = 128;

/// Elements of a value over PEs and slices, in row-major order: each slice has a share of whole flits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// PEs that hold some.
    pub pes: u64,
    /// Elements of each slice.
    pub share: u64,
}

impl Spread {
    /// So many elements over at most so many PEs; few elements are not spread over many.
    pub fn new(machine: &Tcp, pes: u64, count: u64) -> Spread {
        let slices = machine.pe.slices.max(1);
        let pes = count.div_ceil(slices * WIDE_WORDS).clamp(1, pes.max(1));
        let least = count.div_ceil(slices * pes);
        let unit = if least > WIDE_WORDS / 2 { WIDE_WORDS } else { FLIT_WORDS };
        let share = least.next_multiple_of(unit);
        Spread { pes: count.div_ceil(slices * share).max(1), share }
    }

    /// Elements with what fills the last slices.
    pub fn elements(&self, machine: &Tcp) -> u64 {
        self.pes * machine.pe.slices * self.share
    }
}

/// A graph of primitives as one program.
///
/// # Errors
/// The first node that is not lowered, and why.
pub fn plan(
    machine: &Tcp,
    graph: &Graph,
    store: &TensorStore,
    options: &Options,
) -> Result<Planned, Refusal> {
    let words = word_integers(graph, store);
    let Some(WordGraph { graph, most }) = words else {
        return plan_words(machine, graph, store, options)
            .map_err(|refused| named_unfit(graph, store, refused));
    };
    let planned = plan_words(machine, &graph, store, options)?;
    Ok(Planned { most_integer: Some(most), ..planned })
}

/// The same where words hold all integers.
fn plan_words(
    machine: &Tcp,
    graph: &Graph,
    store: &TensorStore,
    options: &Options,
) -> Result<Planned, Refusal> {
    let planned = best_plan(machine, graph, store, options).or_else(|refused| {
        // Windows of few channels in whole flits are for tiles alone.
        if options.without.has(Choice::Runs) || refused.op != "contract" {
            return Err(refused);
        }
        let without = options.without.and(Choice::Runs);
        best_plan(machine, graph, store, &Options { without, ..*options })
    })?;
    if options.check {
        check(machine, &planned);
    }
    Ok(planned)
}

/// Ends the run if a program is wrong, which no graph can make it.
fn check(machine: &Tcp, planned: &Planned) {
    let wrong = || check_plan(machine, planned).errors().next().map(ToString::to_string);
    if let Some(fault) = plan_fault(machine, planned).or_else(wrong) {
        broken(format_args!("the program of `{}`: {fault}", planned.kernels.name));
    }
}

/// Kernels as plans begin with them: what is left out of rewrites is not done.
fn copied(
    searches: &TileSearches<'_>,
    graph: &Graph,
    store: &TensorStore,
    options: &Options,
) -> Result<Kernels, Refusal> {
    let part = |choice: Choice, rewrite: fn(Kernels) -> Kernels, all: Kernels| {
        if options.without.has(choice) { all } else { rewrite(all) }
    };
    let formed = entry_layouts(without_unread(part(
        Choice::Early,
        narrowed_first,
        kernels(graph, store, options.without)?,
    )));
    let formed = entry_layouts(part(Choice::Host, |all| inputs_by_host(padded_first(all)), formed));
    let formed = part(Choice::Early, narrowed_first, formed);
    let formed = part(Choice::Merge, merged, walked_moves(formed));
    let shared = part(Choice::Shared, shared_rows, formed);
    let narrowed = without_unread(part(Choice::Early, |all| narrow_maxima(narrowed_early(all)), shared));
    let narrowed = part(Choice::Merge, merged, narrowed);
    let narrowed = paired_columns(searches, options, narrowed);
    let turned = if options.without.has(Choice::Turned) {
        narrowed
    } else {
        turned_results(searches, options, narrowed)
    };
    let turned = close(part(Choice::Host, cropped_results, turned));
    let legal = legal(searches.machine, options.pes, turned);
    let legal = close(part(Choice::Host, cropped_results, legal));
    // Values that nobody reads any more take no room: weights in words, inputs without padding.
    let none_gone = vec![false; legal.kernels.len()];
    Ok(compacted(legal, &none_gone))
}

/// The plan of a graph as it is, or with columns of contractions in whole access units of HBM, whichever
/// takes less.
fn best_plan(
    machine: &Tcp,
    graph: &Graph,
    store: &TensorStore,
    options: &Options,
) -> Result<Planned, Refusal> {
    let simple = simplified(graph).ok();
    let simple = simple.as_ref().unwrap_or(graph);
    let unit = i64::try_from(machine.hbm.access_bytes / WORD_BYTES).or_broken("a unit is few words");
    let units = AxisUnits { unit, least_elements: LEAST_PADDED };
    let padded = padded_axes(simple, units).ok().flatten().and_then(|padded| simplified(&padded).ok());
    let padded = padded.filter(|_| !options.without.has(Choice::Padded));
    let padded = padded.and_then(|padded| plan_of(machine, &padded, store, options, u64::MAX).ok());
    let Some((Some(padded), _)) = padded else {
        let (plain, _) = plan_of(machine, simple, store, options, u64::MAX)?;
        return Ok(plain.or_broken("no plan takes longer than without end"));
    };
    let (plain, least) = plan_of(machine, simple, store, options, padded.cycles)?;
    let plain = plain.filter(|plain| plain.cycles <= padded.cycles);
    Ok(plain.unwrap_or_else(|| Planned { least, ..padded }))
}

/// A plan of a graph, unless it surely takes more cycles than a limit; and what the graph has to do at least.
fn plan_of(
    machine: &Tcp,
    graph: &Graph,
    store: &TensorStore,
    options: &Options,
    limit: u64,
) -> Result<(Option<Planned>, LeastWork), Refusal> {
    let alone = options.weighing.is_some() || options.without.has(Choice::Warm) || options.pes == 1;
    let searches = TileSearches::new(machine, !alone);
    let copied = copied(&searches, graph, store, options)?;
    let least = LeastWork::of(&copied);
    let weighed = |weighing: Weighing| Options { weighing: Some(weighing), ..*options };
    let first = weighed(options.weighing.unwrap_or(Weighing::Cold));
    let own = chosen_kernels(&searches, &copied, &first)?;
    // Of one contraction what it takes is what the plan takes.
    let contractions = copied.kernels.iter().filter(|kernel| matches!(kernel.work, Work::Contract { .. }));
    if alone || contractions.count() < 2 {
        return Ok((planned(machine, own, &first, limit)?, least));
    }
    let others = Weighing::ALL.into_iter().map(weighed).filter(|other| other.weighing != first.weighing);
    let others = others.filter_map(|other| Some((chosen_kernels(&searches, &copied, &other).ok()?, other)));
    let all: Vec<((Kernels, Chosen), Options)> = others.collect();
    drop(searches);
    let (own, others) = rayon::join(
        || planned(machine, own, &first, limit),
        || -> Vec<Planned> {
            // Tiles that are weighed for another plan may have no place in data memory.
            let made = all.into_par_iter().map(|(chosen, other)| planned(machine, chosen, &other, limit));
            made.filter_map(Result::ok).flatten().collect()
        },
    );
    Ok((own?.into_iter().chain(others).min_by_key(|planned| planned.cycles), least))
}

/// Kernels with what was chosen for their contractions.
fn chosen_kernels(
    searches: &TileSearches<'_>,
    copied: &Kernels,
    options: &Options,
) -> Result<(Kernels, Chosen), Refusal> {
    let (kernels, mut chosen) = match strided(searches, copied, options) {
        Some(found) => found,
        None => match chosen(searches, copied, options) {
            Ok(chosen) => (copied.clone(), chosen),
            Err((number, why)) => return Err(refusal(copied, number, why)),
        },
    };
    if !options.without.has(Choice::Resident) {
        match_tiles(searches, &kernels, options, &mut chosen);
    }
    Ok((kernels, chosen))
}

/// The plan of some kernels; `None` if it surely takes more cycles than a limit.
fn planned(
    machine: &Tcp,
    (kernels, chosen): (Kernels, Chosen),
    options: &Options,
    limit: u64,
) -> Result<Option<Planned>, Refusal> {
    let mut planner = Planner {
        emitter: Emitter::new(machine, options.pes, options.without),
        kernels: &kernels,
        chosen: &chosen,
        keep: options.keep,
        places: Vec::new(),
        ahead: Vec::new(),
        rooms: Vec::new(),
        laid: BTreeMap::new(),
        blocks: Vec::new(),
        readers: readers(&kernels),
        strided: BTreeMap::new(),
        residents: Vec::new(),
    };
    if !options.without.has(Choice::Resident) {
        let readers = (&planner.readers[..], options.keep);
        planner.residents = residents(machine, &kernels, &chosen, readers);
        planner.emitter.keep_free(planner.residents.iter().map(|one| one.base).min());
    }
    let groups = if options.without.has(Choice::Groups) { BTreeMap::new() } else { planner.groups() };
    planner.strided = planner.strided_chains(&groups);
    planner.place_values(&groups)?;
    place_parts(&kernels, &mut planner.places);
    let ranges = groups.iter().map(|(start, (end, _))| *start..*end).collect();
    let mut number = 0;
    while number < kernels.kernels.len() {
        planner.emitter.begin(number);
        if let Some((end, plan)) = groups.get(&number) {
            planner.group(plan).map_err(|why| refusal(&kernels, number, why))?;
            number = *end;
        } else {
            planner.kernel(number).map_err(|why| refusal(&kernels, number, why))?;
            number += 1;
        }
    }
    let Planner { emitter, places, ahead, rooms, laid, blocks, residents, .. } = planner;
    let hbm_bytes = emitter.taken_bytes();
    let capacity = machine.hbm_capacity_bytes();
    if hbm_bytes > capacity {
        let why = format!("its values take {hbm_bytes} B of HBM, which has {capacity} B");
        return Err(Refusal { node: kernels.name.clone(), op: "graph".to_string(), why });
    }
    if emitter.least_cycles() > limit {
        return Ok(None);
    }
    let Emitted { mut program, transfers, execs, cycles } = emitter.finish(options.without, options.search);
    program.tensors.extend(memory(hbm_bytes));
    Ok(Some(Planned {
        least: LeastWork::of(&kernels),
        kernels,
        places,
        ahead,
        rooms,
        laid,
        blocks,
        hbm_bytes,
        chosen,
        weighing: options.weighing.unwrap_or(Weighing::Cold),
        kernel_of_transfer: transfers,
        kernel_of_exec: execs,
        groups: ranges,
        residents,
        program,
        cycles,
        most_integer: None,
    }))
}

/// The same kernels with operands that are read by strides and sums in parts, if each of these contractions
/// has tiles.
fn strided(searches: &TileSearches<'_>, copied: &Kernels, options: &Options) -> Option<(Kernels, Chosen)> {
    if options.pes == 1 || options.without.has(Choice::Tiled) {
        return None;
    }
    let without = options.without;
    let mut kernels = copied.clone();
    if !without.has(Choice::Strided) {
        kernels = strided_operands(options.least_products, kernels);
    }
    if !without.has(Choice::Parts) {
        kernels = sums_in_parts(searches, options, kernels);
    }
    let kernels = close(kernels);
    if kernels == *copied {
        return None;
    }
    let chosen = chosen(searches, &kernels, options).ok()?;
    Some((kernels, chosen))
}

/// Inputs that make up a value lie in its place, one behind the other.
fn place_parts(kernels: &Kernels, places: &mut [u64]) {
    for (number, value) in kernels.values.iter().enumerate() {
        let Origin::Parts(parts) = &value.origin else { continue };
        let mut next = places[number];
        for part in parts {
            places[*part] = next;
            next += kernels.values[*part].count() * value.element_bytes();
        }
    }
}

/// All of HBM that is used, which the host clears and fills before a run.
fn memory(bytes: u64) -> Option<Tensor> {
    let words = bytes.div_ceil(WORD_BYTES).max(1);
    let axes = vec![("W".to_string(), words)];
    let (shape, map) = lowered_shape(&axes, &format!("| W^1[{words}]")).ok()?;
    Some(Tensor {
        name: "memory".to_string(),
        dtype: Dtype::I32,
        axes,
        role: TensorRole::Input,
        place: TensorPlace::Hbm { chip: 0, base: 0 },
        shape,
        map,
        data: TensorData::None,
        span: tilewright_base::Span::default(),
    })
}

/// Kernels that read each value; the graph's results are read behind the last.
pub(super) fn readers(all: &Kernels) -> Vec<Vec<usize>> {
    let mut readers = vec![Vec::new(); all.values.len()];
    for (number, kernel) in all.kernels.iter().enumerate() {
        kernel.reads().into_iter().for_each(|value| readers[value].push(number));
    }
    all.results.iter().for_each(|result| readers[result.value].push(all.kernels.len()));
    readers
}

fn too_large(kernels: &Kernels, value: &Value) -> Refusal {
    let why = format!("`{}` has {} elements", value.name, value.count());
    Refusal { node: kernels.name.clone(), op: "graph".to_string(), why }
}

fn refusal(kernels: &Kernels, number: usize, why: String) -> Refusal {
    let kernel = &kernels.kernels[number];
    let node = kernel.results.first().map_or_else(String::new, |value| kernels.values[*value].name.clone());
    Refusal { node, op: kernel.name().to_string(), why }
}

/// A plan in the making.
pub(super) struct Planner<'p> {
    pub(super) emitter: Emitter<'p>,
    pub(super) kernels: &'p Kernels,
    pub(super) chosen: &'p Chosen,
    pub(super) keep: bool,
    pub(super) places: Vec<u64>,
    pub(super) ahead: Vec<u64>,
    pub(super) rooms: Vec<u64>,
    pub(super) laid: BTreeMap<usize, Option<Laid>>,
    pub(super) blocks: Vec<Ready>,
    /// Kernels that read each value; the graph's results are read behind the last.
    pub(super) readers: Vec<Vec<usize>>,
    /// Chains by themselves that read values by strides, by the number of their kernel.
    pub(super) strided: BTreeMap<usize, GroupPlan>,
    /// Values that stay in data memory between two contractions.
    pub(super) residents: Vec<Resident>,
}

impl Planner<'_> {
    pub(super) fn value(&self, number: usize) -> &Value {
        &self.kernels.values[number]
    }

    pub(super) fn machine(&self) -> &Tcp {
        self.emitter.machine
    }

    /// Room in HBM for every value, with what groups and chains that read by strides touch around it.
    fn place_values(&mut self, groups: &BTreeMap<usize, (usize, GroupPlan)>) -> Result<(), Refusal> {
        let (machine, kernels) = (self.emitter.machine, self.kernels);
        let plans = groups.values().map(|(_, plan)| plan).chain(self.strided.values());
        let (reach, ahead) = (reach(kernels, plans.clone()), ahead(kernels, plans));
        for ((value, reach), ahead) in kernels.values.iter().zip(reach).zip(ahead) {
            let spread = Spread::new(machine, self.emitter.pes(), value.count());
            let bytes = spread.elements(machine).max(reach) * value.element_bytes();
            let unit = machine.hbm.access_bytes;
            let before =
                if ahead == 0 { 0 } else { (ahead * value.element_bytes()).next_multiple_of(unit) + unit };
            let place = self.emitter.room(before + bytes) + before;
            self.places.push(place);
            self.ahead.push(before);
            self.rooms.push(bytes);
            if let Origin::Filled(word) = value.origin
                && word != 0
            {
                let count = usize::try_from(value.count()).map_err(|_| too_large(kernels, value))?;
                self.blocks.push(Ready { base: place, packing: value.packing, patterns: vec![word; count] });
            }
        }
        Ok(())
    }

    fn kernel(&mut self, number: usize) -> Lowered<()> {
        let kernel = &self.kernels.kernels[number];
        let to = *kernel.results.first().ok_or("a kernel without a result")?;
        match &kernel.work {
            // The contraction has written it there.
            Work::Move(_) if self.chosen.is_inside(number) => Ok(()),
            Work::Move(parts) => {
                if self.move_inside(parts, to)? {
                    return Ok(());
                }
                self.move_parts(parts, to);
                Ok(())
            }
            Work::Gather { from, table, around } => {
                self.gather(*from, *table, *around, to);
                Ok(())
            }
            Work::Scatter { base, table, rows, inner } => {
                self.scatter([*base, *table, *rows, to], *inner);
                Ok(())
            }
            // Its commands came with those of its contraction.
            Work::Chain { .. } | Work::Reduce { .. } if self.chosen.is_tail(number) => Ok(()),
            // The contraction takes its windows as they lie.
            Work::Chain { .. } if self.chosen.unwritten.contains(&number) && !self.keep => {
                self.laid.insert(to, None);
                Ok(())
            }
            Work::Chain { inputs, lines, streams } => {
                let made = passes(self.emitter.machine, inputs.len(), lines, streams);
                let made = made.ok_or("a step that no unit does")?;
                match self.kernels.whole_inputs(inputs) {
                    Some(values) => self.chain(&values, streams, &kernel.results, &made),
                    None => self.strided_chain(number, to),
                }
            }
            Work::Contract { .. } => self.contract(number),
            Work::Reduce { from, fold, columns } => self.reduce(*from, to, *fold, *columns),
        }
    }
}
