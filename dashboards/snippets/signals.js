// Sends signals of users from a web page to groundwatch. No dependencies: copy it or import it.
//
//   import { signals } from "./signals.js";
//   const send = signals("https://groundwatch.example.com/v1/signals");
//   thumb.onclick = () => send({ kind: "thumbs_down", trace_id: answer.traceId });
//
// The agent must name the page in receive.cors_origins. Signals are gathered for a moment, kept
// while the agent is away, and handed to the browser when the page is left. `send` says whether a
// signal was taken: more than `perMinute` are not, and no more than `keep` wait.
export function signals(url, { perMinute = 30, waitMs = 1000, keep = 200 } = {}) {
  const BATCH = 50; // far below the 64 KB that browsers allow to leave with a page
  let queue = [];
  let recent = [];
  let timer = null;

  function later(ms) {
    if (timer === null) timer = setTimeout(flush, ms);
  }

  async function flush() {
    const batch = queue.splice(0, BATCH);
    let pause = waitMs;
    if (batch.length > 0) {
      try {
        // A text body without headers of ours needs no question to the server beforehand.
        const answer = await fetch(url, {
          method: "POST",
          body: JSON.stringify(batch),
          keepalive: true,
          credentials: "omit",
        });
        if (answer.status === 429 || answer.status === 503) {
          pause = 1000 * (Number(answer.headers.get("retry-after")) || 5);
          throw new Error("told to wait");
        }
      } catch {
        queue = [...batch, ...queue].slice(0, keep);
        pause = Math.max(pause, 5000);
      }
    }
    timer = null;
    if (queue.length > 0) later(pause);
  }

  function leave() {
    while (queue.length > 0) {
      const batch = queue.splice(0, BATCH);
      if (!navigator.sendBeacon(url, JSON.stringify(batch))) {
        queue = [...batch, ...queue];
        return;
      }
    }
  }

  addEventListener("pagehide", leave);
  addEventListener("visibilitychange", () => document.visibilityState === "hidden" && leave());

  return function send(signal) {
    const now = Date.now();
    recent = recent.filter((at) => now - at < 60_000);
    if (recent.length >= perMinute || queue.length >= keep) return false;
    recent.push(now);
    // With an id a signal that is sent twice counts once; a user's own replace each other anyway.
    const id = signal.user_id || signal.signal_id ? {} : { signal_id: crypto.randomUUID() };
    queue.push({ occurred_at: new Date(now).toISOString(), ...id, ...signal });
    later(waitMs);
    return true;
  };
}
