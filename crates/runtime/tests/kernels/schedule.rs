//! When each command of a head group runs, how long, and what it takes: kept as a table.

use std::fmt::Write as _;
use std::ops::ControlFlow;

use tilewright_num::Dtype;
use tilewright_record::KeepLast;
use tilewright_sim::{Judge, Options, simulate};
use tilewright_tcp::cost::Context;
use tilewright_tcp::cost::image::exec_cycles;
use tilewright_tcp::energy::{counts, energy_fj};
use tilewright_tcp::kernels::{Attention, attention};
use tilewright_tcp::program::event::{Event, Image, Ticket};
use tilewright_tcp::program::transfer::Address;
use tilewright_tcp::program::{Exec, Program};

use crate::{assert_kept, tcp};

/// A command with its time.
struct Ran {
    ticket: Ticket,
    exec: Exec,
    start_cycles: u64,
    end_cycles: u64,
}

/// Writes down when commands run.
#[derive(Default)]
struct Clerk(Vec<Ran>);

impl Judge for Clerk {
    fn observe(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        match *event {
            Event::Issue { ticket, image: Image::Exec(exec), .. } => {
                self.0.push(Ran { ticket, exec: exec.clone(), start_cycles: 0, end_cycles: 0 });
            }
            Event::Start { ticket, at_cycles } => self.of(ticket).start_cycles = at_cycles,
            Event::Done { ticket, at_cycles } => self.of(ticket).end_cycles = at_cycles,
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn read(&mut self, _: Address, _: Dtype) -> Option<i64> {
        None
    }
}

impl Clerk {
    fn of(&mut self, ticket: Ticket) -> &mut Ran {
        self.0.iter_mut().find(|ran| ran.ticket == ticket).unwrap()
    }
}

fn schedule(program: &Program) -> Vec<Ran> {
    let mut clerk = Clerk::default();
    simulate(tcp(), program, &Options::default(), KeepLast::new(0), &mut clerk).unwrap();
    clerk.0
}

fn table(ran: &[Ran]) -> String {
    let mut text = format!(
        "{:<12} {:<7} {:>7} {:>7} {:>7}  {:<12} {:>7} {:>12}\n",
        "command", "context", "start", "end", "cycles", "slowest", "cycles", "energy pJ"
    );
    for ran in ran {
        let context = if ran.exec.context == Context::Main { "main" } else { "sub" };
        let cost = exec_cycles(tcp(), &ran.exec);
        let energy: u64 = energy_fj(tcp(), &counts(tcp(), &ran.exec)).iter().sum();
        let (start, end) = (ran.start_cycles, ran.end_cycles);
        let _ = writeln!(
            text,
            "{:<12} {context:<7} {start:>7} {end:>7} {:>7}  {:<12} {:>7} {:>12}",
            ran.exec.name,
            end - start,
            format!("{:?}", cost.binding).to_lowercase(),
            cost.stage_cycles(cost.binding),
            energy / 1000,
        );
    }
    text
}

#[test]
fn the_schedule_of_a_head_group_is_kept() {
    let ran = schedule(&attention(tcp(), &Attention::default()).unwrap());
    assert_kept("tests/sim/attention-schedule.txt", &table(&ran));
}

#[test]
fn values_are_loaded_while_softmax_runs() {
    for length in [256, 1024] {
        let ran = schedule(&attention(tcp(), &Attention { length, ..Attention::default() }).unwrap());
        let of = |name: &str| ran.iter().find(|ran| ran.exec.name == name).unwrap();
        let (load, pass) = (of("load_values"), of("row_max"));
        assert!(load.start_cycles >= pass.start_cycles && load.end_cycles <= pass.end_cycles, "at {length}");
        for ran in &ran {
            let alone = exec_cycles(tcp(), &ran.exec).total_cycles;
            let took = ran.end_cycles - ran.start_cycles;
            // The main context never waits for the other; a load beside it may meet its banks.
            let slowed = if ran.exec.name == "load_values" { alone } else { 0 };
            assert!((alone..=alone + slowed).contains(&took), "{}: {took}, alone {alone}", ran.exec.name);
        }
    }
}
