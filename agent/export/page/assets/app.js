// The page: what it knows, what the reader chose, and when it draws.

import { card, domId, shell } from "./card.js";
import { h, patch } from "./dom.js";
import { clock, duration, isKnown, visible } from "./format.js";
import { filterWords, keyOf, level, matches, worstFirst } from "./order.js";
import { comparison, historyWanted, hours, snapshot, Unanswered, waitSeconds } from "./poll.js";
import words from "./words.js";

const ORDER_HELD_SECONDS = 4; // rows don't move under a hand that is about to click
const STALE_SECONDS = 10; // an answer so late makes the figures old ones
const MOST_OPENING_ONE = 5; // queries
const HOURS_EVERY_SECONDS = 30; // a piece of them is two minutes
const TYPING_SECONDS = 1; // until what a filter shows is told: nobody wants that letter by letter
const COMPARED_EVERY_SECONDS = 10; // a batch more or less changes little of a hundred

const CANNOT_BE_SHOWN = "This page cannot show what the agent answered. Reload it.";

const state = {
  answer: null, // the agent's last answer
  answerAt: 0, // when it came, on this machine's own steady clock, in seconds
  answerDate: 0, // and in epoch seconds of this machine
  wait: 0, // seconds after it until the next is asked for
  fault: null, // what kept the figures from being drawn
  entries: [], // worst first
  red: null, // keys of those that were, when last drawn
  order: [], // keys, as drawn
  failures: 0,
  failedSince: null, // epoch seconds of this machine
  problem: "",
  retryAt: 0,
  open: new Set(),
  touched: false, // whether the reader opened or closed anything
  onlyLevel: null,
  filter: "",
  visible: new Set(),
  heights: new Map(), // pixels of opened rows that are out of sight
  hover: null, // {key, time}
  busyUntil: 0,
  drawSeconds: 0,
  zoom: null, // seconds that the plots show; null: the last minutes
  hours: new Map(), // key → {at, pieces}, of open queries while zoomed
  compared: new Map(), // key → {at, comparison}, of open queries in dry-run
};

const head = document.getElementById("head");
const main = document.getElementById("main");
const spoken = document.getElementById("spoken");
const steady = () => performance.now() / 1000;

// The agent's clock now. It stands still with the figures when the connection is lost.
function agentNow() {
  if (state.answer === null) return Date.now() / 1000;
  const age = state.failures > 0 ? 0 : Math.min(steady() - state.answerAt, STALE_SECONDS);
  return state.answer.time + age;
}

// Seconds since the last answer. While a machine sleeps its steady clock may stand still, and its
// other one may be set back.
function answerAge() {
  return Math.max(steady() - state.answerAt, Date.now() / 1000 - state.answerDate);
}

// Whether the answer after it is overdue, as when nobody looked for hours, or the next one hangs.
function overdue() {
  return state.answer !== null && answerAge() > state.wait + STALE_SECONDS;
}

// A view as of now: a running batch grows older between two answers.
function aged(view) {
  if (!view.up || !isKnown(view.running_seconds)) return view;
  return { ...view, running_seconds: view.running_seconds + Math.max(0, agentNow() - state.answer.time) };
}

// ---- asking ------------------------------------------------------------------------------------

let timer = null;
let asking = false;

async function ask() {
  clearTimeout(timer);
  if (asking || document.hidden) return;
  asking = true;
  const began = steady();
  let again = false;
  try {
    const known = state.answer?.queries.length ?? null;
    const wanted = [...state.open].filter((key) => state.visible.has(key));
    const { answer, details } = await snapshot(known, wanted);
    take(answer, details);
    await Promise.all([askHours(wanted), askComparisons(wanted)]);
    again = historyWanted(answer.queries.length) > historyWanted(known);
    if (state.failedSince !== null) say("The agent answers again.");
    state.failures = 0;
    state.failedSince = null;
  } catch (error) {
    state.failures += 1;
    state.problem = error instanceof Unanswered ? error.message : "what answered does not fit this page: reload it";
    if (state.failedSince === null) {
      state.failedSince = Date.now() / 1000;
      say(`Agent not reachable: ${state.problem}.`);
    }
  }
  asking = false;
  const wait = again ? 0 : waitSeconds(state.failures, steady() - began);
  state.retryAt = steady() + wait;
  if (state.failures === 0) state.wait = wait;
  timer = setTimeout(ask, wait * 1000); // before anything is drawn: whatever that meets, the asking goes on
  draw();
}

async function askHours(wanted) {
  if (state.zoom === null) {
    state.hours.clear();
    return;
  }
  await Promise.all(stale(wanted, state.hours, HOURS_EVERY_SECONDS).map(async (key) => state.hours.set(key, { at: steady(), pieces: await hours(key) })));
}

async function askComparisons(wanted) {
  const dry = wanted.filter((key) => state.entries.find((entry) => entry.key === key)?.view.mode === "dry-run");
  await Promise.all(stale(dry, state.compared, COMPARED_EVERY_SECONDS).map(async (key) => state.compared.set(key, { at: steady(), comparison: await comparison(key) })));
}

// Those of which nothing is known, or nothing so new.
function stale(keys, known, seconds) {
  return keys.filter((key) => !(steady() - (known.get(key)?.at ?? -Infinity) < seconds));
}

function take(answer, details) {
  for (const view of answer.queries) {
    const full = details.get(keyOf(view));
    if (full?.history) view.history = full.history;
  }
  const first = state.answer === null;
  state.entries = worstFirst(answer.queries);
  state.answer = answer;
  state.answerAt = steady();
  state.answerDate = Date.now() / 1000;
  if (first) openAtFirst();
}

// At first: what the address names; all where there are few, else the worst; none of many, whose
// list is worth more than one of them.
function openAtFirst() {
  const named = keyOfHash();
  if (named !== null) {
    openNamed(named);
    return;
  }
  const number = state.entries.length;
  const opened = number <= 2 ? number : number <= MOST_OPENING_ONE ? 1 : 0;
  for (const entry of state.entries.slice(0, opened)) state.open.add(entry.key);
}

// ---- drawing -----------------------------------------------------------------------------------

function draw() {
  const began = performance.now();
  const focused = document.activeElement?.id;
  drawFigures();
  patch(head, header());
  if (focused && document.activeElement?.id !== focused) document.getElementById(focused)?.focus({ preventScroll: true });
  const red = state.entries.filter((entry) => level(entry.level).tone === "high");
  sayTurnedRed(red);
  const hung = red.length;
  const old = overdue();
  document.title = state.failedSince !== null ? "Weir: agent not reachable" : state.fault !== null ? "Weir: cannot be shown" : old ? "Weir: old figures" : hung > 0 ? `(${hung}) Weir` : "Weir";
  document.documentElement.dataset.stale = state.failedSince !== null || state.fault !== null || old ? "yes" : "no";
  state.drawSeconds = (performance.now() - began) / 1000;
  document.documentElement.dataset.drawMilliseconds = String(Math.round(state.drawSeconds * 1000));
}

// What cannot be drawn, as after the agent became another version, is said: figures that stand still
// must not pass for live ones.
function drawFigures() {
  const before = state.fault;
  try {
    patch(main, content());
    watch();
    state.fault = null;
  } catch (error) {
    state.fault = error;
  }
  if (before === null && state.fault !== null) {
    console.error(state.fault);
    say(CANNOT_BE_SHOWN);
  }
  if (before !== null && state.fault === null) say("The figures are shown again.");
}

function header() {
  const { answer } = state;
  const counts = new Map();
  for (const { level: name } of state.entries) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [
    h(
      "div",
      { class: "bar", key: "bar" },
      h("div", { class: "brand" }, h("span", { class: "mark", "aria-hidden": "true" }), h("h1", null, "Weir")),
      answer !== null && h("span", { class: "badge agent-mode", title: "what the agent may do with the queries it watches" }, `mode ${modeText(answer)}`),
      answer !== null && h("span", { class: "queries-count" }, `${answer.queries.length} ${answer.queries.length === 1 ? "query" : "queries"}`),
      answer !== null && labels(answer.agent?.labels),
      h("span", { class: "spring" }),
      state.entries.length > 0 &&
        h(
          "label",
          { class: "filter" },
          h("span", { class: "unseen" }, "Filter queries"),
          h("input", { type: "search", id: "filter", placeholder: "Filter (press /)", autocomplete: "off", spellcheck: "false", value: state.filter }),
        ),
      connection(),
    ),
    // No live region, as it changes every second: what it says first has been said.
    state.failedSince !== null && h("div", { class: "lost", key: "lost" }, ...lost()),
    state.failedSince === null && state.fault !== null && h("div", { class: "lost", key: "fault" }, h("span", null, h("b", null, CANNOT_BE_SHOWN), " What stands below may be old.")),
    state.entries.length > 1 &&
      h(
        "div",
        { class: "levels", role: "group", "aria-label": "Show only", key: "levels" },
        words.levels
          .filter(({ name }) => counts.has(name))
          .map(({ name, label, tone, symbol, means }) =>
            h(
              "button",
              { type: "button", class: "level", id: `level-${name}`, "data-tone": tone, "data-only": name, "aria-pressed": state.onlyLevel === name ? "true" : "false", title: means, key: name },
              h("span", { class: "symbol", "aria-hidden": "true" }, symbol),
              h("b", null, String(counts.get(name))),
              ` ${label}`,
            ),
          ),
        state.open.size > 0 && h("button", { type: "button", class: "quiet", "data-action": "close-all", id: "close-all", key: "close" }, "Close all"),
      ),
  ];
}

// One word where all queries agree, else how many are in which mode.
function modeText(answer) {
  const counts = new Map();
  for (const { mode } of answer.queries) counts.set(mode, (counts.get(mode) ?? 0) + 1);
  const name = (mode) => (mode === "dry-run" ? "dry run" : visible(mode, 20));
  if (counts.size === 0) return name(answer.agent?.mode ?? "on"); // what new queries start with
  if (counts.size === 1) return name([...counts.keys()][0]);
  return [...counts].map(([mode, number]) => `${name(mode)} ${number}`).join(", ");
}

function labels(given) {
  const list = Object.entries(given ?? {}).slice(0, 5);
  if (list.length === 0) return null;
  return h("span", { class: "labels" }, list.map(([name, value]) => `${visible(name, 40)}=${visible(value, 60)}`).join(" "));
}

function connection() {
  if (state.answer === null && state.failedSince === null) return h("span", { class: "connection", "data-tone": "idle" }, "connecting");
  if (state.failedSince !== null) return h("span", { class: "connection", "data-tone": "high" }, "not reachable");
  if (state.fault !== null) return h("span", { class: "connection", "data-tone": "high" }, "cannot be shown");
  if (overdue()) return h("span", { class: "connection", "data-tone": "low", title: "the agent has not answered since" }, `figures ${duration(answerAge())} old`);
  const version = state.answer.agent?.version;
  return h("span", { class: "connection", "data-tone": "ok", title: version ? `agent ${visible(version, 30)}` : null }, "live");
}

function lost() {
  const since = state.failedSince;
  const next = Math.max(0, state.retryAt - steady());
  const age = state.answer === null ? "" : ` The figures below are ${duration(answerAge())} old.`;
  return [
    h("span", null, h("b", null, `Agent not reachable since ${clock(since)}`), ` (${duration(Date.now() / 1000 - since)}): ${state.problem}.${age}`),
    h("button", { type: "button", class: "quiet", "data-action": "retry", id: "retry" }, asking ? "Trying" : `Try now (${Math.ceil(next)} s)`),
  ];
}

function content() {
  if (state.answer === null) {
    return h("p", { class: "waiting", key: "waiting" }, state.failedSince === null ? "Asking the agent." : "No figures yet: the agent has not answered since this page was opened.");
  }
  if (state.entries.length === 0) return empty();
  const chosen = filterWords(state.filter);
  const shown = ordered(state.entries.filter((entry) => (state.onlyLevel === null || entry.level === state.onlyLevel) && matches(entry, chosen)));
  const now = agentNow();
  return [
    h("div", { class: "heads", "aria-hidden": "true", key: "heads" }, ["", "Query", "Batches, last minutes", "Backlog", "In → out", "Batch / target", "Limit", ""].map((text, index) => h("span", { key: index }, text))),
    shown.length === 0 && h("p", { class: "waiting", key: "none" }, "No query matches. ", h("button", { type: "button", class: "quiet", "data-action": "show-all", id: "show-all" }, "Show all")),
    h(
      "ol",
      { class: "queries", key: "queries" },
      shown.map((entry, index) => {
        const open = state.open.has(entry.key);
        const seen = state.visible.has(entry.key) || (state.visible.size === 0 && index < 30);
        if (!seen && !(open && shown.length <= 12)) return shell(entry, open ? state.heights.get(entry.key) : null);
        const fresh = { ...entry, view: aged(entry.view) };
        return card(fresh, { now, open, hover: state.hover?.key === entry.key ? state.hover.time : null, zoom: state.zoom, pieces: state.hours.get(entry.key)?.pieces ?? null, compared: state.compared.get(entry.key)?.comparison ?? null });
      }),
    ),
  ];
}

// While a hand is at the list, rows keep their places; new ones come at the end.
function ordered(entries) {
  if (steady() < state.busyUntil && state.order.length > 0) {
    const place = new Map(state.order.map((key, index) => [key, index]));
    const at = (entry) => place.get(entry.key) ?? Infinity;
    return [...entries].sort((one, other) => {
      const [first, second] = [at(one), at(other)];
      return first === second ? 0 : first - second;
    });
  }
  state.order = state.entries.map((entry) => entry.key);
  return entries;
}

function empty() {
  const conf = `spark-submit --jars "$(weir plugin)" \\\n  --conf spark.extraListeners=weir.WeirPlugin JOB …`;
  const code = `from spark_listener import attach\nattach(spark)`;
  return h(
    "section",
    { class: "empty", key: "empty" },
    h("h2", null, "No query yet"),
    h("p", null, "A job on the agent's machine, as the same user, in any language: give it two settings, and its streaming queries appear here within seconds."),
    h("pre", { tabindex: "0", role: "group", "aria-label": "How to submit a job" }, h("code", null, conf)),
    h("p", null, "A PySpark job anywhere: one line."),
    h("pre", { tabindex: "0", role: "group", "aria-label": "Code to add to a job" }, h("code", null, code)),
    h("p", null, "It finds this agent by ", h("code", null, `WEIR_AGENT_URL=${location.origin}`), " in its environment, or by ", h("code", null, "spark.weir.agent.url"), " in its Spark configuration."),
    h("p", null, "A job that nobody may touch: ", h("code", null, "weir agent --event-log-dirs DIR"), " follows its Spark event log."),
  );
}

// What has the focus is never below the head, however many lines that takes.
new ResizeObserver(() => document.documentElement.style.setProperty("--head-height", `${head.offsetHeight}px`)).observe(head);

// Which rows are near the screen: only those are drawn.
const observer = new IntersectionObserver(
  (records) => {
    let changed = false;
    for (const { target, isIntersecting, boundingClientRect } of records) {
      const { key } = target.dataset;
      // What is below stays where it is when this one is no longer drawn.
      if (target.dataset.open === "yes") state.heights.set(key, Math.round(boundingClientRect.height));
      if (isIntersecting !== state.visible.has(key)) changed = true;
      if (isIntersecting) state.visible.add(key);
      else state.visible.delete(key);
    }
    if (changed) drawSoon();
  },
  { rootMargin: "300px 0px" },
);
const watched = new Set();

// On paper nothing is out of sight.
addEventListener("beforeprint", () => {
  for (const { key } of state.entries) state.visible.add(key);
  draw();
});

// Each that is looked at anew is told at once whether it is in sight.
addEventListener("afterprint", () => {
  for (const node of watched) {
    observer.unobserve(node);
    observer.observe(node);
  }
});

function watch() {
  const list = main.querySelector(".queries");
  for (const node of watched) {
    if (!node.isConnected) {
      observer.unobserve(node);
      watched.delete(node);
      state.visible.delete(node.dataset.key);
      state.heights.delete(node.dataset.key);
    }
  }
  if (list === null) return;
  for (const node of list.children) {
    if (!watched.has(node)) {
      watched.add(node);
      observer.observe(node);
    }
  }
}

let frame = null;
function drawSoon() {
  frame ??= requestAnimationFrame(() => {
    frame = null;
    draw();
  });
}

function say(text) {
  spoken.textContent = text;
}

// A filter may hide it, and who does not see the colours hears of it here alone.
function sayTurnedRed(red) {
  const turned = red.filter((entry) => state.red !== null && !state.red.has(entry.key));
  if (state.answer !== null) state.red = new Set(red.map((entry) => entry.key));
  if (turned.length > 0) say(`${visible(turned[0].view.query, 60)}: ${level(turned[0].level).means}.${turned.length > 1 ? ` And ${turned.length - 1} more.` : ""}`);
}

let typed = null;

function sayShown() {
  clearTimeout(typed);
  typed = setTimeout(() => say(`${main.querySelectorAll(".query").length} of ${state.entries.length} queries shown.`), 1000 * TYPING_SECONDS);
}

// ---- the reader's hand --------------------------------------------------------------------------

function toggle(key) {
  if (state.open.has(key)) state.open.delete(key);
  else state.open.add(key);
  const hash = state.open.has(key) ? `#${key}` : " ";
  history.replaceState(null, "", hash === " " ? location.pathname + location.search : hash);
  draw();
  if (state.open.has(key) && (state.answer?.queries.length ?? 0) > 40) ask();
}

function keyOfHash() {
  return location.hash.length > 1 ? location.hash.slice(1) : null;
}

// The clipboard is there on https and on this machine only; else the command is marked, to be copied.
async function copy(button) {
  const code = button.parentElement.querySelector("code");
  try {
    await navigator.clipboard.writeText(button.dataset.text);
    say("Copied.");
    button.dataset.done = "yes";
    setTimeout(() => delete button.dataset.done, 2000);
  } catch {
    getSelection().selectAllChildren(code);
    say("The command is marked: copy it.");
  }
}

// Whether a click only ends the marking of text in a row. A key's click has no detail.
function selecting(event, row) {
  const selection = getSelection();
  return event.detail > 0 && String(selection) !== "" && row.contains(selection.anchorNode);
}

function openNamed(key) {
  const entry = state.entries.find((one) => one.key === key);
  if (entry === undefined) {
    say("The query this address names is not known.");
    return;
  }
  state.filter = "";
  state.onlyLevel = null;
  state.open.add(key);
  state.visible.add(key);
  draw();
  document.getElementById(domId(key))?.scrollIntoView({ block: "start" });
  document.getElementById(`${domId(key)}-toggle`)?.focus({ preventScroll: true });
}

document.addEventListener("click", (event) => {
  const only = event.target.closest("[data-only]");
  if (only !== null) {
    state.onlyLevel = state.onlyLevel === only.dataset.only ? null : only.dataset.only;
    draw();
    sayShown();
    return;
  }
  const zoomed = event.target.closest("[data-zoom]");
  if (zoomed !== null) {
    state.zoom = zoomed.dataset.zoom === "" ? null : Number(zoomed.dataset.zoom);
    draw();
    ask();
    return;
  }
  const action = event.target.closest("[data-action]");
  if (action === null) return;
  const name = action.dataset.action;
  if (name === "retry") ask();
  if (name === "copy") copy(action);
  if (name === "show-all") {
    state.filter = "";
    state.onlyLevel = null;
    draw();
    sayShown();
  }
  if (name === "close-all") {
    state.open.clear();
    history.replaceState(null, "", location.pathname + location.search);
    draw();
  }
  if (name === "toggle" && !selecting(event, action)) toggle(action.closest("[data-key]").dataset.key);
});

document.addEventListener("input", (event) => {
  if (event.target.id !== "filter") return;
  state.filter = event.target.value;
  drawSoon();
  sayShown();
});

document.addEventListener("keydown", (event) => {
  const typing = event.target.id === "filter";
  if (event.key === "Escape" && typing) {
    state.filter = "";
    event.target.blur();
    draw();
    sayShown();
    return;
  }
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") {
    event.preventDefault();
    document.getElementById("filter")?.focus();
  } else if (event.key === "j" || event.key === "k") {
    const toggles = [...main.querySelectorAll(".toggle")];
    const at = toggles.indexOf(document.activeElement);
    const next = event.key === "j" ? Math.min(at + 1, toggles.length - 1) : Math.max(at - 1, 0);
    toggles[next]?.focus();
  }
});

for (const kind of ["pointermove", "pointerdown", "keydown"]) {
  main.addEventListener(kind, () => {
    state.busyUntil = steady() + ORDER_HELD_SECONDS;
  });
}

main.addEventListener("pointermove", (event) => {
  const area = event.target.closest(".plot-area");
  if (area === null) {
    if (state.hover !== null) {
      state.hover = null;
      drawSoon();
    }
    return;
  }
  const svg = area.querySelector("svg");
  const box = svg.getBoundingClientRect();
  const share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
  const [from, to] = [Number(svg.dataset.from), Number(svg.dataset.to)];
  state.hover = { key: area.closest("[data-key]").dataset.key, time: from + share * (to - from) };
  drawSoon();
});

main.addEventListener("pointerleave", () => {
  if (state.hover === null) return;
  state.hover = null;
  drawSoon();
});

addEventListener("hashchange", () => {
  const key = keyOfHash();
  if (key !== null) openNamed(key);
});

document.addEventListener("visibilitychange", () => {
  if (document.hidden) return;
  draw(); // first: an answer may be long in coming
  ask();
});

// Ages grow on screen between two answers.
setInterval(() => {
  if (document.hidden) return;
  const running = state.entries.some((entry) => state.visible.has(entry.key) && isKnown(entry.view.running_seconds));
  if (running || state.failedSince !== null || overdue()) drawSoon();
}, 1000);

draw();
ask();
