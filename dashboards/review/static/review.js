// The review page: keys, labels, undo, the editor of golden rows. Everything it shows comes from
// the server as escaped HTML or goes in as text; after each step the changed parts are fetched anew.

const $ = (selector, root = document) => root.querySelector(selector);
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

// --- Who works, and telling them ---------------------------------------------------------

const who = $("#reviewer");

const loggedIn = who?.dataset.name; // else the name is typed in

if (who && !loggedIn) {
  who.form.addEventListener("submit", (event) => {
    event.preventDefault();
    who.blur();
  });
  who.addEventListener("change", () => {
    const name = encodeURIComponent(who.value.trim());
    document.cookie = `reviewer=${name}; path=/; max-age=31536000; samesite=lax`;
    step(refresh);
  });
}

function reviewer() {
  const name = loggedIn ?? who.value.trim();
  if (!name) {
    who.focus();
    throw new Error("Say who you are first: your name goes with what you decide.");
  }
  return name;
}

function tell(text) {
  $("#alarm").replaceChildren();
  $("#told").textContent = text;
  clearTimeout(tell.timer);
  tell.timer = setTimeout(() => ($("#told").textContent = ""), 4000);
}

function alarm(text, ...buttons) {
  $("#told").textContent = "";
  const close = button("Close", () => $("#alarm").replaceChildren());
  $("#alarm").replaceChildren(text, document.createElement("br"), ...buttons, close);
}

function button(text, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = text;
  made.addEventListener("click", act);
  return made;
}

// --- The server --------------------------------------------------------------------------

const LOGGED_OUT = "You are logged out. Log in again in another tab, then go on here: nothing is lost.";

const AWAY = "The agent does not answer. Try again in a moment.";

const reach = (path, how) =>
  fetch(path, how).catch(() => {
    throw new Error(AWAY);
  });

async function get(path, how) {
  const answer = await reach(path, how);
  const found = await answer.json().catch(() => ({})); // a proxy says what it says
  if (answer.ok) return found;
  if (answer.status === 401) throw new Error(LOGGED_OUT);
  const told = found.error ?? `The agent cannot do that now (${answer.status}). Try again in a moment.`;
  throw Object.assign(new Error(told), { status: answer.status });
}

const send = (path, body) =>
  get(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });

const shown = new Map(); // what the server last sent of each part

// Put in the parts of the page that changed; what is being typed, open or focused stays.
async function refresh() {
  if (!$("[data-part]")) return;
  const answer = await reach(location.href);
  if (answer.redirected) throw new Error(LOGGED_OUT);
  if (!answer.ok) throw new Error("This page could not be renewed. Reload it to see how things stand.");
  const text = await answer.text();
  const fresh = new DOMParser().parseFromString(text, "text/html");
  const focused = document.activeElement?.id;
  for (const old of $$("[data-part]")) {
    const now = fresh.getElementById(old.id);
    if (!now || now.outerHTML === shown.get(old.id)) continue;
    const open = $$("details[open]", old).map((one) => one.id);
    const typed = $$("textarea, select", old).filter((one) => one.value !== given(one));
    shown.set(old.id, now.outerHTML);
    old.replaceWith(now);
    for (const one of $$("details", now)) one.open = open.includes(one.id);
    for (const one of typed) document.getElementById(one.id).value = one.value;
  }
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
}

const given = (field) => field.defaultValue ?? ($("[selected]", field) ?? field.options[0]).value;

// One step at a time, so that two quick keys do not run into each other.
let busy = Promise.resolve();
function step(work) {
  busy = busy.then(work).catch((error) => {
    alarm(error.message);
    if (error.status === 409) return refresh();
  });
  return busy;
}

// --- Undo --------------------------------------------------------------------------------

// Steps of whoever works here. Of each is kept what takes it back, with what it left (`body.seen`)
// and what it came upon (`before`): a step of somebody else in between is not run over.
const done = {
  key: () => `done by ${loggedIn ?? who.value.trim()}`,
  all: () => JSON.parse(sessionStorage.getItem(done.key()) ?? "[]"),
  keep: (steps) => sessionStorage.setItem(done.key(), JSON.stringify(steps.slice(-100))),
  add: (step) => done.keep([...done.all(), step]),
  // What stood before a step that was taken back stands again, as `seen`.
  without: (last, seen) => {
    const steps = done.all().filter((one) => one.thing !== last.thing || one.body.seen !== last.body.seen);
    const before = steps.findLast((one) => one.thing === last.thing && one.body.seen === last.before);
    if (before) before.body.seen = seen;
    done.keep(steps);
  },
};

const stands = (label) => Boolean(label.verdict || label.cause || label.note);

const undo = () =>
  step(async () => {
    const steps = done.all();
    const last = steps.pop();
    if (!last) return tell("There is nothing to take back.");
    const now = await send(last.path, last.body).catch((error) => {
      // What cannot be taken back any more does not stand in the way of what came before it.
      if ([400, 403, 409].includes(error.status)) done.keep(steps);
      throw error;
    });
    done.without(last, now.version ?? (stands(last.body) ? now.labelled_at : null));
    if (golden && golden.dataset.id === now.candidate_id) golden.dataset.version = now.version;
    await refresh();
    tell(`Taken back: ${last.what}`);
  });

// --- Labels ------------------------------------------------------------------------------

const CHANGED =
  "The judge has listed other claims meanwhile, so what you said of this one does not count. Reload the page to see them.";

const isBlind = () => new URLSearchParams(location.search).get("blind") === "1";

// `decide` is asked when it is this step's turn, of the place as it is then.
function label(id, decide) {
  const labeller = reviewer();
  return step(async () => {
    const place = document.getElementById(id);
    const { trace, text = "", seen, probability } = place.dataset;
    const { given, was, what } = decide(place);
    const chosen = probability
      ? { drawn: true, probability: Number(probability), blind: true }
      : { drawn: false, blind: isBlind() };
    const item = { trace_id: trace, claim: text, labeller, ...chosen };
    const before = seen || null;
    const { labelled_at, unlisted } = await send("/api/labels", { ...item, ...given, seen: before });
    const left = stands(given) ? labelled_at : null;
    const thing = `${trace} ${text}`;
    done.add({ path: "/api/labels", body: { ...item, ...was, seen: left }, what, thing, before });
    await refresh();
    if (unlisted) throw new Error(CHANGED);
    tell(`Saved: ${what}`);
  });
}

const words = (name) => name.replace("_", " ").toLowerCase();

function labelClaim(claim, verdict) {
  if (!claim.dataset.trace) return tell("The text of this claim is not stored.");
  return label(claim.id, (place) => {
    const was = { verdict: place.dataset.verdict };
    const same = was.verdict === verdict;
    const what = `claim ${place.dataset.claim} ${same ? "without a verdict" : words(verdict)}`;
    return { given: { verdict: same ? "" : verdict }, was, what };
  });
}

function labelAnswer(place, verdict) {
  return label(place.id, (now) => {
    const { verdict: before, cause, note } = now.dataset;
    const given = {
      verdict: verdict === undefined ? before : verdict === before ? "" : verdict,
      cause: $("[data-cause]", now).value,
      note: $("[data-note]", now).value || null,
    };
    const said = given.verdict ? words(given.verdict) : "without a verdict";
    const what = verdict === undefined ? "cause and note" : `answer ${said}`;
    return { given, was: { verdict: before, cause, note: note || null }, what };
  });
}

// --- Evidence ----------------------------------------------------------------------------

function light(claim) {
  for (const one of $$("mark.lit")) one.classList.remove("lit");
  if (!claim) return;
  const marks = $$(`#${claim.dataset.turn}-documents mark`).filter((mark) =>
    mark.dataset.claims.split(" ").includes(claim.dataset.claim),
  );
  for (const mark of marks) {
    mark.classList.add("lit");
    mark.closest("details").open = true;
  }
  const first = marks[0];
  const column = first?.closest(".documents");
  if (column && column.scrollHeight > column.clientHeight) {
    column.scrollTop += first.getBoundingClientRect().top - column.getBoundingClientRect().top - 90;
  }
}

function reveal(id) {
  const found = document.getElementById(id);
  for (let one = found; one; one = one.parentElement) if (one.tagName === "DETAILS") one.open = true;
  return found;
}

document.addEventListener("mouseover", (event) => {
  const claim = event.target.closest(".claim");
  if (claim) light(claim);
});
document.addEventListener("focusin", (event) => light(event.target.closest(".claim")));

// --- The mouse ---------------------------------------------------------------------------

document.addEventListener("click", (event) => {
  const hit = event.target.closest("button, a");
  if (!hit) return;
  attempt(() => {
    const { label: verdict, answer: said, act, document: id, source } = hit.dataset;
    if (verdict) labelClaim(hit.closest(".claim"), verdict);
    else if (said) labelAnswer(hit.closest(".label"), said);
    else if (act === "note") labelAnswer(hit.closest(".label"));
    else if (act === "export") exportAccepted();
    else if (id) reveal(id);
    else if (source) addLine($("#sources"), source);
    else if ("quote" in hit.dataset) addLine($("#quotes"), selected());
    else if (hit.id === "help-open") $("#help").showModal();
  });
});

function attempt(act) {
  try {
    act();
  } catch (error) {
    alarm(error.message);
  }
}

const selected = () => {
  const text = getSelection().toString().trim();
  if (!text) throw new Error("Select some text of the document first.");
  return text.replace(/\s+/g, " ");
};

const exportAccepted = () => {
  const actor = reviewer();
  return step(async () => {
    const found = await send("/api/export", { actor });
    await refresh();
    const added = `${found.added.length} added to the golden file`;
    const same = Object.entries(found.already_there).filter(([id, other]) => id !== other);
    if (!same.length) return tell(`${added}.`);
    const others = same.map(([, other]) => other).join(", ");
    alarm(`${added}, ${same.length} not: it asks the same already in ${others}. Reject what is left accepted, or change its question.`);
  });
};

// A week that is chosen stands for both ends.
$("select[name=week]")?.addEventListener("change", ({ target }) => {
  for (const end of $$("input[type=hidden]", target.form)) end.disabled = target.value !== "";
});

// --- Keys --------------------------------------------------------------------------------

const steps = () => $$("[data-step]").filter((one) => one.checkVisibility());
const claimHere = () => document.activeElement?.closest(".claim");
const turnHere = () => document.activeElement?.closest(".turn") ?? $(".turn[open]");
const labelHere = () => turnHere() && $(".label", turnHere());

function walk(by) {
  const all = steps();
  const at = all.findIndex((one) => one === document.activeElement || one.contains(document.activeElement));
  const to = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by];
  to?.focus({ preventScroll: true });
  to?.scrollIntoView({ block: "nearest" });
}

const follow = (selector) => $(selector)?.click();
const onClaim = (verdict) => () => {
  const claim = claimHere();
  if (!claim) return tell("Go to a claim first, with j and k.");
  const said = verdict ?? claim.dataset.judge;
  if (!said) return tell("The judge's verdict is hidden.");
  labelClaim(claim, said);
};
const onAnswer = (verdict) => () => labelHere() && labelAnswer(labelHere(), verdict);

const keys = {
  j: () => walk(1),
  k: () => walk(-1),
  J: () => follow("[rel=next]"),
  K: () => follow("[rel=prev]"),
  y: onClaim(),
  s: onClaim("SUPPORTED"),
  c: onClaim("CONTRADICTED"),
  n: onClaim("NOT_FOUND"),
  a: onAnswer("correct"),
  i: onAnswer("incomplete"),
  w: onAnswer("wrong"),
  r: onAnswer("right_refusal"),
  R: onAnswer("wrong_refusal"),
  m: () => labelHere() && $("[data-cause]", labelHere()).focus(),
  g: () => {
    const promote = labelHere() && $("[data-promote]", labelHere());
    if (promote) promote.click();
    else tell("There is no question here to promote.");
  },
  u: undo,
  b: () => follow("#blind"),
  "/": () => ($("#search") ?? $("#find"))?.focus(),
  "?": () => $("#help").showModal(),
  Backspace: () => follow("#back"),
};

document.addEventListener("keydown", (event) => {
  const field = event.target.closest("input, textarea, select");
  if (field && event.key === "Escape") {
    (field.closest("[data-step]") ?? $("#main")).focus();
  } else if (field?.matches("[data-note]") && event.key === "Enter" && event.ctrlKey) {
    attempt(() => labelAnswer(field.closest(".label")));
  } else if (!field && !$("dialog[open]") && !event.ctrlKey && !event.metaKey && !event.altKey) {
    const act = keys[event.key];
    if (!act || (event.repeat && !"jk".includes(event.key))) return; // a key held down says it once
    event.preventDefault();
    attempt(act);
  }
});

// --- The editor of golden rows -----------------------------------------------------------

const golden = $("#golden");

function addLine(area, text) {
  const lines = linesOf(area);
  if (!lines.includes(text)) area.value = [...lines, text].join("\n");
  tell("Added.");
}

function linesOf(area) {
  return area.value.split("\n").map((line) => line.trim()).filter(Boolean);
}

const rowOf = (form) => ({
  question: form.elements.question.value,
  reference_answer: form.elements.reference_answer.value.trim() || null,
  gold_sources: linesOf(form.elements.gold_sources),
  quotes: linesOf(form.elements.quotes),
  segment: form.elements.segment.value.trim() || null,
  answerable: form.elements.answerable.checked,
});

async function decide(event) {
  const thing = `/api/candidates/${encodeURIComponent(golden.dataset.id)}`;
  const path = `${thing}/events`;
  const actor = reviewer();
  const before = Number(golden.dataset.version);
  const row = event === "undone" ? null : rowOf(golden);
  try {
    const { version } = await send(path, { event, actor, seen: before, trace_id: golden.dataset.trace, row });
    const own = done.all().findLast((one) => one.thing === thing && one.body.seen === before);
    const body = { event: "undone", actor, seen: version };
    if (event !== "undone") done.add({ path, body, what: `golden row ${event}`, thing, before });
    else if (own) done.without(own, version);
    sessionStorage.setItem("tell", event === "undone" ? "Taken back." : `Golden row ${event}.`);
    location.assign(event === "undone" ? location.href : $("#back").href);
  } catch (error) {
    if (error.status !== 409) throw error;
    const mine = button("Save mine over it", () =>
      attemptLater(async () => {
        golden.dataset.version = (await get(thing)).version;
        await decide(event);
      }),
    );
    alarm(error.message, button("Show theirs", () => location.reload()), mine);
  }
}

const attemptLater = (work) => work().catch((error) => alarm(error.message));

// Call `work` once nothing was typed for a moment; an answer that comes late is dropped.
function typing(field, work) {
  let timer;
  let turn = 0;
  const now = async () => {
    const mine = ++turn;
    const show = await work(field.value.trim()).catch((error) => () => alarm(error.message));
    if (mine === turn) show();
  };
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(now, 250);
  });
  return now;
}

function list(items) {
  const made = document.createElement("ul");
  for (const parts of items) {
    const line = document.createElement("li");
    line.dir = "auto";
    line.append(...parts);
    made.append(line);
  }
  return made;
}

if (golden) {
  golden.addEventListener("submit", (event) => {
    event.preventDefault();
    attemptLater(() => decide(event.submitter.value));
  });
  golden.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.ctrlKey) golden.requestSubmit($("[value=accepted]", golden));
    if (event.key === "Enter" && event.target.id === "find") event.preventDefault();
  });
  const near = typing($("#question"), async (question) => {
    const { similar } = await get(`/api/similar?${new URLSearchParams({ question })}`);
    const lines = similar.map((one) => [
      `${one.same ? "Asked already" : `${one.score} % alike`}: ${one.question} (${one.id})`,
    ]);
    return () => lines.length && $("#similar").replaceChildren(list(lines));
  });
  near();
  typing($("#find"), async (q) => {
    if (!q) return () => $("#found").replaceChildren();
    const { sources } = await get(`/api/sources?${new URLSearchParams({ q })}`);
    const lines = sources.map((one) => [
      button(`Add ${one.id}`, () => addLine($("#sources"), one.id)),
      ` ${one.title === one.id ? "" : one.title}`,
    ]);
    return () => $("#found").replaceChildren(lines.length ? list(lines) : "No page found.");
  });
}

// --- On arrival --------------------------------------------------------------------------

const waiting = sessionStorage.getItem("tell");
if (waiting) {
  sessionStorage.removeItem("tell");
  tell(waiting);
}
for (const one of $$("[data-part]")) shown.set(one.id, one.outerHTML);
if (location.hash) reveal(location.hash.slice(1));
