/** The critical path: from what ended last back to what it waited for, as far as it goes. */

import { type Run, place, waitedFor } from "./data";

export interface CriticalPath { commands: Set<number>; order: number[]; busy: Map<string, number>; waiting: number }

/** Tracks whose commands stand for others' stay out of it: engines of a context repeat its commands. */
function counts(run: Run, lane: number): boolean {
  const kinds = new Set(run.tracks.map((track) => track.kind));
  const kind = run.tracks[run.lanes[lane]!.track]!.kind;
  return kinds.has("context") ? kind === "context" || kind === "dma" : true;
}

export function criticalPath(run: Run): CriticalPath {
  let last = -1, end = -1;
  run.lanes.forEach((lane, at) => {
    const count = lane.end.length;
    if (count && counts(run, at) && lane.end[count - 1]! > end) {
      end = lane.end[count - 1]!;
      last = lane.first + count - 1;
    }
  });
  const found: CriticalPath = { commands: new Set(), order: [], busy: new Map(), waiting: 0 };
  let start = end;
  while (last >= 0 && !found.commands.has(last)) {
    const [at, index] = place(run, last), lane = run.lanes[at]!;
    found.commands.add(last);
    found.order.push(last);
    found.waiting += Math.max(0, start - lane.end[index]!);
    const name = run.names[lane.name[index]!]!;
    found.busy.set(name, (found.busy.get(name) ?? 0) + Math.min(start, lane.end[index]!) - lane.start[index]!);
    start = lane.start[index]!;
    let next = -1, latest = -1;
    for (const before of [...waitedFor(run, last), ...(index > 0 ? [last - 1] : [])]) {
      const [beforeAt, beforeIndex] = place(run, before), ended = run.lanes[beforeAt]!.end[beforeIndex]!;
      if (ended <= start && ended > latest) [next, latest] = [before, ended];
    }
    last = next;
  }
  found.waiting += Math.max(0, start);
  return found;
}
