/** Two runs beside each other: what became faster, and where cycles went. */

import { colour, theme } from "./colours";
import { type Run, lowerBound } from "./data";
import { el, number, percent, table, time } from "./dom";
import { criticalPath } from "./path";
import { type KernelRow, kernels } from "./views";

interface Change { name: string; where: string; before: KernelRow | undefined; after: KernelRow | undefined; by: number }

/** Seconds by which each kind of command changed, most first. */
export function changes(before: Run, after: Run): Change[] {
  const key = (row: KernelRow) => `${row.where}\n${row.name}`, found = new Map<string, Change>();
  for (const row of kernels(before)) found.set(key(row), { name: row.name, where: row.where, before: row, after: undefined, by: -row.busy / before.ticks_per_s });
  for (const row of kernels(after)) {
    const known = found.get(key(row)), seconds = row.busy / after.ticks_per_s;
    if (known) { known.after = row; known.by += seconds; } else found.set(key(row), { name: row.name, where: row.where, before: undefined, after: row, by: seconds });
  }
  return [...found.values()].sort((a, b) => Math.abs(b.by) - Math.abs(a.by) || a.name.localeCompare(b.name));
}

export function diffView(before: Run, after: Run): HTMLElement {
  const rows = changes(before, after), seconds = (run: Run) => run.ticks / run.ticks_per_s, ratio = seconds(before) / seconds(after);
  const signed = (by: number) => `${by > 0 ? "+" : by < 0 ? "−" : ""}${time(Math.abs(by) * 1e12, 1e12)}`;
  const busy = (run: Run, row: KernelRow | undefined) => (row ? time(row.busy, run.ticks_per_s) : "–");
  const parts = new Map<string, [number, number]>();
  before.energy_pj.forEach(([name, pj]) => parts.set(name, [pj, 0]));
  after.energy_pj.forEach(([name, pj]) => parts.set(name, [parts.get(name)?.[0] ?? 0, pj]));
  const energy = [...parts].filter(([, [a, b]]) => a || b).sort((x, y) => Math.abs(y[1][1] - y[1][0]) - Math.abs(x[1][1] - x[1][0]));
  const codes = (run: Run) => new Set(run.findings.map((one) => `${one.code} ${one.place}`)), [old, fresh] = [codes(before), codes(after)];
  return el("section", {},
    el("p", { class: "headline" }, `${time(before.ticks, before.ticks_per_s)} → ${time(after.ticks, after.ticks_per_s)}: `, ratio >= 1 ? `${ratio.toFixed(3)} times as fast` : `${(1 / ratio).toFixed(3)} times as long`),
    strips(before, after),
    table(["command", "on", "runs", "runs", "busy before", "busy after", "change"], rows.slice(0, 300).map((row) => [row.name, row.where, row.before?.count ?? 0, row.after?.count ?? 0, busy(before, row.before), busy(after, row.after), signed(row.by)])),
    pathTable(before, after),
    energy.length ? table(["energy", "before, uJ", "after, uJ", "change"], energy.map(([name, [a, b]]) => [name, number(Number((a / 1e6).toPrecision(5))), number(Number((b / 1e6).toPrecision(5))), a ? percent(b / a - 1) : "new"])) : null,
    el("p", {}, `findings: ${[...fresh].filter((one) => !old.has(one)).length} new, ${[...old].filter((one) => !fresh.has(one)).length} gone`));
}

/** Where the time of the critical paths went: by command, and between commands, where everything waits. */
function pathTable(before: Run, after: Run): HTMLTableElement {
  const [old, fresh] = [criticalPath(before), criticalPath(after)], names = new Set([...old.busy.keys(), ...fresh.busy.keys()]);
  const row = (name: string, a: number, b: number) => ({ name, a: a / before.ticks_per_s, b: b / after.ticks_per_s });
  const rows = [...names].map((name) => row(name, old.busy.get(name) ?? 0, fresh.busy.get(name) ?? 0));
  rows.push(row("between commands", old.waiting, fresh.waiting));
  rows.sort((x, y) => Math.abs(y.b - y.a) - Math.abs(x.b - x.a));
  const shown = (seconds: number) => time(seconds * 1e12, 1e12);
  return table(["critical path", "before", "after", "change"], rows.slice(0, 60).map((one) => [one.name, shown(one.a), shown(one.b), `${one.b > one.a ? "+" : one.b < one.a ? "−" : ""}${shown(Math.abs(one.b - one.a))}`]));
}

/** Both runs on one time axis, a row for each lane that is no engine's. */
function strips(before: Run, after: Run): HTMLCanvasElement {
  const canvas = el("canvas", { class: "strips", "aria-label": "both runs on one time axis" }), longest = Math.max(before.ticks / before.ticks_per_s, after.ticks / after.ticks_per_s);
  const draw = () => {
    const lanesOf = (run: Run) => run.lanes.filter((lane) => run.tracks[lane.track]!.kind !== "engine" || !run.tracks.some((track) => track.kind === "context")).slice(0, 24);
    const [first, second] = [lanesOf(before), lanesOf(after)], height = (first.length + second.length) * 10 + 26, width = canvas.clientWidth || 900, ratio = devicePixelRatio || 1;
    canvas.style.height = `${height}px`;
    [canvas.width, canvas.height] = [width * ratio, height * ratio];
    const context = canvas.getContext("2d")!, shown = theme();
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    let top = 0;
    for (const [run, lanes] of [[before, first], [after, second]] as const) {
      context.fillStyle = shown.ink;
      context.font = "11px system-ui, sans-serif";
      context.fillText(run.name.slice(0, 120), 0, top + 10);
      top += 13;
      for (const lane of lanes) {
        for (let x = 0; x < width;) {
          const tick = (x / width) * longest * run.ticks_per_s, until = ((x + 1) / width) * longest * run.ticks_per_s, i = Math.max(0, lowerBound(lane.start, tick, true) - 1);
          const next = lowerBound(lane.start, until);
          let covered = 0;
          for (let j = i; j < Math.min(next, i + 64); j++) covered += Math.max(0, Math.min(until, lane.end[j]!) - Math.max(tick, lane.start[j]!));
          if (covered > 0) { context.globalAlpha = Math.max(0.15, Math.min(1, covered / (until - tick))); context.fillStyle = colour(lane.name[i] ?? 0); context.fillRect(x, top, 1, 8); }
          x++;
        }
        context.globalAlpha = 1;
        top += 10;
      }
    }
  };
  queueMicrotask(draw);
  return canvas;
}
