//! Memory grows with the program, not with simulated time: alone in its process, so that nothing else counts.

use tilewright_base::{SourceId, Sources};
use tilewright_machine::{builtin, load};
use tilewright_record::KeepLast;
use tilewright_tcp_isa::program::text;
use tilewright_tcp_isa::verify::verify;
use tilewright_tcp_sim::{Detail, NoObserver, SimOptions, simulate};

/// 2048 x 4096 x 11008 in INT8 on one PE: 512 columns a turn, eight on each slice, while the next weights
/// arrive.
const CONTRACTION: &str = "
program tcp 1
machine tcp
register turn = 0 in 0..22
transfer weights { from hbm+0x0; to dm[0]+0x60000; loops (8: 4096 -> 4096)(64: 32768 -> slice); packet 4096 }
exec next sub { short 32768 from 0x60000 to trf(8) at 0x8000 }
exec columns main {
  fetch i8 at 0x0 { loops (2048:0)(4096:1); packet 64 }
  contract { flits 2; lanes 8; trf i8 at 0x0 (2048:0)(4096:1); tree 64; steps 2048 sum(64) }
  commit dm at 0x40000 { loops (2048:32); bytes 32; width 32 }
}
queue pe0 {
  for turn = 0 to 22 {
    dma weights 0
    load next; exec sub 1
    load columns; exec main 0
    wait_d 0; wait_e 1; wait_e 0
  }
}
";

/// The most memory that this process ever had, in KiB; `None` where the host does not say.
#[expect(clippy::disallowed_methods, reason = "the test asks its host")]
fn peak_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

#[test]
fn a_large_contraction_is_timed_in_64_mib() {
    let mut sources = Sources::default();
    let id = sources.add("tcp", builtin("tcp").expect("tcp comes with the project"));
    let machine = load(&mut sources, id, &|_| None).expect("tcp loads").machine.tcp().expect("a tcp").clone();
    let program = text::read(CONTRACTION, SourceId(0)).expect("it reads");
    assert_eq!(verify(&machine, &program), []);
    let options = SimOptions { detail: Detail::Totals, check: true, ..SimOptions::default() };
    let outcome = simulate(&machine, &program, &options, KeepLast::new(0), &mut NoObserver).expect("it runs");
    // 22 turns of 2048 rows of 64 packets, each used once: two cycles a packet.
    assert!(outcome.cycles > 22 * 2048 * 64 * 2, "{}", outcome.cycles);
    if let Some(peak) = peak_kib() {
        assert!(peak < 64 << 10, "{peak} KiB");
    }
}
