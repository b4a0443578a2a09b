//! Pages for the browser's tests: `pages many N` has N commands on eight lanes, `pages long LINES` a program
//! of so many lines, `pages hostile` has names that would be markup if anything parsed them. The page goes to
//! standard output.

use std::io::Write as _;
use std::num::NonZeroU64;

use tilewright_record::{FlowId, Interval, KeepAll, Layout, Record, Recorder, Sample, TrackKind, Unit};
use tilewright_view::graph_view::{KernelView, ModelGraphView, NodeView};
use tilewright_view::run_view::FindingView;
use tilewright_view::{PageRuns, page, view_of_record, view_with_kernels};

const LANES: u64 = 8;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runs = match words.as_slice() {
        ["many", count] => vec![view_of_record(
            "many",
            &many(count.parse()?, &|lane, at| format!("command {}", (lane * 7 + at) % 23))?,
        )],
        ["hostile"] => {
            let name = "</script><img src=x \
                        onerror=\"document.title='owned'\"><script>document.title='owned'</script>";
            let record = many(40, &|_, _| name.to_string())?;
            let (mut run, kernel_of_command) = view_with_kernels(name, &record, &|_| Some(0));
            run.machine = name.to_string();
            run.program = Some(format!("{name}\n{name}"));
            run.graph = Some(ModelGraphView {
                nodes: vec![NodeView {
                    operator: name.into(),
                    results: vec![name.into()],
                    ..NodeView::default()
                }],
                kernels: vec![KernelView { text: name.into(), node: Some(0) }],
                kernel_of_command,
            });
            run.facts.push((name.to_string(), name.to_string()));
            run.findings.push(FindingView {
                code: name.into(),
                severity: "error".into(),
                message: name.into(),
                line: Some(2),
                notes: vec![name.into()],
                ..FindingView::default()
            });
            vec![run.clone(), run]
        }
        ["long", lines] => {
            let mut run = view_of_record("long", &many(8, &|_, _| "command".to_string())?);
            let lines: Vec<String> = (1..=lines.parse()?).map(|line: u64| format!("line {line}")).collect();
            run.program = Some(lines.join("\n"));
            vec![run]
        }
        _ => return Err("pages many N | pages long LINES | pages hostile".into()),
    };
    std::io::stdout().write_all(page(&PageRuns { runs, ..PageRuns::default() }).as_bytes())?;
    Ok(())
}

/// So many commands, each as long as its number says, each waiting for one of the lane before.
fn many(count: u64, name: &dyn Fn(u64, u64) -> String) -> Result<Record, Box<dyn std::error::Error>> {
    let mut layout = Layout::new(NonZeroU64::new(1_000_000_000).unwrap_or(NonZeroU64::MIN));
    let chip = layout.add_track(None, TrackKind::Chip, "chip0");
    let power = layout.add_counter(chip, "power", Unit::Milliwatts);
    let memory = layout.add_counter(chip, "dm", Unit::Bytes);
    let lanes: Vec<_> = (0..LANES)
        .map(|lane| layout.add_track(Some(chip), TrackKind::Context, format!("lane{lane}")))
        .collect();
    let mut recorder = Recorder::new(layout, KeepAll::default())?;
    let mut ends = vec![0; lanes.len()];
    for number in 0..count {
        let lane = usize::try_from(number % LANES)?;
        let start = ends[lane] + number % 5;
        let end = start + 3 + number % 17;
        let mut interval = Interval::new(lanes[lane], name(number % LANES, number / LANES), start, end)
            .with_count("bytes", number % 9);
        interval.binding = Some(if number % 3 == 0 { "fetch" } else { "contraction" });
        interval.signals.push(FlowId(number));
        if number % LANES > 0 {
            interval.waits.push(FlowId(number - 1));
        }
        recorder.interval(interval)?;
        ends[lane] = end;
    }
    for at in 0..count.min(20_000) {
        recorder.sample(Sample {
            counter: power,
            at_cycles: at * 20,
            value: 40_000 + (at * 7919) % 20_000,
        })?;
        recorder.sample(Sample { counter: memory, at_cycles: at * 20, value: (at * 104_729) % (1 << 19) })?;
    }
    Ok(recorder.finish()?)
}
