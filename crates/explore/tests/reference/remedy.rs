//! Where nothing is legal, each change that is offered makes something legal.

use tilewright_explore::tcp::TcpTask;
use tilewright_explore::tcp::remedy::{Remedy, remedies};
use tilewright_explore::{Goal, SearchOptions, search};
use tilewright_num::Dtype;
use tilewright_tcp_cost::Setup;

use crate::setting::{machine, task};

fn is_legal(task: &TcpTask<'_>) -> bool {
    !search(task, &SearchOptions::exact(Goal::Time, 1), &mut |_, kept| !kept.best().is_empty())
        .kept
        .best()
        .is_empty()
}

#[test]
fn changes_that_are_offered_help() {
    let tcp = machine("tcp");
    let cases = [
        ("mk,nk->mn; dims m=16, n=16, k=100000000", 2),
        ("mk,nk->mn; dims m=1, n=1, k=2", 1),
        ("mk,nk->mn; dims m=1, n=1, k=1", 0),
    ];
    for (text, least) in cases {
        let task = task(&tcp, Dtype::I8, text);
        assert!(!is_legal(&task), "{text}");
        let remedies = remedies(&task);
        assert!(remedies.len() >= least, "{text}: {remedies:?}");
        for remedy in remedies {
            let (mut other, mut changed) = (task.clone(), tcp.clone());
            match &remedy {
                Remedy::Size(name, size) => {
                    let axis = other.axes.iter_mut().find(|axis| axis.name.to_string() == *name);
                    axis.expect("an axis of the einsum").extent = *size;
                }
                Remedy::Pes(pes) => other.setup = Setup::new(&tcp, *pes, Dtype::I8).expect("PEs that fuse"),
                Remedy::Figures(figures) => {
                    for (key, value) in figures {
                        match *key {
                            "trf.rows_per_bank" => changed.trf.rows_per_bank = *value,
                            "dm.capacity_bytes" => changed.dm.capacity_bytes = *value,
                            other => panic!("{other}"),
                        }
                    }
                    other.setup.machine = &changed;
                }
            }
            assert!(is_legal(&other), "{text}: {remedy:?}");
        }
    }
}
