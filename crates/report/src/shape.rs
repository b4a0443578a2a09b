//! Which coordinates each slice holds, as a grid: Fig. 1 of the TCP paper for any lowered shape.
//!
//! Each axis is cut into blocks within which the slice number does not change. The grid has the last cut axis
//! across and the others down; a cell names the slice, or the slices if there are copies.

use tilewright_notation::algebra::RadixMap;
use tilewright_notation::algebra::map::{OFFSET, SLICE};
use tilewright_notation::problem::{Problem, Shape};

use crate::columns::{Align, counted, table, thousands};
use crate::svg::{Anchor, Svg, colour};

/// The grid of one shape.
#[derive(Clone, Debug)]
pub struct ShapeGrid {
    /// `in0  ble`.
    pub heading: String,
    /// The shape as written.
    pub shape: String,
    /// What the columns count, such as `e from`.
    pub corner: String,
    /// First coordinate of each column.
    pub columns: Vec<String>,
    /// Axes cut into blocks, with the size of a block.
    pub blocks: Vec<(String, u64)>,
    /// Header and slices of each row.
    pub rows: Vec<(String, Vec<SliceCell>)>,
    /// Axes that every slice holds whole.
    pub whole: Vec<String>,
    /// One line for each digit of the offset, outermost first: term, stride, size.
    pub inside: Vec<(String, u64, u64)>,
    /// Slices that the shape spans.
    pub slices: u64,
    /// Slices that hold no data.
    pub idle: u64,
    /// Elements on each slice, padding included.
    pub elements: u64,
    /// The first rows of slice 0 in order of offset, and its last; `None` where rows are left out.
    pub rows_of_first: Vec<Option<MemoryRow>>,
}

/// A contiguous run of a slice's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryRow {
    /// Its first element.
    pub offset: u64,
    /// `b 0  l 1  e 0..31`.
    pub holds: String,
}

/// Slices of a cell: the first, and how many copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceCell {
    /// First slice.
    pub slice: u64,
    /// All slices that hold it.
    pub copies: Vec<u64>,
}

/// Blocks shown of an axis before the middle is left out.
const MAX_COLUMNS: u64 = 16;
const MAX_ROWS: u64 = 32;

struct AxisCut {
    axis: usize,
    name: String,
    block: u64,
    extent: u64,
}

impl AxisCut {
    fn blocks(&self) -> u64 {
        self.extent.div_ceil(self.block)
    }

    fn label(&self, block: u64) -> String {
        let (start, end) = (block * self.block, ((block + 1) * self.block).min(self.extent));
        if end - start == 1 {
            format!("{} {start}", self.name)
        } else {
            format!("{} {start}..{}", self.name, end - 1)
        }
    }
}

impl ShapeGrid {
    /// Works the grid out.
    pub fn new(problem: &Problem, shape: &Shape, map: &RadixMap, shape_text: &str) -> ShapeGrid {
        let axes = problem.tensor(shape.operand);
        let cuts: Vec<AxisCut> = axes
            .iter()
            .enumerate()
            .map(|(index, id)| {
                let extent = map.from[index];
                let strides =
                    map.digits.iter().filter(|d| usize::from(d.from_axis) == index && d.to_axis == SLICE);
                let block = strides.map(|digit| digit.from_stride).min().unwrap_or(extent);
                AxisCut { axis: index, name: problem.axis(*id).name.to_string(), block, extent }
            })
            .collect();
        let names: String = axes.iter().map(|id| problem.axis(*id).name.to_string()).collect();
        let slices = map.to[usize::from(SLICE)];
        let used = map.digits.iter().filter(|d| d.to_axis == SLICE).map(|d| d.size).product::<u64>()
            * map.copies.iter().filter(|c| c.to_axis == SLICE).map(|c| c.count).product::<u64>();
        let (corner, columns, rows) = grid(&cuts, map);
        let cut_axes = cuts.iter().filter(|cut| cut.blocks() > 1);
        ShapeGrid {
            heading: format!("{}  {names}", shape.operand.name()),
            shape: shape_text.to_string(),
            corner,
            columns,
            blocks: cut_axes.map(|cut| (cut.name.clone(), cut.block)).collect(),
            rows,
            whole: cuts.iter().filter(|cut| cut.blocks() == 1).map(|cut| cut.name.clone()).collect(),
            inside: inside(problem, shape),
            slices,
            idle: slices.saturating_sub(used),
            elements: map.to[usize::from(OFFSET)],
            rows_of_first: rows_of_first(shape, map, &cuts),
        }
    }

    /// The grid for a terminal.
    pub fn text(&self) -> String {
        let mut text = format!("{}   {}\n", self.heading, self.shape);
        let mut rows: Vec<Vec<String>> = Vec::new();
        let mut header = vec![self.corner.clone()];
        header.extend(self.columns.iter().cloned());
        rows.push(header);
        for (name, cells) in &self.rows {
            let mut row = vec![name.clone()];
            row.extend(cells.iter().map(SliceCell::label));
            rows.push(row);
        }
        let mut aligns = vec![Align::Left];
        aligns.extend(self.columns.iter().map(|_| Align::Right));
        for line in table(&aligns, &rows).lines() {
            text.push_str(&format!("  {line}\n"));
        }
        text.push_str(&format!("  {}\n", self.summary()));
        text.push_str(&format!("  {}\n", self.formula()));
        text.push_str("  slice 0 in order of offset:\n");
        let offsets: Vec<Vec<String>> = self.row_cells();
        for line in table(&[Align::Right, Align::Left], &offsets).lines() {
            text.push_str(&format!("    {line}\n"));
        }
        text
    }

    fn summary(&self) -> String {
        let (slices, elements) = (counted(self.slices, "slice"), counted(self.elements, "element"));
        let mut line = format!("cells are slice numbers; {slices}, {elements} on each");
        if self.idle > 0 {
            line.push_str(&format!("; {} idle", counted(self.idle, "slice")));
        }
        for (name, block) in &self.blocks {
            line.push_str(&format!("; {name} in blocks of {}", thousands(*block)));
        }
        if !self.whole.is_empty() {
            line.push_str(&format!("; {} whole on each slice", self.whole.join(", ")));
        }
        line
    }

    /// Offset and contents of the rows shown.
    fn row_cells(&self) -> Vec<Vec<String>> {
        let cells = |row: &Option<MemoryRow>| match row {
            Some(row) => vec![thousands(row.offset), row.holds.clone()],
            None => vec!["...".to_string(), String::new()],
        };
        self.rows_of_first.iter().map(cells).collect()
    }

    fn formula(&self) -> String {
        let parts: Vec<String> = self
            .inside
            .iter()
            .map(
                |(term, stride, _)| {
                    if *stride == 1 { term.clone() } else { format!("{}*{term}", thousands(*stride)) }
                },
            )
            .collect();
        let sum = if parts.is_empty() { "0".to_string() } else { parts.join(" + ") };
        format!("offset in a slice = {sum}")
    }

    /// The grid as SVG, from `y` downwards.
    pub fn draw(&self, svg: &mut Svg, top: f64) {
        const CELL_HEIGHT: f64 = 26.0;
        let left = 24.0;
        svg.text(left, top + 20.0, Anchor::Start, "title", &self.heading);
        svg.text(left, top + 42.0, Anchor::Start, "code", &self.shape);
        let header = width_of(self.rows.iter().map(|(name, _)| name).chain([&self.corner]));
        let labels: Vec<String> =
            self.rows.iter().flat_map(|(_, cells)| cells.iter().map(SliceCell::label)).collect();
        let cell = width_of(self.columns.iter()).max(width_of(labels.iter())).max(44.0);
        let (x0, y0) = (left + header, top + 72.0);
        svg.text(x0 - 10.0, y0 - 8.0, Anchor::End, "small", &self.corner);
        for (index, column) in self.columns.iter().enumerate() {
            svg.text(at(x0, cell, index) + cell / 2.0, y0 - 8.0, Anchor::Middle, "small", column);
        }
        for (row, (name, cells)) in self.rows.iter().enumerate() {
            let y = at(y0, CELL_HEIGHT, row);
            svg.text(x0 - 10.0, y + 17.0, Anchor::End, "small", name);
            for (column, slices) in cells.iter().enumerate() {
                let x = at(x0, cell, column);
                if slices.copies.is_empty() {
                    svg.text(x + cell / 2.0, y + 17.0, Anchor::Middle, "cell", "...");
                    continue;
                }
                svg.rect(x, y, cell, CELL_HEIGHT, &colour(slices.slice, self.slices));
                svg.text(x + cell / 2.0, y + 17.0, Anchor::Middle, "cell", &slices.label());
            }
        }
        let below = at(y0, CELL_HEIGHT, self.rows.len()) + 22.0;
        svg.text(left, below, Anchor::Start, "small", &self.summary());
        svg.text(left, below + Svg::LINE, Anchor::Start, "small", &self.formula());
        self.draw_memory(svg, left, below + 2.0 * Svg::LINE);
    }

    /// The memory of slice 0 as a column of rows.
    fn draw_memory(&self, svg: &mut Svg, left: f64, top: f64) {
        const ROW_HEIGHT: f64 = 20.0;
        svg.text(left, top + 4.0, Anchor::Start, "small", "slice 0 in order of offset:");
        let width = width_of(self.rows_of_first.iter().flatten().map(|row| &row.holds));
        for (index, row) in self.rows_of_first.iter().enumerate() {
            let y = at(top + 12.0, ROW_HEIGHT, index);
            let Some(row) = row else {
                svg.text(left + 62.0, y + 13.0, Anchor::Start, "small", "...");
                continue;
            };
            svg.text(left + 44.0, y + 14.0, Anchor::End, "small", &thousands(row.offset));
            svg.rect(left + 52.0, y, width, ROW_HEIGHT, &colour(0, self.slices));
            svg.text(left + 60.0, y + 14.0, Anchor::Start, "small", &row.holds);
        }
    }
}

impl SliceCell {
    fn label(&self) -> String {
        match self.copies.as_slice() {
            [] => "...".to_string(),
            [one] => one.to_string(),
            [first, .., last] if last - first + 1 == self.copies.len() as u64 => format!("{first}-{last}"),
            [first, second, ..] => format!("{first},{second},..."),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "indices of drawn cells are small")]
fn at(start: f64, step: f64, index: usize) -> f64 {
    start + step * index as f64
}

#[expect(clippy::cast_precision_loss, reason = "text lengths are small")]
fn width_of<'a>(texts: impl Iterator<Item = &'a String>) -> f64 {
    texts.map(|text| text.chars().count()).max().unwrap_or(0) as f64 * 6.6 + 16.0
}

/// Indices shown of `count`, `None` where some are left out.
fn shown(count: u64, most: u64) -> Vec<Option<u64>> {
    if count <= most {
        return (0..count).map(Some).collect();
    }
    let tail = 2;
    (0..most - tail - 1).map(Some).chain([None]).chain((count - tail..count).map(Some)).collect()
}

type GridRows = Vec<(String, Vec<SliceCell>)>;

fn grid(cuts: &[AxisCut], map: &RadixMap) -> (String, Vec<String>, GridRows) {
    let across = cuts.iter().rposition(|cut| cut.blocks() > 1).unwrap_or(cuts.len().saturating_sub(1));
    let down: Vec<&AxisCut> =
        cuts.iter().enumerate().filter(|(i, c)| *i != across && c.blocks() > 1).map(|(_, c)| c).collect();
    let Some(column_cut) = cuts.get(across) else { return (String::new(), Vec::new(), Vec::new()) };
    let columns = shown(column_cut.blocks(), MAX_COLUMNS);
    let row_count = down.iter().map(|cut| cut.blocks()).fold(1, u64::saturating_mul);
    let mut rows = Vec::new();
    for row in shown(row_count, MAX_ROWS) {
        let Some(row) = row else {
            rows.push((
                "...".to_string(),
                columns.iter().map(|_| SliceCell { slice: 0, copies: Vec::new() }).collect(),
            ));
            continue;
        };
        let (name, position) = row_position(&down, row, cuts.len());
        let cells = columns.iter().map(|column| cell(column_cut, *column, &position, map)).collect();
        rows.push((name, cells));
    }
    let start = |block: u64| thousands(block * column_cut.block);
    let labels = columns.iter().map(|column| column.map_or("...".to_string(), start)).collect();
    (format!("{} from", column_cut.name), labels, rows)
}

/// The label and the coordinates of a row.
fn row_position(down: &[&AxisCut], row: u64, axes: usize) -> (String, Vec<u64>) {
    let mut position = vec![0; axes];
    let mut names = Vec::new();
    let mut rest = row;
    for cut in down.iter().rev() {
        let block = rest % cut.blocks();
        rest /= cut.blocks();
        position[cut.axis] = block * cut.block;
        names.push(cut.label(block));
    }
    names.reverse();
    (names.join("  "), position)
}

fn cell(cut: &AxisCut, column: Option<u64>, row: &[u64], map: &RadixMap) -> SliceCell {
    let Some(block) = column else { return SliceCell { slice: 0, copies: Vec::new() } };
    let mut position = row.to_vec();
    position[cut.axis] = block * cut.block;
    let slice = map.apply(&position)[usize::from(SLICE)];
    let mut copies = vec![slice];
    for spread in map.copies.iter().filter(|copies| copies.to_axis == SLICE) {
        copies = copies
            .iter()
            .flat_map(|base| (0..spread.count).map(move |i| base + i * spread.to_stride))
            .collect();
    }
    copies.sort_unstable();
    SliceCell { slice, copies }
}

/// The rows of slice 0: one for each value of all digits but the innermost.
fn rows_of_first(shape: &Shape, map: &RadixMap, cuts: &[AxisCut]) -> Vec<Option<MemoryRow>> {
    const MOST: u64 = 5;
    let row = shape.intra.last().map_or(1, |digit| digit.slots);
    let live = shape.intra.last().map_or(1, |digit| digit.live);
    let count = map.to[usize::from(OFFSET)] / row.max(1);
    let kept = if count <= MOST {
        (0..count).map(Some).collect()
    } else {
        vec![Some(0), Some(1), Some(2), None, Some(count - 1)]
    };
    kept.into_iter()
        .filter_map(|index| match index {
            Some(index) => row_at(map, cuts, index * row, live).map(Some),
            None => Some(None),
        })
        .collect()
}

fn row_at(map: &RadixMap, cuts: &[AxisCut], offset: u64, live: u64) -> Option<MemoryRow> {
    let first = map.source_of(&[0, offset])?;
    let last = (0..live).rev().find_map(|step| map.source_of(&[0, offset + step]))?;
    let span = |cut: &AxisCut| match (first[cut.axis], last[cut.axis]) {
        (start, end) if start == end => format!("{} {start}", cut.name),
        (start, end) => format!("{} {start}..{end}", cut.name),
    };
    Some(MemoryRow { offset, holds: cuts.iter().map(span).collect::<Vec<_>>().join("  ") })
}

/// Digits of the offset with their strides in memory.
fn inside(problem: &Problem, shape: &Shape) -> Vec<(String, u64, u64)> {
    let mut stride = 1;
    let mut digits = Vec::new();
    for digit in shape.intra.iter().rev() {
        let name = digit.axis.map_or("_".to_string(), |axis| problem.axis(axis).name.to_string());
        let whole = digit.axis.is_some_and(|axis| {
            digit.stride == 1 && digit.live >= problem.axis(axis).extent_in[shape.operand as usize]
        });
        let value = match (digit.stride, whole) {
            (_, true) => name,
            (1, false) => format!("({name} % {})", digit.live),
            (stride, false) if reaches_end(problem, shape, digit) => format!("({name} / {stride})"),
            (stride, false) => format!("({name} / {stride} % {})", digit.live),
        };
        if digit.live > 1 && digit.axis.is_some() {
            digits.push((value, stride, digit.slots));
        }
        stride *= digit.slots;
    }
    digits.reverse();
    digits
}

fn reaches_end(problem: &Problem, shape: &Shape, digit: &tilewright_notation::problem::Digit) -> bool {
    digit.axis.is_some_and(|axis| {
        digit.stride.saturating_mul(digit.live) >= problem.axis(axis).extent_in[shape.operand as usize]
    })
}
