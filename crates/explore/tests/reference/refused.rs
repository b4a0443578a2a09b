//! What the closed forms refuse because of banks or registers, the engine refuses too.

use tilewright_base::SourceId;
use tilewright_explore::refusal::RefusalReason;
use tilewright_explore::tcp::TcpTask;
use tilewright_explore::tcp::exhaustive::every_choice;
use tilewright_explore::tcp::nest::FrameContext;
use tilewright_explore::tcp::space::frames;
use tilewright_explore::tcp::spell::spell;
use tilewright_notation::problem::Problem;
use tilewright_notation::syntax::parser;
use tilewright_num::Dtype;
use tilewright_tcp_lower::{LowerOptions, lower};

use crate::setting::{machine, task};

/// The code of the engine's refusal; `None` if it accepts.
fn refusal_of_engine(task: &TcpTask<'_>, text: &str) -> Option<String> {
    let program = parser::program(text, SourceId(0)).expect("a legal setting");
    let problem = Problem::new(&program).expect("a legal setting");
    let verdict = tilewright_tcp_cost::check(&task.setup, &problem);
    if let Some(complaint) = verdict.diagnostics.first().filter(|_| !verdict.legal()) {
        return Some(complaint.code.to_string());
    }
    lower(&task.setup, &problem, &verdict, &LowerOptions::default()).err().map(|complaint| complaint.message)
}

#[test]
fn banks_and_memories_are_refused_by_the_engine_too() {
    let tcp = machine("tcp");
    let toy = machine("toy-tcp");
    let tasks = [
        task(&tcp, Dtype::I8, "hqd,hkd->hqk; dims h=4, q=256, k=256, d=128"),
        task(&toy, Dtype::I8, "mk,nk->mn; dims m=64, n=64, k=64"),
    ];
    for task in &tasks {
        let mut asked = [0_usize; 3];
        for frame in frames(task).iter().step_by(7) {
            let framed = FrameContext::new(task, frame);
            every_choice(task, &framed, &mut |choice, evaluated| {
                let Err(refusal) = evaluated else { return };
                let at = match refusal.reason {
                    RefusalReason::Banks => 0,
                    RefusalReason::Registers => 1,
                    RefusalReason::DataMemory => 2,
                    _ => return,
                };
                asked[at] += 1;
                if !asked[at].is_multiple_of(23) {
                    return;
                }
                let Some(program) = spell(task, &framed, choice) else { return };
                // Padding in the packet: the check reads its values only, the commands all of its places.
                if framed.nest(choice).is_ok_and(|nest| nest.tree_padded) {
                    return;
                }
                let text = program.to_string();
                assert!(refusal_of_engine(task, &text).is_some(), "{refusal:?} {choice:?}\n{text}");
            });
        }
        assert!(asked.iter().sum::<usize>() > 23, "{asked:?}");
    }
}
