//! Recurrent layers, unrolled over a fixed number of steps: LSTM, GRU and RNN of one or two directions.
//!
//! What inputs add to the gates is one product for all steps. Where sequences end earlier, states stay as
//! they are and results are zero from there on; backwards, states begin where the sequence ends.

use tilewright_base::invariant::Exact;
use tilewright_graph::{Binary, BuildResult, Builder, Dim, Dtype, ValueId};

use crate::error::ImportResult;
use crate::onnx::node::Call;
use crate::onnx::ops::Outputs;
use crate::onnx::ops::recurrent_function::{ActivationFunction, functions};
use crate::onnx::ops::unrolled::{MOST_STEPS, steps_fit};

/// What happens between two steps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cell {
    Rnn,
    /// Whether the product with the state comes before the reset.
    Gru(bool),
    /// Whether forgetting is what is not taken in.
    Lstm(bool),
}

impl Cell {
    fn of(call: &Call<'_, '_>) -> Cell {
        match call.node.op.as_str() {
            "LSTM" => Cell::Lstm(call.int("input_forget", 0) != 0),
            "GRU" => Cell::Gru(call.int("linear_before_reset", 0) != 0),
            _ => Cell::Rnn,
        }
    }

    fn gates(self) -> i64 {
        match self {
            Cell::Rnn => 1,
            Cell::Gru(_) => 3,
            Cell::Lstm(_) => 4,
        }
    }

    fn default_functions(self) -> &'static [&'static str] {
        match self {
            Cell::Rnn => &["Tanh"],
            Cell::Gru(_) => &["Sigmoid", "Tanh"],
            Cell::Lstm(_) => &["Sigmoid", "Tanh", "Tanh"],
        }
    }
}

/// The sizes of a layer.
struct Sizes {
    steps: i64,
    batch: Dim,
    hidden: i64,
    directions: i64,
}

/// A layer with its operands in the order of layout 0.
struct Layer {
    cell: Cell,
    sizes: Sizes,
    /// `[steps, batch, inputs]`.
    x: ValueId,
    /// Steps of each sequence, if some end earlier.
    lengths: Option<ValueId>,
    clip: Option<f64>,
}

/// The operands of one direction.
struct Direction {
    w: ValueId,
    r: ValueId,
    /// What is added to the product with the input, and to that with the state.
    biases: Option<[ValueId; 2]>,
    peepholes: Option<ValueId>,
    functions: Vec<ActivationFunction>,
    is_backwards: bool,
    state: State,
}

#[derive(Clone, Copy)]
struct State {
    h: ValueId,
    c: ValueId,
}

/// Refuses operand `at` unless it has these sizes or is left out.
fn sized(call: &Call<'_, '_>, at: usize, wanted: &[Dim]) -> ImportResult<Option<ValueId>> {
    let Some(found) = call.maybe(at) else { return Ok(None) };
    let dims = call.reader.b.dims(found);
    if dims == wanted {
        return Ok(Some(found));
    }
    let axes = call.reader.b.axes();
    let text = |dims: &[Dim]| dims.iter().map(|dim| dim.text(axes)).collect::<Vec<_>>().join(", ");
    let what = format!("operand {at} has sizes [{}]", text(dims));
    Err(call.refuse(what).allowed(format!("[{}]", text(wanted))))
}

/// How many directions there are, and whether the first goes backwards.
fn directions(call: &Call<'_, '_>) -> ImportResult<(i64, bool)> {
    match call.word("direction", "forward").as_str() {
        "forward" => Ok((1, false)),
        "reverse" => Ok((1, true)),
        "bidirectional" => Ok((2, false)),
        other => {
            Err(call.refuse(format!("`direction` is `{other}`")).allowed("forward, reverse, bidirectional"))
        }
    }
}

/// The sizes of a layer whose input has these, checked against one another.
fn sizes(call: &Call<'_, '_>, dims: &[Dim], gates: i64) -> ImportResult<Sizes> {
    let [time, batch, inputs] = dims else {
        return Err(call.refuse(format!("an input of {} axes", dims.len())).allowed("three"));
    };
    let (count, _) = directions(call)?;
    let axes = call.reader.b.axes();
    let steps = time.as_fixed().ok_or_else(|| {
        call.refuse(format!("a number of steps, {}, that is open", time.text(axes)))
            .allowed(format!("1 to {MOST_STEPS} steps, which are written out"))
            .instead("a fixed size for the axis, with --dims")
    })?;
    steps_fit(call, steps, count)?;
    let r = call.reader.b.dims(call.input(2)?);
    let hidden = r.get(2).and_then(Dim::as_fixed).filter(|hidden| (1..1 << 24).contains(hidden));
    let hidden = hidden.ok_or_else(|| {
        call.refuse("weights of the state (operand 2) without a width").allowed("[directions, gates, width]")
    })?;
    let said = call.int("hidden_size", hidden);
    if said != hidden {
        return Err(call
            .refuse(format!("`hidden_size` is {said}, and weights of the state (operand 2) have {hidden}"))
            .allowed("the width of the weights")
            .instead(format!("`hidden_size` {hidden}, or none")));
    }
    let (count_dim, rows) = (Dim::fixed(count), Dim::fixed(gates * hidden));
    sized(call, 1, &[count_dim.clone(), rows.clone(), inputs.clone()])?;
    sized(call, 2, &[count_dim.clone(), rows, Dim::fixed(hidden)])?;
    sized(call, 3, &[count_dim, Dim::fixed(2 * gates * hidden)])?;
    Ok(Sizes { steps, batch: batch.clone(), hidden, directions: count })
}

/// Steps of each sequence, unless all are known to have as many as there are.
fn lengths(call: &mut Call<'_, '_>, sizes: &Sizes) -> ImportResult<Option<ValueId>> {
    let Some(lengths) = sized(call, 4, std::slice::from_ref(&sizes.batch))? else { return Ok(None) };
    let known = call.reader.b.numbers(lengths);
    if let Some(wrong) = known.iter().flatten().find(|length| !(0..=sizes.steps).contains(*length)) {
        return Err(call
            .refuse(format!("a sequence of {wrong} steps"))
            .allowed(format!("0 to {}, the steps of the input", sizes.steps)));
    }
    if known.is_some_and(|known| known.iter().all(|length| *length == sizes.steps)) {
        return Ok(None);
    }
    call.build(|b| b.convert(lengths, Dtype::I32)).map(Some)
}

/// Element `at` along the first axis, which goes away.
fn part(b: &mut Builder, x: ValueId, at: i64) -> BuildResult<ValueId> {
    let rest = b.dims(x).get(1..).unwrap_or(&[]).to_vec();
    let one = b.slice(x, 0, at.into(), 1.into(), 1)?;
    b.reshape(one, &rest)
}

/// A state at the start of one direction: of an operand, or zero.
fn start(
    call: &mut Call<'_, '_>,
    given: Option<ValueId>,
    sizes: &Sizes,
    direction: i64,
) -> ImportResult<ValueId> {
    let dtype = call.reader.b.dtype(call.input(0)?);
    let dims = [sizes.batch.clone(), Dim::fixed(sizes.hidden)];
    call.build(|b| match given {
        Some(given) => part(b, given, direction),
        None => {
            let zero = b.scalar(dtype, 0.0)?;
            b.broadcast(zero, &dims)
        }
    })
}

/// Operand `at`, a state at the start of all directions, in the order of layout 0.
fn states(
    call: &mut Call<'_, '_>,
    at: usize,
    sizes: &Sizes,
    is_batch_first: bool,
) -> ImportResult<Option<ValueId>> {
    let (count, hidden) = (Dim::fixed(sizes.directions), Dim::fixed(sizes.hidden));
    let wanted = if is_batch_first {
        [sizes.batch.clone(), count, hidden]
    } else {
        [count, sizes.batch.clone(), hidden]
    };
    let Some(given) = sized(call, at, &wanted)? else { return Ok(None) };
    if !is_batch_first {
        return Ok(Some(given));
    }
    call.build(|b| b.transpose(given, &[1, 0, 2])).map(Some)
}

pub(super) fn layer(call: &mut Call<'_, '_>) -> Outputs {
    let cell = Cell::of(call);
    let layout = call.int("layout", 0);
    if !(0..=1).contains(&layout) {
        return Err(call.refuse(format!("`layout` is {layout}")).allowed("0, 1"));
    }
    let (is_batch_first, is_lstm) = (layout == 1, matches!(cell, Cell::Lstm(_)));
    let mut x = call.input(0)?;
    if is_batch_first && call.reader.b.rank(x) == 3 {
        x = call.build(|b| b.transpose(x, &[1, 0, 2]))?;
    }
    let dims = call.reader.b.dims(x).to_vec();
    let sizes = sizes(call, &dims, cell.gates())?;
    let lengths = lengths(call, &sizes)?;
    let clip = call.attribute("clip").map(|attribute| f64::from(attribute.f));
    if clip.is_some_and(|clip| clip.is_nan() || clip < 0.0) {
        return Err(call.refuse("`clip` is no bound").allowed("a number from 0"));
    }
    let (h, c) = (
        states(call, 5, &sizes, is_batch_first)?,
        if is_lstm { states(call, 6, &sizes, is_batch_first)? } else { None },
    );
    let all = functions(call, cell.default_functions(), sizes.directions)?;
    let each = cell.default_functions().len();
    let (_, is_first_backwards) = directions(call)?;
    let layer = Layer { cell, sizes, x, lengths, clip };
    let mut runs = Vec::new();
    for (number, functions) in (0..layer.sizes.directions).zip(all.chunks(each)) {
        let state =
            State { h: start(call, h, &layer.sizes, number)?, c: start(call, c, &layer.sizes, number)? };
        let is_backwards = is_first_backwards || number == 1;
        let direction = direction(call, &layer, number, (functions.to_vec(), is_backwards, state))?;
        runs.push(call.build(|b| layer.run(b, &direction))?);
    }
    call.build(|b| results(b, &runs, (is_batch_first, is_lstm)))
}

/// The operands of one direction.
fn direction(
    call: &mut Call<'_, '_>,
    layer: &Layer,
    number: i64,
    (functions, is_backwards, state): (Vec<ActivationFunction>, bool, State),
) -> ImportResult<Direction> {
    let (w, r, bias) = (call.input(1)?, call.input(2)?, call.maybe(3));
    let hidden = layer.sizes.hidden;
    let peepholes = match layer.cell {
        Cell::Lstm(_) => sized(call, 7, &[Dim::fixed(layer.sizes.directions), Dim::fixed(3 * hidden)])?,
        _ => None,
    };
    let rows = layer.cell.gates() * hidden;
    call.build(|b| {
        let biases = match bias {
            None => None,
            Some(bias) => {
                let bias = part(b, bias, number)?;
                let halves = [0, rows].map(|at| b.slice(bias, 0, at.into(), rows.into(), 1));
                let [with_input, with_state] = halves;
                Some([with_input?, with_state?])
            }
        };
        let peepholes = match peepholes {
            None => None,
            Some(all) => Some(part(b, all, number)?),
        };
        let (w, r) = (part(b, w, number)?, part(b, r, number)?);
        Ok(Direction { w, r, biases, peepholes, functions, is_backwards, state })
    })
}

/// What a direction gives: a result for each step, and the last state.
struct Run {
    steps: Vec<ValueId>,
    last: State,
}

/// `Y`, `Y_h` and, of an LSTM, `Y_c`.
fn results(
    b: &mut Builder,
    runs: &[Run],
    (is_batch_first, is_lstm): (bool, bool),
) -> BuildResult<Vec<ValueId>> {
    let (mut all, mut h, mut c) = (Vec::new(), Vec::new(), Vec::new());
    for run in runs {
        let mut steps = Vec::with_capacity(run.steps.len());
        for step in &run.steps {
            let step = b.unsqueeze(*step, 0)?;
            steps.push(b.unsqueeze(step, 0)?);
        }
        all.push(b.concat(0, &steps)?);
        h.push(b.unsqueeze(run.last.h, 0)?);
        c.push(b.unsqueeze(run.last.c, 0)?);
    }
    let (y, h, c) = (b.concat(1, &all)?, b.concat(0, &h)?, b.concat(0, &c)?);
    let mut outputs = if is_batch_first {
        vec![b.transpose(y, &[2, 0, 1, 3])?, b.transpose(h, &[1, 0, 2])?, b.transpose(c, &[1, 0, 2])?]
    } else {
        vec![y, h, c]
    };
    outputs.truncate(if is_lstm { 3 } else { 2 });
    Ok(outputs)
}

impl Layer {
    fn run(&self, b: &mut Builder, direction: &Direction) -> BuildResult<Run> {
        let mut added = b.einsum("tbi,gi->tbg", &[self.x, direction.w])?;
        if let Some([with_input, with_state]) = direction.biases {
            // The state's bias of the last gate is within the reset, if the product is.
            let bias = if self.cell == Cell::Gru(true) {
                let (early, zero) = (2 * self.sizes.hidden, b.scalar(b.dtype(self.x), 0.0)?);
                let early = b.slice(with_state, 0, 0.into(), early.into(), 1)?;
                let early = b.pad(early, 0, 0.into(), self.sizes.hidden.into(), zero)?;
                b.add(with_input, early)?
            } else {
                b.add(with_input, with_state)?
            };
            added = b.add(added, bias)?;
        }
        let mut state = direction.state;
        let mut steps = Vec::new();
        for turn in 0..self.sizes.steps {
            let at = if direction.is_backwards { self.sizes.steps - 1 - turn } else { turn };
            let added = part(b, added, at)?;
            let next = match self.cell {
                Cell::Rnn => self.rnn(b, direction, state, added)?,
                Cell::Gru(_) => self.gru(b, direction, state, added)?,
                Cell::Lstm(_) => self.lstm(b, direction, state, added)?,
            };
            let (result, kept) = self.within(b, at, state, next)?;
            state = kept;
            steps.push(result);
        }
        if direction.is_backwards {
            steps.reverse();
        }
        Ok(Run { steps, last: state })
    }

    /// The result of a step and the state behind it, where sequences may have ended.
    fn within(&self, b: &mut Builder, at: i64, before: State, next: State) -> BuildResult<(ValueId, State)> {
        let Some(lengths) = self.lengths else { return Ok((next.h, next)) };
        let number = b.number(Dim::fixed(at), Dtype::I32)?;
        let is_there = b.binary(Binary::Gt, lengths, number)?;
        let is_there = b.unsqueeze(is_there, 1)?;
        let zero = b.scalar(b.dtype(next.h), 0.0)?;
        let result = b.select(is_there, next.h, zero)?;
        let state =
            State { h: b.select(is_there, next.h, before.h)?, c: b.select(is_there, next.c, before.c)? };
        Ok((result, state))
    }

    /// One gate's columns.
    fn gate(&self, b: &mut Builder, x: ValueId, number: i64) -> BuildResult<ValueId> {
        let hidden = self.sizes.hidden;
        let last = b.rank(x).exact_sub(1);
        b.slice(x, last, (number * hidden).into(), hidden.into(), 1)
    }

    /// An activation function of an input that is clipped first.
    fn activated(&self, b: &mut Builder, of: &ActivationFunction, x: ValueId) -> BuildResult<ValueId> {
        let mut x = x;
        if let Some(clip) = self.clip {
            x = b.with(Binary::Max, x, -clip)?;
            x = b.with(Binary::Min, x, clip)?;
        }
        of.build(b, x)
    }

    fn rnn(&self, b: &mut Builder, on: &Direction, state: State, added: ValueId) -> BuildResult<State> {
        let sum = b.einsum("bh,gh->bg", &[state.h, on.r])?;
        let sum = b.add(added, sum)?;
        Ok(State { h: self.activated(b, &on.functions[0], sum)?, c: state.c })
    }

    fn gru(&self, b: &mut Builder, on: &Direction, state: State, added: ValueId) -> BuildResult<State> {
        let (f, g, hidden) = (&on.functions[0], &on.functions[1], self.sizes.hidden);
        let rows = |b: &mut Builder, from: i64, count: i64| {
            b.slice(on.r, 0, (from * hidden).into(), (count * hidden).into(), 1)
        };
        let gates = rows(b, 0, 2)?;
        let gates = b.einsum("bh,gh->bg", &[state.h, gates])?;
        let mut opened = Vec::new();
        for number in 0..2 {
            let (own, with_state) = (self.gate(b, added, number)?, self.gate(b, gates, number)?);
            let sum = b.add(own, with_state)?;
            opened.push(self.activated(b, f, sum)?);
        }
        let (update, reset) = (opened[0], opened[1]);
        let weights = rows(b, 2, 1)?;
        let with_state = if self.cell == Cell::Gru(true) {
            let mut product = b.einsum("bh,gh->bg", &[state.h, weights])?;
            if let Some([_, bias]) = on.biases {
                let bias = self.gate(b, bias, 2)?;
                product = b.add(product, bias)?;
            }
            b.mul(reset, product)?
        } else {
            let left = b.mul(reset, state.h)?;
            b.einsum("bh,gh->bg", &[left, weights])?
        };
        let own = self.gate(b, added, 2)?;
        let sum = b.add(own, with_state)?;
        let new = self.activated(b, g, sum)?;
        let one = b.scalar(b.dtype(update), 1.0)?;
        let rest = b.sub(one, update)?;
        let (new, old) = (b.mul(rest, new)?, b.mul(update, state.h)?);
        Ok(State { h: b.add(new, old)?, c: state.c })
    }

    fn lstm(&self, b: &mut Builder, on: &Direction, state: State, added: ValueId) -> BuildResult<State> {
        let [f, g, h] = [&on.functions[0], &on.functions[1], &on.functions[2]];
        let sums = b.einsum("bh,gh->bg", &[state.h, on.r])?;
        let sums = b.add(added, sums)?;
        // Gates lie in the order input, output, forget, cell; peepholes in that of the first three.
        let opened = |b: &mut Builder, number: i64, c: ValueId| -> BuildResult<ValueId> {
            let mut sum = self.gate(b, sums, number)?;
            if let Some(peepholes) = on.peepholes {
                let weights = self.gate(b, peepholes, number)?;
                let seen = b.mul(weights, c)?;
                sum = b.add(sum, seen)?;
            }
            self.activated(b, f, sum)
        };
        let input = opened(b, 0, state.c)?;
        let forget = if self.cell == Cell::Lstm(true) {
            let one = b.scalar(b.dtype(input), 1.0)?;
            b.sub(one, input)?
        } else {
            opened(b, 2, state.c)?
        };
        let new = self.gate(b, sums, 3)?;
        let new = self.activated(b, g, new)?;
        let (kept, taken) = (b.mul(forget, state.c)?, b.mul(input, new)?);
        let c = b.add(kept, taken)?;
        let output = opened(b, 1, c)?;
        let shown = self.activated(b, h, c)?;
        Ok(State { h: b.mul(output, shown)?, c })
    }
}
