/** What the page shows, as the part of its address behind `#`: every view is a link. */

export interface Link { view: string; run: number; other: number; from: number | null; to: number | null; command: number | null; name: string; line: number | null; node: number | null; parts: number | null }

export function readLink(): Link {
  const fields = new URLSearchParams(location.hash.slice(1));
  const count = (name: string): number | null => {
    const text = fields.get(name);
    const value = text === null ? NaN : Number(text);
    return Number.isFinite(value) && value >= 0 ? value : null;
  };
  return {
    view: fields.get("view") ?? "timeline", run: count("run") ?? 0, other: count("other") ?? 1,
    from: count("from"), to: count("to"), command: count("command"), name: fields.get("name") ?? "", line: count("line"), node: count("node"), parts: count("parts"),
  };
}

export function writeLink(link: Link): void {
  const fields = new URLSearchParams();
  for (const [name, value] of Object.entries(link)) if (value !== null && value !== "") fields.set(name, String(value));
  history.replaceState(null, "", `#${fields}`);
}
