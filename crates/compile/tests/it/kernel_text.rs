//! Kernels as text: what is printed reads back as the same, and nothing that is read makes anything fall
//! over.

use crate::support;

use proptest::prelude::*;
use support::{compiled, small, tcp};
use tilewright_base::SourceId;
use tilewright_compile::cluster::cluster;
use tilewright_compile::kernel_text::read;
use tilewright_compile::{Mixed, Options, compile_kernels};
use tilewright_num::Dtype;
use tilewright_tcp_isa::program::text::print;

#[test]
fn kernels_of_a_text_compile_to_the_same_programs() {
    let machine = tcp();
    let graph = small(2, 64, 8, 4);
    let of_graph = compiled(&machine, &graph, Dtype::Bf16, 2, 1);
    let kernels = read(&cluster(&graph).unwrap().print(), SourceId(0)).unwrap();
    let options = Options {
        dtype: Dtype::Bf16,
        mixed: Mixed::default(),
        cache: Dtype::Bf16,
        context: 256,
        pes: 2,
        chips: 1,
        batch: 1,
    };
    let of_text = compile_kernels(&machine, &kernels, options).unwrap();
    assert_eq!(print(&of_text.decode), print(&of_graph.decode));
    assert_eq!(print(&of_text.prefill), print(&of_graph.prefill));
}

#[test]
fn built_in_models_read_back() {
    for name in tilewright_import::configs::names() {
        let kernels = cluster(&tilewright_import::configs::read(name).unwrap().graph).unwrap();
        assert_eq!(read(&kernels.print(), SourceId(0)).unwrap(), kernels, "{name}");
    }
}

proptest! {
    #[test]
    fn what_is_printed_reads_back(
        layers in 1_u64..4,
        depth in prop::sample::select(vec![8_u64, 16, 48]),
        kv in 1_u64..5,
        group in 1_u64..4,
        parts in prop::sample::select(vec![1_u64, 2, 4]),
    ) {
        let kernels = cluster(&small(layers, depth * kv * group, kv * group, kv)).unwrap();
        prop_assert_eq!(&read(&kernels.print(), SourceId(0)).unwrap(), &kernels);
        // Sharded they print as well, but widths are then those of a part.
        let printed = kernels.sharded(parts).print();
        if let Ok(again) = read(&printed, SourceId(0)) {
            prop_assert_eq!(again.print(), printed);
        }
    }

    #[test]
    fn changed_texts_are_refused_or_read_back(at in 0_usize..4000, with in "[ -~]{0,3}", gone in 0_usize..3) {
        let mut text = cluster(&small(1, 64, 4, 2)).unwrap().print();
        let at = at % text.len();
        text.replace_range(at..(at + gone).min(text.len()), &with);
        match read(&text, SourceId(0)) {
            Ok(kernels) => prop_assert_eq!(&read(&kernels.print(), SourceId(0)).unwrap(), &kernels),
            Err(complaints) =>
                prop_assert!(complaints.iter().all(|found| found.code.starts_with("kernels/"))),
        }
    }
}

/// Words of version 1 have changed, so it is refused by its version and not by one of its words.
#[test]
fn the_first_version_is_refused() {
    let text = cluster(&small(1, 64, 4, 2)).unwrap().print();
    let old = text.replacen("kernels 2", "kernels 1", 1);
    let complaints = read(&old, SourceId(0)).unwrap_err();
    assert_eq!(complaints[0].code, "kernels/syntax");
    assert!(complaints[0].message.starts_with("version 1 of `kernels`"), "{complaints:?}");
}
