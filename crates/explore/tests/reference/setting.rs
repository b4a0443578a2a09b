//! Machines and tasks from text.

use tilewright_base::{SourceId, Sources};
use tilewright_explore::tcp::TcpTask;
use tilewright_machine::tcp::Tcp;
use tilewright_notation::problem::Problem;
use tilewright_notation::syntax::parser;
use tilewright_num::Dtype;
use tilewright_tcp_cost::Setup;

/// A machine by name.
pub(crate) fn machine(name: &str) -> Tcp {
    let mut sources = Sources::default();
    let text = tilewright_machine::builtin(name).expect("a legal setting");
    let id = sources.add(name, text.to_string());
    let bases = |base: &str| tilewright_machine::builtin(base).map(str::to_string);
    tilewright_machine::load(&mut sources, id, &bases)
        .expect("a legal setting")
        .machine
        .tcp()
        .expect("a legal setting")
        .clone()
}

/// An einsum with its sizes.
pub(crate) fn task<'m>(machine: &'m Tcp, dtype: Dtype, text: &str) -> TcpTask<'m> {
    let program = parser::program(text, SourceId(0)).expect("a legal setting");
    let problem = Problem::new(&program).expect("a legal setting");
    TcpTask::new(Setup::new(machine, 1, dtype).expect("a legal setting"), &program, &problem)
        .expect("a legal setting")
}
