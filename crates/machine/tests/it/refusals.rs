//! Each way in which a machine file can be wrong, and what is said about it.
//!
//! A case edits the text of a builtin machine, or writes a variant of one, and expects exactly
//! the complaints that it names.

use tilewright_base::{Diagnostic, Severity, Sources, render};
use tilewright_machine::{LoadedMachine, builtin, load};

/// Other files that a base may name here.
fn bases(name: &str) -> Option<String> {
    match name {
        "one" => Some(variant("one", "two", "")),
        "two" => Some(variant("two", "one", "")),
        _ => builtin(name).map(str::to_owned),
    }
}

fn variant(name: &str, base: &str, rest: &str) -> String {
    format!("name = \"{name}\"\ndescription = \"a variant\"\nbase = \"{base}\"\n{rest}")
}

fn tcp_with(old: &str, new: &str) -> String {
    let text = builtin("tcp").expect("a known machine");
    assert_eq!(text.matches(old).count(), 1, "{old}");
    text.replace(old, new)
}

fn read(text: &str) -> (Sources, Result<LoadedMachine, Vec<Diagnostic>>) {
    let mut sources = Sources::default();
    let id = sources.add("test.toml", text);
    let result = load(&mut sources, id, &bases);
    (sources, result)
}

/// The rendered complaints; their codes must be these.
#[track_caller]
fn refused(text: &str, codes: &[&str]) -> String {
    let (sources, result) = read(text);
    let diagnostics = result.expect_err("refused");
    let rendered = render::plain(&sources, &diagnostics);
    let given: Vec<&str> = diagnostics.iter().map(|diagnostic| diagnostic.code).collect();
    assert_eq!(given, codes, "{rendered}");
    rendered
}

#[track_caller]
fn says(rendered: &str, parts: &[&str]) {
    for part in parts {
        assert!(rendered.contains(part), "{part:?} is not in\n{rendered}");
    }
}

#[test]
fn an_unknown_key_is_refused_with_the_nearest_one() {
    let text = tcp_with("[dmn]\nbandwidth_bytes_per_cycle", "[dmn]\nbandwith_bytes_per_cycle");
    let rendered = refused(&text, &["machine/unknown-key", "machine/source-unused", "machine/missing-key"]);
    let line = text.lines().position(|line| line.starts_with("bandwith")).unwrap() + 1;
    says(
        &rendered,
        &[
            "`bandwith_bytes_per_cycle` is no key of [dmn]",
            &format!("--> test.toml:{line}:1"),
            "allowed: bandwidth_bytes_per_cycle",
            "instead: bandwidth_bytes_per_cycle",
            "`dmn.bandwidth_bytes_per_cycle` is missing",
            "an integer from 1 to 65_536 B/cycle",
        ],
    );
}

#[test]
fn an_unknown_section_is_refused_with_the_nearest_one() {
    let text = variant("v", "tcp", "[dmm]\nbanks = 3\n");
    says(
        &refused(&text, &["machine/unknown-key"]),
        &["`dmm` is no section of a tcp machine", "instead: [dm]"],
    );
    let text = variant("v", "tcp", "naem = 3\n");
    says(&refused(&text, &["machine/unknown-key"]), &["instead: name = ..."]);
}

#[test]
fn a_section_that_is_no_table_is_refused() {
    let text = variant("v", "tcp", "dm = 3\n");
    says(&refused(&text, &["machine/type"]), &["`dm` is a section, given the integer 3"]);
    let text = variant("v", "tcp", "[[dm]]\nbanks = 8\n");
    says(&refused(&text, &["machine/type"]), &["`dm` is a section, given a list"]);
}

#[test]
fn a_repeated_key_is_refused_with_both_lines() {
    let text = tcp_with("[dm]\n", "[dm]\nbanks = 8\n");
    let first = text.lines().position(|line| line == "banks = 8").unwrap() + 1;
    let second = text.lines().position(|line| line == "banks = 16").unwrap() + 1;
    says(
        &refused(&text, &["machine/repeated-key"]),
        &[
            &format!("`banks` is given twice, on lines {first} and {second}"),
            "given again here",
            "given first here",
        ],
    );
}

#[test]
fn a_repeated_section_is_refused_with_both_lines() {
    let text = variant("v", "tcp", "[ve]\nint_ways = 16\n[ve]\n[sources]\n\"ve\" = \"assumption: more\"\n");
    says(&refused(&text, &["machine/repeated-key"]), &["`ve` is given twice, on lines 4 and 6"]);
    let text =
        variant("v", "tcp", "[published]\ntdp_w = { value = 150, value = 151, source = \"paper: x\" }\n");
    says(&refused(&text, &["machine/repeated-key"]), &["`value` is given twice, on lines 5 and 5"]);
}

#[test]
fn a_missing_key_is_refused_with_name_unit_and_range() {
    let text = tcp_with("mac_int8_pj = 0.06\n", "")
        .replace("\"energy.mac_int8_pj\" = \"literature: TPUv4i energy table, scaled to 5 nm\"\n", "");
    says(
        &refused(&text, &["machine/missing-key"]),
        &[
            "`energy.mac_int8_pj` is missing",
            "allowed: a number from 0 to 1000 pJ",
            "instead: mac_int8_pj = ... below [energy], with a source",
        ],
    );
}

#[test]
fn a_missing_head_is_refused() {
    let text = tcp_with("name = \"tcp\"\n", "");
    says(&refused(&text, &["machine/missing-key"]), &["`name` is missing"]);
    let text = tcp_with("architecture = \"tcp\"\n", "");
    says(&refused(&text, &["machine/missing-key"]), &["`architecture` is missing"]);
    refused("", &["machine/missing-key", "machine/missing-key", "machine/missing-key"]);
}

#[test]
fn a_value_of_another_type_is_refused() {
    let text = tcp_with("\nclusters = 2", "\nclusters = \"two\"");
    says(
        &refused(&text, &["machine/type"]),
        &["`chip.clusters` is given the text \"two\"", "allowed: an integer from 1 to 64"],
    );
    let text = tcp_with("[chip]\nclock_hz = 1_000_000_000", "[chip]\nclock_hz = 1e9");
    says(&refused(&text, &["machine/type"]), &["instead: chip.clock_hz = 1000000000"]);
    let text = tcp_with("rules = \"tcp\"", "rules = 1");
    says(&refused(&text, &["machine/type"]), &["allowed: one of \"tcp\", \"neuron\""]);
}

#[test]
fn a_value_out_of_range_is_refused_with_both_ends() {
    let text = tcp_with("\nclusters = 2", "\nclusters = -2");
    says(&refused(&text, &["machine/range"]), &["`chip.clusters` may not be -2", "an integer from 1 to 64"]);
    let text = tcp_with("efficiency = 0.95", "efficiency = 1.5");
    says(&refused(&text, &["machine/range"]), &["given 1.5", "a number from 0.01 to 1"]);
    refused(&tcp_with("efficiency = 0.95", "efficiency = nan"), &["machine/range"]);
    let text = tcp_with("[1, 2, 4, 8, 16, 32]", "[1, 4, 2]");
    says(&refused(&text, &["machine/range"]), &["may not be 2 after 4"]);
    refused(&tcp_with("[1, 2, 4, 8, 16, 32]", "[]"), &["machine/range"]);
    let text = tcp_with("rules = \"tcp\"", "rules = \"ieee\"");
    says(&refused(&text, &["machine/range"]), &["one of \"tcp\", \"neuron\""]);
}

#[test]
fn a_figure_without_a_source_is_refused() {
    let text = tcp_with("\"vrf\" = \"vendor documentation: vISA book, vector register file\"\n", "");
    says(
        &refused(&text, &["machine/source-missing"]),
        &["`vrf.capacity_bytes` has no source", "instead: \"vrf.capacity_bytes\""],
    );
}

#[test]
fn a_source_that_covers_nothing_is_refused() {
    let text = tcp_with(
        "[sources]\n",
        "[sources]\n\"dm.bank\" = \"paper: somewhere\"\n\"vrf.capacity\" = \"paper: x\"\n",
    );
    let rendered = refused(&text, &["machine/source-unused", "machine/source-unused"]);
    says(&rendered, &["the source for `dm.bank` covers no figure", "the source for `vrf` covers no figure"]);
}

#[test]
fn an_unknown_kind_of_source_is_refused() {
    let text = tcp_with("\"vrf\" = \"vendor documentation:", "\"vrf\" = \"vendor docs:");
    says(
        &refused(&text, &["machine/source-kind", "machine/source-missing"]),
        &["`vendor docs` is no kind of source", "paper, vendor documentation, literature, assumption"],
    );
    let text = variant("v", "tcp", "[vrf]\ncapacity_bytes = 64\n[sources]\n\"vrf\" = \"assumption\"\n");
    says(&refused(&text, &["machine/source-kind", "machine/source-missing"]), &["names no place"]);
    let text =
        variant("v", "tcp", "[vrf]\ncapacity_bytes = 64\n[sources]\nvrf.capacity_bytes = \"paper: x\"\n");
    says(
        &refused(&text, &["machine/source-kind", "machine/source-missing"]),
        &["instead: quote the prefix: \"vrf.capacity_bytes\""],
    );
}

#[test]
fn an_unknown_base_is_refused() {
    let rendered = refused(&variant("v", "tpc", ""), &["machine/unknown-base"]);
    says(&rendered, &["there is no machine `tpc`", "inferentia2", "instead: base = \"tcp\""]);
}

#[test]
fn bases_that_go_round_are_refused() {
    let rendered = refused(&variant("zero", "one", ""), &["machine/base-cycle"]);
    says(&rendered, &["bases go round: one -> two -> one", "asked for first here"]);
}

#[test]
fn a_variant_has_the_architecture_of_its_base() {
    let text = variant("v", "tcp", "architecture = \"neuron\"\n");
    says(&refused(&text, &["machine/architecture"]), &["instead: remove the line"]);
    let text = tcp_with("architecture = \"tcp\"", "architecture = \"tpu\"");
    says(&refused(&text, &["machine/architecture"]), &["there is no architecture `tpu`", "tcp, neuron"]);
}

#[test]
fn a_variant_that_repeats_its_base_is_warned() {
    let text = variant("v", "tcp", "[dm]\nbanks = 16\n[sources]\n\"dm\" = \"assumption: the same\"\n");
    let (sources, result) = read(&text);
    let warnings = result.unwrap().warnings;
    assert_eq!(warnings.len(), 1);
    assert_eq!((warnings[0].code, warnings[0].severity), ("machine/same-as-base", Severity::Warning));
    says(&render::plain(&sources, &warnings), &["`dm.banks` is 16 already in the base", "stated by tcp"]);
}

#[test]
fn a_published_figure_of_no_quantity_is_refused() {
    let text = tcp_with("\ntdp_w = { value", "\ntdpw = { value");
    says(&refused(&text, &["machine/published"]), &["`tdpw` is no derived quantity", "instead: tdp_w"]);
    let text = tcp_with("tdp_w = { value = 150, source = \"paper: Table I\" }", "tdp_w = 150");
    says(&refused(&text, &["machine/published"]), &["source = \"kind: place\""]);
    refused(&tcp_with("tdp_w = { value = 150,", "tdp_w = { value = 0,"), &["machine/published"]);
    refused(&tcp_with("tdp_w = { value = 150,", "tdp_w = { valu = 150,"), &["machine/published"]);
}

#[test]
fn a_difference_without_a_note_is_warned() {
    let text = tcp_with("tdp_w = { value = 150", "tdp_w = { value = 180");
    let (sources, result) = read(&text);
    let warnings = result.unwrap().warnings;
    says(&render::plain(&sources, &warnings), &["`tdp_w` is derived as 150 and published as 180"]);
}

#[test]
fn figures_that_contradict_each_other_are_refused() {
    let sources = "[sources]\n\"dm\" = \"assumption: odd\"\n";
    let text = variant("v", "tcp", &format!("[dm]\ncapacity_bytes = 1000\n{sources}"));
    says(&refused(&text, &["machine/conflict"]), &["1000 is no multiple of one row of all banks, 128 B"]);
    let sources = "[sources]\n\"hbm\" = \"assumption: more\"\n";
    let text = variant("v", "tcp", &format!("[hbm]\nstacks = 4\n{sources}"));
    says(&refused(&text, &["machine/conflict"]), &["4 stacks cannot be told apart by 1 address bits"]);
    let sources = "[sources]\n\"sbuf\" = \"assumption: odd\"\n";
    let text = variant("v", "inferentia2", &format!("[sbuf]\npartitions = 64\n{sources}"));
    refused(&text, &["machine/conflict", "machine/conflict"]);
}

#[test]
fn broken_toml_is_refused_at_its_place() {
    let rendered = refused("name = \n", &["machine/syntax"]);
    says(&rendered, &["this is not TOML", "test.toml:1:"]);
}

#[test]
fn all_complaints_come_at_once() {
    let text = tcp_with("\nclusters = 2", "\nclusters = 0").replace("rows_4bit_max = 16", "rows_4bit = 16");
    refused(&text, &["machine/range", "machine/unknown-key", "machine/missing-key"]);
}

#[test]
fn settings_go_through_the_same_checks() {
    let (mut sources, result) = read(builtin("tcp").unwrap());
    let tcp = result.unwrap();
    let changed =
        tcp.override_with(&mut sources, &["slices=32", " hbm.efficiency = 1", "rules=neuron"]).unwrap();
    assert_eq!(changed.machine.tcp().unwrap().slices(), 256);
    let figure = changed.key_values().into_iter().find(|figure| figure.key == "slices").unwrap();
    assert_eq!(
        (figure.source.to_string().as_str(), figure.stated_by.as_str()),
        ("assumption: --set", "--set")
    );
    for (setting, code, part) in [
        ("dm.banks", "machine/set", "section.key=value"),
        ("dm.bank=3", "machine/unknown-key", "instead: dm.banks"),
        ("capacity_bytes=4096", "machine/ambiguous-key", "dm.capacity_bytes, vrf.capacity_bytes"),
        ("dm.capacity_bytes=big", "machine/type", "--> --set:1:19"),
        ("dm.capacity_bytes=1", "machine/range", "an integer from 64"),
        ("slices=48", "machine/conflict", "rings of powers of two"),
    ] {
        let diagnostics = tcp.override_with(&mut sources, &[setting]).unwrap_err();
        assert_eq!(diagnostics[0].code, code, "{setting}");
        says(&render::plain(&sources, &diagnostics), &[part]);
    }
    let twice = tcp.override_with(&mut sources, &["slices=32", "pe.slices=64"]).unwrap_err();
    assert_eq!(twice[0].code, "machine/set");
    says(&render::plain(&sources, &twice), &["`pe.slices` is set twice", "delete one of the two"]);
}

#[test]
fn a_fitted_figure_names_its_rows() {
    let said = refused(
        &tcp_with("\n[fitted]\n", "\n[fitted]\n\"hbm.stacks\" = []\n\"hbm.stack\" = [\"a/b/c\"]\n"),
        &["machine/fitted", "machine/remark"],
    );
    says(&said, &["what `hbm.stacks` was fitted to is a list", "chip/group/name"]);
    says(&said, &["this file states no figure `hbm.stack`", "\"hbm.stacks\" = ..."]);
}

#[test]
fn a_band_lies_around_its_figure() {
    let band = |text: &str| tcp_with("\n[bands]\n", &format!("\n[bands]\n\"hbm.ranks\" = {text}\n"));
    says(&refused(&band("3"), &["machine/band"]), &["the band of `hbm.ranks` is the integer 3"]);
    says(
        &refused(&band("{ low = 4, high = 5, reason = \"x\" }"), &["machine/band"]),
        &["`hbm.ranks` does not lie from 4 to 5"],
    );
    says(&refused(&band("{ low = 1, high = 5 }"), &["machine/band"]), &["lacks low, high or reason"]);
    says(&refused(&band("{ low = 0, high = 5, reason = \"x\" }"), &["machine/range"]), &["`hbm.ranks`"]);
    says(&refused(&band("{ low = 1, top = 5 }"), &["machine/band"]), &["`top` is nothing of the band"]);
}
