/** The model's graph: operators by depth with the time of their commands; from an operator to its kernels, their commands and lines. */

import { colour } from "./colours";
import type { Run } from "./data";
import { el, number, percent, svg, table } from "./dom";
import { type Jump, type KernelRow, commandRows } from "./views";

/** Operators that are drawn; a table lists all. */
const MOST_DRAWN = 2000;

/** Commands by kernel, and busy ticks by kernel and by operator. */
export interface GraphTimes { rows: KernelRow[][]; kernel: number[]; node: number[]; none: number }

export function graphTimes(run: Run): GraphTimes {
  const graph = run.graph!;
  const found: GraphTimes = { rows: graph.kernels.map(() => []), kernel: graph.kernels.map(() => 0), node: graph.nodes.map(() => 0), none: 0 };
  for (const [of, rows] of commandRows(run, (command) => graph.kernelOf[command]!)) {
    const kernel = of - 1, node = graph.kernels[kernel]?.node ?? null, busy = rows.reduce((sum, row) => sum + row.busy, 0);
    if (node === null) found.none += busy; else found.node[node]! += busy;
    if (!graph.kernels[kernel]) continue;
    found.rows[kernel] = rows;
    found.kernel[kernel] = busy;
  }
  return found;
}

/** Operators that are drawn, by their numbers, and for each those before it; parts of others' kernels are drawn if they are asked for. */
interface Drawn { nodes: number[]; inputs: Map<number, number[]> }

function drawnNodes(run: Run, withParts: boolean): Drawn {
  const { nodes, kernels } = run.graph!, owners = new Set(kernels.map((kernel) => kernel.node)), found: Drawn = { nodes: [], inputs: new Map() };
  // What stands for an operator: itself if it is drawn, else those before it that are.
  const standing: number[][] = [];
  nodes.forEach((node, at) => {
    const before = [...new Set(node.inputs.flatMap((input) => standing[input] ?? []))];
    const isDrawn = withParts || owners.has(at);
    standing[at] = isDrawn ? [at] : before;
    if (isDrawn) { found.nodes.push(at); found.inputs.set(at, before); }
  });
  return found;
}

function drawn(run: Run, times: GraphTimes, shown: Drawn, picked: number | null, pick: (node: number) => void): SVGElement {
  const { nodes } = run.graph!, wide = 190, high = 34, depth = new Map<number, number>(), used = new Map<number, number>(), places = new Map<number, { x: number; y: number }>();
  // How many operators lie before each on the longest way to it.
  for (const at of shown.nodes) {
    const row = shown.inputs.get(at)!.reduce((most, input) => Math.max(most, depth.get(input)! + 1), 0), column = used.get(row) ?? 0;
    depth.set(at, row);
    used.set(row, column + 1);
    places.set(at, { x: 8 + column * (wide + 14), y: 8 + row * (high + 22) });
  }
  const most = Math.max(1, ...times.node), all = [...places.values()], width = all.reduce((far, place) => Math.max(far, place.x), 0) + wide + 8, height = all.reduce((far, place) => Math.max(far, place.y), 0) + high + 8;
  const picture = svg("svg", { width, height, role: "img", "aria-label": "the model's graph" });
  for (const at of shown.nodes) {
    const to = places.get(at)!;
    for (const input of shown.inputs.get(at)!) {
      const from = places.get(input)!, [x1, y1, x2, y2] = [from.x + wide / 2, from.y + high, to.x + wide / 2, to.y];
      // Arrows that pass rows bend out to the side, so that they do not run behind what lies between.
      const bend = Math.min(40, 10 * (depth.get(at)! - depth.get(input)! - 1)), side = Math.max(x1, x2) + (bend ? wide / 2 + bend : 0);
      picture.append(svg("path", { d: bend ? `M${x1 + wide / 2} ${y1 - high / 2} C${side} ${y1 - high / 2} ${side} ${y2 + high / 2} ${x2 + wide / 2} ${y2 + high / 2}` : `M${x1} ${y1} L${x2} ${y2}`, class: "edge", fill: "none" }));
    }
  }
  for (const at of shown.nodes) {
    const { x, y } = places.get(at)!, node = nodes[at]!, share = times.node[at]! / most;
    const one = svg("g", { class: at === picked ? "node pick picked" : "node pick", tabindex: 0, role: "button", "data-node": at },
      svg("title", {}, `${node.operator} ${node.results.join(", ")}: ${number(times.node[at]!)} ${run.tick}`),
      svg("rect", { x, y, width: wide, height: high, class: "paper" }), svg("rect", { x, y, width: wide * share, height: high, fill: colour(0), "fill-opacity": 0.45 }),
      svg("text", { x: x + 5, y: y + 14 }, shortened(`${node.operator} ${node.results[0] ?? ""}`)),
      svg("text", { x: x + 5, y: y + 28, class: "faint" }, times.node[at] ? `${number(times.node[at]!)} ${run.tick}` : node.within !== null ? `in ${nodes[node.within]?.operator ?? ""}` : "no commands"));
    one.addEventListener("click", () => pick(at));
    one.addEventListener("keydown", (event) => { if ((event as KeyboardEvent).key === "Enter") pick(at); });
    picture.append(one);
  }
  picture.setAttribute("width", String(width + 44));
  return picture;
}

/** A name that fits a box: its beginning and its end, which tells layers and what they give apart. */
function shortened(name: string): string { return name.length <= 28 ? name : `${name.slice(0, 16)}…${name.slice(-10)}`; }

/** Kernels of an operator, and the commands of each with their lines of the program. */
function kernelsOf(run: Run, times: GraphTimes, node: number, jump: Jump): HTMLElement {
  const graph = run.graph!, one = graph.nodes[node]!, home = times.node[node] ? node : one.within ?? node;
  const own = graph.kernels.map((kernel, at) => ({ kernel, at })).filter(({ kernel }) => kernel.node === home);
  const lineOf = (name: string) => run.name_lines[run.names.indexOf(name)] ?? null;
  return el("div", {}, el("h2", {}, `${one.operator} ${one.results.join(", ")}: ${number(times.node[node]!)} ${run.tick} of commands`),
    home === node ? null : el("p", {}, `It is a part of the kernels of ${graph.nodes[home]!.operator} ${graph.nodes[home]!.results.join(", ")}.`),
    own.length ? null : el("p", {}, "No kernel: it moves nothing, or was computed when the graph was compiled."),
    ...own.map(({ kernel, at }) => el("article", { class: "kernel", "data-kernel": at }, el("h3", {}, kernel.text), el("p", {}, `${number(times.kernel[at]!)} ${run.tick}`),
      ...times.rows[at]!.map((row) => {
        const line = lineOf(row.name);
        return el("p", {}, el("button", { class: "command", click: () => jump.timeline(row.first, row.last, row.name) }, row.name),
          ` on ${row.where}, ${number(row.count)} ${row.count === 1 ? "run" : "runs"}, ${number(row.busy)} ${run.tick} `,
          line === null ? null : el("button", { class: "line", click: () => jump.program(line) }, `program line ${line}`));
      }))));
}

/** Graphs up to so many operators are drawn with those that are parts of others' kernels, unless something else is asked for. */
const MOST_WITH_PARTS = 60;

export function graphView(run: Run, link: { node: number | null; parts: number | null }, jump: Jump, go: (changed: { node?: number; parts?: number }) => void): HTMLElement {
  const graph = run.graph!, times = graphTimes(run), all = times.node.reduce((sum, busy) => sum + busy, 0) + times.none;
  const withParts = link.parts === null ? graph.nodes.length <= MOST_WITH_PARTS : link.parts > 0, shown = drawnNodes(run, withParts);
  const order = graph.nodes.map((_, at) => at).sort((a, b) => times.node[b]! - times.node[a]! || a - b), picked = link.node !== null && graph.nodes[link.node] ? link.node : null;
  const box = el("input", { type: "checkbox", checked: withParts, change: () => go({ parts: box.checked ? 1 : 0 }) });
  const listed = table(["operator", "gives", run.tick, "of all commands"], order.slice(0, 2000).map((at) => [graph.nodes[at]!.operator, graph.nodes[at]!.results.join(", "), times.node[at]!, percent(times.node[at]! / Math.max(1, all))]), (row) => go({ node: order[row]! }));
  const isDrawn = shown.nodes.length <= MOST_DRAWN && shown.nodes.length > 0;
  // An operator that is not drawn is marked where its kernels are.
  const marked = picked === null || shown.inputs.has(picked) ? picked : graph.nodes[picked]!.within, picture = isDrawn ? drawn(run, times, shown, marked, (node) => go({ node })) : null;
  // What was picked stays where it can be seen.
  queueMicrotask(() => picture?.querySelector(".picked")?.scrollIntoView({ block: "center", inline: "nearest" }));
  return el("section", {},
    el("p", {}, `${number(graph.nodes.length)} operators, ${number(graph.kernels.length)} kernels; busy ${run.tick} of all contexts and DMA queues, which work side by side.${times.none ? ` ${number(times.none)} are of no operator.` : ""}`),
    el("label", {}, box, " with operators that are parts of others"),
    el("div", { class: "graphs" },
      picture ? el("figure", { class: "graph" }, picture as unknown as HTMLElement) : el("p", {}, `${number(shown.nodes.length)} operators are listed and not drawn.`),
      el("div", { class: "details" }, picked !== null ? kernelsOf(run, times, picked, jump) : el("p", {}, "A click on an operator shows its kernels and commands."), listed)));
}
