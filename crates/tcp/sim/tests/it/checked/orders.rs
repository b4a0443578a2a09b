//! Races against brute force: every pair of commands, reachability in a plain graph, byte by byte.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;
use tilewright_tcp_isa::footprint::MemoryKind;
use tilewright_tcp_isa::program::Program;
use tilewright_tcp_isa::program::event::ExecUnit;
use tilewright_tcp_isa::program::exec::Context;
use tilewright_tcp_isa::program::transfer::{Address, MemoryInstance};
use tilewright_tcp_sim::findings::FindingCommand;

use crate::checked::build::*;
use crate::checked::enumerated::{Byte, enumerate_exec, enumerate_transfer};
use crate::checked::script::{Happens, findings_of, pe};

const PES: u64 = 3;

fn pool() -> Program {
    let mut wide = copy("wide", Context::Main, 0, 256, 2);
    wide.pes = 2;
    let mut slices = transfer("slices", hbm(64), dm(62, 32), 32);
    slices.loops = vec![transfer_loop(4, 32, 1 << 22)];
    Program {
        chips: 1,
        execs: vec![
            copy("a", Context::Main, 0, 64, 2),
            copy("b", Context::Sub, 64, 128, 1),
            copy("c", Context::Sub, 512, 0, 1),
            wide,
        ],
        transfers: vec![
            transfer("in", hbm(0), dm(0, 0), 64),
            transfer("out", dm(0, 96), hbm(64), 64),
            slices,
            transfer("far", hbm(4096), hbm(64), 8),
        ],
        queues: (0..PES).map(|at| queue(at, Vec::new())).collect(),
        ..Program::default()
    }
}

/// The order as a graph: every event is a node, and a path means before.
#[derive(Default)]
struct Graph {
    after: Vec<Vec<usize>>,
}

impl Graph {
    /// A core saw something done; so do the commands that it pushes later.
    fn sees(&mut self, done: usize, (core, queue): (&mut usize, &mut usize), ahead: bool) {
        *core = self.after(&[done, *core]);
        if !ahead {
            *queue = self.after(&[*core, *queue]);
        }
    }

    fn node(&mut self) -> usize {
        self.after.push(Vec::new());
        self.after.len() - 1
    }

    /// A node after all of these.
    fn after(&mut self, before: &[usize]) -> usize {
        let node = self.node();
        before.iter().for_each(|earlier| self.after[*earlier].push(node));
        node
    }

    fn reaches(&self, from: usize) -> BTreeSet<usize> {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(node) = open.pop() {
            open.extend(self.after[node].iter().filter(|next| seen.insert(**next)));
        }
        seen
    }
}

struct Issued {
    node: usize,
    name: String,
    pe: u64,
    /// A tensor unit command, whose slices depend on its PE.
    runs: bool,
    bytes: BTreeSet<Byte>,
}

/// An image: its name and, where that makes another of it, its PE.
type Key = (String, Option<u64>);

impl Issued {
    fn key(&self) -> Key {
        (self.name.clone(), self.runs.then_some(self.pe))
    }
}

/// Every pair of images that race.
fn brute(program: &Program, script: &[Happens]) -> BTreeSet<(Key, Key)> {
    let mut graph = Graph::default();
    let mut ran: Vec<Issued> = Vec::new();
    // Nodes of commands, by ticket.
    let mut issued: Vec<usize> = Vec::new();
    let mut queues: Vec<usize> = (0..PES).map(|_| graph.node()).collect();
    let mut cores: Vec<usize> = (0..PES).map(|_| graph.node()).collect();
    let mut units: BTreeMap<(u64, ExecUnit), usize> = BTreeMap::new();
    let mut messages: BTreeMap<(u64, u64), VecDeque<usize>> = BTreeMap::new();
    let at = |pe: u64| usize::try_from(pe).expect("a small number");
    let mut ahead = vec![false; queues.len()];
    for happens in script {
        match *happens {
            Happens::Exec(owner, _) | Happens::Dma(owner, _) => {
                let (name, unit, bytes) = match *happens {
                    Happens::Exec(_, exec) => {
                        let exec = &program.execs[exec];
                        (&exec.name, ExecUnit::of(exec.context), enumerate_exec(exec, pe(owner)))
                    }
                    Happens::Dma(_, transfer) => {
                        let transfer = &program.transfers[transfer];
                        (&transfer.name, ExecUnit::Dma, enumerate_transfer(transfer))
                    }
                    _ => unreachable!(),
                };
                let issue = graph.after(&[queues[at(owner)]]);
                let node = graph.after(&[issue]);
                queues[at(owner)] = issue;
                if let Some(before) = units.insert((owner, unit), node) {
                    graph.after[before].push(node);
                    if unit != ExecUnit::Dma {
                        graph.after[before].push(issue);
                    }
                }
                issued.push(node);
                ran.push(Issued { node, name: name.clone(), pe: owner, runs: unit != ExecUnit::Dma, bytes });
            }
            Happens::Waited(owner, ticket) => {
                queues[at(owner)] = graph.after(&[queues[at(owner)], issued[at(ticket)]]);
            }
            Happens::Synced(owner) => {
                let node = graph.after(&[queues[at(owner)], cores[at(owner)]]);
                ran.iter().filter(|ran| ran.pe == owner).for_each(|ran| graph.after[ran.node].push(node));
                queues[at(owner)] = node;
                cores[at(owner)] = node;
                ahead[at(owner)] = false;
            }
            Happens::Awaited(owner, ticket) => {
                let command = issued[usize::try_from(ticket).expect("a small number")];
                let own = (&mut cores[at(owner)], &mut queues[at(owner)]);
                graph.sees(command, own, ahead[at(owner)]);
            }
            Happens::Ahead(owner) => {
                ahead[at(owner)] ^= true;
                if !ahead[at(owner)] {
                    // What is pushed from now on comes after all messages that the core took meanwhile.
                    queues[at(owner)] = graph.after(&[queues[at(owner)], cores[at(owner)]]);
                }
            }
            Happens::Read(owner, address) => {
                let node = graph.after(&[cores[at(owner)]]);
                (queues[at(owner)], cores[at(owner)]) = (node, node);
                let bytes = enumerate_read(address);
                ran.push(Issued { node, name: "read".into(), pe: owner, runs: false, bytes });
            }
            Happens::Posted(from, to) => {
                let node = graph.after(&[cores[at(from)]]);
                messages.entry((from, to)).or_default().push_back(node);
            }
            Happens::Received(owner, from) => {
                let Some(message) = messages.get_mut(&(from, owner)).and_then(VecDeque::pop_front) else {
                    continue;
                };
                let own = (&mut cores[at(owner)], &mut queues[at(owner)]);
                graph.sees(message, own, ahead[at(owner)]);
            }
        }
    }
    racing(&graph, &ran)
}

/// The word that a core reads.
fn enumerate_read(address: Address) -> BTreeSet<Byte> {
    let located = address.locate().expect("a memory");
    let (store, slice) = match located.medium {
        MemoryInstance::Dm { slice } => (MemoryKind::Dm, slice),
        _ => (MemoryKind::Hbm, 0),
    };
    (0..4).map(|byte| (store, 0, slice, located.offset + byte, false)).collect()
}

fn racing(graph: &Graph, ran: &[Issued]) -> BTreeSet<(Key, Key)> {
    let mut races = BTreeSet::new();
    for (index, first) in ran.iter().enumerate() {
        let later = graph.reaches(first.node);
        for second in ran[index + 1..].iter().filter(|second| !later.contains(&second.node)) {
            let fights = first.bytes.iter().any(|&(store, chip, slice, byte, write)| {
                second.bytes.contains(&(store, chip, slice, byte, true))
                    || (write && second.bytes.contains(&(store, chip, slice, byte, false)))
            });
            if fights {
                races.insert((first.key(), second.key()));
            }
        }
    }
    races
}

/// Scripts in which waits name commands of their own queue that were not waited for, and groups lie within
/// the PEs.
fn scripts() -> impl Strategy<Value = Vec<Happens>> {
    let one = (0_u64..PES, 0_usize..8, 0_u64..PES, 0_u8..17);
    proptest::collection::vec(one, 1..24).prop_map(|drawn| {
        let mut script: Vec<Happens> = Vec::new();
        let mut owners: Vec<u64> = Vec::new();
        for (owner, image, other, kind) in drawn {
            let own: Vec<usize> = (0..owners.len()).filter(|ticket| owners[*ticket] == owner).collect();
            match kind {
                0..=5 if image < 3 || (image == 3 && owner == 0) => {
                    owners.push(owner);
                    script.push(Happens::Exec(owner, image));
                }
                0..=5 if image > 3 => {
                    owners.push(owner);
                    script.push(Happens::Dma(owner, image - 4));
                }
                6 | 7 if !own.is_empty() => {
                    let ticket = own[image % own.len()];
                    script.push(Happens::Waited(owner, u64::try_from(ticket).expect("a small number")));
                }
                8 => script.push(Happens::Synced(owner)),
                15 | 16 if !own.is_empty() => {
                    let ticket = own[image % own.len()];
                    script.push(Happens::Awaited(owner, u64::try_from(ticket).expect("a small number")));
                }
                9 | 10 if other != owner => script.push(Happens::Posted(owner, other)),
                11 if other != owner => script.push(Happens::Received(owner, other)),
                12 => script.push(Happens::Ahead(owner)),
                13 => script.extend([Happens::Synced(owner), Happens::Read(owner, dm(0, 64))]),
                14 => script.extend([Happens::Synced(owner), Happens::Read(owner, hbm(68))]),
                _ => {}
            }
        }
        script
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn races_are_those_of_every_pair(script in scripts()) {
        let program = pool();
        let found = findings_of(&program, &script);
        let races = found.iter().filter(|finding| finding.code.starts_with("tcp/race"));
        let named: BTreeSet<_> = races
            .filter_map(|finding| {
                let key = |party: &FindingCommand|
                    (party.name.clone(), matches!(party.unit, "main" | "sub").then_some(party.pe));
                Some((key(finding.first.as_ref()?), key(finding.second.as_ref()?)))
            })
            .collect();
        prop_assert_eq!(named, brute(&program, &script));
    }
}
