//! One finding: what went wrong in a run, between which commands, and where; as a diagnostic and as data.

use serde::Serialize;
use tilewright_base::{Diagnostic, Severity, Span};

use tilewright_tcp_cost::cycles::image::{Delay, LongestCycles};
use tilewright_tcp_isa::program::event::{PeId, Ticket};

/// Codes of findings, with what each means.
pub const CODES: &[(&str, &str)] = &[
    ("tcp/race-dm", "two commands that nothing orders touch the same bytes of data memory, and one writes"),
    ("tcp/race-trf", "the same in the contraction engine's register file"),
    ("tcp/race-vrf", "the same in the vector engine's register file"),
    ("tcp/race-hbm", "the same in HBM"),
    ("tcp/race-spm", "the same in a scratchpad"),
    ("tcp/trf-half", "a load stores into the half of the register file that a contraction may be reading"),
    ("tcp/self-overlap", "a command overwrites bytes that it reads later itself"),
    ("tcp/uninitialised", "a command reads bytes that nothing has written"),
    ("tcp/out-of-bounds", "a command touches bytes that no memory has"),
    ("tcp/not-granted", "a command touches bytes that are not granted to its PE"),
    ("tcp/fault", "a command cannot run as its registers say with the values that it meets"),
    ("tcp/bank-hold", "banks are held so long that a DMA beside it may time out"),
    ("tcp/cycles-low", "a command may take much longer than its closed form, which prices it, says"),
    ("tcp/output-unwritten", "an output has elements that no command wrote"),
    ("tcp/queue-overflow", "a command was pushed into a full queue and lost"),
    ("tcp/deadlock", "waits that can never end"),
];

/// A command of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FindingCommand {
    /// The image's name.
    pub name: String,
    /// Chip of the queue.
    pub chip: u64,
    /// PE of the queue.
    pub pe: u64,
    /// What ran it: `main`, `sub` or `dma`.
    pub unit: &'static str,
    /// Its number in the run.
    pub ticket: u64,
    /// The step that issued it.
    #[serde(skip)]
    pub span: Span,
}

/// Bytes of one memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemorySpot {
    /// `hbm`, `dm`, `trf`, `vrf` or `spm`.
    pub memory: &'static str,
    /// Chip.
    pub chip: u64,
    /// Slice of the chip, or PE for a scratchpad.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice: Option<u64>,
    /// First byte.
    pub start: u64,
    /// One past the last.
    pub end: u64,
}

/// What a run did wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// One of [`CODES`].
    pub code: &'static str,
    /// What happened, in one line.
    pub message: String,
    /// The earlier command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<FindingCommand>,
    /// The later one, if two are involved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub second: Option<FindingCommand>,
    /// Where, for the first time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spot: Option<MemorySpot>,
    /// When, for the first time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_cycles: Option<u64>,
    /// Whether it is certain; addresses from tables are not known.
    pub certain: bool,
    /// How often, between the same images.
    pub count: u64,
    /// Further facts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What to do about it.
    pub instead: String,
    /// A place of its own, where no command is involved.
    #[serde(skip)]
    pub span: Option<Span>,
}

/// Why a command stopped the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// It touches bytes that no memory has.
    OutOfBounds,
    /// It touches bytes that are not granted to its PE.
    NotGranted,
    /// It reads what it has written itself.
    SelfOverlap,
    /// Its registers do not fit one another, or the values that they meet.
    Registers,
}

/// Something that a queue or core waits for, in a cycle of waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitLink {
    /// Who waits.
    pub pe: PeId,
    /// At which step.
    pub span: Span,
    /// What it waits for, such as ``wait_d 3`` or `a message of chip 0 pe 1`.
    pub for_what: String,
    /// Who would have to go on.
    pub on: Option<PeId>,
}

impl Finding {
    /// A finding without places.
    pub fn new(code: &'static str, message: impl Into<String>, instead: impl Into<String>) -> Finding {
        Finding {
            code,
            message: message.into(),
            first: None,
            second: None,
            spot: None,
            at_cycles: None,
            certain: true,
            count: 1,
            notes: Vec::new(),
            instead: instead.into(),
            span: None,
        }
    }

    /// A command was pushed without a look into a queue that had no room.
    pub fn queue_overflow(pe: PeId, span: Span, command: &str, entries: u64, at_cycles: u64) -> Finding {
        let message = format!(
            "{command} was pushed into the full queue of chip {} pe {} and lost: {entries} entries",
            pe.chip, pe.pe
        );
        Finding {
            at_cycles: Some(at_cycles),
            span: Some(span),
            ..Finding::new("tcp/queue-overflow", message, "`push`, which waits for room")
        }
    }

    /// A command may take longer than what it was priced at. A warning: it says nothing about values.
    pub fn cycles_low(command: FindingCommand, closed_cycles: u64, longest: LongestCycles) -> Finding {
        let why = longest.delay.map_or("", Delay::words);
        let message = format!(
            "`{}` is priced at {closed_cycles} cycles and may take {}: {why}",
            command.name, longest.total_cycles
        );
        let instead = match longest.delay {
            Some(Delay::Banks) => "bases or strides with which reads and writes go through other banks",
            Some(Delay::Accumulators) => "groups of sums that take at most half of the accumulators",
            Some(Delay::Queues) | None => "packets as large as what is kept of them, or smaller tiles",
        };
        Finding { first: Some(command), certain: false, ..Finding::new("tcp/cycles-low", message, instead) }
    }

    /// A command stopped the run: nothing after it happened.
    pub fn fault(command: FindingCommand, kind: FaultKind, message: String, at_cycles: u64) -> Finding {
        let (code, instead) = match kind {
            FaultKind::OutOfBounds => {
                ("tcp/out-of-bounds", "a base, strides or a table that stay inside the memory")
            }
            FaultKind::NotGranted => {
                ("tcp/not-granted", "a grant for the range, or a table that stays in it")
            }
            FaultKind::SelfOverlap => {
                ("tcp/self-overlap", "a target apart from what is read, or one that follows the reads")
            }
            FaultKind::Registers => ("tcp/fault", "registers that fit the values, or other values"),
        };
        Finding {
            at_cycles: Some(at_cycles),
            first: Some(command),
            notes: vec!["the run ends here".to_string()],
            ..Finding::new(code, message, instead)
        }
    }

    /// No queue and no core can go on. `waits` form the cycle, each held by the next and the last by the
    /// first; a wait that nobody can end stands alone.
    pub fn deadlock(waits: &[WaitLink], at_cycles: u64) -> Finding {
        let who = |pe: PeId| format!("chip {} pe {}", pe.chip, pe.pe);
        let chain: Vec<String> = waits.iter().map(|wait| who(wait.pe)).collect();
        let message = match (waits, chain.first()) {
            ([_], Some(first)) => format!("{first} waits for what will never happen"),
            (_, Some(first)) => format!("a cycle of waits: {} -> {first}", chain.join(" -> ")),
            (_, None) => "nothing can go on".to_owned(),
        };
        let note = |wait: &WaitLink| {
            let on = wait.on.map(|pe| format!(", which is up to {}", who(pe)));
            format!("{} waits for {}{}", who(wait.pe), wait.for_what, on.unwrap_or_default())
        };
        Finding {
            at_cycles: Some(at_cycles),
            span: waits.first().map(|wait| wait.span),
            notes: waits.iter().map(note).collect(),
            ..Finding::new("tcp/deadlock", message, "post before the wait, or issue what is waited for first")
        }
    }

    /// The finding as a complaint: an error, or a warning if it is not certain.
    pub fn to_diagnostic(&self) -> Diagnostic {
        let severity = if self.certain { Severity::Error } else { Severity::Warning };
        let mut diagnostic = Diagnostic { severity, ..Diagnostic::error(self.code, self.message.clone()) };
        let label = |party: &FindingCommand| {
            format!("`{}` on chip {} pe {}, {}", party.name, party.chip, party.pe, party.unit)
        };
        match (&self.second, &self.first) {
            (Some(second), Some(first)) => {
                diagnostic = diagnostic.at(second.span, label(second)).also(first.span, label(first));
            }
            (None, Some(first)) => diagnostic = diagnostic.at(first.span, label(first)),
            _ => {
                if let Some(span) = self.span {
                    diagnostic = diagnostic.at(span, "here");
                }
            }
        }
        if let Some(spot) = &self.spot {
            diagnostic = diagnostic.with_note(spot.to_string());
        }
        if let Some(at) = self.at_cycles {
            diagnostic = diagnostic.with_note(format!("at cycle {at}"));
        }
        if self.count > 1 {
            diagnostic = diagnostic.with_note(format!("{} times between these images", self.count));
        }
        diagnostic.notes.extend(self.notes.iter().cloned());
        diagnostic.instead(self.instead.clone())
    }
}

impl std::fmt::Display for MemorySpot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of chip {}", self.memory, self.chip)?;
        if let Some(slice) = self.slice {
            write!(f, ", {} {slice}", if self.memory == "spm" { "pe" } else { "slice" })?;
        }
        write!(f, ", bytes {}..{}", self.start, self.end)
    }
}

impl FindingCommand {
    /// A command of a queue.
    pub fn new(name: &str, pe: PeId, unit: &'static str, ticket: Ticket, span: Span) -> FindingCommand {
        FindingCommand { name: name.to_owned(), chip: pe.chip, pe: pe.pe, unit, ticket: ticket.0, span }
    }
}
