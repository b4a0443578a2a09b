/** What the binary puts into a page (`crates/view`), and the same in typed arrays. */

export interface TrackData { name: string; path: string; kind: string; depth: number }
export interface LaneData { track: number; count: number; data: string }
export interface CounterData { path: string; unit: string; peak: number; count: number; data: string }
export interface FindingData {
  code: string; severity: string; message: string; place: string; line: number | null;
  allowed: string; instead: string; notes: string[]; tick: number | null;
}
export interface RooflinePoint { name: string; roof: number; macs: number; bytes: number; seconds: number }
export interface RooflineData { peak_macs_per_s: number; roofs: [string, number][]; points: RooflinePoint[] }
export interface MemoryBlock { name: string; start_byte: number; end_byte: number; start_tick: number; end_tick: number }
export interface MemoryData { name: string; capacity_bytes: number; blocks: MemoryBlock[] }

/** Milliwatts of a component in equal parts of a run. */
export interface PowerData { name: string; milliwatts: number[] }

export interface NodeData { operator: string; results: string[]; inputs: number[]; within: number | null }
export interface GraphData { nodes: NodeData[]; kernels: { text: string; node: number | null }[]; kernel_of_command: string }

export interface RunData {
  name: string; machine: string; ticks_per_s: number; tick: string; ticks: number;
  tracks: TrackData[]; names: string[]; name_lines: (number | null)[]; stages: string[]; sources: string[];
  details: [string, number][][]; lanes: LaneData[]; flows: string; counters: CounterData[];
  energy_pj: [string, number][]; power: PowerData[]; findings: FindingData[]; roofline: RooflineData | null;
  memories: MemoryData[]; graph: GraphData | null; program: string | null; facts: [string, string][];
}

/** Commands of one lane, by their start; none of them overlap. */
export interface Lane {
  track: number;
  /** Number of the first command among all. */
  first: number;
  start: Float64Array;
  end: Float64Array;
  name: Uint32Array;
  stage: Uint32Array;
  source: Uint32Array;
  detail: Uint32Array;
  /** Busy ticks before each command, and of all of them at the end. */
  busy: Float64Array;
}

export interface Counter { path: string; unit: string; peak: number; at: Float64Array; value: Float64Array }

/** Which command waited for which; `to` is sorted. */
export interface Flows { to: Uint32Array; from: Uint32Array }

/** The graph of a run; the kernel of each command is its number from 1, or 0 for none. */
export interface Graph extends Omit<GraphData, "kernel_of_command"> { kernelOf: Uint32Array }

export interface Run extends Omit<RunData, "lanes" | "flows" | "counters" | "graph"> {
  lanes: Lane[];
  graph: Graph | null;
  flows: Flows;
  counters: Counter[];
  commands: number;
}

/** Reads numbers of seven bits a byte, the least first. */
export class NumberReader {
  private at = 0;
  private readonly bytes: Uint8Array;

  constructor(base64: string) {
    const text = atob(base64);
    this.bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) this.bytes[i] = text.charCodeAt(i);
  }

  get done(): boolean { return this.at >= this.bytes.length; }

  /** Refuses a column that holds more than it should. */
  end(): void { if (!this.done) throw new Error("a column of numbers is longer than it says"); }

  next(): number {
    let value = 0, scale = 1;
    for (;;) {
      if (this.at >= this.bytes.length) throw new Error("a column of numbers is cut off");
      const byte = this.bytes[this.at++]!;
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
      scale *= 128;
    }
  }
}

function decodeLane(lane: LaneData, first: number): Lane {
  const count = lane.count, read = new NumberReader(lane.data);
  const found: Lane = {
    track: lane.track, first, start: new Float64Array(count), end: new Float64Array(count), name: new Uint32Array(count),
    stage: new Uint32Array(count), source: new Uint32Array(count), detail: new Uint32Array(count), busy: new Float64Array(count + 1),
  };
  let at = 0, busy = 0;
  for (let i = 0; i < count; i++) {
    at += read.next();
    const length = read.next();
    found.start[i] = at;
    found.end[i] = at + length;
    found.name[i] = read.next();
    found.stage[i] = read.next();
    found.source[i] = read.next();
    found.detail[i] = read.next();
    busy += length;
    found.busy[i + 1] = busy;
  }
  read.end();
  return found;
}

function decodeFlows(data: string): Flows {
  const read = new NumberReader(data), to: number[] = [], from: number[] = [];
  let at = 0;
  while (!read.done) {
    at += read.next();
    to.push(at);
    from.push(read.next());
  }
  return { to: Uint32Array.from(to), from: Uint32Array.from(from) };
}

function decodeCounter(counter: CounterData): Counter {
  const read = new NumberReader(counter.data), at = new Float64Array(counter.count), value = new Float64Array(counter.count);
  let tick = 0;
  for (let i = 0; i < counter.count; i++) {
    tick += read.next();
    at[i] = tick;
    value[i] = read.next();
  }
  read.end();
  return { path: counter.path, unit: counter.unit, peak: counter.peak, at, value };
}

/** Kernels of commands, where how many are of the same stands before its number. */
function decodeGraph(graph: GraphData | null, commands: number): Graph | null {
  if (!graph) return null;
  const read = new NumberReader(graph.kernel_of_command), kernelOf = new Uint32Array(commands);
  for (let at = 0; at < commands;) {
    const count = read.next(), kernel = read.next();
    if (count === 0 || at + count > commands) throw new Error("the kernels of commands are more than the commands");
    kernelOf.fill(kernel, at, at + count);
    at += count;
  }
  read.end();
  return { nodes: graph.nodes, kernels: graph.kernels, kernelOf };
}

export function decode(data: RunData): Run {
  let first = 0;
  const lanes = data.lanes.map((lane) => {
    const decoded = decodeLane(lane, first);
    first += lane.count;
    return decoded;
  });
  return { ...data, lanes, flows: decodeFlows(data.flows), counters: data.counters.map(decodeCounter), graph: decodeGraph(data.graph, first), commands: first };
}

/** The lane and the place in it of a command by its number. */
export function place(run: Run, number: number): [number, number] {
  let low = 0, high = run.lanes.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (run.lanes[middle]!.first <= number) low = middle; else high = middle - 1;
  }
  return [low, number - (run.lanes[low]?.first ?? 0)];
}

/** First place whose value is at least (or, with `after`, more than) the one sought. */
export function lowerBound(values: Float64Array | Uint32Array, sought: number, after = false): number {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const value = values[middle]!;
    if (value < sought || (after && value === sought)) low = middle + 1; else high = middle;
  }
  return low;
}

/** Commands that a command waited for. */
export function waitedFor(run: Run, number: number): number[] {
  const { to, from } = run.flows, found: number[] = [];
  for (let i = lowerBound(to, number); i < to.length && to[i] === number; i++) found.push(from[i]!);
  return found;
}
