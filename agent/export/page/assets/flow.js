// The flow of one query from its sources to its sink: boxes coloured by pressure, arrows with rates.

import { h } from "./dom.js";
import { count, duration, isKnown, percent, quantity, rate, visible, word } from "./format.js";
import { level, shares } from "./order.js";
import words from "./words.js";

const SHOWN_SOURCES = 6;
const ROW = 100; // height of a source's row; style.css has the same

// "KafkaV2[Subscribe[orders]]" is a Kafka source called orders.
export function describe(description) {
  const text = String(description);
  const match = /^([\w.$]+?)(?:V2)?\[([\s\S]*)\]$/.exec(text);
  if (match === null) {
    const plain = text.split("@")[0].split(".").pop() || text;
    return { kind: "", name: plain };
  }
  const kind = match[1].split(".").pop().replace(/(Stream)?(Source|Sink)(Provider)?$/, "") || match[1];
  const inner = match[2].replace(/^Subscribe(Pattern)?\[([\s\S]*)\]$/, "$2");
  const parts = inner.split("/").filter(Boolean);
  return { kind, name: parts.length > 1 ? parts.slice(-2).join("/") : inner || text };
}

// A source is pressed as far as its limit holds back what waits there.
export function sourceTone(source, view) {
  if (!view.up) return "idle";
  if (!isKnown(source.backlog)) return "unknown";
  if (source.backlog === 0) return "ok";
  if (!isKnown(source.limit) || source.backlog <= source.limit) return "ok";
  return view.pressure === "ok" ? "low" : view.pressure;
}

const TONE_WORDS = { ok: "ok", low: "low pressure", high: "high pressure", idle: "idle", unknown: "unknown" };

// What it is called; until its first batch nobody has told.
const called = (source) => source.description || `source ${source.index}`;

export function flow(view, levelName, nowSeconds, key) {
  const sources = view.sources.slice(0, SHOWN_SOURCES);
  const more = view.sources.length - sources.length;
  const rows = Math.max(1, sources.length + (more > 0 ? 1 : 0));
  const tones = sources.map((source) => sourceTone(source, view));
  const label = [
    `Flow of ${visible(view.query, 80)}: `,
    ...sources.map((source, index) => `${visible(describe(called(source)).name, 60)} (${TONE_WORDS[tones[index]]}), `),
    `to the query (${level(levelName).label}), to the sink ${visible(describe(view.sink).name, 60)}`,
  ].join("");
  return h(
    "section",
    { class: "flow", "aria-label": label, "--rows": rows, key: "flow" },
    h(
      "ul",
      { class: "flow-sources" },
      sources.map((source, index) => sourceBox(source, tones[index], view)),
      more > 0 && h("li", { class: "box more", key: "more" }, `and ${more} more sources`),
      sources.length === 0 && h("li", { class: "box more", key: "none" }, "no batch seen yet: sources unknown"),
    ),
    links(sources, tones, rows, view),
    queryBox(view, levelName, nowSeconds, key),
    outLink(view, levelName),
    sinkBox(view, levelName, nowSeconds),
  );
}

function sourceBox(source, tone, view) {
  const { kind, name } = describe(called(source));
  const waiting = isKnown(source.backlog)
    ? `${source.backlog_bound === "lower" ? "≥ " : ""}${quantity(source.backlog, source.unit)} waiting`
    : "backlog unknown";
  return h(
    "li",
    { class: "box source", "data-tone": tone, key: `source-${source.index}`, title: visible(called(source), 500) },
    h(
      "div",
      { class: "box-head" },
      h("span", { class: "kind" }, kind ? `${visible(kind, 24)} source` : "Source"),
      h("span", { class: "tone-word" }, view.up ? TONE_WORDS[tone] : "not read"),
    ),
    h("bdi", { class: "box-name" }, visible(name, 120)),
    h("div", { class: "box-line strong" }, waiting),
    h("div", { class: "box-line" }, limitText(source, view)),
  );
}

// The source's limit in force, and the one granted next where it differs.
export function limitText(source, view) {
  if (!source.limit_known) return source.control === "live" ? "limit unknown" : (word(words.controls, source.control) ?? "limit unknown");
  const now = source.limit === null ? "no limit" : `limit ${quantity(source.limit, source.unit)}`;
  if (view.up && isKnown(source.granted) && source.granted !== source.limit) {
    return `${source.limit === null ? now : `limit ${count(source.limit)}`} → ${quantity(source.granted, source.unit)}`;
  }
  if (view.mode === "dry-run" && source.would_be !== undefined && source.would_be !== null && source.would_be !== source.limit) return `${now}, would be ${count(source.would_be)}`;
  return now;
}

function links(sources, tones, rows, view) {
  const height = rows * ROW;
  const total = sources.reduce((sum, source) => sum + (source.arrival_rows_per_second ?? 0), 0);
  return h(
    "div",
    { class: "links" },
    h(
      "svg",
      { class: "wires", viewBox: `0 0 100 ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" },
      sources.map((source, index) => {
        const from = (index + 0.5) * ROW;
        const share = total > 0 ? (source.arrival_rows_per_second ?? 0) / total : 0;
        return h("path", {
          class: `wire tone-${tones[index]}`,
          d: `M0 ${from}C60 ${from} 55 ${height / 2} 100 ${height / 2}`,
          "--width": 1.5 + 2.5 * share,
          key: source.index,
        });
      }),
    ),
    sources.map((source, index) =>
      h(
        "div",
        { class: "wire-label", "--row": index, key: `label-${source.index}` },
        view.up && isKnown(source.arrival_rows_per_second) ? rate(source.arrival_rows_per_second) : view.up ? "rate unknown" : "–",
        h("span", { class: "unseen" }, " arriving"),
      ),
    ),
    h("div", { class: "arrow-head", "aria-hidden": "true" }),
    view.up && isKnown(view.arrival_rows_per_second) && sources.length > 1
      ? h("div", { class: "wire-sum" }, `${rate(view.arrival_rows_per_second)} in all`)
      : null,
  );
}

function queryBox(view, levelName, nowSeconds) {
  const { tone, label, symbol } = level(levelName);
  const part = shares(view, nowSeconds);
  const running = view.up && isKnown(view.running_seconds);
  return h(
    "div",
    { class: "box query-box", "data-tone": tone },
    h(
      "div",
      { class: "box-head" },
      h("span", { class: "kind" }, "Query"),
      h("span", { class: "tone-word" }, h("span", { class: "symbol", "aria-hidden": "true" }, symbol), ` ${label}`),
    ),
    h("div", { class: "box-line strong" }, `${levelName === "lost" ? "last known: " : ""}${word(words.states, view.state) ?? visible(view.state, 20)}${running ? `, batch ${view.running_batch_id ?? ""}` : ""}`),
    view.up ? shareBar(part) : null,
    h(
      "div",
      { class: "box-line" },
      running
        ? `running ${duration(view.running_seconds)}, target ${duration(view.target_seconds)}`
        : `last batch ${duration(view.batch_seconds)}, target ${duration(view.target_seconds)}`,
    ),
  );
}

function shareBar(part) {
  if (part === null) return h("div", { class: "box-line" }, "time by state not known yet");
  const kinds = [
    ["busy", part.busy],
    ["backpressured", part.backpressured],
    ["idle", part.idle],
  ];
  const text = kinds.map(([name, share]) => `${name} ${percent(share)}`).join(", ");
  return h(
    "div",
    { class: "shares", role: "img", "aria-label": `Last minute: ${text}` },
    h("div", { class: "share-bar" }, kinds.map(([name, share]) => h("span", { class: `share ${name}`, "--share": Math.round(share * 1000) / 10, key: name }))),
    h("div", { class: "share-words" }, kinds.map(([name, share]) => h("span", { class: `share-word ${name}`, key: name }, h("i", null), ` ${name} ${percent(share)}`))),
  );
}

function outLink(view, levelName) {
  const processed = level(levelName).still ? null : view.processed_rows_per_second;
  return h(
    "div",
    { class: "links out" },
    h(
      "svg",
      { class: "wires", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
      h("path", { class: "wire tone-plain", d: "M0 5H100", "--width": 2.5 }),
    ),
    h(
      "div",
      { class: "wire-label", "--row": 0 },
      isKnown(processed) ? rate(processed) : level(levelName).still ? "–" : "rate unknown",
      h("span", { class: "unseen" }, " processed"),
    ),
    h("div", { class: "arrow-head", "aria-hidden": "true" }),
  );
}

// Its tone is of what reaches it: where no batch ends, nothing does.
function sinkBox(view, levelName, nowSeconds) {
  const { kind, name } = describe(view.sink || "sink unknown");
  const broken = view.failure !== null && view.failure.cause === "external_sink" && view.failure.where !== "source";
  const still = level(levelName).still;
  const word = broken ? "failed" : levelName === "hung" ? "nothing new" : levelName === "lost" ? "unknown" : still ? "ended" : "ok";
  const ago = still && isKnown(view.last_progress_time) ? `, ${duration(Math.max(0, nowSeconds - view.last_progress_time))} ago` : "";
  return h(
    "div",
    { class: "box sink", "data-tone": broken ? "high" : still ? "idle" : "ok", title: visible(view.sink, 500) },
    h("div", { class: "box-head" }, h("span", { class: "kind" }, kind ? `${visible(kind, 24)} sink` : "Sink"), h("span", { class: "tone-word" }, word)),
    h("bdi", { class: "box-name" }, visible(name, 120)),
    h("div", { class: "box-line strong" }, ago ? `last ${quantity(view.batch_rows, "rows")}${ago}` : `${quantity(view.batch_rows, "rows")} in the last batch`),
    h("div", { class: "box-line" }, view.output_mode ? `output mode ${visible(view.output_mode, 20)}` : "output mode unknown"),
  );
}
