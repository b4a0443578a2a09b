//! Inputs that start in off-chip memory: programs with their transfers take what was estimated, give the
//! einsum, and have no findings.

use proptest::prelude::*;
use tilewright_explore::tcp::operand_transfers::of_program;
use tilewright_explore::tcp::program::{lowered, program_cycles};
use tilewright_explore::tcp::{TcpCandidate, TcpReport, TcpSearchResult, TcpTask};
use tilewright_explore::{Goal, SearchOptions, search};
use tilewright_num::Dtype;
use tilewright_record::KeepLast;
use tilewright_runtime::einsum::compare_run;
use tilewright_runtime::{ArrayError, ReadingOptions, read};
use tilewright_tcp_isa::program::tensor::TensorPlace;
use tilewright_tcp_lower::off_chip::{HbmImage, HbmImageDigit, MOST_DIGITS};
use tilewright_testkit::draws;

use crate::setting::{machine, task};

/// Lowers and runs a candidate; the words of a disagreement if there is one.
fn disagreement(task: &TcpTask<'_>, found: &TcpSearchResult, candidate: &TcpCandidate) -> Option<String> {
    let machine = task.setup.machine;
    let report = TcpReport::new(task, found, candidate).expect("a legal candidate");
    let text = report.program.to_string();
    let program = match lowered(
        task,
        &report.framed,
        &candidate.choice,
        &tilewright_tcp_lower::LowerOptions::default(),
    ) {
        Ok(lowered) => lowered.program,
        Err(complaints) => return Some(format!("{text}\n{complaints:?}")),
    };
    let (cycles, counts) = of_program(machine, &program);
    if cycles != report.columns.bring_cycles.iter().sum::<u64>() {
        return Some(format!(
            "{text}\n{cycles} cycles of transfers, estimated {:?}",
            report.columns.bring_cycles
        ));
    }
    if report.framed.frame.commands() == 1 && counts != report.transferred {
        return Some(format!("{text}\n{counts:?}\n{:?}", report.transferred));
    }
    let mut files = |_: &_| Err(ArrayError::Format("none".to_string()));
    let wanted = ReadingOptions { values: true, findings: true, ..ReadingOptions::default() };
    let reading = match read(machine, &program, &mut files, &wanted, KeepLast::new(0)) {
        Ok(reading) => reading,
        Err(error) => return Some(format!("{text}\n{error}")),
    };
    let estimated = program_cycles(task, report.columns.part_cycles);
    let simulated = reading.outcome.cycles;
    if simulated.abs_diff(estimated) > 2 {
        return Some(format!("{text}\n{simulated} cycles, estimated {estimated} {:?}", report.columns));
    }
    if let Some(finding) = reading.findings.first() {
        return Some(format!("{text}\n{finding:?}"));
    }
    let [in0, in1, out] = &program.tensors[..3] else { return Some("tensors".to_string()) };
    let in_hbm = [in0, in1].map(|tensor| matches!(tensor.place, TensorPlace::Hbm { .. }));
    if in_hbm != task.from_hbm {
        return Some(format!("{text}\n{in_hbm:?}"));
    }
    let Some(compared) = compare_run(machine, [in0, in1, out], &reading, &mut files, 1 << 20) else {
        return Some(format!("{text}\nno values"));
    };
    (compared.different > 0).then(|| format!("{text}\n{compared:?}"))
}

fn all_agree(task: &TcpTask<'_>, most: usize, skip: usize) {
    let found = search(task, &SearchOptions::everything(Goal::Time, usize::MAX), &mut |_, _| false);
    let every = (found.kept.best().len() / most).max(1);
    let some = found.kept.best().iter().skip(skip % every).step_by(every);
    let wrong: Vec<String> = some.filter_map(|candidate| disagreement(task, &found, candidate)).collect();
    assert!(wrong.is_empty(), "{} of {most}:\n{}", wrong.len(), wrong[0]);
}

#[test]
fn programs_with_transfers_take_what_was_estimated() {
    let toy = machine("toy-tcp");
    for from_hbm in [[true, false], [false, true], [true, true]] {
        let small = task(&toy, Dtype::I8, "mk,nk->mn; dims m=8, n=8, k=16").with_inputs_in_hbm(from_hbm);
        all_agree(&small, 100, 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: draws(8, 24), failure_persistence: None, ..ProptestConfig::default()
    })]
    #[test]
    fn random_einsums(
        (b, m, n, k) in (1_u64..4, 1_u64..17, 1_u64..17, 2_u64..17),
        which in 0_usize..3,
        from_hbm in any::<[bool; 2]>(),
        skip in 0_usize..1000,
    ) {
        let toy = machine("toy-tcp");
        let dtype = [Dtype::I8, Dtype::Bf16, Dtype::F8E4M3Fn][which];
        let task = task(&toy, dtype, &format!("bmk,bnk->bmn; dims b={b}, m={m}, n={n}, k={k}"));
        all_agree(&task.with_inputs_in_hbm(from_hbm), 12, skip);
    }
}

/// Eight groups of PEs share the channels of off-chip memory; winners are simulated with all of them.
#[test]
fn winners_of_decoding_from_off_chip_memory() {
    let tcp = machine("tcp");
    for rows in [1, 16, 128] {
        let text = format!("mk, n_8k -> mn_8; dims m={rows}, n=4096, k=4096");
        let task = task(&tcp, Dtype::I8, &text).with_inputs_in_hbm([true, true]);
        let found = search(&task, &SearchOptions::exact(Goal::Time, 1), &mut |_, _| false);
        let best = found.kept.best().first().expect("something is legal");
        let report = TcpReport::new(&task, &found, best).expect("it can be told");
        let program =
            lowered(&task, &report.framed, &best.choice, &tilewright_tcp_lower::LowerOptions::default());
        let program = program.unwrap_or_else(|complaints| panic!("{text}: {complaints:?}")).program;
        let mut files = |_: &_| Err(ArrayError::Format("none".to_string()));
        let reading =
            read(&tcp, &program, &mut files, &ReadingOptions::default(), KeepLast::new(0)).expect("it runs");
        let estimated = program_cycles(&task, report.columns.part_cycles);
        let simulated = reading.outcome.cycles;
        assert!(simulated.abs_diff(estimated) * 100 <= estimated * 3, "{text}: {simulated}, {estimated}");
        let bound = found.bound.expect("a bound");
        assert!(bound.ticks <= best.ticks && bound.energy_fj <= best.energy_fj);
        // Weights are 2 MB for each group, and nothing brings them sooner than its engine.
        assert!(report.brought_bytes[1] >= 4096 * 4096 / 8 && best.ticks > report.brought_bytes[1] / 256);
    }
}

/// Slices that continue each other are one loop; odd parts take a second transfer; too many loops are
/// refused.
#[test]
fn transfers_of_an_image() {
    let tcp = machine("tcp");
    let digit = |live, slots, copies| HbmImageDigit { live, slots, copies };
    let image = |list: &[HbmImageDigit], slice_bytes| {
        let mut digits = [HbmImageDigit::default(); MOST_DIGITS];
        digits[..list.len()].copy_from_slice(list);
        HbmImage { digits, count: list.len(), slice_bytes, dm_base: 64, slice: 0, hbm_base: 512 }
    };
    let whole = image(&[digit(4, 4, false), digit(16, 16, false)], 8192);
    let transfers = whole.transfers(&tcp, "bring").expect("two loops");
    assert_eq!((transfers.len(), transfers[0].packet, transfers[0].loops.len()), (1, 4096, 2));
    assert_eq!((whole.bytes(), whole.end(&tcp)), (64 * 8192, 512 + 64 * 8192));

    // Copies are read again and written further on; idle slices get nothing.
    let ragged = image(&[digit(4, 4, false), digit(2, 2, true), digit(3, 4, false)], 4104);
    let transfers = ragged.transfers(&tcp, "bring").expect("three loops");
    let sizes: Vec<Vec<u64>> =
        transfers.iter().map(|one| one.loops.iter().map(|row| row.size.fixed()).collect()).collect();
    assert_eq!((sizes, ragged.bytes()), (vec![vec![4, 2, 3]; 2], 12 * 4104));
    assert_eq!((transfers[0].packet, transfers[1].packet), (4096, 8));
    assert_eq!(transfers[0].loops[1].source, 0);

    let many = image(&[digit(2, 4, false); 9], 64);
    assert_eq!(many.transfers(&tcp, "bring"), Err(9));
}
