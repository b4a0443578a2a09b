/**
 * The timeline on a canvas. Each lane is drawn pixel by pixel: what is wider than a pixel as itself, the rest as dark as the lane was
 * busy in that pixel, found by bisection in sums that were added up once. A frame costs lanes times pixels, however many commands there are.
 */

import { type Theme, colour, isLight, theme } from "./colours";
import { type Run, lowerBound, place, waitedFor } from "./data";
import { time } from "./dom";
import type { CriticalPath } from "./path";

const GUTTER = 190, ROW = 18, COUNTER_ROW = 34, HEAD = 24;

interface Row { kind: "lane" | "counter"; index: number; label: string; top: number; height: number }

export interface TimelineEvents { select(command: number | null): void; moved(from: number, to: number): void }

export class Timeline {
  readonly canvas: HTMLCanvasElement;
  from = 0;
  to: number;
  selected: number | null = null;
  path: CriticalPath | null = null;
  /** Number of the name that stands out; -1 for none. */
  found = -1;
  /** Milliseconds that the last frame took. */
  frame = 0;
  /** Pixels of the time axis, measured once a frame: asking the canvas costs more than drawing. */
  private plotWidth = 1;
  private rows: Row[] = [];
  private height = 0;
  private scroll = 0;
  private waiting = false;
  private drag: { x: number; y: number; from: number; to: number; scroll: number; moved: boolean } | null = null;

  constructor(private readonly run: Run, private readonly events: TimelineEvents) {
    this.to = Math.max(1, run.ticks);
    this.canvas = document.createElement("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-label", "timeline: w and s zoom, a and d move, arrows go from command to command");
    this.layOut();
    this.listen();
    new ResizeObserver(() => this.redraw()).observe(this.canvas);
  }

  private layOut(): void {
    let top = HEAD, before = -1, number = 0;
    this.run.lanes.forEach((lane, index) => {
      number = lane.track === before ? number + 1 : 0;
      before = lane.track;
      const path = this.run.tracks[lane.track]?.path ?? "";
      this.rows.push({ kind: "lane", index, label: number ? `${path} +${number}` : path, top, height: ROW });
      top += ROW;
    });
    this.run.counters.forEach((counter, index) => {
      if (!counter.at.length) return;
      this.rows.push({ kind: "counter", index, label: counter.path, top, height: COUNTER_ROW });
      top += COUNTER_ROW;
    });
    this.height = top + 8;
  }

  private x(tick: number): number { return GUTTER + ((tick - this.from) / (this.to - this.from)) * this.plotWidth; }
  private tick(x: number): number { return this.from + ((x - GUTTER) / this.plotWidth) * (this.to - this.from); }

  show(from: number, to: number): void {
    const least = 4, most = Math.max(1, this.run.ticks) * 1.02;
    const span = Math.min(most, Math.max(least, to - from));
    const start = Math.max(-0.01 * most, Math.min(from, most - span));
    [this.from, this.to] = [start, start + span];
    this.events.moved(this.from, this.to);
    this.redraw();
  }

  zoom(factor: number, at = (this.from + this.to) / 2): void {
    this.show(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }

  pan(part: number): void {
    const by = (this.to - this.from) * part;
    this.show(this.from + by, this.to + by);
  }

  select(command: number | null, reveal = false): void {
    this.selected = command;
    if (command !== null && reveal) {
      const [lane, index] = place(this.run, command), { start, end } = this.run.lanes[lane]!;
      if (start[index]! < this.from || end[index]! > this.to) {
        const span = Math.max(this.to - this.from, (end[index]! - start[index]!) * 4), middle = (start[index]! + end[index]!) / 2;
        this.show(middle - span / 2, middle + span / 2);
      }
      // Before the canvas is laid out there is no height to scroll in.
      requestAnimationFrame(() => this.scrollTo(lane));
    }
    this.events.select(command);
    this.redraw();
  }

  /** Scrolls as far as it takes to show a lane. */
  private scrollTo(lane: number): void {
    const row = this.rows.find((one) => one.kind === "lane" && one.index === lane), height = this.canvas.clientHeight;
    if (!row || (row.top - this.scroll >= HEAD && row.top + row.height - this.scroll <= height)) return;
    this.scroll = Math.max(0, Math.min(Math.max(0, this.height - height), row.top - height / 2));
    this.redraw();
  }

  fit(): void {
    if (this.selected === null) return this.show(0, this.run.ticks);
    const [lane, index] = place(this.run, this.selected), { start, end } = this.run.lanes[lane]!;
    const margin = Math.max(2, (end[index]! - start[index]!) * 0.5);
    this.show(start[index]! - margin, end[index]! + margin);
  }

  redraw(): void {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.draw(); });
  }

  /** The command at a place of the canvas. */
  at(x: number, y: number): number | null {
    const row = this.rows.find((one) => one.kind === "lane" && y >= one.top - this.scroll && y < one.top + one.height - this.scroll);
    if (!row || x < GUTTER || y < HEAD) return null;
    const lane = this.run.lanes[row.index]!, tick = this.tick(x), slack = (this.to - this.from) / this.plotWidth;
    const index = lowerBound(lane.start, tick + slack, true) - 1;
    return index >= 0 && lane.end[index]! + slack >= tick ? lane.first + index : null;
  }

  private listen(): void {
    const canvas = this.canvas;
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      if (event.ctrlKey || event.metaKey || this.height <= canvas.clientHeight) this.zoom(Math.exp(event.deltaY * 0.002), this.tick(event.offsetX));
      else if (event.shiftKey) this.pan(event.deltaY * 0.001);
      else { this.scroll = Math.max(0, Math.min(this.height - canvas.clientHeight, this.scroll + event.deltaY)); this.redraw(); }
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      this.drag = { x: event.offsetX, y: event.offsetY, from: this.from, to: this.to, scroll: this.scroll, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      const drag = this.drag;
      if (!drag) return;
      drag.moved ||= Math.hypot(event.offsetX - drag.x, event.offsetY - drag.y) > 3;
      if (!drag.moved) return;
      const by = ((drag.x - event.offsetX) / this.plotWidth) * (drag.to - drag.from);
      this.scroll = Math.max(0, Math.min(Math.max(0, this.height - canvas.clientHeight), drag.scroll + drag.y - event.offsetY));
      this.show(drag.from + by, drag.to + by);
    });
    canvas.addEventListener("pointerup", (event) => {
      if (this.drag && !this.drag.moved) this.select(this.at(event.offsetX, event.offsetY));
      this.drag = null;
    });
    canvas.addEventListener("dblclick", () => this.fit());
    canvas.addEventListener("keydown", (event) => { if (this.key(event.key)) event.preventDefault(); });
  }

  private key(key: string): boolean {
    if (key === "w" || key === "+") this.zoom(0.7);
    else if (key === "s" || key === "-") this.zoom(1 / 0.7);
    else if (key === "a") this.pan(-0.2);
    else if (key === "d") this.pan(0.2);
    else if (key === "f") this.fit();
    else if (key === "0") this.show(0, this.run.ticks);
    else if (key === "Escape") this.select(null);
    else if (key === "ArrowRight" || key === "ArrowLeft") this.step(key === "ArrowRight" ? 1 : -1);
    else if (key === "ArrowUp" || key === "ArrowDown") this.jumpLane(key === "ArrowDown" ? 1 : -1);
    else return false;
    return true;
  }

  private step(by: number): void {
    if (this.run.commands === 0) return;
    if (this.selected === null) return this.select(this.run.lanes[0]!.first, true);
    const [at, index] = place(this.run, this.selected), lane = this.run.lanes[at]!;
    const next = Math.max(0, Math.min(lane.start.length - 1, index + by));
    this.select(lane.first + next, true);
  }

  private jumpLane(by: number): void {
    if (this.selected === null) return this.step(1);
    const [at, index] = place(this.run, this.selected), start = this.run.lanes[at]!.start[index]!;
    const lane = this.run.lanes[at + by];
    if (lane && lane.start.length) this.select(lane.first + Math.max(0, lowerBound(lane.start, start, true) - 1), true);
  }

  draw(): void {
    const begun = performance.now();
    const { canvas } = this, ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    this.plotWidth = Math.max(1, width - GUTTER);
    const context = canvas.getContext("2d")!, shown = theme();
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = shown.paper;
    context.fillRect(0, 0, width, height);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.save();
    context.beginPath();
    context.rect(0, HEAD, width, height - HEAD);
    context.clip();
    this.rows.forEach((row, number) => {
      const top = row.top - this.scroll;
      if (top + row.height < HEAD || top > height) return;
      if (number % 2) { context.fillStyle = shown.line; context.globalAlpha = 0.35; context.fillRect(0, top, width, row.height); context.globalAlpha = 1; }
      if (row.kind === "lane") this.drawLane(context, row.index, top, width, shown);
      else this.drawCounter(context, row.index, top, width, shown.ink);
      context.fillStyle = shown.paper;
      context.fillRect(0, top, GUTTER - 2, row.height);
      context.fillStyle = shown.ink;
      context.fillText(fitted(context, row.label, GUTTER - 12), 6, top + row.height / 2);
    });
    if (this.selected !== null) this.drawFlows(context, shown.mark);
    context.restore();
    this.drawAxis(context, width, shown.ink, shown.line);
    this.frame = performance.now() - begun;
    canvas.dataset.frameMs = this.frame.toFixed(2);
  }

  private drawLane(context: CanvasRenderingContext2D, at: number, top: number, width: number, shown: Theme): void {
    const lane = this.run.lanes[at]!, { start, end, name, busy } = lane, count = start.length, dim = this.path !== null || this.found >= 0;
    let i = Math.max(0, lowerBound(start, this.from, true) - 1), block = { start: 0, end: 0, level: 0, shade: "" };
    const paint = () => {
      if (!block.level) return;
      context.globalAlpha = block.level / 8;
      context.fillStyle = block.shade;
      context.fillRect(block.start, top + 2, block.end - block.start, ROW - 4);
      block.level = 0;
    };
    if (i < count && end[i]! < this.from) i++;
    while (i < count) {
      const left = this.x(start[i]!), right = this.x(end[i]!);
      if (left > width) break;
      const column = Math.max(GUTTER, Math.floor(left));
      const strong = !dim || (this.path ? this.path.commands.has(lane.first + i) : name[i] === this.found);
      if (right - left >= 1) {
        paint();
        context.fillStyle = colour(name[i]!);
        context.globalAlpha = strong ? 1 : 0.2;
        const x = Math.max(GUTTER, left), wide = Math.min(width, right) - x;
        context.fillRect(x, top + 2, Math.max(1, wide - (wide > 3 ? 1 : 0)), ROW - 4);
        if (wide > 34) {
          context.fillStyle = isLight(name[i]!) ? "#000" : "#fff";
          context.fillText(fitted(context, this.run.names[name[i]!]!, wide - 6), x + 3, top + ROW / 2);
        }
        i++;
      } else {
        // All that start within this pixel are one column, as dark as the lane was busy in it; columns of one darkness are one block. Of
        // many commands none gives its colour.
        const next = Math.max(i + 1, lowerBound(start, this.tick(column + 1))), many = next - i > 3;
        const part = Math.min(1, ((busy[next]! - busy[i]!) / (this.to - this.from)) * this.plotWidth);
        const level = Math.max(1, Math.ceil(part * 8)) * (strong || (many && !dim) ? 1 : 0.2), shade = many ? shown.faint : colour(name[i]!);
        if (column === block.end && level === block.level && shade === block.shade) block.end++;
        else { paint(); block = { start: column, end: column + 1, level, shade }; }
        i = next;
      }
    }
    paint();
    context.globalAlpha = 1;
    if (this.selected !== null) this.outline(context, at, top);
  }

  private outline(context: CanvasRenderingContext2D, at: number, top: number): void {
    const [lane, index] = place(this.run, this.selected!);
    if (lane !== at) return;
    const { start, end } = this.run.lanes[lane]!, left = Math.max(GUTTER, this.x(start[index]!)), right = this.x(end[index]!);
    if (right < GUTTER) return;
    context.strokeStyle = theme().mark;
    context.lineWidth = 2;
    context.strokeRect(left, top + 1, Math.max(2, right - left), ROW - 2);
  }

  private drawCounter(context: CanvasRenderingContext2D, at: number, top: number, width: number, ink: string): void {
    const counter = this.run.counters[at]!, { at: ticks, value } = counter, bottom = top + COUNTER_ROW - 3;
    const y = (amount: number) => bottom - (amount / Math.max(1, counter.peak)) * (COUNTER_ROW - 8);
    context.fillStyle = colour(at);
    context.globalAlpha = 0.75;
    // One column a pixel: the largest value of those that hold in it is among its last and the one before it.
    let i = Math.max(0, lowerBound(ticks, this.from, true) - 1);
    for (let column = GUTTER; column < width && i < ticks.length; column++) {
      const until = this.tick(column + 1);
      if (ticks[i]! > until) continue;
      let most = value[i]!;
      const next = lowerBound(ticks, until);
      for (let j = Math.max(i + 1, next - 32); j < next; j++) most = Math.max(most, value[j]!);
      if (most > 0) context.fillRect(column, y(most), 1, bottom - y(most));
      if (next - 1 > i) i = next - 1;
    }
    context.globalAlpha = 1;
    context.fillStyle = ink;
    context.fillText(`${counter.peak.toLocaleString("en")} ${counter.unit}`, GUTTER + 4, top + 8);
  }

  private middle(command: number): { left: number; right: number; y: number } | null {
    const [lane, index] = place(this.run, command), row = this.rows.find((one) => one.kind === "lane" && one.index === lane);
    if (!row) return null;
    const { start, end } = this.run.lanes[lane]!;
    return { left: this.x(start[index]!), right: this.x(end[index]!), y: row.top - this.scroll + ROW / 2 };
  }

  private drawFlows(context: CanvasRenderingContext2D, ink: string): void {
    const to = this.middle(this.selected!);
    if (!to) return;
    context.strokeStyle = ink;
    context.fillStyle = ink;
    context.lineWidth = 1.5;
    for (const before of waitedFor(this.run, this.selected!)) {
      const from = this.middle(before);
      if (!from) continue;
      context.beginPath();
      context.moveTo(from.right, from.y);
      context.bezierCurveTo(from.right + 30, from.y, to.left - 30, to.y, to.left, to.y);
      context.stroke();
      context.beginPath();
      context.moveTo(to.left, to.y);
      context.lineTo(to.left - 7, to.y - 4);
      context.lineTo(to.left - 7, to.y + 4);
      context.fill();
    }
  }

  private drawAxis(context: CanvasRenderingContext2D, width: number, ink: string, line: string): void {
    const span = this.to - this.from, rough = span / Math.max(1, this.plotWidth / 110), power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough) ?? rough;
    context.fillStyle = ink;
    context.strokeStyle = line;
    for (let at = Math.ceil(this.from / step) * step; at <= this.to; at += step) {
      const x = this.x(at);
      context.beginPath();
      context.moveTo(x, HEAD - 5);
      context.lineTo(x, HEAD);
      context.stroke();
      if (x < width - 60) context.fillText(this.run.tick === "cycles" ? Math.round(at).toLocaleString("en") : time(at, this.run.ticks_per_s), x + 3, HEAD / 2);
    }
    context.fillText(this.run.tick === "cycles" ? "cycle" : "", 6, HEAD / 2);
  }
}

/** A text cut to a width. */
function fitted(context: CanvasRenderingContext2D, text: string, width: number): string {
  if (context.measureText(text).width <= width) return text;
  const letters = Math.max(1, Math.floor(width / 6.2));
  return text.length > letters ? `${text.slice(0, Math.max(0, letters - 1))}…` : text;
}
