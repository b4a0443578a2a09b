// Writes the content policy of the page: the script and the style of dist/, by their hashes, and nothing else.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";

const hash = (name) => `'sha256-${createHash("sha256").update(readFileSync(new URL(`dist/${name}`, import.meta.url))).digest("base64")}'`;
const policy = [
  "default-src 'none'",
  `script-src ${hash("page.js")}`,
  `style-src ${hash("page.css")}`,
  "base-uri 'none'",
  "form-action 'none'",
].join("; ");
writeFileSync(new URL("dist/policy.txt", import.meta.url), `${policy}\n`);
