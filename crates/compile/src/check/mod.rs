//! The checker of schedules: from a command program alone, that each read sees its write, that nothing
//! overlaps in space and time, and that every wait has its signal (paper sections III-C, V-A and V-C).
//!
//! It shares nothing with what writes the waits. Footprints (`tilewright_tcp_isa::footprint`) say what a
//! command touches; all else follows from the steps of the queues. Branches are followed both ways, by
//! cutting the ranges of control registers; loops as [`trace`] says.
//!
//! | file | owns |
//! |---|---|
//! | `cases` | values of registers, and where they must be told apart |
//! | `trace` | a queue in one case as a list |
//! | `touch` | what commands touch, and where two meet |
//! | `order` | what is ordered before what |
//! | `hazards` | all queues of one case together |
//! | `repeat` | blocks that repeat, followed once |
//! | `flow` | whose bytes are read |
//! | [`intent`] | which kernel reads which |
//! | `regions` | whether transfers meet what the plan has in HBM |
//! | `images` | whether each image is loaded for its own start |
//! | `graph` | the program of a planned graph against its places |
//! | `places` | whether its transfers read and write what their kernels do |
//! | `values` | which kernel of a planned graph reads whose bytes |
//! | `model` | the programs of a compiled model |
//! | [`fault`] | what is found |

mod cases;
pub mod fault;
mod flow;
mod graph;
mod hazards;
mod images;
pub mod intent;
mod model;
mod order;
mod places;
mod regions;
mod repeat;
mod touch;
mod trace;
mod values;

use std::collections::{BTreeMap, BTreeSet};

use tilewright_base::invariant::Exact;
use tilewright_machine::tcp::Tcp;
use tilewright_tcp_isa::program::{Program, Register, RegisterId};

pub use fault::{CheckFault, FaultKind};
pub use graph::{check_plan, plan_fault};
pub use intent::Intent;

use cases::ProgramCase;
pub use cases::RegisterTie;
use tilewright_tcp_isa::program::event::PeId;

/// Cases that are followed.
const MOST_CASES: u64 = 256;
/// Faults that are facts.
const MOST_FAULTS: usize = 64;

/// What a check went through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// What is wrong; empty if nothing is.
    pub faults: Vec<CheckFault>,
    /// Cases of registers that were told apart.
    pub cases: u64,
    /// Commands, over all cases.
    pub commands: u64,
    /// Pairs of commands that were found to be ordered or apart, where they might have met.
    pub pairs: u64,
    /// Commands whose results nobody reads in some case, by queue and step, and those whose results somebody
    /// reads.
    unread: BTreeMap<(usize, usize), CheckFault>,
    read: BTreeSet<(usize, usize)>,
}

impl CheckReport {
    /// Faults that make results wrong: what nobody reads is only in vain.
    pub fn errors(&self) -> impl Iterator<Item = &CheckFault> {
        self.faults.iter().filter(|fault| fault.kind != FaultKind::Unread)
    }
}

/// What is known of the registers of a program when it starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegisterFacts {
    /// Values that are looked at besides all ranges.
    pub runs: Vec<Vec<(RegisterId, i64)>>,
    /// Registers that the host sets together.
    pub ties: Vec<RegisterTie>,
}

/// Checks a program.
pub fn check(machine: &Tcp, program: &Program, intent: &Intent, facts: &RegisterFacts) -> CheckReport {
    let mut checked = CheckReport::default();
    let mut touches = touch::AccessCache::new(machine, program, &intent.indexed);
    let all = ProgramCase::all(program, &facts.ties);
    let mut open = vec![all.clone()];
    open.extend(facts.runs.iter().map(|run| all.clone().with(run)));
    let mut faults: BTreeMap<(FaultKind, String), CheckFault> = BTreeMap::new();
    while let Some(case) = open.pop() {
        let mut found = Vec::new();
        if checked.cases.exact_add(open.len() as u64) > MOST_CASES {
            found.push(too_many());
            open.clear();
        } else {
            match trace::traces(program, &case, &mut touches, &mut found) {
                Err(cases::CaseSplit::TooLong) => found = vec![too_many()],
                Err(cut) => {
                    open.extend(case.cut(cut));
                    continue;
                }
                Ok(traces) => {
                    checked.cases += 1;
                    let at_most = |(range, known): (&cases::ValueRange, &Register)| range.most == known.most;
                    let widest = case.registers.iter().zip(&program.registers).all(at_most);
                    let met = (traces.as_slice(), widest);
                    hazards::check_case(
                        machine,
                        program,
                        intent,
                        met,
                        &mut touches,
                        &mut checked,
                        &mut found,
                    );
                }
            }
        }
        for fault in found {
            faults.entry((fault.kind, fault.message.clone())).or_insert(fault);
        }
        if faults.len() > MOST_FAULTS {
            break;
        }
    }
    let unread = std::mem::take(&mut checked.unread).into_iter();
    let vain = unread.filter(|(at, _)| !checked.read.contains(at)).map(|(_, fault)| fault);
    checked.faults = faults.into_values().chain(vain).collect();
    checked.read.clear();
    checked.faults.sort_by_key(|fault| (fault.pe, fault.step, fault.kind));
    checked
}

fn too_many() -> CheckFault {
    let message = "more branches or steps than are followed".to_string();
    CheckFault::new(FaultKind::NotFollowed, PeId { chip: 0, pe: 0 }, 0, message)
}
