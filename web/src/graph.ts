/** The model's graph: operators by depth with the time of their commands; from an operator to its kernels, their commands and lines. */

import { colour } from "./colours";
import type { Run } from "./data";
import { el, number, percent, svg, table } from "./dom";
import { type Jump, type KernelRow, kernels } from "./views";

/** Operators that are drawn; a table lists all. */
const MOST_DRAWN = 600;

/** Commands by kernel, and busy ticks by kernel and by operator. */
export interface GraphTimes { rows: KernelRow[][]; kernel: number[]; node: number[]; none: number }

export function graphTimes(run: Run): GraphTimes {
  const graph = run.graph!, of = new Map(run.names.map((name, at) => [name, graph.kernel_of_name[at] ?? null]));
  const found: GraphTimes = { rows: graph.kernels.map(() => []), kernel: graph.kernels.map(() => 0), node: graph.nodes.map(() => 0), none: 0 };
  for (const row of kernels(run)) {
    const kernel = of.get(row.name) ?? null, node = kernel === null ? null : graph.kernels[kernel]?.node ?? null;
    if (kernel === null || !graph.kernels[kernel]) { found.none += row.busy; continue; }
    found.rows[kernel]!.push(row);
    found.kernel[kernel]! += row.busy;
    if (node !== null) found.node[node]! += row.busy; else found.none += row.busy;
  }
  return found;
}

/** How many operators lie before each on the longest way to it. */
function depths(run: Run): number[] {
  const found: number[] = [];
  run.graph!.nodes.forEach((node, at) => { found[at] = node.inputs.reduce((most, input) => Math.max(most, (found[input] ?? -1) + 1), 0); });
  return found;
}

function drawn(run: Run, times: GraphTimes, picked: number | null, pick: (node: number) => void): SVGElement {
  const { nodes } = run.graph!, depth = depths(run), wide = 150, high = 34, used = new Map<number, number>();
  const places = nodes.map((_, at) => {
    const row = depth[at]!, column = used.get(row) ?? 0;
    used.set(row, column + 1);
    return { x: 8 + column * (wide + 14), y: 8 + row * (high + 22) };
  });
  const most = Math.max(1, ...times.node), width = Math.max(...places.map((place) => place.x)) + wide + 8, height = Math.max(...places.map((place) => place.y)) + high + 8;
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "graph", role: "img", "aria-label": "the model's graph" });
  nodes.forEach((node, at) => node.inputs.forEach((input) => picture.append(svg("line", { x1: places[input]!.x + wide / 2, y1: places[input]!.y + high, x2: places[at]!.x + wide / 2, y2: places[at]!.y, class: "edge" }))));
  nodes.forEach((node, at) => {
    const { x, y } = places[at]!, share = times.node[at]! / most;
    const one = svg("g", { class: at === picked ? "node pick picked" : "node pick", tabindex: 0, role: "button", "data-node": at },
      svg("title", {}, `${node.operator} ${node.results.join(", ")}: ${number(times.node[at]!)} ${run.tick}`),
      svg("rect", { x, y, width: wide, height: high, class: "paper" }), svg("rect", { x, y, width: wide * share, height: high, fill: colour(0), "fill-opacity": 0.45 }),
      svg("text", { x: x + 5, y: y + 14 }, `${node.operator} ${node.results[0] ?? ""}`.slice(0, 24)),
      svg("text", { x: x + 5, y: y + 28, class: "faint" }, times.node[at] ? `${number(times.node[at]!)} ${run.tick}` : node.within !== null ? `in ${nodes[node.within]?.operator ?? ""}` : "no commands"));
    one.addEventListener("click", () => pick(at));
    one.addEventListener("keydown", (event) => { if ((event as KeyboardEvent).key === "Enter") pick(at); });
    picture.append(one);
  });
  return picture;
}

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

export function graphView(run: Run, picked: number | null, jump: Jump, pick: (node: number) => void): HTMLElement {
  const graph = run.graph!, times = graphTimes(run), all = times.node.reduce((sum, busy) => sum + busy, 0) + times.none;
  const order = graph.nodes.map((_, at) => at).sort((a, b) => times.node[b]! - times.node[a]! || a - b);
  return el("section", {},
    el("p", {}, `${number(graph.nodes.length)} operators, ${number(graph.kernels.length)} kernels; busy ${run.tick} of all contexts and DMA queues, which work side by side.${times.none ? ` ${number(times.none)} are of no operator.` : ""}`),
    picked !== null && graph.nodes[picked] ? kernelsOf(run, times, picked, jump) : el("p", {}, "A click on an operator shows its kernels and commands."),
    graph.nodes.length <= MOST_DRAWN && graph.nodes.length > 0 ? el("figure", { class: "graph" }, drawn(run, times, picked, pick) as unknown as HTMLElement) : null,
    table(["operator", "gives", run.tick, "of all commands"], order.slice(0, 2000).map((at) => [graph.nodes[at]!.operator, graph.nodes[at]!.results.join(", "), times.node[at]!, percent(times.node[at]! / Math.max(1, all))]), (row) => pick(order[row]!)));
}
