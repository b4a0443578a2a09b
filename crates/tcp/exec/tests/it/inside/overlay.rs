//! Bytes that were lent instead of copied.

use std::sync::Arc;

use proptest::prelude::*;
use tilewright_tcp_exec::inside::{ByteSource, Overlay};
use tilewright_tcp_exec::state::SharedBytes;

const BYTES: usize = 64;

proptest! {
    /// Lending, writing and reading in any order shows what a plain memory shows, and nothing is called
    /// zeros that has another byte.
    #[test]
    fn it_shows_what_a_plain_memory_shows(
        steps in prop::collection::vec((0..5_usize, 0..BYTES, 1..24_usize), 1..40)
    ) {
        let mut plain = vec![0_u8; BYTES];
        let (mut dm, mut overlay) = (vec![0_u8; BYTES], Overlay::zeros(BYTES));
        for (value, (kind, start, length)) in (1_u8..).zip(steps) {
            let part = start..(start + length).min(BYTES);
            let new = vec![if kind == 4 { 0 } else { value }; part.len()];
            match kind {
                0 => {
                    let shared = SharedBytes::new(Arc::new(new.clone()), 0..new.len()).expect("all of \
                        it");
                    overlay.lend(start, shared, &mut dm);
                }
                1 => {
                    overlay.change(&part, &mut dm);
                    dm[part.clone()].copy_from_slice(&new);
                }
                2 => {
                    overlay.settle(&part, &mut dm);
                    prop_assert_eq!(&dm[part.clone()], &plain[part.clone()]);
                }
                4 => {
                    overlay.change(&part, &mut dm);
                    dm[part.clone()].fill(0);
                    overlay.clear(part.clone());
                }
                _ => match overlay.source(&part) {
                    Some(ByteSource::Borrowed(shared)) =>
                        prop_assert_eq!(shared.bytes(), &plain[part.clone()]),
                    Some(ByteSource::Own(own)) => prop_assert_eq!(&dm[own], &plain[part.clone()]),
                    Some(ByteSource::Zeros) =>
                        prop_assert!(plain[part.clone()].iter().all(|byte| *byte == 0)),
                    None => {}
                },
            }
            if !matches!(kind, 2 | 3) {
                plain[part].copy_from_slice(&new);
            }
            let mut all = dm.clone();
            overlay.read(0, &mut all);
            prop_assert_eq!(&all, &plain);
        }
    }
}
