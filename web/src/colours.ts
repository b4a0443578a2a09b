/** Colours that people with any kind of sight tell apart (Okabe and Ito), lighter and darker for more names. */

const BASE: [number, number, number][] = [
  [0, 114, 178], [230, 159, 0], [0, 158, 115], [204, 121, 167], [86, 180, 233], [213, 94, 0], [153, 153, 153], [240, 228, 66],
];

const MADE: string[] = [];

export function colour(index: number): string { return (MADE[index % (3 * BASE.length)] ??= mixed(index)); }

function mixed(index: number): string {
  const [r, g, b] = BASE[index % BASE.length]!;
  const shade = [1, 0.72, 1.22][Math.floor(index / BASE.length) % 3]!;
  const part = (value: number) => Math.min(255, Math.round(value * shade));
  return `rgb(${part(r)},${part(g)},${part(b)})`;
}

/** Whether black is read better on it than white. */
export function isLight(index: number): boolean {
  const [r, g, b] = BASE[index % BASE.length]!;
  return 0.299 * r + 0.587 * g + 0.114 * b > 140;
}

export interface Theme { paper: string; ink: string; faint: string; line: string; mark: string }

/** The page's colours as the canvas needs them. */
export function theme(): Theme {
  const style = getComputedStyle(document.documentElement);
  const read = (name: string) => style.getPropertyValue(name).trim();
  return { paper: read("--paper"), ink: read("--ink"), faint: read("--faint"), line: read("--line"), mark: read("--mark") };
}
