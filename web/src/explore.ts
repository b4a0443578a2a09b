/** What a search found: time against energy with the front, parallel coordinates, and the tactic of the picked point drawn. */

import { colour } from "./colours";
import { el, number, percent, svg, table } from "./dom";

type Figures = Record<string, unknown>;
export interface ExplorationData { name: string; found: { einsum: string; dims: Record<string, number>; evaluated: number; complete: boolean; best: Figures; candidates: Figures[]; pareto: Figures[] } }

interface Shown { figures: Figures; front: boolean; best: boolean; ticks: number; energy: number }

/** Candidates and the front, each once, fastest first. */
function points(data: ExplorationData): Shown[] {
  const found = new Map<string, Shown>(), best = JSON.stringify([data.found.best["tactic"], data.found.best["cycles"], data.found.best["energy_pj"]]);
  const take = (figures: Figures, front: boolean) => {
    const key = JSON.stringify([figures["tactic"], figures["cycles"], figures["energy_pj"], figures["choices"] ?? figures["blocks"]]);
    const known = found.get(key), own = JSON.stringify([figures["tactic"], figures["cycles"], figures["energy_pj"]]);
    if (known) known.front ||= front;
    else found.set(key, { figures, front, best: own === best, ticks: Number(figures["picoseconds"] ?? figures["cycles"]), energy: Number(figures["energy_pj"]) });
  };
  data.found.candidates.forEach((one) => take(one, false));
  data.found.pareto.forEach((one) => take(one, true));
  return [...found.values()].filter((one) => one.ticks > 0 && one.energy > 0).sort((a, b) => a.ticks - b.ticks || a.energy - b.energy);
}

/** A place between two ends, by logarithms. */
function scale(values: number[], from: number, to: number): (value: number) => number {
  const [least, most] = [Math.min(...values), Math.max(...values)].map((value) => Math.log(Math.max(value, 1e-12))) as [number, number];
  return (value) => (most > least ? from + ((Math.log(Math.max(value, 1e-12)) - least) / (most - least)) * (to - from) : (from + to) / 2);
}

function scatter(all: Shown[], picked: number, pick: (at: number) => void): SVGElement {
  const width = 900, height = 320, x = scale(all.map((one) => one.ticks), 80, width - 20), y = scale(all.map((one) => one.energy), height - 50, 20);
  const front = all.filter((one) => one.front);
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img" },
    svg("text", { x: width / 2, y: height - 12, "text-anchor": "middle" }, "time, logarithmic"), svg("text", { x: 12, y: 20 }, "energy"),
    svg("polyline", { points: front.map((one) => `${x(one.ticks)},${y(one.energy)}`).join(" "), fill: "none", stroke: colour(5), "stroke-width": 1.5 }));
  all.forEach((one, at) => {
    const dot = svg("circle", { cx: x(one.ticks), cy: y(one.energy), r: at === picked ? 8 : one.best ? 6 : 4, fill: colour(one.front ? 5 : 0), class: "point pick", tabindex: 0 }, svg("title", {}, `${String(one.figures["tactic"])}: ${number(one.ticks)}, ${number(one.energy)} pJ`));
    dot.addEventListener("click", () => pick(at));
    dot.addEventListener("keydown", (event) => { if ((event as KeyboardEvent).key === "Enter") pick(at); });
    picture.append(dot);
  });
  return picture;
}

/** Figures that differ between points, as parallel axes. */
function parallel(all: Shown[], picked: number, pick: (at: number) => void): SVGElement {
  const flat = all.map((one) => ({ ...one.figures, ...((one.figures["choices"] as Figures) ?? {}) }) as Figures);
  const names = Object.keys(flat[0] ?? {}).filter((name) => flat.every((one) => typeof one[name] === "number") && new Set(flat.map((one) => one[name])).size > 1).slice(0, 12);
  const width = 900, height = 220, gap = (width - 120) / Math.max(1, names.length - 1);
  const scales = names.map((name) => scale(flat.map((one) => Number(one[name]) + 1e-9), height - 30, 30));
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img" });
  flat.forEach((one, at) => {
    const line = svg("polyline", { points: names.map((name, axis) => `${60 + axis * gap},${scales[axis]!(Number(one[name]) + 1e-9)}`).join(" "), fill: "none", class: "pick", stroke: colour(all[at]!.front ? 5 : 0), "stroke-width": at === picked ? 4 : 1.2, "stroke-opacity": at === picked ? 1 : 0.5 });
    line.addEventListener("click", () => pick(at));
    picture.append(line);
  });
  names.forEach((name, axis) => picture.append(svg("line", { x1: 60 + axis * gap, x2: 60 + axis * gap, y1: 30, y2: height - 30, class: "grid" }), svg("text", { x: 60 + axis * gap, y: height - 10, "text-anchor": "middle" }, name), svg("text", { x: 60 + axis * gap, y: 20, "text-anchor": "middle" }, number(Math.max(...flat.map((one) => Number(one[name])))))));
  return picture;
}

/** The loops of a tactic, outermost first: across slices, in time, across lanes, within a packet; as wide as they are long. */
function loops(tactic: string): HTMLElement {
  const roles = ["across slices", "in time", "across lanes", "within a packet"], parts = tactic.split("|");
  if (parts.length < 2) return el("p", {}, tactic);
  const picture = svg("svg", { viewBox: `0 0 900 ${parts.length * 34}`, class: "chart", role: "img" });
  parts.forEach((part, row) => {
    let x = 130;
    picture.append(svg("text", { x: 8, y: row * 34 + 21 }, roles[row] ?? ""));
    for (const term of part.trim().split(/\s+/).filter(Boolean)) {
      const size = Number(/\[(\d+)\]/.exec(term)?.[1] ?? 1), wide = 24 + 14 * Math.log2(Math.max(1, size)) + 5 * term.length;
      picture.append(svg("rect", { x, y: row * 34 + 5, width: wide, height: 24, fill: colour((term.charCodeAt(0) * 7) % 8), "fill-opacity": 0.55 }), svg("text", { x: x + wide / 2, y: row * 34 + 21, "text-anchor": "middle" }, term));
      x += wide + 4;
    }
  });
  return el("figure", {}, picture as unknown as HTMLElement);
}

export function exploreView(data: ExplorationData): HTMLElement {
  const all = points(data), section = el("section", {});
  const show = (picked: number) => {
    const one = all[picked];
    if (!one) return section.replaceChildren(el("p", {}, "Nothing was found."));
    const shapes = Object.entries((one.figures["shapes"] as Record<string, string>) ?? {});
    section.replaceChildren(
      el("p", { class: "headline" }, `${data.found.einsum}: ${number(data.found.evaluated)} candidates evaluated${data.found.complete ? ", nothing better exists" : ""}`),
      el("p", {}, Object.entries(data.found.dims).map(([axis, size]) => `${axis}=${size}`).join(" ")),
      el("figure", {}, scatter(all, picked, show) as unknown as HTMLElement), el("figure", {}, parallel(all, picked, show) as unknown as HTMLElement),
      el("h2", { "data-picked": picked }, `${one.best ? "best: " : ""}${String(one.figures["tactic"])}`), loops(String(one.figures["tactic"])),
      table(["", ""], [["time", number(one.ticks)], ["energy, pJ", number(one.energy)], ["power, mW", String(one.figures["milliwatts"] ?? "")], ["multipliers used", percent(Number(one.figures["utilisation"] ?? 0))], ...shapes.map(([name, shape]) => [`shape of ${name}`, String(shape)])]));
  };
  show(Math.max(0, all.findIndex((one) => one.best)));
  return section;
}
