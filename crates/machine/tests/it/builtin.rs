//! The machines that come with the project: they load without a word, and what follows from
//! them is what is published, but for the differences that are explained.

use tilewright_base::{Sources, render};
use tilewright_machine::{LoadedMachine, SourceKind, builtin, builtin_names, json, load, show};

fn bases(name: &str) -> Option<String> {
    builtin(name).map(str::to_owned)
}

fn loaded(name: &str) -> LoadedMachine {
    let mut sources = Sources::default();
    let id = sources.add(format!("machines/{name}.toml"), builtin(name).expect("a known machine"));
    load(&mut sources, id, &bases)
        .unwrap_or_else(|diagnostics| panic!("{}", render::plain(&sources, &diagnostics)))
}

fn derived(loaded: &LoadedMachine, name: &str) -> f64 {
    let derived = loaded.machine.derived();
    derived.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("no {name}")).value
}

#[test]
fn every_builtin_machine_loads_without_diagnostics() {
    for name in builtin_names() {
        let loaded = loaded(name);
        assert_eq!(loaded.name, name);
        assert_eq!(loaded.warnings, [], "{name}");
    }
}

#[test]
fn every_difference_of_more_than_one_percent_is_explained() {
    for name in builtin_names() {
        for row in loaded(name).comparisons().iter().filter(|row| row.differs()) {
            let note = row.published.as_ref().and_then(|published| published.note.as_ref());
            assert!(note.is_some(), "{name}: {}", row.derived.name);
        }
    }
}

#[test]
fn tcp_has_the_figures_of_the_paper() {
    let tcp = loaded("tcp");
    for (name, value) in [
        ("macs_int8_per_cycle", 262_144.0),
        ("peak_int8_tops", 524.288),
        ("peak_int8_tops_k1024", 512.0),
        ("peak_fp8_tflops_k1024", 512.0),
        ("peak_bf16_tflops_k1024", 256.0),
        ("peak_int4_tops_k1024", 1024.0),
        ("pe_int8_tops_k1024", 64.0),
        ("slices", 512.0),
        ("slices_1_pe", 64.0),
        ("slices_2_pes", 128.0),
        ("slices_cluster", 256.0),
        ("dm_chip_mib", 256.0),
        ("dm_pe_mib", 32.0),
        ("dm_rows_per_bank", 4096.0),
        ("dm_tb_per_s", 65.536),
        ("sram_tb_per_s_k1024", 384.0),
        ("trf_raw_kib", 80.0),
        ("trf_payload_kib", 64.0),
        ("trf_cache_kib", 2.5),
        ("accumulators", 1024.0),
        ("ve_ways_per_pe", 512.0),
        ("starvation_accesses", 64.0),
        ("hbm_gib", 48.0),
        ("hbm_tb_per_s", 1.536),
        ("pe_gb_per_s", 256.0),
        ("pcie_gb_per_s", 128.0),
        ("tdp_w", 150.0),
    ] {
        assert_eq!(derived(&tcp, name), value, "{name}");
    }
}

#[test]
fn neuron_devices_have_the_figures_of_their_pages() {
    for (machine, name, value) in [
        ("inferentia2", "core_bf16_tflops", 91.750_4),
        ("inferentia2", "peak_bf16_tflops", 183.500_8),
        ("inferentia2", "peak_int8_tops", 367.001_6),
        ("inferentia2", "hbm_gib", 32.0),
        ("inferentia2", "hbm_gb_per_s", 820.0),
        ("inferentia2", "sbuf_core_mib", 24.0),
        ("inferentia2", "psum_core_mib", 2.0),
        ("inferentia2", "dma_engines", 32.0),
        ("inferentia2", "dma_gb_per_s", 870.4),
        ("inferentia2", "links", 2.0),
        ("inferentia2", "link_gib_per_s", 192.0),
        ("trainium1", "link_gib_per_s", 384.0),
        ("trainium2", "core_bf16_tflops", 78.643_2),
        ("trainium2", "sbuf_core_mib", 28.0),
        ("trainium2", "hbm_gib", 96.0),
        ("trainium3", "sbuf_core_mib", 32.0),
        ("trainium3", "hbm_gib", 144.0),
        ("trainium3", "link_gb_per_s", 2560.0),
    ] {
        let given = derived(&loaded(machine), name);
        assert!((given - value).abs() < 1e-6 * value, "{machine} {name}: {given}");
    }
}

#[test]
fn a_variant_keeps_what_it_does_not_state() {
    let figures = loaded("trainium1").key_values();
    let by = |name: &str| figures.iter().filter(|figure| figure.stated_by == name).count();
    assert_eq!(by("trainium1"), 1);
    assert_eq!(by("inferentia2"), figures.len() - 1);
    assert_eq!(loaded("trainium3").bases, ["trainium2", "inferentia2"]);
}

#[test]
fn energies_rise_with_the_distance_from_the_arithmetic() {
    let tcp = loaded("tcp");
    let energy = &tcp.machine.tcp().expect("a tcp").energy;
    let per_byte = [
        energy.trf_hit_pj_per_byte,
        energy.trf_read_pj_per_byte,
        energy.trf_write_pj_per_byte,
        energy.network_hop_pj_per_byte,
        energy.dm_read_pj_per_byte,
        energy.dm_write_pj_per_byte,
        8.0 * energy.noc_pj_per_bit,
        8.0 * energy.hbm_pj_per_bit,
        8.0 * energy.link_pj_per_bit,
    ];
    assert!(per_byte.is_sorted(), "{per_byte:?}");
    let per_mac = [energy.mac_int4_pj, energy.mac_int8_pj, energy.mac_fp8_pj, energy.mac_bf16_pj];
    assert!(per_mac.is_sorted(), "{per_mac:?}");
    // Below about 20 pJ narrow tactics would cost less than wide ones of equal time.
    assert!(energy.ce_active_cycle_pj > 20.0);
}

#[test]
fn the_text_fits_and_names_every_figure_and_assumption() {
    for name in builtin_names() {
        let loaded = loaded(name);
        let text = show(&loaded);
        for line in text.lines() {
            assert!(line.chars().count() <= 110, "{name}: {line}");
            assert_eq!(line, line.trim_end(), "{name}");
        }
        for figure in loaded.key_values() {
            assert!(text.contains(figure.key), "{name}: {}", figure.key);
        }
        assert!(loaded.assumptions().iter().all(|figure| figure.source.kind == SourceKind::Assumption));
    }
}

#[test]
fn data_has_the_same_figures() {
    let loaded = loaded("toy-tcp");
    let data = serde_json::to_value(json(&loaded)).unwrap();
    assert_eq!(data["bases"][0], "tcp");
    assert_eq!(data["figures"].as_array().map(Vec::len), Some(loaded.key_values().len()));
    let dm = data["figures"].as_array().unwrap().iter().find(|figure| figure["section"] == "dm").unwrap();
    assert_eq!(dm["value"], 4096);
    assert_eq!(dm["source"]["kind"], "assumption");
}

#[test]
fn a_fingerprint_changes_with_figures_alone() {
    let tcp = loaded("tcp");
    let other = |setting: &str| {
        tcp.override_with(&mut Sources::default(), &[setting]).expect("a setting").fingerprint()
    };
    let efficiency = tcp.machine.tcp().expect("a TCP").hbm.efficiency;
    assert_eq!(other(&format!("hbm.efficiency={efficiency}")), tcp.fingerprint());
    for setting in ["hbm.efficiency=0.5", "dm.capacity_bytes=1048576", "energy.mac_bf16_pj=0.3"] {
        assert_ne!(other(setting), tcp.fingerprint(), "{setting}");
    }
}

/// What results rest on may be otherwise: every assumption of the TCP says by how much, and so does every
/// energy.
#[test]
fn every_assumption_of_the_tcp_has_a_band() {
    let loaded = loaded("tcp");
    for figure in loaded.key_values() {
        let is_energy = figure.section == "energy";
        let is_assumption = figure.source.kind == SourceKind::Assumption;
        let number = figure.value.number().is_some();
        let name = format!("{}.{}", figure.section, figure.key);
        assert_eq!(figure.band.is_some(), number && (is_energy || is_assumption), "{name}");
    }
}

/// A value that somebody sets has neither rows nor a band: both were of the value before it.
#[test]
fn a_figure_that_is_set_is_fitted_to_nothing() {
    let loaded = loaded("tcp");
    let of = |loaded: &LoadedMachine| {
        let found = loaded.key_values().into_iter().find(|figure| figure.key == "pass_ns");
        found.map(|figure| (figure.fitted_to.len(), figure.band.is_some()))
    };
    assert_eq!(of(&loaded), Some((2, true)));
    let mut sources = Sources::default();
    let set = loaded.override_with(&mut sources, &["host.pass_ns=0"]).expect("it is allowed");
    assert_eq!(of(&set), Some((0, false)));
}
