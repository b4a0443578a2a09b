//! RoiAlign: means of samples in the cells of regions, as sums weighed by a matrix for each axis, which
//! regions that a run decides give as well.

use tilewright_graph::{Binary, BuildResult, Builder, Dim, Dtype, StoredTensor, ValueId};

use crate::error::ImportResult;
use crate::onnx::node::Call;
use crate::onnx::ops::Outputs;
use crate::onnx::ops::unrolled::computed;

/// One axis of the regions.
struct Cells {
    /// Numbers of the columns that have where regions begin and end.
    columns: (i64, i64),
    /// Elements of the image, cells, and samples of a cell.
    size: i64,
    cells: i64,
    samples: i64,
    /// Places are those of regions times this.
    scale: f64,
    /// Whether places are of the edges of elements.
    is_half_pixel: bool,
}

/// An attribute that is a number from 1.
fn count(call: &Call<'_, '_>, name: &str, default: i64) -> ImportResult<i64> {
    let number = call.int(name, default);
    if (1..1 << 12).contains(&number) {
        return Ok(number);
    }
    let why = if name == "sampling_ratio" { "0 lets the sizes of regions decide" } else { "too few or many" };
    Err(call.refuse(format!("`{name}` is {number}: {why}")).allowed("1 to 4095"))
}

pub(super) fn align(call: &mut Call<'_, '_>) -> Outputs {
    let (x, regions, batch) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let mode = call.word("mode", "avg");
    if mode != "avg" {
        return Err(call.refuse(format!("`mode` is `{mode}`")).allowed("avg"));
    }
    // Before opset 16 places were not moved by half an element.
    let default = if call.reader.opset < 16 { "output_half_pixel" } else { "half_pixel" };
    let is_half_pixel = match call.word("coordinate_transformation_mode", default).as_str() {
        "half_pixel" => true,
        "output_half_pixel" => false,
        other => {
            let what = format!("`coordinate_transformation_mode` is `{other}`");
            return Err(call.refuse(what).allowed("half_pixel, output_half_pixel"));
        }
    };
    let samples = count(call, "sampling_ratio", 0)?;
    let cells = [count(call, "output_height", 1)?, count(call, "output_width", 1)?];
    let scale = f64::from(call.float("spatial_scale", 1.0));
    let own = call.reader.b.dims(x).to_vec();
    let sizes: Option<Vec<i64>> = own.iter().skip(2).map(Dim::as_fixed).collect();
    let sizes = sizes.filter(|sizes| sizes.len() == 2 && sizes.iter().all(|size| *size > 0));
    let are_regions = matches!(call.reader.b.dims(regions), [_, four] if four.is(4));
    let Some(sizes) = sizes.filter(|_| are_regions) else {
        return Err(call
            .refuse("an image or regions of other axes")
            .allowed("[batch, channels, height, width], both fixed, and [regions, 4]"));
    };
    let axis = |at: usize, columns: (i64, i64)| Cells {
        columns,
        size: sizes[at],
        cells: cells[at],
        samples,
        scale,
        is_half_pixel,
    };
    let (rows, columns) = (axis(0, (1, 3)), axis(1, (0, 2)));
    let (in_rows, in_columns) = (rows.constant(call)?, columns.constant(call)?);
    Ok(vec![call.build(|b| {
        let dtype = b.dtype(x);
        let regions = b.convert(regions, Dtype::F32)?;
        let rows = rows.weights(b, regions, in_rows)?;
        let columns = columns.weights(b, regions, in_columns)?;
        let x = b.convert(x, Dtype::F32)?;
        let images = b.gather(x, 0, batch)?;
        let sums = b.einsum("rchw,rqw->rchq", &[images, columns])?;
        let sums = b.einsum("rchq,rph->rcpq", &[sums, rows])?;
        b.convert(sums, dtype)
    })?])
}

impl Cells {
    /// Where each sample stands, in cells.
    fn constant(&self, call: &mut Call<'_, '_>) -> ImportResult<ValueId> {
        computed(call, self.cells * self.samples)?;
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let place = |at: i64| (at as f32 + 0.5) / self.samples as f32;
        let places: Vec<f32> = (0..self.cells * self.samples).map(place).collect();
        let dims = [1, (self.cells * self.samples).unsigned_abs(), 1];
        let stored = StoredTensor::floats(&dims, &places).ok_or_else(|| call.refuse("too many cells"))?;
        let name = call.node.outputs.first().map_or("cells", String::as_str);
        call.reader.tensor(&format!("{name}.cells{}", self.columns.0), stored)
    }

    /// `[regions, cells, size]`: what each element adds to a cell.
    fn weights(&self, b: &mut Builder, regions: ValueId, places: ValueId) -> BuildResult<ValueId> {
        let column = |b: &mut Builder, at: i64| -> BuildResult<ValueId> {
            let column = b.slice(regions, 1, at.into(), 1.into(), 1)?;
            let column = b.unsqueeze(column, 2)?;
            let scaled = b.with(Binary::Mul, column, self.scale)?;
            if self.is_half_pixel { b.with(Binary::Sub, scaled, 0.5) } else { Ok(scaled) }
        };
        let (start, end) = (column(b, self.columns.0)?, column(b, self.columns.1)?);
        let mut reach = b.sub(end, start)?;
        if !self.is_half_pixel {
            reach = b.with(Binary::Max, reach, 1.0)?;
        }
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let (cells, samples, size) = (self.cells as f64, self.samples as f64, self.size as f64);
        let cell = b.with(Binary::Div, reach, cells)?;
        let from_start = b.mul(places, cell)?;
        let at = b.add(from_start, start)?;
        // Up to one element outside counts as the border, what is farther as nothing.
        let (low, high) = (b.with(Binary::Ge, at, -1.0)?, b.with(Binary::Le, at, size)?);
        let is_near = b.binary(Binary::And, low, high)?;
        let is_near = b.convert(is_near, Dtype::F32)?;
        let inside = b.with(Binary::Max, at, 0.0)?;
        let inside = b.with(Binary::Min, inside, size - 1.0)?;
        let numbers = b.iota(Dtype::F32, &[Dim::fixed(self.size)], 0)?;
        let away = b.sub(inside, numbers)?;
        let away = b.unary(tilewright_graph::Unary::Abs, away)?;
        let one = b.scalar(Dtype::F32, 1.0)?;
        let near = b.sub(one, away)?;
        let near = b.with(Binary::Max, near, 0.0)?;
        let near = b.mul(near, is_near)?;
        let count = b.dim(regions, 0)?;
        let apart = [count, Dim::fixed(self.cells), Dim::fixed(self.samples), Dim::fixed(self.size)];
        let near = b.reshape(near, &apart)?;
        let sum = b.reduce(tilewright_graph::Fold::Sum, near, &[2], false)?;
        b.with(Binary::Mul, sum, 1.0 / samples)
    }
}
