//! Why a candidate is refused, and by how much it misses.

/// The rule that a candidate breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Half or more of the slices along an axis would be idle.
    IdleSlices,
    /// More lanes than the held axis has positions.
    Lanes,
    /// The feed unit would hold a packet for more steps than there are.
    Repeats,
    /// More rows in a packet than the streamed axis has.
    Columns,
    /// An axis of a size known only at run time ends in lanes, in a packet or on a ring.
    Dynamic,
    /// More elements than a packet has.
    Packet,
    /// A ring whose slices do not all have rows, or that sums stand in the way of.
    Ring,
    /// More open sums than the accumulators hold.
    Accumulators,
    /// The held operand does not fit the register files.
    Registers,
    /// The tensors do not fit data memory.
    DataMemory,
    /// Results that are no whole number of words for the commit unit.
    Words,
    /// The sub context cannot load padded operands.
    Loading,
    /// The loops of a sequencer.
    Loops,
    /// A bank is held too long.
    Banks,
    /// The loops of a DMA engine.
    Transfer,
    /// Blocks, results and sums do not fit SBUF.
    Sbuf,
    /// Open sums do not fit PSUM.
    Psum,
    /// The engine refuses an instruction.
    Instruction,
    /// The average power is above what was asked for.
    Power,
}

impl Reason {
    /// All reasons, in the order in which they are asked for.
    pub const ALL: [Reason; 19] = [
        Reason::IdleSlices,
        Reason::Lanes,
        Reason::Repeats,
        Reason::Columns,
        Reason::Dynamic,
        Reason::Packet,
        Reason::Ring,
        Reason::Accumulators,
        Reason::Registers,
        Reason::DataMemory,
        Reason::Words,
        Reason::Loading,
        Reason::Loops,
        Reason::Banks,
        Reason::Transfer,
        Reason::Psum,
        Reason::Sbuf,
        Reason::Instruction,
        Reason::Power,
    ];

    /// A short name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Reason::IdleSlices => "idle_slices",
            Reason::Lanes => "lanes",
            Reason::Repeats => "repeats",
            Reason::Columns => "columns",
            Reason::Dynamic => "dynamic",
            Reason::Packet => "packet",
            Reason::Ring => "ring",
            Reason::Accumulators => "accumulators",
            Reason::Registers => "registers",
            Reason::DataMemory => "data_memory",
            Reason::Words => "words",
            Reason::Loading => "loading",
            Reason::Loops => "loops",
            Reason::Banks => "banks",
            Reason::Transfer => "transfer",
            Reason::Psum => "psum",
            Reason::Sbuf => "sbuf",
            Reason::Instruction => "instruction",
            Reason::Power => "power",
        }
    }

    /// What the two numbers of a refusal count.
    pub fn unit(self) -> &'static str {
        match self {
            Reason::IdleSlices => "slices at work along an axis",
            Reason::Lanes => "positions for lanes",
            Reason::Repeats => "steps for repeats",
            Reason::Columns => "rows for a packet",
            Reason::Dynamic => "loops in time over a dynamic axis",
            Reason::Packet => "elements of a packet",
            Reason::Ring => "slices with rows on a ring",
            Reason::Accumulators => "open sums for each output of a lane",
            Reason::Registers => "B of register files a slice",
            Reason::DataMemory => "B of data memory a slice",
            Reason::Words => "B of results a slice",
            Reason::Loading => "contexts with masks",
            Reason::Loops => "sequencer entries",
            Reason::Banks => "accesses to one bank in a row",
            Reason::Transfer => "loops of a DMA engine",
            Reason::Psum => "banks of PSUM",
            Reason::Sbuf => "B of SBUF a partition",
            Reason::Instruction => "instructions of these tiles",
            Reason::Power => "mW on average",
        }
    }
}

/// A broken rule with its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Which rule.
    pub reason: Reason,
    /// What the candidate needs.
    pub need: u64,
    /// What there is.
    pub have: u64,
}

/// Refusals by reason, with the closest miss of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusals {
    counts: [u64; Reason::ALL.len()],
    closest: [Option<Refusal>; Reason::ALL.len()],
}

impl Default for Refusals {
    fn default() -> Refusals {
        Refusals { counts: [0; Reason::ALL.len()], closest: [None; Reason::ALL.len()] }
    }
}

impl Refusals {
    /// Counts one.
    pub fn add(&mut self, refusal: Refusal) {
        self.add_times(refusal, 1);
    }

    /// Counts so many with the same numbers.
    pub fn add_times(&mut self, refusal: Refusal, times: u64) {
        self.counts[refusal.reason as usize] += times;
        self.keep(refusal);
    }

    /// Counts those of another list.
    pub fn merge(&mut self, other: &Refusals) {
        for reason in Reason::ALL {
            self.counts[reason as usize] += other.count(reason);
            if let Some(refusal) = other.closest(reason) {
                self.keep(refusal);
            }
        }
    }

    fn keep(&mut self, refusal: Refusal) {
        let miss = |refusal: &Refusal| refusal.need.abs_diff(refusal.have);
        let slot = &mut self.closest[refusal.reason as usize];
        if slot.is_none_or(|kept| miss(&refusal) < miss(&kept)) {
            *slot = Some(refusal);
        }
    }

    /// How many had this reason.
    pub fn count(&self, reason: Reason) -> u64 {
        self.counts[reason as usize]
    }

    /// The one that missed by least.
    pub fn closest(&self, reason: Reason) -> Option<Refusal> {
        self.closest[reason as usize]
    }

    /// The rule that binds: the last, in the order in which rules are asked, that refused anything. What it refused had passed all others.
    pub fn binding(&self) -> Option<Refusal> {
        const ASKED: [Reason; 19] = [
            Reason::Power,
            Reason::Sbuf,
            Reason::Psum,
            Reason::Instruction,
            Reason::Loading,
            Reason::Banks,
            Reason::Transfer,
            Reason::Loops,
            Reason::Accumulators,
            Reason::DataMemory,
            Reason::Registers,
            Reason::Words,
            Reason::Ring,
            Reason::Dynamic,
            Reason::IdleSlices,
            Reason::Packet,
            Reason::Columns,
            Reason::Repeats,
            Reason::Lanes,
        ];
        ASKED.into_iter().find_map(|reason| self.closest(reason))
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }
}
