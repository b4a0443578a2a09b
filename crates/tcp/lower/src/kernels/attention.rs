//! Attention of a group of heads on one PE: scores, softmax, values (paper section VI and Fig. 10; worked
//! examples E7 to E9).
//!
//! Each head has its share of the slices, keys are spread over them. Scores: keys in the register files,
//! queries multicast, the scale fused behind the contraction. Values: keys stay where they are, so that sums
//! are partial and the reducer between slices adds them; it deals queries out as they came, and requantises
//! in integers, which keeps the vector engine at a flit a cycle.
//!
//! Keys are in the lower half of the register files, values go to the upper half in the sub context while
//! softmax runs.

use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;
use tilewright_tcp_isa::capped::Capped;
use tilewright_tcp_isa::program::exec::{
    Commit, Context, Contract, ContractOp, Drain, Exec, Memory, StepLoop, Stream, Switch,
};
use tilewright_tcp_isa::program::tensor::TensorData;
use tilewright_tcp_isa::program::vector::{OpKind, ReduceOp, ReduceOutput, Word};
use tilewright_tcp_isa::program::{Count, Program};
use tilewright_tcp_isa::switch::{Ring, Topology};
use tilewright_tcp_isa::vector::FLIT_WORDS;

use super::builder::{KernelBuilder, TensorSpec, bytes};
use super::chain::{chain, float, op, rows, with};
use super::pass::{ElementTarget, commit, exec, fetch, signed};
use super::quantise::FixedPointFactor;
use super::softmax::{self, ScoreLayout, UNIT};
use super::{KernelError, multiple};

/// A group of heads: INT8 queries, keys and values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionHeads {
    /// Heads of the PE.
    pub heads: u64,
    /// Queries and keys.
    pub length: u64,
    /// Elements of a query.
    pub depth: u64,
    /// What products of queries and keys are multiplied by before softmax.
    pub scale: f32,
}

impl Default for AttentionHeads {
    /// The paper's Fig. 10, with a scale that spreads scores of random integers by a few units.
    fn default() -> AttentionHeads {
        AttentionHeads { heads: 4, length: 256, depth: 128, scale: 1.0 / 16384.0 }
    }
}

/// First bytes of everything in data memory.
struct AttentionBases {
    queries: u64,
    keys: u64,
    values: u64,
    scores: u64,
    weights: u64,
    result: u64,
}

struct HeadGroup<'m> {
    machine: &'m Tcp,
    spec: AttentionHeads,
    /// Slices of a head.
    slices: u64,
    /// Keys of a slice, and queries.
    share: u64,
    at: AttentionBases,
}

/// The program of a head group: inputs `q`, `k`, `v`; outputs `scores` (f32), `weights` (i8 in units of
/// 1/127) and `out` (i8, in units of the values).
///
/// # Errors
/// Sizes that the slices cannot share, or that memories cannot hold.
pub fn attention(machine: &Tcp, spec: &AttentionHeads) -> Result<Program, KernelError> {
    let (heads, lanes) = (spec.heads, machine.ce.lanes);
    multiple("slices of a PE", machine.pe.slices, heads, "a multiple of the heads")?;
    let slices = machine.pe.slices / heads;
    multiple("length", spec.length, slices.capped_mul(lanes), "a multiple of 8 keys a slice")?;
    multiple("depth", spec.depth, machine.ce.packet_bytes, "a multiple of 64")?;
    let share = spec.length / slices;
    if !share.is_power_of_two() || share > machine.ce.packet_bytes {
        let allowed = "8, 16, 32 or 64 keys a slice, which are one packet";
        return Err(KernelError::Size { what: "length", found: spec.length, allowed });
    }
    let mut builder = KernelBuilder::new(machine);
    let at = places(&mut builder, spec, slices, share)?;
    let group = HeadGroup { machine, spec: *spec, slices, share, at };
    let keys = builder.start(group.load_keys())?;
    builder.wait(keys);
    builder.start(group.multiply())?;
    let scores =
        ScoreLayout { dtype: Dtype::F32, base: group.at.scores, rows: spec.length, columns: share, slices };
    let weights = ElementTarget { dtype: Dtype::I8, base: group.at.weights };
    softmax::passes(&mut builder, &scores, weights, Some(group.load_values()))?;
    builder.start(group.combine())?;
    Ok(builder.finish())
}

fn places(
    builder: &mut KernelBuilder<'_>,
    spec: &AttentionHeads,
    slices: u64,
    share: u64,
) -> Result<AttentionBases, KernelError> {
    let AttentionHeads { heads, length, depth, .. } = *spec;
    let by_query = format!("H^1[{heads}] Q^{{{share}}}[{slices}] | Q^1[{share}] D^1[{depth}]");
    let by_key = format!("H^1[{heads}] K^{{{share}}}[{slices}] | K^1[{share}] D^1[{depth}]");
    let across = format!("H^1[{heads}] K^{{{share}}}[{slices}] | D^1[{depth}] K^1[{share}]");
    let pairs = format!("H^1[{heads}] K^{{{share}}}[{slices}] | Q^1[{length}] K^1[{share}]");
    let q_axes = [("H", heads), ("Q", length), ("D", depth)];
    let k_axes = [("H", heads), ("K", length), ("D", depth)];
    let axes = [("H", heads), ("Q", length), ("K", length)];
    let i8 = Dtype::I8;
    Ok(AttentionBases {
        queries: builder.input(
            &TensorSpec { name: "q", dtype: i8, axes: &q_axes, shape: &by_query },
            TensorData::Random(1),
        )?,
        keys: builder.input(
            &TensorSpec { name: "k", dtype: i8, axes: &k_axes, shape: &by_key },
            TensorData::Random(2),
        )?,
        values: builder.input(
            &TensorSpec { name: "v", dtype: i8, axes: &k_axes, shape: &across },
            TensorData::Random(3),
        )?,
        scores: builder.output(&TensorSpec {
            name: "scores",
            dtype: Dtype::F32,
            axes: &axes,
            shape: &pairs,
        })?,
        weights: builder.output(&TensorSpec { name: "weights", dtype: i8, axes: &axes, shape: &pairs })?,
        result: builder.output(&TensorSpec { name: "out", dtype: i8, axes: &q_axes, shape: &by_query })?,
    })
}

impl HeadGroup<'_> {
    /// Packets of a query.
    fn packets(&self) -> u64 {
        self.spec.depth / self.machine.ce.packet_bytes
    }

    /// Passes of all lanes over the keys of a slice.
    fn lane_passes(&self) -> u64 {
        self.share / self.machine.ce.lanes
    }

    /// Byte of every lane at which the upper half begins.
    fn upper(&self) -> u64 {
        self.machine.trf_lane_payload_bytes() / 2
    }

    /// Bytes between rows of values in the register file: whole flits.
    fn value_row(&self) -> u64 {
        self.share.max(self.machine.network.flit_bytes)
    }

    fn load(
        &self,
        name: &str,
        source: tilewright_tcp_isa::program::exec::Fetch,
        base: u64,
        loops: &[(u64, u64)],
        bytes: u64,
    ) -> Exec {
        let lanes = self.machine.ce.lanes;
        let loops: Vec<(u64, i64)> = loops.iter().map(|(size, stride)| (*size, signed(*stride))).collect();
        let commit = Commit {
            memory: Memory::Trf { lanes },
            loops: rows(&loops),
            width: self.machine.commit.sub_width_bytes,
            ..commit(base, 1, bytes)
        };
        let stream = Stream {
            fetch: source,
            switch: Switch::default(),
            contract: None,
            vector: None,
            cast: None,
            transpose: None,
            commit,
        };
        exec(name, Context::Sub, stream)
    }

    /// Lane `l` takes keys `l`, `l + 8`, ...: for each packet of the depth all of them, as the contraction
    /// reads them.
    fn load_keys(&self) -> Exec {
        let (lanes, packet, flit) =
            (self.machine.ce.lanes, self.machine.ce.packet_bytes, self.machine.network.flit_bytes);
        let depth = self.spec.depth;
        let loops = [
            (lanes, signed(depth)),
            (self.packets(), signed(packet)),
            (self.lane_passes(), signed(lanes * depth)),
            (packet, 1),
        ];
        let source = fetch(Dtype::I8, self.at.keys, &loops, packet);
        let flits = self.packets() * self.lane_passes() * (packet / flit);
        let lane = self.machine.trf_lane_payload_bytes();
        self.load("load_keys", source, 0, &[(lanes, lane), (flits, flit)], flit)
    }

    /// Lane `l` takes columns `l`, `l + 8`, ... of the values, each with the keys of the slice side by side.
    fn load_values(&self) -> Exec {
        let (lanes, granule) = (self.machine.ce.lanes, self.machine.dm.write_granule_bytes);
        let source = fetch(Dtype::I8, self.at.values, &[(self.spec.depth * self.share, 1)], granule);
        let lane = self.machine.trf_lane_payload_bytes();
        let loops =
            [(self.spec.depth / lanes, self.value_row()), (lanes, lane), (self.share / granule, granule)];
        self.load("load_values", source, self.upper(), &loops, granule)
    }

    fn contract(&self, base: u64, loops: &[(u64, i64)], steps: &[(u64, bool)]) -> Contract {
        Contract {
            op: ContractOp::Add,
            flits: 1,
            transpose: None,
            shift: None,
            repeats: Count::Fixed(1),
            lanes: self.machine.ce.lanes,
            dtype: Dtype::I8,
            base,
            loops: rows(loops),
            tree: 1,
            steps: steps
                .iter()
                .map(|(size, summed)| StepLoop { size: Count::Fixed(*size), summed: *summed })
                .collect(),
            drain: Drain::Interleaved,
        }
    }

    /// E7: every query of the head meets the keys of the slice; the scale follows in the vector engine.
    fn multiply(&self) -> Exec {
        let (packet, flit) = (self.machine.ce.packet_bytes, self.machine.network.flit_bytes);
        let (packets, lane_passes, length) = (self.packets(), self.lane_passes(), self.spec.length);
        let walk = [(length, 0), (packets * lane_passes * packet, 1)];
        let steps = [(length, false), (packets, true), (lane_passes, false)];
        let contract = Contract {
            flits: packet / flit,
            repeats: Count::Fixed(lane_passes),
            tree: packet,
            ..self.contract(0, &walk, &steps)
        };
        let sent = self.share * packets;
        let ring = Ring { slice1: self.slices, slice0: 1 };
        let source = fetch(Dtype::I8, self.at.queries, &[(self.share * self.spec.depth, 1)], packet);
        let scaled = vec![op(OpKind::ToFloat { int_width: 31 }), with(OpKind::FMul, float(self.spec.scale))];
        let stream = Stream {
            fetch: source,
            switch: Switch { topology: Topology::Broadcast01(ring, sent), sources: Vec::new() },
            contract: Some(contract),
            vector: Some(chain(Word::I32, scaled)),
            cast: None,
            transpose: None,
            commit: commit(self.at.scores, length * lane_passes, bytes(Dtype::F32, FLIT_WORDS)),
        };
        exec("multiply", Context::Main, stream)
    }

    /// E9: the weights of a query meet the values of the slice's keys; sums over the slices of the head,
    /// requantised.
    fn combine(&self) -> Exec {
        let (length, share, lanes) = (self.spec.length, self.share, self.machine.ce.lanes);
        let columns = self.spec.depth / lanes;
        let walk = [(length, 0), (columns, signed(self.value_row())), (share, 1)];
        let contract = Contract {
            flits: share.div_ceil(self.machine.network.flit_bytes),
            repeats: Count::Fixed(columns),
            tree: share,
            ..self.contract(self.upper(), &walk, &[(length, false), (columns, false)])
        };
        // Flits are queries x columns; each slice of the head keeps the queries that it had.
        let inner = share * columns;
        let requantised = chain(Word::I32, FixedPointFactor::one_over(UNIT.unsigned_abs().into()).to_i8());
        let source = fetch(Dtype::I8, self.at.weights, &[(length * share, 1)], share);
        let stream = Stream {
            fetch: source,
            switch: Switch::default(),
            contract: Some(contract),
            vector: Some(requantised.after_between(
                ReduceOp::AddWrap,
                self.slices,
                ReduceOutput::Scatter { inner },
            )),
            cast: Some(Dtype::I8),
            transpose: None,
            commit: commit(self.at.result, inner, bytes(Dtype::I8, FLIT_WORDS)),
        };
        exec("combine", Context::Main, stream)
    }
}
