//! The paper's QK^T space: how many tactics it has, the listed ones stage by stage, and what figures 14 and
//! 15 say of it.

use tilewright_explore::tcp::section::{
    SectionCycles, SectionProduct, SectionTactic, every_tactic, slice_milliwatts, stages,
};
use tilewright_num::Dtype;
use tilewright_tcp_cost::Setup;

use crate::setting::machine;

const QK: SectionProduct = SectionProduct { batch: 4, rows0: 256, rows1: 256, sum: 128 };

/// Figure 10: sixteen slices a head, keys held.
const FIG10: SectionTactic =
    SectionTactic { split: [4, 1, 16, 1], holds_in1: true, lanes: 8, depth: 6, repeats: 2, fetch_bytes: 32 };

#[test]
fn the_space_has_so_many_tactics_and_full_rate_takes_all_lanes() {
    let tcp = machine("tcp");
    let setup = Setup::new(&tcp, 1, Dtype::I8).unwrap();
    let (mut all, mut full, mut narrow, mut best) = (0, 0, 0, u64::MAX);
    every_tactic(&setup, &QK, &mut |tactic| {
        let stages = stages(&setup, &QK, tactic);
        all += 1;
        best = best.min(stages.cycles);
        if stages.mac.max(stages.stream).max(stages.drain) == 1024 {
            full += 1;
            narrow += usize::from(tactic.lanes < 8);
        }
    });
    assert_eq!((all, full, narrow), (31_296, 1_768, 0));
    // The bound: every product at full rate, and a pipeline without a ring.
    assert_eq!(best, 1024 + 1 + 20);
}

#[test]
fn listed_tactics_take_what_the_list_says() {
    let tcp = machine("tcp");
    let setup = Setup::new(&tcp, 1, Dtype::I8).unwrap();
    let rows = [
        (FIG10, [1024, 1024, 512, 256, 1060]),
        (SectionTactic { split: [4, 16, 1, 1], repeats: 32, ..FIG10 }, [1024, 64, 512, 4096, 1045]),
        (SectionTactic { split: [4, 4, 4, 1], repeats: 8, ..FIG10 }, [1024, 256, 512, 1024, 1048]),
        (SectionTactic { split: [4, 4, 4, 1], repeats: 8, depth: 3, ..FIG10 }, [1024, 256, 512, 1024, 1048]),
        (SectionTactic { split: [4, 1, 8, 2], repeats: 4, ..FIG10 }, [1024, 512, 1024, 256, 1052]),
        (SectionTactic { repeats: 1, ..FIG10 }, [1024, 2048, 512, 256, 2084]),
        (SectionTactic { fetch_bytes: 16, ..FIG10 }, [1024, 2048, 512, 256, 2084]),
        (SectionTactic { fetch_bytes: 8, ..FIG10 }, [1024, 4096, 512, 256, 4132]),
        (SectionTactic { lanes: 4, repeats: 4, ..FIG10 }, [2048, 1024, 1024, 256, 2084]),
        (SectionTactic { lanes: 2, repeats: 8, ..FIG10 }, [4096, 1024, 2048, 256, 4132]),
        (SectionTactic { lanes: 1, repeats: 16, ..FIG10 }, [8192, 1024, 4096, 256, 8228]),
        (SectionTactic { depth: 0, ..FIG10 }, [1024, 1024, 512, 256, 1060]),
    ];
    for (tactic, [mac, stream, drain, load, cycles]) in rows {
        assert_eq!(
            stages(&setup, &QK, &tactic),
            SectionCycles { mac, stream, drain, load, cycles },
            "{tactic:?}"
        );
    }
}

#[test]
fn figures_14_and_15() {
    let tcp = machine("tcp");
    let setup = Setup::new(&tcp, 1, Dtype::I8).unwrap();
    // For each bucket of time: the least power with all lanes, and with fewer.
    let mut least: Vec<[f64; 2]> = vec![[f64::MAX; 2]; 4];
    every_tactic(&setup, &QK, &mut |tactic| {
        let stages = stages(&setup, &QK, tactic);
        let slowest = stages.mac.max(stages.stream).max(stages.drain);
        let power = slice_milliwatts(&setup, &QK, tactic);
        if let Some(bucket) =
            (slowest.is_multiple_of(1024)).then(|| (slowest / 1024).ilog2() as usize).filter(|b| *b < 4)
            && slowest == 1024 << bucket
        {
            let slot = &mut least[bucket][usize::from(tactic.lanes < 8)];
            *slot = slot.min(power);
        }
    });
    // Figure 14: the fastest point also takes more power than the efficient ones at twice and four times its
    // time.
    assert!(least[0][0] > least[1][0] && least[1][0] > least[2][0], "{least:?}");
    // Figure 15: at equal time the efficient tactics use all lanes.
    for bucket in &least[1..] {
        assert!(bucket[0] < bucket[1], "{least:?}");
    }
    // They differ in fetch supply and accumulator use; few lanes with supply to spare are inefficient.
    let power = |tactic: &SectionTactic| slice_milliwatts(&setup, &QK, tactic);
    assert!(
        power(&SectionTactic { repeats: 1, ..FIG10 })
            < power(&SectionTactic { lanes: 4, repeats: 4, ..FIG10 })
    );
    assert!(
        power(&SectionTactic { fetch_bytes: 8, ..FIG10 })
            < power(&SectionTactic { lanes: 2, repeats: 8, ..FIG10 })
    );
    assert!(power(&SectionTactic { depth: 0, ..FIG10 }) > power(&FIG10));
}
