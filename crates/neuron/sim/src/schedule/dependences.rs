//! Which instruction waits for which: overlap of what they touch, and room that must have become free
//! (docs/hardware-rules.md#order-and-synchronisation: dependences are tile based and come from access
//! patterns).

use std::collections::BTreeMap;

use smallvec::SmallVec;
use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_neuron_isa::program::{EngineKind, Instruction, TensorRegion};
use tilewright_neuron_isa::{Chip, MemorySpace, NeuronProgram};

use super::access_pages::AccessPages;
use super::buffer_space::BufferSpace;
use super::spill::{ScheduleNode, ScheduleNodes};
use super::tiles::{NONE, TileTable};

/// How a node waits for an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DependenceKind {
    /// For its result.
    Done,
    /// Until its engine has taken all operands.
    Read,
    /// Until it has started on the same engine: the pipeline keeps the order.
    Order,
    /// Until the buffer is free that it used last.
    Space,
}

/// Whether a buffer that is used again is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BufferReuse {
    /// Until its last reader is through, as devices do.
    Waits,
    /// As if every value that is written had a buffer of its own: for what waiting costs.
    Free,
}

/// An earlier node and how to wait for it.
pub(crate) type DependenceEdge = (u32, DependenceKind);

/// Edges into each node.
#[derive(Debug, Default)]
pub(crate) struct DependenceEdges {
    ranges: Vec<(u32, u32)>,
    list: Vec<DependenceEdge>,
}

impl DependenceEdges {
    /// What a node waits for.
    pub(crate) fn edges_into(&self, node: u32) -> &[DependenceEdge] {
        let (start, end) = self.ranges[node as usize];
        &self.list[start as usize..end as usize]
    }

    /// Edges of each node, all the other way round: start of each node's part, and (later node, kind).
    pub(crate) fn reversed(&self) -> (Vec<u32>, Vec<DependenceEdge>) {
        let count = self.ranges.len();
        let mut starts = vec![0_u32; count + 1];
        for &(from, _) in &self.list {
            if let Some(start) = starts.get_mut(from as usize + 1) {
                *start += 1;
            }
        }
        for at in 0..count {
            starts[at + 1] += starts[at];
        }
        let mut fill = starts.clone();
        let mut out = vec![(NONE, DependenceKind::Done); self.list.len()];
        for node in (0_u32..).take(count) {
            for &(from, kind) in self.edges_into(node) {
                if let Some(place) = fill.get_mut(from as usize) {
                    out[*place as usize] = (node, kind);
                    *place += 1;
                }
            }
        }
        (starts, out)
    }
}

/// One access that later ones may have to wait for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TileAccess {
    pub(crate) region: TensorRegion,
    pub(crate) node: u32,
    pub(crate) engine: EngineKind,
    /// How many instructions the engine has before it.
    pub(crate) place: u32,
}

/// Reads after which those are looked for that need not be waited for.
const MANY_READS: usize = 512;

impl TileAccess {
    /// True if this read ends after an earlier one for certain: on the same engine, farther than its window.
    pub(crate) fn outlasts(&self, earlier: &TileAccess, window: u32) -> bool {
        earlier.engine == self.engine
            && self.engine != EngineKind::Dma
            && earlier.place.exact_add(window) <= self.place
            && self.region.covers(&earlier.region)
    }

    /// True if reads of a list of that length should be looked through.
    pub(crate) fn many(count: usize) -> bool {
        count % MANY_READS == MANY_READS - 1
    }
}

/// Accesses of one tile.
#[derive(Default)]
struct TileAccesses {
    writes: Vec<TileAccess>,
    reads: Vec<TileAccess>,
    pages: Option<Box<AccessPages>>,
}

/// Edges of all nodes, in one pass over the order of the program.
pub(crate) fn edges(
    chip: &Chip,
    program: &NeuronProgram,
    tiles: &TileTable,
    nodes: &ScheduleNodes,
    buffers: BufferReuse,
) -> DependenceEdges {
    let mut state = DependenceBuilder {
        program,
        tiles,
        accesses: (0..tiles.facts.len()).map(|_| TileAccesses::default()).collect(),
        space: BufferSpace::new(chip, program, buffers),
        buffers,
        saved: BTreeMap::new(),
        places: BTreeMap::new(),
        window: u32::try_from(super::window(chip, program))
            .or_broken("a window beyond the range of machines"),
    };
    let mut edges = DependenceEdges { ranges: vec![(0, 0); nodes.count()], list: Vec::new() };
    let mut found: SmallVec<[DependenceEdge; 8]> = SmallVec::new();
    for &node in &nodes.order {
        found.clear();
        state.visit(nodes, node, &mut found);
        found.sort_unstable_by_key(|&(from, kind)| (from, kind as u8));
        found.dedup_by_key(|&mut (from, _)| from);
        let start = edges.list.len();
        edges.list.extend(found.iter().copied().filter(|&(from, _)| from != node));
        let number = |count: usize| u32::try_from(count).or_broken("more edges than are numbered");
        let range = (number(start), number(edges.list.len()));
        if let Some(place) = edges.ranges.get_mut(node as usize) {
            *place = range;
        }
    }
    edges
}

struct DependenceBuilder<'a> {
    program: &'a NeuronProgram,
    tiles: &'a TileTable,
    accesses: Vec<TileAccesses>,
    space: BufferSpace<'a>,
    buffers: BufferReuse,
    /// The last spill of each tile.
    saved: BTreeMap<u32, u32>,
    /// Instructions of each engine so far.
    places: BTreeMap<(u32, EngineKind), u32>,
    window: u32,
}

impl DependenceBuilder<'_> {
    fn visit(&mut self, nodes: &ScheduleNodes, node: u32, found: &mut SmallVec<[DependenceEdge; 8]>) {
        match nodes.node(node) {
            ScheduleNode::Instruction(at) => {
                let instruction = &self.program.instructions[at as usize];
                self.instruction(node, instruction, found);
            }
            ScheduleNode::Save(tile) => {
                self.access_whole_tile(node, tile, false, found);
                self.release(tile);
                self.saved.insert(tile, node);
            }
            ScheduleNode::Drop(tile) => self.release(tile),
            ScheduleNode::Reload(tile) => {
                self.space.claim(self.tiles, tile, found);
                found.extend(self.saved.get(&tile).map(|&save| (save, DependenceKind::Done)));
                self.access_whole_tile(node, tile, true, found);
            }
        }
    }

    fn instruction(
        &mut self,
        node: u32,
        instruction: &Instruction,
        found: &mut SmallVec<[DependenceEdge; 8]>,
    ) {
        let tensor = instruction.engine == EngineKind::Tensor;
        for region in &instruction.reads {
            self.add_dependences(node, instruction.engine, region, false, tensor, found);
        }
        for region in &instruction.writes {
            let tile = self.tiles.number(region);
            if self.begins(tile, node) {
                self.space.claim(self.tiles, tile, found);
            }
            self.add_dependences(node, instruction.engine, region, true, tensor, found);
        }
        let engine = instruction.engine;
        let place = self.places.entry((self.program.core(instruction), engine)).or_default();
        *place = place.exact_add(1);
        let place = *place;
        for region in &instruction.reads {
            self.record_access(TileAccess { region: *region, node, engine, place }, false);
        }
        for region in &instruction.writes {
            self.record_access(TileAccess { region: *region, node, engine, place }, true);
        }
        for region in instruction.reads.iter().chain(&instruction.writes) {
            let tile = self.tiles.number(region);
            let ends = self.tiles.facts.get(tile as usize).is_some_and(|facts| facts.life.1 == node);
            if ends {
                self.release(tile);
            }
        }
    }

    fn begins(&self, tile: u32, node: u32) -> bool {
        self.tiles.facts.get(tile as usize).is_some_and(|facts| facts.life.0 == node)
    }

    /// Earlier accesses that a region meets.
    fn add_dependences(
        &self,
        node: u32,
        engine: EngineKind,
        region: &TensorRegion,
        writing: bool,
        tensor: bool,
        found: &mut SmallVec<[DependenceEdge; 8]>,
    ) {
        let tile = self.tiles.number(region);
        let accesses = &self.accesses[tile as usize];
        if !self.tiles.facts[tile as usize].written {
            return;
        }
        let on_chip = self.tiles.facts[tile as usize].memory.on_chip();
        let in_order = |other: EngineKind| other == engine && engine != EngineKind::Dma;
        let mut add_edge = |access: &TileAccess, wrote: bool| {
            if access.node == node || !access.region.overlaps(region) {
                return;
            }
            let kind = match (wrote, writing, in_order(access.engine)) {
                (true, false, true) if tensor => DependenceKind::Order,
                (true, false, _) => DependenceKind::Done,
                (_, _, true) => DependenceKind::Order,
                (true, true, false) => DependenceKind::Done,
                (false, _, false) if on_chip && self.buffers == BufferReuse::Free => return,
                (false, _, false) if on_chip => DependenceKind::Space,
                (false, _, false) => DependenceKind::Read,
            };
            found.push((access.node, kind));
        };
        if let Some(pages) = &accesses.pages {
            pages.visit_overlapping(region, |access, wrote| {
                if wrote || writing {
                    add_edge(access, wrote);
                }
            });
            return;
        }
        accesses.writes.iter().for_each(|access| add_edge(access, true));
        if writing {
            accesses.reads.iter().for_each(|access| add_edge(access, false));
        }
    }

    fn record_access(&mut self, access: TileAccess, writing: bool) {
        /// From here on accesses are kept by place.
        const MANY: usize = 96;
        let tile = self.tiles.number(&access.region);
        let facts = &self.tiles.facts[tile as usize];
        if !facts.written {
            return;
        }
        // Nobody waits for reads behind the last write, unless for room.
        if !writing && !facts.memory.on_chip() && access.node > facts.last_write {
            return;
        }
        let accesses = &mut self.accesses[tile as usize];
        if let Some(pages) = &mut accesses.pages {
            pages.add(access, writing, self.window);
            return;
        }
        let region = access.region;
        if writing {
            accesses.writes.retain(|earlier| !region.covers(&earlier.region));
            accesses.reads.retain(|earlier| !region.covers(&earlier.region));
            accesses.writes.push(access);
        } else {
            if TileAccess::many(accesses.reads.len()) {
                accesses.reads.retain(|earlier| !access.outlasts(earlier, self.window));
            }
            accesses.reads.push(access);
        }
        if accesses.writes.len() + accesses.reads.len() > MANY {
            let mut pages = AccessPages::new(&region);
            accesses.writes.drain(..).for_each(|access| pages.add(access, true, self.window));
            accesses.reads.drain(..).for_each(|access| pages.add(access, false, self.window));
            accesses.pages = Some(Box::new(pages));
        }
    }

    /// An access of all of a tile by a transfer that moves it away or back.
    fn access_whole_tile(
        &mut self,
        node: u32,
        tile: u32,
        writing: bool,
        found: &mut SmallVec<[DependenceEdge; 8]>,
    ) {
        let facts = &self.tiles.facts[tile as usize];
        let region = TensorRegion {
            storage: facts.storage,
            tile: facts.tile,
            pitch_bytes: facts.bytes,
            rows: (0, facts.partitions),
            bytes: (0, facts.bytes),
            sparse: false,
        };
        self.add_dependences(node, EngineKind::Dma, &region, writing, false, found);
        self.record_access(TileAccess { region, node, engine: EngineKind::Dma, place: 0 }, writing);
    }

    /// Room that a tile leaves to later ones, once its last accesses are over.
    fn release(&mut self, tile: u32) {
        let facts = &self.tiles.facts[tile as usize];
        let accesses = &mut self.accesses[tile as usize];
        if !matches!(facts.memory, MemorySpace::Sbuf | MemorySpace::Psum) {
            return;
        }
        let mut users: SmallVec<[u32; 4]> = SmallVec::new();
        match accesses.pages.take() {
            Some(pages) => users.extend(pages.last()),
            None => {
                users.extend(accesses.writes.drain(..).map(|access| access.node));
                users.extend(accesses.reads.drain(..).map(|access| access.node));
            }
        }
        self.space.release(self.tiles, tile, users);
    }
}
