//! Pictures of what the compiler did with a graph: the path of a value, and the candidates of a kernel.

use tilewright_compile::general::explain::{Explanation, WeighedCandidate, difference};
use tilewright_report::columns::thousands;
use tilewright_report::lanes::{ChartLane, LaneBar, LaneFrame, draw, lane_top};
use tilewright_report::svg::{Anchor, Svg};
use tilewright_tcp_isa::footprint::MemoryKind;

use crate::value_path::{ValuePath, ValueStay};

/// Left edge and width of bars, height of a lane, in pixels.
const LEFT: f64 = 200.0;
const WIDTH: f64 = 800.0;
const LANE: f64 = 18.0;
/// Width of the longest bar of a table of candidates, and height of a row.
const TABLE_WIDTH: f64 = 620.0;
const TABLE_ROW: f64 = 40.0;
/// Candidates that are drawn.
const MOST_CANDIDATES: usize = 10;
const CHOSEN: &str = "hsl(140 45% 62%)";
const NOT_CHOSEN: &str = "hsl(210 20% 82%)";

/// A path: a bar for each stay from its first writer to its last reader, and a line to it from each that it
/// was made of.
pub fn path_picture(path: &ValuePath) -> String {
    let mut svg = Svg::default();
    let lane = |stay: &ValueStay| ChartLane {
        name: format!("{}  {}", stay.memory.name(), stay.value.clone().unwrap_or_else(|| stay.written_by())),
        bars: vec![LaneBar {
            start: real(stay.from),
            end: real(stay.until),
            colour: memory_colour(stay.memory).to_string(),
        }],
    };
    let lanes: Vec<ChartLane> = path.stays.iter().map(lane).collect();
    let most = real(path.cycles);
    let frame = LaneFrame { left: LEFT, top: 50.0, width: WIDTH, label: "cycles", most, lane: LANE };
    let title = format!("Where {} goes, in a run of {} cycles", path.input, thousands(path.cycles));
    let below = draw(&mut svg, &frame, &title, &lanes);
    let x = |cycles: u64| LEFT + real(cycles) / most.max(1.0) * WIDTH;
    for (at, stay) in path.stays.iter().enumerate() {
        for from in &stay.after {
            let (upper, lower) = (lane_top(&frame, *from) + LANE / 2.0, lane_top(&frame, at) + LANE / 2.0);
            svg.path(&[(x(stay.from), upper), (x(stay.from), lower)], "#333", true);
            svg.dot(x(stay.from), lower, 3.0, "#333", &stay.written_by());
        }
        let bytes = format!("{} B", thousands(stay.bytes));
        let right = LEFT + WIDTH + 8.0;
        svg.text(right, lane_top(&frame, at) + LANE / 2.0 + 4.0, Anchor::Start, "small", &bytes);
    }
    memory_legend(&mut svg, below, &path.stays);
    svg.finish()
}

fn memory_legend(svg: &mut Svg, y: f64, stays: &[ValueStay]) {
    let mut memories: Vec<MemoryKind> = stays.iter().map(|stay| stay.memory).collect();
    memories.sort_unstable();
    memories.dedup();
    for (at, memory) in (0_u64..).zip(memories) {
        let x = LEFT + 190.0 * real(at);
        svg.block(x, y - 10.0, 12.0, 12.0, memory_colour(memory));
        svg.text(x + 18.0, y, Anchor::Start, "small", memory_words(memory));
    }
}

fn memory_colour(memory: MemoryKind) -> &'static str {
    match memory {
        MemoryKind::Hbm => "hsl(210 55% 70%)",
        MemoryKind::Dm => "hsl(140 45% 65%)",
        MemoryKind::Trf => "hsl(30 80% 66%)",
        MemoryKind::Vrf => "hsl(350 60% 72%)",
        MemoryKind::Spm => "hsl(270 40% 75%)",
    }
}

fn memory_words(memory: MemoryKind) -> &'static str {
    match memory {
        MemoryKind::Hbm => "hbm: the chip's memory",
        MemoryKind::Dm => "dm: data memory of slices",
        MemoryKind::Trf => "trf: of the contraction engine",
        MemoryKind::Vrf => "vrf: of the vector engine",
        MemoryKind::Spm => "spm: of control cores",
    }
}

/// What was weighed for a kernel, as bars of estimated cycles below their words; `None` if nothing was.
pub fn candidates_picture(explanation: &Explanation) -> Option<String> {
    let shown: Vec<&WeighedCandidate> = explanation.candidates.iter().take(MOST_CANDIDATES).collect();
    let chosen = shown.first()?.cycles;
    let most = shown.iter().map(|one| one.cycles).max()?;
    let mut svg = Svg::default();
    svg.text(16.0, 28.0, Anchor::Start, "title", "Candidates, by the cycles that they were estimated at");
    svg.text(16.0, 48.0, Anchor::Start, "code", &format!("kernel {}", explanation.kernel));
    for (at, WeighedCandidate { words, cycles }) in shown.iter().enumerate() {
        let y = 76.0 + TABLE_ROW * real(at as u64);
        svg.text(16.0, y, Anchor::Start, "cell", words);
        let width = real(*cycles) / real(most).max(1.0) * TABLE_WIDTH;
        svg.block(16.0, y + 6.0, width, 12.0, if at == 0 { CHOSEN } else { NOT_CHOSEN });
        let says = match at {
            0 => format!("{}, chosen", thousands(*cycles)),
            _ => format!("{}, {}", thousands(*cycles), difference(chosen, *cycles)),
        };
        svg.text(16.0 + width + 8.0, y + 16.0, Anchor::Start, "small", &says);
    }
    let left = explanation.candidates.len() - shown.len();
    if left > 0 {
        let y = 76.0 + TABLE_ROW * real(shown.len() as u64);
        svg.text(16.0, y, Anchor::Start, "small", &format!("and {left} more"));
    }
    Some(svg.finish())
}

#[expect(clippy::cast_precision_loss, reason = "places in a picture")]
fn real(value: u64) -> f64 {
    value as f64
}
