/** Elements from data. Texts are set as text, never parsed: names in traces cannot become markup. */

type Child = Node | string | number | null | undefined | false;

export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K, attributes: Record<string, string | number | boolean | ((event: never) => void)> = {}, ...children: Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value as EventListener);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false) made.setAttribute(name, String(value));
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== false).map((child) => (child instanceof Node ? child : String(child))));
  return made;
}

const SVG = "http://www.w3.org/2000/svg";

export function svg(tag: string, attributes: Record<string, string | number> = {}, ...children: (Node | string)[]): SVGElement {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.append(...children);
  return made;
}

export function table(head: string[], rows: Child[][], onRow?: (at: number) => void): HTMLTableElement {
  const body = el("tbody", {}, ...rows.map((row, at) => {
    const line = el("tr", onRow ? { tabindex: 0, class: "pick" } : {}, ...row.map((cell) => el("td", typeof cell === "number" ? { class: "number" } : {}, typeof cell === "number" ? number(cell) : cell)));
    if (onRow) {
      line.addEventListener("click", () => onRow(at));
      line.addEventListener("keydown", (event) => { if (event.key === "Enter") onRow(at); });
    }
    return line;
  }));
  return el("table", {}, el("thead", {}, el("tr", {}, ...head.map((title) => el("th", {}, title)))), body);
}

export function number(value: number): string {
  if (Number.isInteger(value)) return value.toLocaleString("en");
  return value.toLocaleString("en", { maximumSignificantDigits: 5 });
}

export function percent(part: number): string { return `${(100 * part).toFixed(1)} %`; }

/** A time of so many ticks, in the unit that suits it. */
export function time(ticks: number, ticks_per_s: number): string {
  const seconds = ticks / ticks_per_s;
  for (const [size, name] of [[1, "s"], [1e-3, "ms"], [1e-6, "us"], [1e-9, "ns"]] as const) {
    if (Math.abs(seconds) >= size) return `${number(Number((seconds / size).toPrecision(5)))} ${name}`;
  }
  return ticks === 0 ? "0" : `${number(Number((seconds / 1e-12).toPrecision(4)))} ps`;
}

export function bytes(count: number): string {
  for (const [size, name] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]] as const) {
    if (count >= size) return `${number(Number((count / size).toPrecision(4)))} ${name}`;
  }
  return `${number(count)} B`;
}
