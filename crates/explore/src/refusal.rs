//! Why a candidate is refused, and by how much it misses.

/// The rule that a candidate breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RefusalReason {
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
    /// Its time or its energy is more than can be counted.
    Uncountable,
}

impl RefusalReason {
    /// All reasons, in the order in which they are asked for.
    pub const ALL: [RefusalReason; 20] = [
        RefusalReason::IdleSlices,
        RefusalReason::Lanes,
        RefusalReason::Repeats,
        RefusalReason::Columns,
        RefusalReason::Dynamic,
        RefusalReason::Packet,
        RefusalReason::Ring,
        RefusalReason::Accumulators,
        RefusalReason::Registers,
        RefusalReason::DataMemory,
        RefusalReason::Words,
        RefusalReason::Loading,
        RefusalReason::Loops,
        RefusalReason::Banks,
        RefusalReason::Transfer,
        RefusalReason::Psum,
        RefusalReason::Sbuf,
        RefusalReason::Instruction,
        RefusalReason::Power,
        RefusalReason::Uncountable,
    ];

    /// A short name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            RefusalReason::IdleSlices => "idle_slices",
            RefusalReason::Lanes => "lanes",
            RefusalReason::Repeats => "repeats",
            RefusalReason::Columns => "columns",
            RefusalReason::Dynamic => "dynamic",
            RefusalReason::Packet => "packet",
            RefusalReason::Ring => "ring",
            RefusalReason::Accumulators => "accumulators",
            RefusalReason::Registers => "registers",
            RefusalReason::DataMemory => "data_memory",
            RefusalReason::Words => "words",
            RefusalReason::Loading => "loading",
            RefusalReason::Loops => "loops",
            RefusalReason::Banks => "banks",
            RefusalReason::Transfer => "transfer",
            RefusalReason::Psum => "psum",
            RefusalReason::Sbuf => "sbuf",
            RefusalReason::Instruction => "instruction",
            RefusalReason::Power => "power",
            RefusalReason::Uncountable => "uncountable",
        }
    }

    /// What the two numbers of a refusal count.
    pub fn unit(self) -> &'static str {
        match self {
            RefusalReason::IdleSlices => "slices at work along an axis",
            RefusalReason::Lanes => "positions for lanes",
            RefusalReason::Repeats => "steps for repeats",
            RefusalReason::Columns => "rows for a packet",
            RefusalReason::Dynamic => "loops in time over a dynamic axis",
            RefusalReason::Packet => "elements of a packet",
            RefusalReason::Ring => "slices with rows on a ring",
            RefusalReason::Accumulators => "open sums for each output of a lane",
            RefusalReason::Registers => "B of register files a slice",
            RefusalReason::DataMemory => "B of data memory a slice",
            RefusalReason::Words => "B of results a slice",
            RefusalReason::Loading => "contexts with masks",
            RefusalReason::Loops => "sequencer entries",
            RefusalReason::Banks => "accesses to one bank in a row",
            RefusalReason::Transfer => "loops of a DMA engine",
            RefusalReason::Psum => "banks of PSUM",
            RefusalReason::Sbuf => "B of SBUF a partition",
            RefusalReason::Instruction => "instructions of these tiles",
            RefusalReason::Power => "mW on average",
            RefusalReason::Uncountable => "ticks or fJ that can be counted",
        }
    }
}

/// A broken rule with its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CandidateRefusal {
    /// Which rule.
    pub reason: RefusalReason,
    /// What the candidate needs.
    pub need: u64,
    /// What there is.
    pub have: u64,
}

/// Refusals by reason, with the closest miss of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusalCounts {
    counts: [u64; RefusalReason::ALL.len()],
    closest: [Option<CandidateRefusal>; RefusalReason::ALL.len()],
}

impl Default for RefusalCounts {
    fn default() -> RefusalCounts {
        RefusalCounts { counts: [0; RefusalReason::ALL.len()], closest: [None; RefusalReason::ALL.len()] }
    }
}

impl RefusalCounts {
    /// Counts one.
    pub fn add(&mut self, refusal: CandidateRefusal) {
        self.add_times(refusal, 1);
    }

    /// Counts so many with the same numbers.
    pub fn add_times(&mut self, refusal: CandidateRefusal, times: u64) {
        self.counts[refusal.reason as usize] += times;
        self.keep(refusal);
    }

    /// Counts those of another list.
    pub fn merge(&mut self, other: &RefusalCounts) {
        for reason in RefusalReason::ALL {
            self.counts[reason as usize] += other.count(reason);
            if let Some(refusal) = other.closest(reason) {
                self.keep(refusal);
            }
        }
    }

    fn keep(&mut self, refusal: CandidateRefusal) {
        let miss = |refusal: &CandidateRefusal| refusal.need.abs_diff(refusal.have);
        let slot = &mut self.closest[refusal.reason as usize];
        if slot.is_none_or(|kept| miss(&refusal) < miss(&kept)) {
            *slot = Some(refusal);
        }
    }

    /// How many had this reason.
    pub fn count(&self, reason: RefusalReason) -> u64 {
        self.counts[reason as usize]
    }

    /// The one that missed by least.
    pub fn closest(&self, reason: RefusalReason) -> Option<CandidateRefusal> {
        self.closest[reason as usize]
    }

    /// The rule that binds: the last, in the order in which rules are asked, that refused anything. What it
    /// refused had passed all others.
    pub fn binding(&self) -> Option<CandidateRefusal> {
        const ASKED: [RefusalReason; 20] = [
            RefusalReason::Uncountable,
            RefusalReason::Power,
            RefusalReason::Sbuf,
            RefusalReason::Psum,
            RefusalReason::Instruction,
            RefusalReason::Loading,
            RefusalReason::Banks,
            RefusalReason::Transfer,
            RefusalReason::Loops,
            RefusalReason::Accumulators,
            RefusalReason::DataMemory,
            RefusalReason::Registers,
            RefusalReason::Words,
            RefusalReason::Ring,
            RefusalReason::Dynamic,
            RefusalReason::IdleSlices,
            RefusalReason::Packet,
            RefusalReason::Columns,
            RefusalReason::Repeats,
            RefusalReason::Lanes,
        ];
        ASKED.into_iter().find_map(|reason| self.closest(reason))
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }
}
