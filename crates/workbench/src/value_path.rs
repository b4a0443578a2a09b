//! The path of an input through a planned graph: in which memories it, and what is computed of it, lies from
//! when to when, and which commands carry it on.
//!
//! It is followed byte by byte through the footprints of commands as they ran, and knows nothing of what the
//! compiler meant: a command that reads bytes of the path puts on the path all that it writes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use tilewright_compile::general::kernel::Value;
use tilewright_compile::general::plan::Planned;
use tilewright_machine::Tcp;
use tilewright_report::columns::thousands;
use tilewright_tcp_isa::footprint::{MemoryAccess, MemoryKind};

use crate::byte_ranges::ByteRanges;
use crate::memory_map::{RanCommand, ran_commands, touched_runs};

/// Where an input goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValuePath {
    /// The input.
    pub input: String,
    /// Cycles of the run.
    pub cycles: u64,
    /// Where it lies, by when it comes there.
    pub stays: Vec<ValueStay>,
}

/// Bytes of a path in one memory, from who writes them to who reads them last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueStay {
    /// The memory, of all slices together.
    pub memory: MemoryKind,
    /// The commands that write it, without numbers that tell those of several PEs and tiles apart; none for
    /// what the host wrote.
    pub command: Option<String>,
    /// How many commands.
    pub runs: u64,
    /// The kernel that they are of.
    pub kernel: Option<usize>,
    /// The value that this is in HBM.
    pub value: Option<String>,
    /// Bytes that were written, in all slices.
    pub bytes: u64,
    /// When the first of them began.
    pub from: u64,
    /// When it was read for the last time; the end of the run for results.
    pub until: u64,
    /// Stays that the commands read, by number.
    pub after: BTreeSet<usize>,
}

/// Why there is no path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoPath {
    /// No input has the name; these have.
    NoInput(Vec<String>),
    /// The run is too long to be followed, or cannot be timed without values.
    TooLong,
}

/// Follows an input, by its name.
///
/// # Errors
/// No such input, or a run that cannot be followed.
pub fn value_path(machine: &Tcp, planned: &Planned, input: &str) -> Result<ValuePath, NoPath> {
    let all = &planned.kernels;
    let named = |value: &&usize| all.values.get(**value).is_some_and(|value| value.name == input);
    let Some(&number) = all.inputs.iter().find(named) else {
        let names = all.inputs.iter().filter_map(|value| all.values.get(*value));
        return Err(NoPath::NoInput(names.map(|value| value.name.clone()).collect()));
    };
    let (commands, cycles) = ran_commands(machine, &planned.program).ok_or(NoPath::TooLong)?;
    let mut follower = Follower::new(planned);
    follower.begin(number);
    commands.iter().for_each(|command| follower.follow(machine, command));
    follower.end(cycles);
    let mut stays = follower.stays;
    let mut order: Vec<usize> = (0..stays.len()).collect();
    order.sort_by_key(|at| stays[*at].from);
    let place: BTreeMap<usize, usize> = order.iter().enumerate().map(|(new, old)| (*old, new)).collect();
    for stay in &mut stays {
        stay.after = stay.after.iter().filter_map(|at| place.get(at).copied()).collect();
    }
    let stays = order.into_iter().map(|at| stays[at].clone()).collect();
    Ok(ValuePath { input: input.to_string(), cycles, stays })
}

/// A memory of one slice, or HBM of a chip.
type MemoryKey = (MemoryKind, u64, u64);

struct Follower<'p> {
    planned: &'p Planned,
    kernels: BTreeMap<&'p str, usize>,
    stays: Vec<ValueStay>,
    by_writer: BTreeMap<(MemoryKind, Option<usize>, String), usize>,
    /// Bytes on the path, with the number of their stay.
    held: BTreeMap<MemoryKey, ByteRanges<usize>>,
}

impl<'p> Follower<'p> {
    fn new(planned: &'p Planned) -> Follower<'p> {
        let program = &planned.program;
        let execs = program.execs.iter().map(|exec| exec.name.as_str()).zip(&planned.kernel_of_exec);
        let transfers =
            program.transfers.iter().map(|one| one.name.as_str()).zip(&planned.kernel_of_transfer);
        let kernels = execs.chain(transfers).map(|(name, kernel)| (name, *kernel)).collect();
        Follower { planned, kernels, stays: Vec::new(), by_writer: BTreeMap::new(), held: BTreeMap::new() }
    }

    /// The input as the host writes it.
    fn begin(&mut self, number: usize) {
        let (Some((first, last)), Some(value)) =
            (self.place(number), self.planned.kernels.values.get(number))
        else {
            return;
        };
        self.stays.push(ValueStay {
            memory: MemoryKind::Hbm,
            command: None,
            runs: 0,
            kernel: None,
            value: Some(value.name.clone()),
            bytes: last - first,
            from: 0,
            until: 0,
            after: BTreeSet::new(),
        });
        self.held.entry((MemoryKind::Hbm, 0, 0)).or_default().put(first, last, 0);
    }

    /// First byte of a value in HBM, and one past the last.
    fn place(&self, number: usize) -> Option<(u64, u64)> {
        let first = *self.planned.places.get(number)?;
        let bytes = |value: &Value| value.count().checked_mul(value.element_bytes());
        Some((first, first.checked_add(bytes(self.planned.kernels.values.get(number)?)?)?))
    }

    fn follow(&mut self, machine: &Tcp, command: &RanCommand) {
        let accesses = command.accesses(machine);
        let mut read = BTreeSet::new();
        for access in accesses.iter().filter(|access| !access.write) {
            for key in keys(access) {
                let Some(held) = self.held.get_mut(&key) else { continue };
                for (first, last) in touched_runs(access) {
                    read.extend(held.within(first, last).map(|(_, _, stay)| *stay));
                }
            }
        }
        for stay in &read {
            let until = &mut self.stays[*stay].until;
            *until = command.end.max(*until);
        }
        let mut written = BTreeSet::new();
        for access in accesses.iter().filter(|access| access.write) {
            let stay = (!read.is_empty()).then(|| self.stay(access, command));
            if let Some(stay) = stay {
                let slices = access.slices.1 - access.slices.0;
                self.stays[stay].bytes += access.bytes.len() * slices;
                self.stays[stay].after.extend(read.iter().filter(|read| **read != stay));
                written.insert(stay);
            }
            for key in keys(access) {
                let held = self.held.entry(key).or_default();
                for (first, last) in touched_runs(access) {
                    match stay {
                        Some(stay) => held.put(first, last, stay),
                        None => held.take(first, last),
                    };
                }
            }
        }
        written.into_iter().for_each(|stay| self.stays[stay].runs += 1);
    }

    /// The stay of what a command writes; commands of a kernel that differ by their numbers share it.
    fn stay(&mut self, access: &MemoryAccess, command: &RanCommand) -> usize {
        let kernel = self.kernels.get(command.name()).copied();
        let name = without_last_number(command.name()).to_string();
        let next = self.stays.len();
        let stay = *self.by_writer.entry((access.memory, kernel, name.clone())).or_insert(next);
        if stay == next {
            let first = access.bytes.bounds().map(|(first, _)| first);
            let value = first.filter(|_| access.memory == MemoryKind::Hbm);
            let value = value.and_then(|first| self.value_at(first, kernel?));
            self.stays.push(ValueStay {
                memory: access.memory,
                command: Some(name),
                runs: 0,
                kernel,
                value,
                bytes: 0,
                from: command.start,
                until: command.end,
                after: BTreeSet::new(),
            });
        }
        let one = &mut self.stays[stay];
        (one.from, one.until) = (one.from.min(command.start), one.until.max(command.end));
        stay
    }

    /// The value at a byte of HBM that a kernel, or one that runs with it, gives.
    fn value_at(&self, byte: u64, kernel: usize) -> Option<String> {
        let (all, chosen) = (&self.planned.kernels, &self.planned.chosen);
        let mut with: Vec<usize> = vec![kernel];
        with.extend(chosen.epilogues.get(&kernel).into_iter().flatten());
        with.extend(chosen.tails.get(&kernel));
        let groups = self.planned.groups.iter().filter(|group| group.contains(&kernel));
        with.extend(groups.cloned().flatten());
        let mut given =
            with.iter().filter_map(|kernel| all.kernels.get(*kernel)).flat_map(|one| &one.results);
        let holds =
            |value: &&usize| self.place(**value).is_some_and(|(first, last)| first <= byte && byte < last);
        let last = given.rfind(holds)?;
        all.values.get(*last).map(|value| value.name.clone())
    }

    /// Results are there until the end.
    fn end(&mut self, cycles: u64) {
        let results: Vec<usize> = self.planned.kernels.results.iter().map(|result| result.value).collect();
        for number in results {
            let Some((first, last)) = self.place(number) else { continue };
            let Some(held) = self.held.get_mut(&(MemoryKind::Hbm, 0, 0)) else { continue };
            for (_, _, stay) in held.within(first, last) {
                self.stays[*stay].until = cycles;
            }
        }
    }
}

/// The memories that an access touches, slice by slice.
fn keys(access: &MemoryAccess) -> impl Iterator<Item = MemoryKey> + use<> {
    let (memory, chip) = (access.memory, access.chip);
    (access.slices.0..access.slices.1).map(move |slice| (memory, chip, slice))
}

/// A name without the number behind it that tells equal names apart.
fn without_last_number(name: &str) -> &str {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match name.rsplit_once('_') {
        Some((before, last)) if is_number(last) => before,
        _ => name,
    }
}

impl ValueStay {
    /// Who put it there, in words.
    pub fn written_by(&self) -> String {
        match &self.command {
            None => "the host".to_string(),
            Some(command) if self.runs == 1 => command.clone(),
            Some(command) => format!("{command} x {}", self.runs),
        }
    }
}

impl fmt::Display for ValuePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = ["from", "until", "where", "bytes", "value", "written by"].map(str::to_string);
        let row = |stay: &ValueStay| {
            [
                thousands(stay.from),
                thousands(stay.until),
                stay.memory.name().to_string(),
                thousands(stay.bytes),
                stay.value.clone().unwrap_or_default(),
                stay.written_by(),
            ]
        };
        let rows: Vec<[String; 6]> = std::iter::once(header).chain(self.stays.iter().map(row)).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: [usize; 6] = std::array::from_fn(width);
        writeln!(f, "path of {} in a run of {} cycles", self.input, thousands(self.cycles))?;
        for [from, until, place, bytes, value, by] in &rows {
            let [a, b, c, d, e, _] = widths;
            writeln!(f, "{from:>a$}  {until:>b$}  {place:<c$}  {bytes:>d$}  {value:<e$}  {by}")?;
        }
        Ok(())
    }
}
