//! Orders of sums that leave and widths of writes: programs with them are those that the estimate means.

use tilewright_explore::tcp::TcpReport;
use tilewright_explore::tcp::program::{lowered, program_cycles};
use tilewright_explore::{Goal, SearchOptions, search};
use tilewright_num::Dtype;
use tilewright_record::KeepLast;
use tilewright_runtime::{ArrayError, ReadingOptions, read};
use tilewright_tcp_isa::program::exec::Drain;

use crate::setting::{machine, task};

#[test]
fn slow_writes_take_what_was_estimated() {
    let toy = machine("toy-tcp");
    let task = task(&toy, Dtype::I8, "mk,nk->mn; dims m=16, n=16, k=16");
    let found = search(&task, &SearchOptions::everything(Goal::Time, usize::MAX), &mut |_, _| false);
    let every = (found.kept.best().len() / 120).max(1);
    let (mut narrow, mut sequential, mut slower) = (0, 0, 0);
    for candidate in found.kept.best().iter().step_by(every) {
        let told = TcpReport::new(&task, &found, candidate).expect("a legal candidate");
        let commit = told.commands.contract.commit.expect("results are written");
        let is_narrow = commit.write_bytes < commit.valid_bytes;
        narrow += usize::from(is_narrow);
        slower += usize::from(is_narrow && told.columns.commit > told.columns.drain);
        sequential += usize::from(candidate.choice.drain == Drain::Sequential);
        let program =
            lowered(&task, &told.framed, &candidate.choice, &tilewright_tcp_lower::LowerOptions::default());
        let program = program.unwrap_or_else(|complaints| panic!("{complaints:?}")).program;
        let mut files = |_: &_| Err(ArrayError::Format("none".to_string()));
        let reading =
            read(&toy, &program, &mut files, &ReadingOptions::default(), KeepLast::new(0)).expect("it runs");
        let estimated = program_cycles(&task, told.columns.part_cycles);
        assert_eq!(reading.outcome.cycles, estimated, "{}{:?}", told.program, candidate.choice);
    }
    assert!(narrow > 10 && slower > 3 && sequential > 10, "{narrow} {slower} {sequential}");
}
