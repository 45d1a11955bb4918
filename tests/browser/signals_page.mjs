// A web page without a browser: runs the snippet with stand-ins, and says as JSON what left it.
//   node signals_page.mjs SNIPPET SCENARIO
import { readFileSync } from "node:fs";

const [snippet, scenario] = process.argv.slice(2);
const { signals } = await import(
  "data:text/javascript;base64," + Buffer.from(readFileSync(snippet)).toString("base64")
);
const listeners = {};
const posts = [];
const beacons = [];
const statuses = [];
globalThis.addEventListener = (name, act) => (listeners[name] = act);
globalThis.document = { visibilityState: "visible" };
Object.defineProperty(globalThis, "navigator", {
  value: { sendBeacon: (url, body) => beacons.push({ url, body: JSON.parse(body) }) > 0 },
});
globalThis.fetch = async (url, init) => {
  const status = statuses.shift() ?? 200;
  posts.push({ url, ...init, body: JSON.parse(init.body), status });
  if (status === 0) throw new TypeError("network");
  return new Response("{}", { status, headers: { "retry-after": "0.02" } });
};
// The snippet waits seconds before it tries again; here they pass quickly.
const slow = globalThis.setTimeout;
const waits = [];
globalThis.setTimeout = (act, ms) => (waits.push(ms), slow(act, Math.min(ms, 20)));
const sleep = (ms) => new Promise((done) => slow(done, ms));

const scenarios = {
  async gathers(send) {
    send({ kind: "thumbs_up", message_id: "m1" });
    send({ kind: "copy", message_id: "m2" });
    await sleep(100);
  },
  async leaves(send) {
    send({ kind: "thumbs_down", message_id: "m1" });
    listeners.pagehide();
    await sleep(100);
  },
  async hides(send) {
    send({ kind: "thumbs_down", message_id: "m1" });
    document.visibilityState = "hidden";
    listeners.visibilitychange();
    await sleep(100);
  },
  async waits(send) {
    statuses.push(429, 0, 503, 200);
    send({ kind: "thumbs_down", message_id: "m1" });
    await sleep(300);
  },
  async gives_up(send) {
    statuses.push(400);
    send({ kind: "nonsense", message_id: "m1" });
    await sleep(150);
  },
  async floods(send) {
    const taken = Array.from({ length: 100 }, () => send({ kind: "copy", message_id: "m1" }));
    await sleep(100);
    return taken.filter(Boolean).length;
  },
  async names(send) {
    send({ kind: "rating", value: 4, message_id: "m1", user_id: "u1" });
    send({ kind: "rating", value: 4, message_id: "m1", signal_id: "mine" });
    await sleep(100);
  },
};
const result = await scenarios[scenario](signals("https://agent.example/v1/signals"));
process.stdout.write(JSON.stringify({ posts, beacons, waits, result: result ?? null }));
