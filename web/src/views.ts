/** The other views of a run: kernels, memory, energy, roofline, findings, program. */

import { colour } from "./colours";
import type { Counter, MemoryData, Run } from "./data";
import { bytes, el, number, percent, svg, table, time } from "./dom";

export interface Jump { timeline(from: number, to: number, name?: string): void; program(line: number): void }

/** What commands of each name took, longest first; engines of a context repeat its commands and stay out. */
export interface KernelRow { name: string; where: string; count: number; busy: number; longest: number; stages: Map<string, number>; first: number; last: number }

export function kernels(run: Run): KernelRow[] { return commandRows(run, () => 0).get(0) ?? []; }

/** The same for each group of commands, which have a number each. */
export function commandRows(run: Run, group: (command: number) => number): Map<number, KernelRow[]> {
  const kinds = new Set(run.tracks.map((track) => track.kind)), found = new Map<number, Map<string, KernelRow>>();
  for (const lane of run.lanes) {
    const track = run.tracks[lane.track]!;
    if (kinds.has("context") && track.kind === "engine") continue;
    for (let i = 0; i < lane.start.length; i++) {
      const name = run.names[lane.name[i]!]!, key = `${track.name}\n${name}`, length = lane.end[i]! - lane.start[i]!, of = group(lane.first + i);
      let rows = found.get(of);
      if (!rows) found.set(of, (rows = new Map()));
      let row = rows.get(key);
      if (!row) rows.set(key, (row = { name, where: track.name, count: 0, busy: 0, longest: 0, stages: new Map(), first: lane.start[i]!, last: 0 }));
      row.count++;
      row.busy += length;
      row.longest = Math.max(row.longest, length);
      row.first = Math.min(row.first, lane.start[i]!);
      row.last = Math.max(row.last, lane.end[i]!);
      const stage = run.stages[lane.stage[i]!];
      if (stage) row.stages.set(stage, (row.stages.get(stage) ?? 0) + length);
    }
  }
  const sorted = (rows: Map<string, KernelRow>) => [...rows.values()].sort((a, b) => b.busy - a.busy || a.name.localeCompare(b.name));
  return new Map([...found].map(([of, rows]) => [of, sorted(rows)]));
}

export function kernelsView(run: Run, jump: Jump): HTMLElement {
  const rows = kernels(run), shown = rows.slice(0, 500);
  const bound = (row: KernelRow) => [...row.stages].sort((a, b) => b[1] - a[1]).map(([stage, busy]) => `${stage} ${percent(busy / row.busy)}`).slice(0, 2).join(", ");
  return el("section", {},
    el("p", {}, `${number(rows.length)} kinds of commands; a click shows them on the timeline.`),
    table(["command", "on", "runs", run.tick, "of the run", "longest", "decided by"],
      shown.map((row) => [row.name, row.where, row.count, row.busy, percent(row.busy / Math.max(1, run.ticks)), row.longest, bound(row)]),
      (at) => jump.timeline(shown[at]!.first, shown[at]!.last, shown[at]!.name)));
}

/** A step function as SVG, with its high-water mark. */
function steps(run: Run, counter: Counter, index: number): SVGElement {
  const width = 900, height = 90, points: string[] = [];
  const x = (tick: number) => (tick / Math.max(1, run.ticks)) * width, y = (value: number) => height - 4 - (value / Math.max(1, counter.peak)) * (height - 12);
  let last = 0;
  const every = Math.max(1, Math.floor(counter.at.length / 4000));
  for (let i = 0; i < counter.at.length; i++) {
    let most = counter.value[i]!;
    for (const end = Math.min(counter.at.length, i + every); i < end - 1; i++) most = Math.max(most, counter.value[i + 1]!);
    points.push(`${x(counter.at[i]!).toFixed(1)},${y(last).toFixed(1)}`, `${x(counter.at[i]!).toFixed(1)},${y(most).toFixed(1)}`);
    last = counter.value[i]!;
  }
  points.push(`${width},${y(last).toFixed(1)}`);
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img" },
    svg("line", { x1: 0, x2: width, y1: y(counter.peak), y2: y(counter.peak), class: "peak" }),
    svg("polyline", { points: points.join(" "), fill: "none", stroke: colour(index), "stroke-width": 1.5 }));
}

function mean(run: Run, counter: Counter): number {
  let sum = 0;
  counter.at.forEach((at, i) => { sum += counter.value[i]! * ((counter.at[i + 1] ?? run.ticks) - at); });
  return sum / Math.max(1, run.ticks);
}

/** Address against time: who owns each byte. */
function addressMap(run: Run, memory: MemoryData): HTMLElement {
  const width = 900, height = 260, most = Math.max(1, ...memory.blocks.map((block) => block.end_byte)), owners = [...new Set(memory.blocks.map((block) => block.name))];
  const x = (tick: number) => (tick / Math.max(1, run.ticks)) * width, y = (at: number) => height - (at / most) * height;
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img" });
  for (const block of memory.blocks) {
    picture.append(svg("rect", {
      x: x(block.start_tick).toFixed(1), y: y(block.end_byte).toFixed(1), width: Math.max(1, x(block.end_tick) - x(block.start_tick)).toFixed(1),
      height: Math.max(1, y(block.start_byte) - y(block.end_byte)).toFixed(1), fill: colour(owners.indexOf(block.name)), class: "block",
    }, svg("title", {}, `${block.name}: bytes ${number(block.start_byte)} to ${number(block.end_byte)}, ${time(block.start_tick, run.ticks_per_s)} to ${time(block.end_tick, run.ticks_per_s)}`)));
    const [wide, high] = [x(block.end_tick) - x(block.start_tick), y(block.start_byte) - y(block.end_byte)];
    if (high >= 13 && wide >= 7 * block.name.length + 8) picture.append(svg("text", { x: x(block.start_tick) + 4, y: y(block.end_byte) + high / 2 + 4, class: "owner" }, block.name));
  }
  return el("figure", {}, el("figcaption", {}, `${memory.name}: addresses up to ${bytes(most)} of ${bytes(memory.capacity_bytes)}, from left to right in time; ${number(owners.length)} owners`), picture as unknown as HTMLElement);
}

export function memoryView(run: Run): HTMLElement {
  const counters = run.counters.map((counter, index) => ({ counter, index })).filter(({ counter }) => counter.unit === "bytes" && counter.at.length);
  if (!counters.length && !run.memories.length) return el("section", {}, el("p", {}, "This run recorded no memory."));
  return el("section", {}, ...run.memories.map((memory) => addressMap(run, memory)), ...counters.map(({ counter, index }) =>
    el("figure", {}, el("figcaption", {}, `${counter.path}: at most ${bytes(counter.peak)}, ${bytes(Math.round(mean(run, counter)))} on average`), steps(run, counter, index) as unknown as HTMLElement)));
}

/** Power of components on top of each other, the one with the most energy at the bottom. */
function powerChart(run: Run): HTMLElement | null {
  if (!run.power.length) return null;
  const sum = (one: { milliwatts: number[] }) => one.milliwatts.reduce((all, part) => all + part, 0);
  // A component has the same colour in every run.
  const layers = run.power.map((one) => ({ ...one, index: run.energy_pj.findIndex(([name]) => name === one.name), all: sum(one) })).sort((a, b) => b.all - a.all);
  const parts = layers[0]!.milliwatts.length, base = new Array<number>(parts).fill(0), width = 900, height = 240;
  const most = Math.max(1e-9, ...base.map((_, at) => layers.reduce((all, one) => all + one.milliwatts[at]!, 0)));
  const x = (at: number) => ((at / parts) * width).toFixed(1), y = (value: number) => (height - (value / most) * (height - 6)).toFixed(1);
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img", "aria-label": "power of components over time" });
  const legend = el("p", { class: "legend" });
  for (const one of layers) {
    const top = base.map((below, at) => below + one.milliwatts[at]!);
    const edge = (values: number[]) => values.flatMap((value, at) => [`${x(at)},${y(value)}`, `${x(at + 1)},${y(value)}`]);
    const words = `${one.name}: ${number(Number((one.all / parts).toPrecision(4)))} mW on average, at most ${number(Number(Math.max(...one.milliwatts).toPrecision(4)))} mW`;
    picture.append(svg("polygon", { points: [...edge(top), ...edge(base).reverse()].join(" "), fill: colour(one.index), class: "layer" }, svg("title", {}, words)));
    const swatch = el("span", { class: "swatch" });
    swatch.style.background = colour(one.index);
    legend.append(el("span", { title: words }, swatch, ` ${one.name} `));
    top.forEach((value, at) => { base[at] = value; });
  }
  return el("figure", {}, el("figcaption", {}, `power of components over time, up to ${number(Number(most.toPrecision(4)))} mW; each command's energy lies evenly over its time, what no command takes over all of it`), picture as unknown as HTMLElement, legend);
}

export function energyView(run: Run): HTMLElement {
  const used = run.energy_pj.filter(([, pj]) => pj > 0).sort((a, b) => b[1] - a[1]), total = used.reduce((sum, [, pj]) => sum + pj, 0);
  const power = run.counters.map((counter, index) => ({ counter, index })).filter(({ counter }) => counter.unit === "milliwatts" && counter.at.length);
  if (!used.length && !power.length) return el("section", {}, el("p", {}, "This run recorded no energy."));
  const bars = used.map(([name, pj]) => el("tr", {}, el("td", {}, name), el("td", { class: "number" }, number(Number((pj / 1e6).toPrecision(5)))), el("td", { class: "number" }, percent(pj / total)), el("td", { class: "bar" }, bar(pj / used[0]![1]))));
  return el("section", {},
    ...(used.length ? [el("p", {}, `${number(Number((total / 1e6).toPrecision(5)))} uJ`), el("table", {}, el("thead", {}, el("tr", {}, el("th", {}, "component"), el("th", {}, "uJ"), el("th", {}, "part"), el("th", {}))), el("tbody", {}, ...bars))] : []),
    powerChart(run),
    ...power.map(({ counter, index }) => el("figure", {}, el("figcaption", {}, `${counter.path}: at most ${number(counter.peak)} mW, ${number(Math.round(mean(run, counter)))} mW on average`), steps(run, counter, index) as unknown as HTMLElement)));
}

export function bar(part: number): HTMLElement {
  const made = el("span", { class: "fill" });
  made.style.width = `${Math.max(0.5, 100 * part)}%`;
  return made;
}

export function rooflineView(run: Run): HTMLElement {
  const data = run.roofline;
  if (!data || !data.points.length) return el("section", {}, el("p", {}, "No roofline: the machine is not known from a trace, or the run multiplied nothing."));
  const width = 900, height = 460, left = 70, bottom = 50;
  const intensity = data.points.map((point) => point.macs / Math.max(1, point.bytes)), rate = data.points.map((point) => point.macs / point.seconds);
  const knees = data.roofs.map(([, rate]) => data.peak_macs_per_s / rate);
  const xs = [...intensity, ...knees].filter((value) => value > 0), ys = [...rate, data.peak_macs_per_s].filter((value) => value > 0);
  const [x0, x1, y0, y1] = [Math.min(...xs) / 4, Math.max(...xs) * 4, Math.min(...ys) / 4, Math.max(...ys) * 2].map(Math.log10) as [number, number, number, number];
  const x = (value: number) => left + ((Math.log10(value) - x0) / (x1 - x0)) * (width - left - 10), y = (value: number) => height - bottom - ((Math.log10(value) - y0) / (y1 - y0)) * (height - bottom - 10);
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img" });
  for (let power = Math.ceil(x0); power <= x1; power++) picture.append(svg("line", { x1: x(10 ** power), x2: x(10 ** power), y1: 10, y2: height - bottom, class: "grid" }), svg("text", { x: x(10 ** power), y: height - bottom + 16, "text-anchor": "middle" }, `1e${power}`));
  for (let power = Math.ceil(y0); power <= y1; power++) picture.append(svg("line", { x1: left, x2: width - 10, y1: y(10 ** power), y2: y(10 ** power), class: "grid" }), svg("text", { x: left - 6, y: y(10 ** power) + 4, "text-anchor": "end" }, `1e${power}`));
  picture.append(svg("text", { x: (left + width) / 2, y: height - 12, "text-anchor": "middle" }, "multiply-accumulates for each byte"), svg("text", { x: 14, y: 18 }, "a second"));
  data.roofs.forEach(([name, roof], index) => {
    const knee = data.peak_macs_per_s / roof, start = Math.max(10 ** x0, 10 ** y0 / roof);
    picture.append(svg("polyline", { points: `${x(start)},${y(start * roof)} ${x(knee)},${y(data.peak_macs_per_s)} ${width - 10},${y(data.peak_macs_per_s)}`, fill: "none", stroke: colour(index), "stroke-width": 2 }),
      svg("text", { x: x(start) + 8, y: y(start * roof) - 8, fill: colour(index) }, name));
  });
  data.points.forEach((point, at) => {
    const roof = data.roofs[point.roof]!;
    const reach = point.macs / point.seconds / Math.min(data.peak_macs_per_s, intensity[at]! * roof[1]);
    picture.append(svg("circle", { cx: x(intensity[at]!), cy: y(rate[at]!), r: 5, fill: colour(point.roof), class: "point" }, svg("title", {}, `${point.name}: ${number(Number(intensity[at]!.toPrecision(4)))} for each byte of ${roof[0]}, ${percent(reach)} of the roof`)),
      svg("text", { x: x(intensity[at]!) + 8, y: y(rate[at]!) + 4 }, point.name.slice(0, 40)));
  });
  const rows = data.points.map((point, at) => {
    const roof = data.roofs[point.roof]!, reach = rate[at]! / Math.min(data.peak_macs_per_s, intensity[at]! * roof[1]);
    return [point.name, roof[0], number(Number(intensity[at]!.toPrecision(4))), number(Number((rate[at]! / 1e12).toPrecision(4))), percent(reach), intensity[at]! < knees[point.roof]! ? roof[0] : "multipliers"];
  });
  return el("section", {}, el("figure", {}, picture as unknown as HTMLElement), table(["kernel", "roof", "MAC for each byte", "tera MAC a second", "of the roof", "bound by"], rows));
}

export function findingsView(run: Run, jump: Jump): HTMLElement {
  if (!run.findings.length) return el("section", {}, el("p", {}, "No findings."));
  return el("section", {}, ...run.findings.map((one) => el("article", { class: `finding ${one.severity === "error" ? "error" : "warning"}` },
    el("h3", {}, `${one.severity}[${one.code}] ${one.place}`), el("p", {}, one.message),
    one.allowed ? el("p", {}, `allowed: ${one.allowed}`) : null, one.instead ? el("p", {}, `instead: ${one.instead}`) : null,
    ...one.notes.map((note) => el("p", { class: "faint" }, note)),
    one.line !== null && run.program !== null ? el("button", { click: () => jump.program(one.line!) }, `line ${one.line}`) : null,
    one.tick !== null ? el("button", { click: () => jump.timeline(Math.max(0, one.tick! - 50), one.tick! + 50) }, `at ${number(one.tick)}`) : null)));
}

/** Lines of a program that are shown at a time, those around the one that was asked for. */
const MOST_LINES = 20000;

export function programView(run: Run, line: number | null): HTMLElement {
  if (run.program === null) return el("section", {}, el("p", {}, "The program's text is not part of this run."));
  const lines = run.program.split("\n"), first = Math.max(0, Math.min((line ?? 1) - 1 - MOST_LINES / 2, lines.length - MOST_LINES)), shown = lines.slice(first, first + MOST_LINES);
  const list = el("ol", { class: "program", start: first + 1 }, ...shown.map((text, at) => el("li", first + at + 1 === line ? { class: "marked" } : {}, text || " ")));
  queueMicrotask(() => list.querySelector(".marked")?.scrollIntoView({ block: "center" }));
  return el("section", {}, shown.length < lines.length ? el("p", {}, `lines ${number(first + 1)} to ${number(first + shown.length)} of ${number(lines.length)}`) : null, list);
}

export function factsView(run: Run): HTMLElement {
  const rows: [string, string][] = [["machine", run.machine || "not known from a trace"], ["time", time(run.ticks, run.ticks_per_s)], ...(run.tick === "cycles" ? [["cycles", number(run.ticks)] as [string, string]] : []), ["commands", number(run.commands)], ...run.facts];
  return el("dl", { class: "facts" }, ...rows.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}
