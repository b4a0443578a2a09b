//! What must hold of the case study, on its own output: conservation, bounds and shape, numbered as in the
//! cost model of the project's notes, and the paper's ordinal claims (section VI). The golden of
//! `tests/study` is that output.

#![expect(clippy::disallowed_methods, reason = "the test reads a golden")]

use serde_json::Value;
use tilewright_filetest::host::{TestHost, run};
use tilewright_filetest::repository;
use tilewright_testkit::tcp as machine;

/// The JSON that the golden keeps.
fn study() -> Value {
    let golden =
        std::fs::read_to_string(repository().join("tests/study/llama2-7b.cli")).expect("the golden is there");
    let lines = golden.lines().filter_map(|line| line.strip_prefix("# | ").or(line.strip_prefix("# |")));
    serde_json::from_str(&lines.collect::<Vec<_>>().join("\n")).expect("the golden is JSON")
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn row<'s>(study: &'s Value, name: &str) -> &'s Value {
    list(&study["table2"]).iter().find(|row| row["row"] == name).expect("the row is there")
}

fn prompt(study: &Value, tokens: u64) -> &Value {
    list(&study["figure11"]).iter().find(|point| point["tokens"] == tokens).expect("the point is there")
}

/// Prompts, single tokens of Table II and those of Fig. 12.
fn points(study: &Value) -> Vec<&Value> {
    let steps = list(&study["steps"]).iter().chain(list(&study["figure12"]));
    list(&study["figure11"]).iter().chain(steps).collect()
}

/// Check 1: nothing is read less often than it must be, and events are those of the transfers.
#[test]
fn off_chip_bytes_are_compulsory_and_those_of_transfers() {
    let study = study();
    for point in points(&study) {
        assert!(number(&point["hbm_read_bytes"]) >= number(&point["compulsory_bytes"]), "{point}");
        assert!(number(&point["hbm_use"]) <= number(&point["hbm_traffic_use"]), "{point}");
    }
    let transfers = list(&study["transfers"]);
    assert_eq!(transfers.len(), 2);
    for prompt in transfers {
        assert_eq!(prompt["by_transfer"], prompt["counted"], "{prompt}");
    }
}

/// Products of a prompt of LLaMA-2 7B: linear ones of each token, those of the last for the head, and pairs
/// that are not masked.
fn least_products(tokens: f64) -> f64 {
    let (width, inner, layers, vocabulary) = (4096.0, 11008.0, 32.0, 32000.0);
    let linear = layers * (4.0 * width * width + 3.0 * width * inner);
    tokens * linear + vocabulary * width + 2.0 * layers * width * tokens * (tokens + 1.0) / 2.0
}

/// Check 2: lanes do all products that the model asks for, and padding besides; steps of few sequences do
/// many more, since a step has rows that no sequence fills.
#[test]
fn products_are_those_of_the_model_and_padding() {
    let study = study();
    for point in list(&study["figure11"]) {
        let (macs, issued) = (number(&point["macs"]), number(&point["macs_issued"]));
        let least = least_products(number(&point["tokens"]));
        assert!((macs / least - 1.0).abs() < 0.01 && macs <= issued, "{point}");
        assert!(issued <= 1.15 * macs, "padding of {point}");
    }
    for point in points(&study) {
        let part = number(&point["macs"]) / number(&point["macs_issued"]);
        assert!((part - number(&point["macs_useful_part"])).abs() < 1e-9 && part <= 1.0, "{point}");
    }
}

/// Checks 3 and 4: the simulator's own of every run (memories never hold more than they can, bytes in are
/// bytes out, slices keep what was sent times receivers), and sums of them.
#[test]
fn runs_break_none_of_the_simulators_checks() {
    let study = study();
    assert!(points(&study).iter().all(|point| point["violations"] == 0));
    let counts = &study["counts_2048"];
    let of = |name: &str| number(&counts[name]);
    assert!(of("delivered_bytes") >= of("sent_bytes") && of("hop_bytes") >= of("delivered_bytes"));
    // Multicast operands are read once, whoever receives them.
    assert!(of("fetch_bytes") < of("delivered_bytes"));
    let machine = machine();
    for point in list(&study["figure11"]) {
        let held = number(&point["score_bytes"]);
        assert!(held > 0.0 && held <= machine.dm.capacity_bytes as f64, "scores of {point}");
    }
    for point in points(&study) {
        let held = number(&point["held_bytes"]);
        assert!(held >= 6.6e9 && held <= machine.hbm_capacity_bytes() as f64, "{point}");
    }
    for weights in list(&study["layout"]["weights"]) {
        let registers = machine.ce.lanes * machine.trf_lane_payload_bytes();
        assert!(number(&weights["fill_bytes_per_slice"]) <= registers as f64, "{weights}");
        assert!(number(&weights["stored_bytes"]) >= number(&weights["model_bytes"]), "{weights}");
    }
}

/// Check 5: energy is events times figures, power times time is energy.
#[test]
fn energy_is_events_times_figures() {
    let (study, machine) = (study(), machine());
    let (energy, counts, joules) = (&machine.energy, &study["counts_2048"], &study["joules_2048"]);
    let of = |name: &str| number(&counts[name]) * 1e-12;
    let seconds = number(&prompt(&study, 2048)["cycles"]) / machine.chip.clock_hz as f64;
    let expected = [
        ("products", of("macs_int8") * energy.mac_int8_pj + of("macs_bf16") * energy.mac_bf16_pj),
        ("contraction engine", of("contraction_cycles") * energy.ce_active_cycle_pj),
        (
            "accumulators",
            of("accumulator_updates") * energy.accumulator_update_pj
                + of("accumulator_passes") * energy.accumulator_pass_pj,
        ),
        (
            "register files",
            of("trf_array_bytes") * energy.trf_read_pj_per_byte
                + of("trf_cached_bytes") * energy.trf_hit_pj_per_byte
                + of("trf_written_bytes") * energy.trf_write_pj_per_byte,
        ),
        (
            "data memory",
            (of("fetch_bytes") + of("dm_read_bytes")) * energy.dm_read_pj_per_byte
                + (of("commit_bytes") + of("dm_written_bytes")) * energy.dm_write_pj_per_byte,
        ),
        ("fetch network", of("hop_bytes") * energy.network_hop_pj_per_byte),
        (
            "vector engine",
            of("vector_int_ops") * energy.ve_int32_pj
                + of("vector_float_ops") * energy.ve_fp32_pj
                + of("vector_functions") * energy.ve_exp_pj,
        ),
        ("off-chip memory", of("hbm_bits") * energy.hbm_pj_per_bit),
        ("on-chip network", of("noc_bits") * energy.noc_pj_per_bit),
        ("links between chips", of("link_bytes") * 8.0 * energy.link_pj_per_bit),
        (
            "slices, clock and leakage",
            machine.slices() as f64
                * energy.slice_idle_cycle_pj
                * 1e-12
                * machine.chip.clock_hz as f64
                * seconds,
        ),
        ("uncore", energy.uncore_w * seconds),
        ("off-chip memory, standby", machine.hbm.stacks as f64 * energy.hbm_stack_standby_w * seconds),
    ];
    let mut all = 0.0;
    for (name, expected) in expected {
        let found = number(&joules[name]);
        assert!((found - expected).abs() <= 1e-6 * expected, "{name}: {found}, {expected}");
        all += found;
    }
    assert_eq!(joules.as_object().expect("components").len(), expected.len());
    let point = prompt(&study, 2048);
    assert!((number(&point["joules"]) - all).abs() < 1e-9);
    for point in points(&study) {
        let joules = number(&point["watts"]) * number(&point["ms_without_latency"]) * 1e-3;
        assert!((joules / number(&point["joules"]) - 1.0).abs() < 1e-9);
    }
}

/// Check 6: no row beats its bound, nothing is used more than there is.
#[test]
fn nothing_beats_its_bound() {
    let study = study();
    for row in list(&study["table2"]) {
        for ours in ["ours", "without_latency"] {
            let (ours, bound) = (number(&row[ours]), number(&row["bound"]));
            let slower = if row["unit"] == "ms" { ours >= bound } else { ours <= bound };
            assert!(slower, "{}: {ours}, bound {bound}", row["row"]);
        }
    }
    for point in points(&study) {
        for name in ["mac_use", "hbm_use", "hbm_traffic_use", "tensor_unit_use", "dma_use"] {
            assert!((0.0..=1.0).contains(&number(&point[name])), "{name} of {}", point["tokens"]);
        }
    }
}

#[test]
fn bounds_are_those_of_weights_and_caches() {
    let study = study();
    for (name, bound) in [
        ("B=1,L=128", 4.30),
        ("B=1,L=2048", 52.7),
        ("B=16,2K+2K", 1261.0),
        ("B=32,2K+2K", 1518.0),
        ("B=16,2K+2K,prompts included", 1220.0),
        ("B=32,2K+2K,prompts included", 1460.0),
    ] {
        let found = number(&row(&study, name)["bound"]);
        assert!((found / bound - 1.0).abs() < 0.002, "{name}: {found}, {bound}");
    }
}

/// Check 7: a pass is no shorter than its busiest unit, and no longer than all of them and all latencies one
/// after the other.
#[test]
fn a_pass_lies_between_its_busiest_unit_and_all_of_them() {
    let study = study();
    for point in points(&study) {
        let cycles = number(&point["cycles"]);
        let (main, dma) = (number(&point["tensor_unit_use"]) * cycles, number(&point["dma_use"]) * cycles);
        assert!(main.max(dma) <= cycles);
        // Latencies are those of all PEs together: more than one PE waits for.
        assert!(cycles <= main + dma + number(&point["latency_cycles"]), "{point}");
    }
}

/// Check 8: a faster memory slows nothing down, and prompts that wait for products gain little.
#[test]
fn twice_the_memory_helps_who_waits_for_it() {
    let study = study();
    let gain = |tokens: u64| {
        let rows = list(&study["twice_hbm"]);
        number(&rows.iter().find(|row| row["tokens"] == tokens).expect("the row is there")["gain_percent"])
    };
    assert!(gain(128) > gain(2048), "{}, {}", gain(128), gain(2048));
    assert!((0.0..=4.0).contains(&gain(2048)), "{} %", gain(2048));
}

// Check 9: the golden itself, which runs the study again.

/// Check 10: single tokens take an affine time of all cached tokens, no steeper than memory allows.
#[test]
fn steps_are_affine_in_cached_tokens() {
    let study = study();
    let (kv_bytes, peak) = (262_144.0, 1.536e12);
    for batch in [16, 32] {
        let steps: Vec<(f64, f64)> = list(&study["steps"])
            .iter()
            .filter(|point| point["batch"] == batch)
            .map(|point| (number(&point["tokens"]) * f64::from(batch), number(&point["ms"]) * 1e-3))
            .collect();
        let [first, middle, last] = steps[..] else { panic!("three steps") };
        let slope = (last.1 - first.1) / (last.0 - first.0);
        assert!(slope >= kv_bytes / peak, "{slope}");
        let straight = first.1 + slope * (middle.0 - first.0);
        assert!((middle.1 / straight - 1.0).abs() < 0.03, "{} s, {straight} s", middle.1);
    }
}

/// Checks 10 and 11: a token of a prompt is cheapest in long prompts, products are used more and memory less
/// the longer it is, up to 2K.
#[test]
fn prompts_have_their_shape() {
    let study = study();
    let of = |name: &str, tokens: u64| number(&prompt(&study, tokens)[name]);
    let each = |tokens: u64| of("ms", tokens) / tokens as f64;
    let cheapest = each(1024).min(each(2048)).min(each(4096));
    assert!([64, 128, 256, 512, 8192].iter().all(|tokens| each(*tokens) > cheapest), "{cheapest} ms");
    // Nearly flat from there on.
    assert!(each(2048) < 1.05 * each(1024));
    let lengths = [64, 128, 256, 512, 1024, 2048, 4096, 8192];
    for pair in lengths.windows(2) {
        let (before, after) = (of("mac_use", pair[0]), of("mac_use", pair[1]));
        assert_eq!(before < after, pair[1] <= 2048, "{pair:?}: {before}, {after}");
    }
    // Flat rather than low: a fall of a tenth at most.
    assert!(of("mac_use", 8192) > 0.9 * of("mac_use", 2048));
    assert!(of("ms", 4096) > 2.0 * of("ms", 2048));
    // Weights and caches counted once; a run has 512 tokens, so that what is moved stays as it is from there.
    assert!(lengths.windows(2).all(|pair| of("hbm_use", pair[0]) > of("hbm_use", pair[1])));
    assert!(of("hbm_traffic_use", 128) > of("hbm_traffic_use", 512));
    // Single tokens use memory the more, the more is cached.
    let steps = list(&study["steps"]);
    for pair in steps.windows(2).filter(|pair| pair[0]["batch"] == pair[1]["batch"]) {
        assert!(number(&pair[0]["hbm_use"]) < number(&pair[1]["hbm_use"]));
    }
    assert!(steps.iter().all(|point| number(&point["dma_use"]) > number(&point["tensor_unit_use"])));
}

/// Fig. 12: flat for one sequence, then growing with context and batch; bound by memory throughout.
#[test]
fn next_tokens_have_their_shape() {
    let study = study();
    let points = list(&study["figure12"]);
    let step = |batch: u64, tokens: u64| {
        let found = points.iter().find(|point| point["batch"] == batch && point["tokens"] == tokens);
        number(&found.expect("the point is there")["ms"])
    };
    assert!(step(1, 4096) < 1.3 * step(1, 128));
    assert!(step(32, 4096) > 2.0 * step(32, 128) && step(32, 4096) > 2.0 * step(4, 4096));
    assert!(points.iter().all(|point| number(&point["dma_use"]) > number(&point["tensor_unit_use"])));
}

/// Check 12: 16 more sequences read at least 12.88 GB more, at the peak of 1.536 TB/s.
#[test]
fn more_sequences_take_at_least_their_caches() {
    let study = study();
    let step = |batch: f64, name: &str| batch / number(&row(&study, name)["without_latency"]) * 1e3;
    let more = step(32.0, "B=32,2K+2K") - step(16.0, "B=16,2K+2K");
    assert!(more >= 8.39, "{more} ms");
}

/// The latency of a pass is a figure that was fitted to the first row: when programs get faster or slower
/// it has to be fitted again, and says so here.
#[test]
fn the_latency_of_a_pass_fits_the_row_that_it_names() {
    let study = study();
    assert_eq!(study["latency"]["figure"], "host.pass_ns");
    assert_eq!(study["latency"]["fitted_to"][0], "tcp/Table II/B=1,L=128");
    let short = row(&study, "B=1,L=128");
    let (published, program) = (number(&short["published"]), number(&short["without_latency"]));
    let fitted = (published - program).max(0.0);
    let stated = number(&study["latency"]["ns"]) * 1e-6;
    assert!((stated - fitted).abs() < 0.005, "write host.pass_ns = {:.0}", fitted * 1e6);
    assert_eq!(short["kind"], "calibration");
    assert!(["B=1,L=2048", "B=16,2K+2K"].iter().all(|name| row(&study, name)["kind"] == "development"));
}

/// Table II over the range of HBM's efficiency, both scalings and accountings: faster memory is never slower.
#[test]
fn table_2_has_a_band() {
    let study = study();
    let bands = list(&study["bands"]["table2"]);
    assert_eq!(bands.len(), 2 * list(&study["table2"]).len());
    for band in bands {
        let [low, stated, high] = [0, 1, 2].map(|at| number(&band["ours"][at]));
        let rises = band["unit"] != "ms";
        assert!(
            if rises { low <= stated && stated <= high } else { low >= stated && stated >= high },
            "{band}"
        );
        let as_printed = row(&study, band["row"].as_str().expect("a name"));
        if band["scales"] == study["scales"] {
            assert!((number(&as_printed["ours"]) - stated).abs() < 1e-9, "{band}");
        }
        assert!(band["published"].is_number() && number(&band["error_percent"][1]).abs() < 25.0, "{band}");
    }
}

/// Within a twentieth, of rows that nothing was fitted to.
#[test]
fn rows_are_near_what_is_published() {
    let study = study();
    for name in ["B=1,L=2048", "B=16,2K+2K", "B=32,2K+2K"] {
        let error = number(&row(&study, name)["error_percent"]);
        assert!(error.abs() <= 5.0, "{name}: {error} %");
    }
    // No model that reads the whole cache hits both rates.
    let both = ["B=16,2K+2K", "B=32,2K+2K"].map(|name| number(&row(&study, name)["error_percent"]).abs());
    assert!(both[0].max(both[1]) > 1.0, "{both:?}");
}

/// Table II has both accountings, for each watt too, and the columns of the GPUs.
#[test]
fn table_2_is_whole() {
    let study = study();
    for batch in ["B=16", "B=32"] {
        for accounting in ["", ",prompts included"] {
            let rate = row(&study, &format!("{batch},2K+2K{accounting}"));
            let each = row(&study, &format!("{batch},2K+2K{accounting},per W of TDP"));
            let watts = number(&rate["ours"]) / number(&each["ours"]);
            assert!((watts - 150.0).abs() < 1e-6, "{watts} W");
        }
        let (alone, whole) =
            (row(&study, &format!("{batch},2K+2K")), row(&study, &format!("{batch},2K+2K,prompts included")));
        assert!(number(&whole["ours"]) < number(&alone["ours"]));
    }
    assert_eq!(
        (&row(&study, "B=1,L=128")["l40s"], &row(&study, "B=1,L=128")["h100"]),
        (&14.0.into(), &7.0.into())
    );
    let latency = number(&study["latency_ms"]);
    let short = row(&study, "B=1,L=128");
    assert!((number(&short["ours"]) - number(&short["without_latency"]) - latency).abs() < 1e-9);
}

/// The paper's ratios: ahead of the L40S, behind the H100 in rate but not for each watt, first token of 128
/// before the L40S.
#[test]
fn the_chip_stands_where_the_paper_puts_it() {
    let study = study();
    let ours = |name: &str| number(&row(&study, name)["ours"]);
    let of = |name: &str, gpu: &str| number(&row(&study, name)[gpu]);
    assert!(ours("B=16,2K+2K") > of("B=16,2K+2K", "l40s"));
    assert!(ours("B=32,2K+2K") < of("B=32,2K+2K", "h100"));
    assert!(ours("B=16,2K+2K,per W of TDP") > 3.0 * of("B=16,2K+2K,per W of TDP", "l40s"));
    assert!(ours("B=32,2K+2K,per W of TDP") > 2.0 * of("B=32,2K+2K,per W of TDP", "h100"));
    assert!(ours("B=1,L=128") < of("B=1,L=128", "l40s") && ours("B=1,L=128") > of("B=1,L=128", "h100"));
}

/// Fig. 10: 256 uses of a query for each fetch, products and stream balanced.
#[test]
fn figure_10_uses_a_query_256_times() {
    let study = study();
    let figure = &study["figure10"];
    let of = |name: &str| number(&figure[name]);
    assert!((of("reuse") - 256.0).abs() < 0.1);
    assert!((of("reuse_slices") * of("reuse_lanes") * of("reuse_repeats") - of("reuse")).abs() < 0.1);
    assert_eq!(figure["product_cycles"], figure["stream_cycles"]);
    assert!((of("multiplier_use") - 1.0).abs() < 1e-9);
    assert_eq!(list(&figure["held"]).len(), 3);
}

/// Fig. 13: a short prompt waits for weights, a long one hides them.
#[test]
fn figure_13_hides_the_shorter_behind_the_longer() {
    let study = study();
    let (mut short, mut long) = (0, 0);
    for block in list(&study["figure13"]) {
        let of = |name: &str| number(&block[name]);
        let (unit, dma, both) = (of("tensor_unit"), of("dma"), of("both"));
        assert!(both <= unit.min(dma) && (unit + dma - both + of("neither") - 1.0).abs() < 1e-9, "{block}");
        assert!(of("weights") <= dma);
        if block["tokens"] == 128 {
            short += 1;
            assert!(dma > unit, "weights decide: {block}");
        } else {
            long += 1;
            assert!(unit > dma && unit > 2.0 * of("weights"), "products decide: {block}");
        }
        assert!(of("hidden") > 0.5, "{block}");
    }
    assert!(short == 1 && long >= 1);
    // Operators have all of the block's time, and each cycle one cause.
    for name in ["operators_128", "operators_2048"] {
        let operators = list(&study[name]["operators"]);
        let weights: f64 = operators.iter().map(|operator| number(&operator["weight_bytes"])).sum();
        let stored: f64 =
            list(&study["layout"]["weights"]).iter().map(|found| number(&found["stored_bytes"])).sum();
        let runs = list(&study["figure13"])
            .iter()
            .filter(|block| name.ends_with(&block["tokens"].to_string()))
            .count();
        // A block's weights come once a run, for it or for the next; transfers at its ends may count twice.
        let each = weights / runs as f64;
        assert!((stored / 8.0..=stored / 8.0 * 1.3).contains(&each), "{name}: {each}, {stored}");
        let cycles: f64 = operators.iter().map(|operator| number(&operator["cycles"])).sum();
        assert!((cycles - number(&study[name]["cycles"])).abs() < 0.5);
        for operator in operators {
            let by = operator["by"].as_object().expect("causes").values().map(number).sum::<f64>();
            assert!((by - number(&operator["cycles"])).abs() < 0.5, "{operator}");
        }
    }
}

/// Figs 14 and 15: efficient tactics use all lanes, and less power for products than others of their time.
#[test]
fn figures_14_and_15_have_the_papers_order() {
    let study = study();
    let chosen = list(&study["figure14"]["chosen"]);
    let of = |name: &str| chosen.iter().find(|tactic| tactic["name"] == name).expect("the tactic is there");
    let power = |name: &str| number(&of(name)["milliwatts"]);
    assert!(power("Opt. 1") > power("Opt. 2") && power("Opt. 2") > power("Opt. 3"));
    for number_of in 1..=3 {
        let (opt, ineff) = (of(&format!("Opt. {number_of}")), of(&format!("Ineff. {number_of}")));
        assert_eq!(opt["class"], ineff["class"]);
        assert_eq!((&opt["lanes"], &opt["step_products"]), (&Value::from(8), &Value::from(512)));
        assert!(number(&opt["milliwatts"]) < number(&ineff["milliwatts"]));
        let ratio = number(&opt["dpe_milliwatts"]) / number(&ineff["dpe_milliwatts"]);
        assert!(ratio < 0.92, "{number_of}: {ratio}");
        for tactic in [opt, ineff] {
            // The command takes its overhead besides, and slices have their clock while it contracts.
            let overhead = number(&tactic["simulated_cycles"]) - number(&tactic["cycles"]);
            assert!((overhead - machine().command.overhead_cycles as f64).abs() < 0.5, "{tactic}");
            let clock = 64.0 * machine().energy.slice_idle_cycle_pj * number(&tactic["cycles"]);
            let explored = number(&tactic["explored_pj"]);
            assert!((number(&tactic["simulated_pj"]) + clock - explored).abs() < 1e-6 * explored, "{tactic}");
        }
        let parts = opt["parts"].as_object().expect("parts").values().map(number).sum::<f64>();
        assert!((parts - number(&opt["milliwatts"])).abs() < 1e-9);
        if number_of > 1 {
            // Few multipliers although the stream would bring more.
            assert!(number(&ineff["step_products"]) < 512.0);
            assert!(number(&ineff["stream_cycles"]) <= number(&ineff["product_cycles"]));
            assert!(number(&opt["dpe_milliwatts"]) < number(&ineff["dpe_milliwatts"]));
        }
    }
    let supply = [1, 2, 3].map(|at| of(&format!("Opt. {at}"))["stream_cycles"].clone());
    assert!(supply[0] != supply[1] && supply[1] != supply[2], "they differ in supply");
}

/// Every published figure of the TCP has ours, or says why not; rows of the book's examples agree.
#[test]
fn published_rows_of_the_tcp_are_expressed_or_say_why_not() {
    let text =
        std::fs::read_to_string(repository().join("bench/published.toml")).expect("the rows are there");
    let file: toml::Table = toml::from_str(&text).expect("they are TOML");
    let rows = file["row"].as_array().expect("rows");
    let of_tcp: Vec<&toml::Value> = rows.iter().filter(|row| row["chip"].as_str() == Some("tcp")).collect();
    let groups: std::collections::BTreeSet<&str> =
        of_tcp.iter().filter_map(|row| row["group"].as_str()).collect();
    assert!(of_tcp.len() > 80 && groups.len() == 8, "{groups:?}");
    // Rows of simulated programs name rows of the study.
    let study = study();
    for name in of_tcp.iter().filter_map(|row| row["how"].get("study")?.as_str()) {
        assert!(number(&row(&study, name)["ours"]) > 0.0);
    }
    for group in groups.into_iter().filter(|group| !["Table II", "claims"].contains(group)) {
        let mut host = TestHost { root: repository(), ..TestHost::default() };
        let words = ["study", "published", "--chip", "tcp", "--group", group, "--json"].map(str::to_string);
        let outcome = run(&words, &mut host);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        let found: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
        for row in list(&found["rows"]) {
            let name = row["name"].as_str().expect("a name");
            let expressed = row["ours"].is_number() && row["error"].is_number() && row["by"].is_string();
            assert!(expressed != row["cannot"].is_string(), "{name}");
            // Transfers of the book start in 500 cycles, those of the machine in 441.
            let most = match group {
                "fetch" | "switch" | "transpose" => 0.01,
                "DMA" => 0.1,
                _ => continue,
            };
            assert!(number(&row["error"]).abs() < most, "{name}: {}", row["error"]);
        }
    }
}

/// Every file of a small model: pictures that have no hole, a trace, data; and nothing published of what the
/// paper did not measure.
#[test]
fn files_of_a_study_are_whole() {
    let mut host = TestHost { root: repository(), ..TestHost::default() };
    let words = ["study", "models/fables", "--brief", "--pes", "1", "--out", "small"];
    let outcome = run(&words.map(str::to_string), &mut host);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let file = |name: &str| {
        let found = host.written.iter().find(|(path, _)| path.ends_with(name));
        found.map(|(_, bytes)| bytes.clone()).unwrap_or_else(|| panic!("{name} is written"))
    };
    for picture in ["figures.svg", "figure10.svg", "figure13.svg", "figure14.svg"] {
        let text = String::from_utf8(file(picture)).expect("text");
        assert!(text.starts_with("<svg ") && !text.contains("NaN") && !text.contains("inf"), "{picture}");
    }
    assert!(file("block-128.pftrace").len() > 1000);
    let page = String::from_utf8(file("study.html")).expect("text");
    for title in ["Table II", "Figure 10", "Figure 13", "Figures 14 and 15", "Operators", "Power"] {
        assert!(page.contains(title), "{title}");
    }
    let study: Value = serde_json::from_slice(&file("study.json")).expect("JSON");
    assert!(list(&study["table2"]).iter().all(|row| row["published"].is_null()));
    // Every model has the latency of the machine.
    assert!((number(&study["latency_ms"]) - machine().host.pass_ns as f64 * 1e-6).abs() < 1e-12);
    for row in list(&study["table2"]).iter().filter(|row| row["unit"] == "ms") {
        let added = number(&row["ours"]) - number(&row["without_latency"]);
        assert!((added - number(&study["latency_ms"])).abs() < 1e-9, "{row}");
    }
    assert_eq!(list(&study["figure13"]).len(), 1);
}

/// `--set host.pass_ns=0` leaves the latency out, and so does its JSON; a figure that is set to what it is
/// changes nothing.
#[test]
fn the_latency_can_be_set() {
    let study = |set: &str| -> Value {
        let mut host = TestHost { root: repository(), ..TestHost::default() };
        let words = "study models/fables --brief --pes 1 --json --set";
        let words: Vec<String> = words.split(' ').chain([set]).map(str::to_string).collect();
        let outcome = run(&words, &mut host);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        serde_json::from_str(&outcome.stdout).expect("JSON")
    };
    let (without, same) = (study("host.pass_ns=0"), study("hbm.efficiency=0.95"));
    assert!(number(&without["latency_ms"]).abs() < 1e-12);
    assert_eq!(without["latency"]["fitted_to"], Value::Array(Vec::new()));
    for (row, same) in list(&without["table2"]).iter().zip(list(&same["table2"])) {
        assert_eq!(row["ours"], row["without_latency"]);
        assert_eq!(row["ours"], same["without_latency"]);
        assert_ne!(same["ours"], same["without_latency"]);
    }
}

/// A question about a model: a `config.json` is timed as the model that it is of, more sequences give more
/// tokens a second, and a question that makes no sense is refused.
#[test]
fn any_configuration_can_be_asked_about() {
    let ask = |model: &str, batch: &str| -> Value {
        let mut host = TestHost { root: repository(), ..TestHost::default() };
        let words = ["study", model, "--pes", "1", "--input", "64", "--output", "32", "--json"];
        let words = words.into_iter().chain(["--batch", batch]).map(str::to_string).collect::<Vec<_>>();
        let outcome = run(&words, &mut host);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        serde_json::from_str(&outcome.stdout).expect("JSON")
    };
    let (whole, bare) = (ask("models/fables", "4"), ask("models/fables/config.json", "4"));
    for name in ["first_token_ms", "next_token_ms", "tokens_per_s_with_prompts", "held_bytes"] {
        assert_eq!(whole[name], bare[name], "{name}");
    }
    assert_eq!(whole["latency"]["figure"], "host.pass_ns");
    let more = ask("models/fables", "8");
    assert!(number(&more["tokens_per_s"]) > number(&whole["tokens_per_s"]));
    assert!(number(&whole["tokens_per_s_with_prompts"]) < number(&whole["tokens_per_s"]));
    let mut host = TestHost { root: repository(), ..TestHost::default() };
    let words = ["study", "models/fables", "--batch", "0"].map(str::to_string);
    assert_eq!(run(&words, &mut host).code, 2);
}
