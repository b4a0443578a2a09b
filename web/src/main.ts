/** The page: reads the runs that the binary put into it, and shows one view of them at a time. */

import "./page.css";
import { type Run, type RunData, decode, place, waitedFor } from "./data";
import { diffView } from "./diff";
import { el, number, percent, table, time } from "./dom";
import { type Link, readLink, writeLink } from "./link";
import { type ExplorationData, exploreView } from "./explore";
import { graphView } from "./graph";
import { criticalPath } from "./path";
import { Timeline } from "./timeline";
import { energyView, factsView, findingsView, kernelsView, memoryView, programView, rooflineView } from "./views";

const VIEWS = ["timeline", "kernels", "memory", "energy", "roofline", "findings", "program", "diff", "explore", "graph"] as const;

/** The key of a view: its place among all of them, and a letter for the one behind the ninth. */
function keyOf(view: (typeof VIEWS)[number]): string { return view === "graph" ? "g" : String(VIEWS.indexOf(view) + 1); }

class Page {
  private readonly link: Link = readLink();
  private readonly main = el("main", {});
  private readonly tabs = el("nav", { role: "tablist", "aria-label": "views" });
  private readonly chooser = el("span", { class: "chooser" });
  private timeline: Timeline | null = null;

  constructor(private readonly runs: Run[], private readonly explorations: ExplorationData[], private readonly root: HTMLElement) {
    root.replaceChildren(
      el("header", {}, el("h1", {}, "tilewright"), this.chooser, this.tabs, el("button", { class: "theme", title: "dark or light (t)", click: () => this.turnTheme() }, "◐"), el("button", { title: "keys (?)", click: () => this.help() }, "?")),
      this.main);
    addEventListener("hashchange", () => { Object.assign(this.link, readLink()); this.show(); });
    addEventListener("keydown", (event) => this.key(event));
    this.show();
  }

  private get run(): Run { return this.runs[Math.min(this.link.run, this.runs.length - 1)]!; }
  private get other(): Run { return this.runs[Math.min(this.link.other, this.runs.length - 1)]!; }

  private go(changed: Partial<Link>): void {
    Object.assign(this.link, changed);
    writeLink(this.link);
    this.show();
  }

  private show(): void {
    const views = this.views();
    if (!views.includes(this.link.view as never)) this.link.view = views[0]!;
    this.tabs.replaceChildren(...views.map((view) => el("button", {
      role: "tab", "aria-selected": String(view === this.link.view), title: `${view} (${keyOf(view)})`, "data-view": view, click: () => this.go({ view }),
    }, view === "findings" && this.run?.findings.length ? `findings ${this.run.findings.length}` : view)));
    this.choose();
    this.timeline = null;
    this.main.replaceChildren(this.body());
    (this.timeline as Timeline | null)?.canvas.focus({ preventScroll: true });
  }

  /** Views that there is something to show in. */
  private views(): (typeof VIEWS)[number][] {
    return VIEWS.filter((view) => view === "explore" ? this.explorations.length > 0 : view === "diff" ? this.runs.length > 1 : view === "graph" ? Boolean(this.run?.graph) : this.runs.length > 0);
  }

  private choose(): void {
    if (this.link.view === "explore") {
      const list = el("select", { "aria-label": "search", change: () => this.go({ run: Number(list.value) }) }, ...this.explorations.map((one, at) => el("option", { value: at, selected: at === this.link.run }, one.name)));
      return this.chooser.replaceChildren(list);
    }
    const pick = (which: "run" | "other", label: string) => {
      const list = el("select", { "aria-label": label, change: () => this.go({ [which]: Number(list.value), command: null, node: null, from: null, to: null }) },
        ...this.runs.map((run, at) => el("option", { value: at, selected: at === this.link[which] }, run.name)));
      return list;
    };
    const parts = this.runs.length > 1 ? [pick("run", "run"), ...(this.link.view === "diff" ? [el("span", {}, "→"), pick("other", "compared with")] : [])] : [el("b", {}, this.run.name)];
    this.chooser.replaceChildren(...parts);
  }

  private body(): HTMLElement {
    if (this.link.view === "explore") return exploreView(this.explorations[Math.min(this.link.run, this.explorations.length - 1)]!);
    const run = this.run, jump = {
      timeline: (from: number, to: number, name = "") => this.go({ view: "timeline", from, to, name, command: null }),
      program: (line: number) => this.go({ view: "program", line }),
    };
    switch (this.link.view) {
      case "kernels": return kernelsView(run, jump);
      case "graph": return graphView(run, this.link, jump, (changed) => this.go(changed));
      case "memory": return memoryView(run);
      case "energy": return energyView(run);
      case "roofline": return rooflineView(run);
      case "findings": return findingsView(run, jump);
      case "program": return programView(run, this.link.line);
      case "diff": return diffView(run, this.other);
      default: return this.timelineView(run);
    }
  }

  private timelineView(run: Run): HTMLElement {
    const panel = el("aside", { "aria-live": "polite" }), facts = factsView(run);
    const timeline = new Timeline(run, {
      select: (command) => { this.link.command = command; writeLink(this.link); panel.replaceChildren(command === null ? facts : this.command(run, command)); },
      moved: (from, to) => { this.link.from = Math.max(0, Math.round(from)); this.link.to = Math.round(to); writeLink(this.link); },
    });
    this.timeline = timeline;
    const search = el("input", { type: "search", placeholder: "find a command (/)", "aria-label": "find a command", list: "names", value: this.link.name, input: () => this.find(search.value) });
    const names = el("datalist", { id: "names" }, ...run.names.slice(0, 500).map((name) => el("option", { value: name })));
    panel.replaceChildren(facts);
    const linked = this.link.from !== null && this.link.to !== null && this.link.to > this.link.from;
    if (linked) timeline.show(this.link.from!, this.link.to!);
    if (this.link.command !== null && this.link.command < run.commands) timeline.select(this.link.command, !linked);
    if (this.link.name) timeline.found = run.names.indexOf(this.link.name);
    return el("section", { class: "timeline" },
      el("div", { class: "tools" }, search, names,
        el("button", { title: "w", click: () => timeline.zoom(0.7) }, "+"), el("button", { title: "s", click: () => timeline.zoom(1 / 0.7) }, "−"),
        el("button", { title: "0", click: () => timeline.show(0, run.ticks) }, "all"), el("button", { title: "c", "data-action": "path", click: () => this.togglePath() }, "critical path")),
      timeline.canvas, panel);
  }

  private find(name: string): void {
    if (!this.timeline) return;
    this.link.name = name;
    writeLink(this.link);
    const exact = this.run.names.indexOf(name);
    this.timeline.found = exact >= 0 ? exact : name ? this.run.names.findIndex((one) => one.includes(name)) : -1;
    this.timeline.redraw();
  }

  private togglePath(): void {
    const timeline = this.timeline;
    if (!timeline) return;
    timeline.path = timeline.path ? null : criticalPath(this.run);
    timeline.redraw();
    const panel = this.main.querySelector("aside");
    if (!panel || !timeline.path) return void panel?.replaceChildren(factsView(this.run));
    const rows = [...timeline.path.busy].sort((a, b) => b[1] - a[1]).slice(0, 40);
    panel.replaceChildren(el("h2", {}, `critical path: ${number(timeline.path.order.length)} commands`),
      table(["command", this.run.tick, "of the run"], [...rows.map(([name, ticks]) => [name, ticks, percent(ticks / Math.max(1, this.run.ticks))]), ["between commands", timeline.path.waiting, percent(timeline.path.waiting / Math.max(1, this.run.ticks))]]));
  }

  /** All about one command: when, what decided its length, what it waited for. */
  private command(run: Run, command: number): HTMLElement {
    const [at, index] = place(run, command), lane = run.lanes[at]!, start = lane.start[index]!, end = lane.end[index]!;
    const name = run.names[lane.name[index]!]!, line = run.name_lines[lane.name[index]!] ?? null, stage = run.stages[lane.stage[index]!], source = run.sources[lane.source[index]!];
    const before = waitedFor(run, command).map((one) => {
      const [beforeAt, beforeIndex] = place(run, one), other = run.lanes[beforeAt]!;
      return { one, end: other.end[beforeIndex]!, name: run.names[other.name[beforeIndex]!]!, where: run.tracks[other.track]!.path };
    }).sort((a, b) => b.end - a.end);
    const idle = index > 0 ? start - lane.end[index - 1]! : start;
    const reason = before.length && before[0]!.end > (index > 0 ? lane.end[index - 1]! : 0) ? `its lane waited for ${before[0]!.name}` : idle > 0 ? "its lane was free: it was not issued before" : "its lane was busy until then";
    const kernel = run.graph?.kernels[run.graph.kernelOf[command]! - 1], node = kernel?.node ?? null;
    const rows: [string, string][] = [["on", run.tracks[lane.track]!.path], ["from", `${number(start)} (${time(start, run.ticks_per_s)})`], ["to", number(end)], ["takes", `${number(end - start)} (${time(end - start, run.ticks_per_s)})`],
      ...(stage ? [["decided by", stage] as [string, string]] : []), ...(kernel ? [["kernel", kernel.text] as [string, string]] : []), ["free before", `${number(idle)} ${run.tick}; ${reason}`], ...(source ? [["source", source] as [string, string]] : []),
      ...(run.details[lane.detail[index]!] ?? []).map(([what, count]) => [what, number(count)] as [string, string])];
    return el("div", {}, el("h2", {}, name), el("dl", {}, ...rows.flatMap(([what, value]) => [el("dt", {}, what), el("dd", {}, value)])),
      line !== null && run.program !== null ? el("button", { click: () => this.go({ view: "program", line }) }, `program line ${line}`) : null,
      node !== null ? el("button", { "data-action": "operator", click: () => this.go({ view: "graph", node }) }, `operator ${run.graph!.nodes[node]!.operator}`) : null,
      before.length ? el("h3", {}, "waited for") : null,
      ...before.slice(0, 20).map((one) => el("button", { class: "row", click: () => this.timeline?.select(one.one, true) }, `${one.name} on ${one.where}, until ${number(one.end)}`)));
  }

  private key(event: KeyboardEvent): void {
    if (event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement || event.ctrlKey || event.metaKey || event.altKey) return;
    const view = VIEWS[Number(event.key) - 1];
    if (event.key === "?") this.help();
    else if (event.key === "g" && this.run?.graph) this.go({ view: "graph" });
    else if (event.key === "t") this.turnTheme();
    else if (event.key === "c") this.togglePath();
    else if (event.key === "/") { this.main.querySelector("input")?.focus(); event.preventDefault(); }
    else if (view && this.views().includes(view)) this.go({ view });
  }

  private turnTheme(): void {
    const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = dark ? "light" : "dark";
    this.timeline?.redraw();
  }

  private help(): void {
    const keys: [string, string][] = [["1 to 9", "views"], ...(this.run?.graph ? [["g", "the graph"] as [string, string]] : []), ["w s, ctrl + wheel", "zoom"], ["a d, drag", "move"], ["arrows", "from command to command, from lane to lane"], ["f, double click", "fit the selected command"], ["0", "the whole run"], ["c", "critical path"], ["/", "find"], ["t", "dark or light"], ["Escape", "nothing selected"]];
    const box = el("dialog", {}, el("h2", {}, "keys"), el("dl", {}, ...keys.flatMap(([key, what]) => [el("dt", {}, key), el("dd", {}, what)])), el("button", { click: () => box.remove() }, "close"));
    this.root.append(box);
    box.showModal();
    box.addEventListener("close", () => box.remove());
  }
}

function start(): void {
  const root = document.getElementById("app")!;
  try {
    const data = JSON.parse(document.getElementById("runs")?.textContent ?? "") as { runs: RunData[]; explorations: ExplorationData[] };
    if (!data.runs?.length && !data.explorations?.length) root.replaceChildren(el("p", { class: "empty" }, "This page holds no run."));
    else new Page(data.runs.map(decode), data.explorations, root);
  } catch (error) {
    root.replaceChildren(el("p", { class: "empty", role: "alert" }, `The data of this page cannot be read: ${error instanceof Error ? error.message : String(error)}`));
  }
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
}

start();
