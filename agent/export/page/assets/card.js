// One query of the list: its row, and what opens below it.

import { h } from "./dom.js";
import { clock, count, duration, fill, isKnown, quantity, rate, UNKNOWN, visible, word } from "./format.js";
import { flow } from "./flow.js";
import { level } from "./order.js";
import { areaPath, bar, batchBar, batchTone, chosenSpan, horizontal, linePath, niceMaximum, plot, runsPath, sparkline, stepPath, timeSpan, within } from "./plot.js";
import { command, runbookOf, steered } from "./steer.js";
import words from "./words.js";

// `entry` is one of order.worstFirst; `now` the agent's time in epoch seconds; `hover` a time or null.
export function card(entry, { now, open, hover, zoom = null, pieces = null, compared = null }) {
  const { view, key } = entry;
  const { tone, label, symbol, means } = level(entry.level);
  const id = domId(key);
  return h(
    "li",
    { class: "query", key, id, "data-key": key, "data-tone": tone, "data-level": entry.level, "data-up": view.up ? "yes" : "no", "data-open": open ? "yes" : "no" },
    h(
      "div",
      { class: "row", "data-action": "toggle" },
      h("span", { class: "chip", "data-tone": tone, title: means }, h("span", { class: "symbol", "aria-hidden": "true" }, symbol), h("span", null, label)),
      h(
        "h2",
        { class: "name", key: "name" },
        h(
          "button",
          { type: "button", class: "toggle", id: `${id}-toggle`, "aria-expanded": open ? "true" : "false", "aria-controls": open ? `${id}-detail` : null, title: `${visible(view.application, 500)} / ${visible(view.query, 500)}` },
          h("bdi", { class: "query-name" }, visible(view.query, 120)),
          h("bdi", { class: "application" }, visible(view.application, 120)),
        ),
        badges(view),
      ),
      h("span", { class: "cell cell-spark" }, sparkline(view, now)),
      backlogCell(view),
      ratesCell(view, entry.level),
      batchCell(view),
      limitCell(view),
      h("span", { class: "fold", "aria-hidden": "true" }),
    ),
    open && h("div", { class: "detail", id: `${id}-detail`, role: "region", "aria-label": `Details of ${named(view)}`, key: "detail" }, detail(entry, now, hover, key, zoom, pieces, compared)),
  );
}

// Of two applications a query may have the same name; said to who cannot see where it stands.
function named(view) {
  return `${visible(view.query, 80)} of ${visible(view.application, 80)}`;
}

export function domId(key) {
  return `q-${key}`;
}

// A row that is out of sight: its name only, for search and for the height. That of an opened one,
// in pixels, is `height`.
export function shell(entry, height) {
  const { view, key } = entry;
  return h(
    "li",
    { class: `query shell${height ? " opened" : ""}`, key, id: domId(key), "data-key": key, "data-open": "no", "--height": height ? `${height}px` : null, memo: `shell ${key} ${height}` },
    h("div", { class: "row", "data-action": "toggle" }, h("h2", { class: "name", key: "name" }, h("button", { type: "button", class: "toggle", id: `${domId(key)}-toggle`, "aria-expanded": "false" }, h("bdi", { class: "query-name" }, visible(view.query, 120)), h("bdi", { class: "application" }, visible(view.application, 120))))),
  );
}

function cell(label, kind, main, rest) {
  return h(
    "span",
    { class: `cell cell-${kind}` },
    h("span", { class: "cell-label" }, label),
    h("span", { class: "cell-main" }, main),
    rest ? h("span", { class: "cell-rest" }, ` ${rest}`) : null,
  );
}

function backlogCell(view) {
  if (!isKnown(view.backlog_rows)) {
    const other = view.sources.find((source) => isKnown(source.backlog));
    if (other !== undefined) return cell("backlog", "backlog", count(other.backlog), other.unit ?? "");
    return cell("backlog", "backlog", "–", "");
  }
  return cell("backlog", "backlog", about(view) + count(view.backlog_rows), view.backlog_seconds > 0 ? `rows · ${duration(view.backlog_seconds)}` : "rows");
}

// The mark of a backlog that nobody has seen all of.
function about(view) {
  return view.backlog_unseen_rows > 0 ? "≈ " : "";
}

// Where no batch ends nothing is processed; where nobody tells, what arrives is not known either.
function ratesCell(view, levelName) {
  const arriving = view.up ? view.arrival_rows_per_second : null;
  const processed = level(levelName).still ? null : view.processed_rows_per_second;
  return cell("in → out", "rates", `${count(arriving)} → ${count(processed)}`, "rows/s");
}

function batchCell(view) {
  const running = view.up && isKnown(view.running_seconds);
  const seconds = running && view.running_seconds > (view.batch_seconds ?? 0) ? view.running_seconds : view.batch_seconds;
  const tone = isKnown(seconds) ? (running && view.attention.level === "hung" ? "high" : batchTone(seconds, view)) : "idle";
  return h(
    "span",
    { class: "cell cell-batch", "data-tone": tone },
    h("span", { class: "cell-label" }, "batch / target"),
    h("span", { class: "cell-main" }, duration(seconds)),
    h("span", { class: "cell-rest" }, ` / ${duration(view.target_seconds)}${running && seconds === view.running_seconds ? " · running" : ""}`),
  );
}

function limitCell(view) {
  const { unit, current, next } = view.limit;
  if (current === null && next === null) {
    const source = view.sources[0];
    const unlimited = source !== undefined && source.limit_known && source.limit === null;
    return cell("limit", "limit", unlimited ? "none" : "–", view.control === "live" ? "" : (word(words.controls, view.control) ?? ""));
  }
  const now = current === null ? "none" : count(current);
  if (view.mode === "dry-run" && next !== current) return cell("limit", "limit", now, `would be ${next === null ? "none" : count(next)}`);
  return cell("limit", "limit", next !== null && next !== current ? `${now} → ${count(next)}` : now, unit ?? "");
}

function badges(view) {
  const list = [];
  if (view.mode !== "on") list.push(["mode", view.mode === "dry-run" ? "dry run" : "off", "what Weir may do with this query"]);
  if (view.held) list.push(["hold", "hold", orderTitle(view.held_by) ?? "an operator holds the limit where it is"]);
  if (isKnown(view.manual_limit)) list.push(["manual", `by hand: ${count(view.manual_limit)}`, orderTitle(view.held_by) ?? "an operator set the limit"]);
  if (view.control !== "live") list.push(["control", word(words.controls, view.control) ?? visible(view.control, 20), "whether the limit can be changed while the query runs"]);
  return h("span", { class: "badges" }, list.map(([kind, text, title]) => h("span", { class: "badge", "data-badge": kind, title, key: kind }, text)));
}

function orderTitle(order) {
  return order ? `${visible(order.who, 60)}, ${clock(order.time)}${order.reason ? `: ${visible(order.reason, 200)}` : ""}` : null;
}

function detail(entry, now, hover, key, zoom, pieces, compared) {
  const { view } = entry;
  return [alarm(entry, now), steering(entry, now), flow(view, entry.level, now, key), zooms(key, zoom), plots(view, now, hover, entry.level, zoom, pieces), comparisonPanel(view, compared), h("div", { class: "panels", key: "panels" }, decisions(view, now), capacity(entry, now), checkpoint(view)), partitions(view), operators(view), waits(view), advice(view), findings(view), missing(view), facts(view, now)];
}

function alarm(entry, now) {
  const { view } = entry;
  const lines = [];
  if (entry.level === "hung" && isKnown(view.running_seconds)) {
    const times = isKnown(view.target_seconds) && view.target_seconds > 0 ? ` ${count(view.running_seconds / view.target_seconds)} times the target of ${duration(view.target_seconds)}.` : "";
    const past = isKnown(view.deadline_seconds) && view.running_seconds > view.deadline_seconds ? ` Past the deadline of ${duration(view.deadline_seconds)}.` : "";
    lines.push(["Batch ", String(view.running_batch_id ?? "?"), " has been running for ", h("strong", { class: "age" }, duration(view.running_seconds)), `.${times}${past}`]);
  } else if (entry.level === "hung") {
    lines.push(["The query stands still: data waits, and no batch runs."]);
  } else if (entry.level === "late" && isKnown(view.running_seconds)) {
    lines.push(["Batch ", String(view.running_batch_id ?? "?"), " has been running for ", h("strong", { class: "age" }, duration(view.running_seconds)), `, target ${duration(view.target_seconds)}.`]);
  }
  if (view.failure !== null) lines.push([h("strong", null, `Ended by ${word(words.causes, view.failure.cause) ?? "an unknown cause"}${axes(view.failure)}: `), h("bdi", null, visible(view.failure.evidence, 600))]);
  if (entry.level === "lost" && view.state === "terminated") lines.push(["The driver ended while the query ran: nobody had stopped it. The figures below are the last ones known."]);
  else if (entry.level === "lost") lines.push(["No word from the driver", isKnown(view.last_event_time) ? ` since ${clock(view.last_event_time)} (${duration(now - view.last_event_time)}). ` : ". ", "It was killed, or it cannot reach this agent. The figures below are the last ones known."]);
  if (["spiralling", "timing_out", "dead"].includes(view.spiral.phase)) lines.push([h("strong", null, `Checkpoint spiral: ${words.spirals[view.spiral.phase]}. `), spiralWords(view)]);
  if (entry.level === "overloaded") lines.push([h("strong", null, capacityWords(view)[0]), ` ${capacityWords(view).slice(1, -1).join(" ")}`]);
  const book = runbookOf(view);
  if (lines.length === 0 && book !== null) lines.push([`${upper(level(entry.level).means)}.`]);
  if (lines.length === 0) return null;
  return h(
    "div",
    { class: "alarm", "data-tone": level(entry.level).tone, key: "alarm" },
    lines.map((line, index) => h("p", { key: index }, line)),
    book !== null && h("p", { class: "todo", key: "todo" }, h("a", { href: `runbooks/${book}`, id: `${domId(entry.key)}-runbook`, target: "_blank", rel: "noopener" }, "What to do"), h("span", { class: "muted" }, ` ${book}`)),
  );
}

// Where a run failed and what it ran into, as far as either is known.
function axes(failure) {
  const known = [word(words.places, failure.where), word(words.happenings, failure.what)].filter((one) => one !== undefined);
  return known.length === 0 ? "" : ` (${known.join(": ")})`;
}

function upper(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

// What shows the spiral, with its figures.
export function spiralWords(view) {
  const { evidence, phase, gain, replay_amplification: again } = view.spiral;
  const said = evidence ? [`${upper(visible(evidence, 400))}.`] : [];
  if (phase !== "spiralling" && isKnown(gain)) said.push(`Loop gain ${count(gain)}.`);
  if (again > 1) said.push(`${count(again)} rows were attempted for each row committed.`);
  return said.join(" ");
}

// Who holds it, or keeps Weir from acting, why, and the command that ends it.
function steering(entry, now) {
  const { view, key } = entry;
  const list = steered(view, now);
  if (list.length === 0 || entry.level === "ended") return null;
  return h(
    "div",
    { class: "steering", key: "steering" },
    list.map(({ said, verb }) => {
      const typed = view.up && view.control === "live" ? command(verb, view, new URL(".", location.href).href.replace(/\/$/, "")) : null;
      return h("p", { key: verb }, h("bdi", null, said), typed !== null && h("span", { class: "to-end" }, h("span", null, words.steered[verb]), h("code", { class: "command" }, typed), h("button", { type: "button", class: "quiet copy", "data-action": "copy", "data-text": typed, id: `${domId(key)}-copy-${verb.replace(" ", "-")}`, title: "Copy the command" }, "Copy")));
    }),
  );
}

// What the plots show: the last minutes, batch by batch, or hours.
const ZOOMS = [
  [null, "minutes"],
  [3600, "1 h"],
  [3 * 3600, "3 h"],
  [12 * 3600, "12 h"],
];

function zooms(key, zoom) {
  return h(
    "div",
    { class: "zooms", role: "group", "aria-label": "Time that the plots show", key: "zooms" },
    ZOOMS.map(([seconds, label]) => h("button", { type: "button", class: "quiet", "data-zoom": String(seconds ?? ""), id: `${domId(key)}-zoom-${seconds ?? 0}`, "aria-pressed": seconds === zoom ? "true" : "false", key: label }, label)),
    zoom !== null && h("span", { class: "muted" }, "the longest batch and the largest backlog of each two minutes"),
  );
}

function plots(view, now, hover, levelName, zoom, pieces) {
  const span = zoom === null ? timeSpan(view.history, now) : chosenSpan(zoom, now);
  // Of hours too: until they have come, what is known of the minutes.
  const points = within(zoom === null ? view.history : (pieces ?? view.history), span);
  return h("section", { class: "plots", "aria-label": `${zoom === null ? "The last minutes" : "The last hours"} of ${named(view)}`, key: "plots" }, batchPlot(view, points, span, now, hover), backlogPlot(view, points, span, hover, levelName), limitPlot(view, points, span, hover), ratePlot(view, points, span, hover, levelName));
}

// The batch that was running at the time pointed at, else the next one to end.
function pointAt(points, hover) {
  return points.find((point) => point.time >= hover) ?? points[points.length - 1] ?? null;
}

function values(points, read) {
  return points.map(read).filter(isKnown);
}

function highest(...lists) {
  return lists.flat().reduce((top, value) => (isKnown(value) && value > top ? value : top), 0);
}

// The same as is read beside the title; ``list`` is what the plot draws.
function spoken(title, readout, list, points, format, more = "") {
  if (list.length === 0) return `${title}: no figures yet${more}`;
  const pieces = points.some((point) => isKnown(point.total_seconds));
  return `${title}: ${readout === UNKNOWN ? "now unknown" : readout}, highest ${format(highest(list))}, over ${points.length} ${pieces ? "pieces of two minutes" : "batches"}${more}`;
}

function batchPlot(view, points, span, now, hover) {
  const seconds = values(points, (point) => point.batch_seconds);
  const running = view.up && isKnown(view.running_seconds) ? view.running_seconds : null;
  const target = view.target_seconds;
  const most = highest(seconds, [running ?? 0, 1.3 * (target ?? 0)]);
  // A deadline far above would flatten everything else: then it is only named.
  const deadline = isKnown(view.deadline_seconds) && view.deadline_seconds <= 3 * most ? view.deadline_seconds : null;
  const top = niceMaximum(highest([most, 1.05 * (deadline ?? 0)]));
  const at = hover === null ? null : pointAt(points, hover);
  const last = seconds[seconds.length - 1];
  const limits = `${isKnown(target) ? `, target ${duration(target)}` : ""}${isKnown(view.deadline_seconds) ? `, deadline ${duration(view.deadline_seconds)}` : ""}`;
  const readout = at !== null ? duration(at.batch_seconds) : running !== null && running > (last ?? 0) ? `${duration(running)} and running` : duration(last ?? null);
  return plot({
    name: "batch",
    title: "Batch time",
    readout,
    summary: spoken("Batch time", readout, running === null ? seconds : [...seconds, running], points, duration, limits),
    span,
    top,
    format: duration,
    hover,
    legend: [h("span", { class: "key target-key" }, `target ${duration(target)}`), isKnown(view.deadline_seconds) ? h("span", { class: "key deadline-key" }, `deadline ${duration(view.deadline_seconds)}${deadline === null ? " ↑" : ""}`) : null],
    marks: (x, y) => [
      ...points.filter((point) => isKnown(point.batch_seconds) && point.time >= span.from).map((point) => batchBar(x, y, point, view)),
      running !== null && bar(x, y, now - running, now, running, `bar running ${batchTone(running, view)}`),
      horizontal(y, target, top, "target"),
      horizontal(y, deadline, top, "deadline"),
    ],
  });
}

function backlogPlot(view, points, span, hover, levelName) {
  const backlog = values(points, (point) => point.backlog_rows);
  const top = niceMaximum(1.08 * highest(backlog, [view.backlog_rows ?? 0]));
  const pairs = points.map((point) => [point.time, point.backlog_rows]);
  if (view.up && isKnown(view.backlog_rows)) pairs.push([span.to, view.backlog_rows]);
  const at = hover === null ? null : pointAt(points, hover);
  const readout = at !== null ? quantity(at.backlog_rows, "rows") : about(view) + quantity(view.backlog_rows, "rows");
  return plot({
    name: "backlog",
    title: "Backlog",
    readout,
    summary: spoken("Backlog", readout, values(pairs, ([, rows]) => rows), points, (value) => quantity(value, "rows")),
    span,
    top,
    format: count,
    hover,
    legend: !level(levelName).still && isKnown(view.estimated_time_to_consume_seconds) && view.backlog_rows > 0 ? `caught up in ${duration(view.estimated_time_to_consume_seconds)}` : null,
    marks: (x, y) => [h("path", { class: "area", d: areaPath(pairs, x, y) }), h("path", { class: "line", d: linePath(pairs, x, y) })],
  });
}

// In force, and dotted what the source is credited; in dry-run, dashed, what the limit would be.
function limitPlot(view, points, span, hover) {
  const unit = view.limit.unit;
  const word = unit ?? "rows";
  const dry = view.mode === "dry-run";
  const end = view.up ? span.to : (points[points.length - 1]?.time ?? span.to);
  const limits = points.map((point) => [point.time, point.limit]);
  const wouldBe = points.map((point) => [point.time, point.would_be_limit ?? null]);
  if (view.up && isKnown(view.limit.current)) limits.push([span.to, view.limit.current]);
  const credit = points.map((point) => [point.time, isKnown(point.would_be_limit) ? null : point.credit_rows]);
  const inRows = !dry && (unit === null || unit === "rows"); // credit is in rows: on one scale only with rows
  const known = values(points, (point) => point.limit);
  const decided = values(points, (point) => point.would_be_limit);
  const top = niceMaximum(1.08 * highest(known, decided, [view.limit.current ?? 0], inRows ? values(points, (point) => point.credit_rows) : []));
  const at = hover === null ? null : pointAt(points, hover);
  const last = points[points.length - 1];
  const unlimited = view.sources.some((source) => source.limit_known && source.limit === null);
  const creditNow = (at ?? last)?.credit_rows ?? null;
  const wouldBeNow = at !== null ? (at.would_be_limit ?? null) : view.limit.next;
  const now = at !== null ? at.limit : view.limit.current;
  const second = dry && decided.length > 0 ? h("span", { class: "key would-be-key" }, `would be ${count(wouldBeNow)}`) : inRows && isKnown(creditNow) ? h("span", { class: "key credit-key" }, `credit ${quantity(creditNow, "rows")}`) : null;
  const readout = now === null && unlimited ? "no limit" : quantity(now, word);
  return plot({
    name: "limit",
    title: inRows && isKnown(creditNow) ? "Limit and credit" : "Limit",
    readout,
    summary: spoken("Limit", readout, values(limits, ([, limit]) => limit), points, (value) => quantity(value, word), dry && decided.length > 0 ? `, would be ${quantity(wouldBeNow, word)}` : isKnown(creditNow) ? `, credit ${quantity(creditNow, "rows")}` : ""),
    span,
    top,
    format: (value) => quantity(value, word),
    hover,
    legend: [h("span", { class: "key limit-key" }, "in force"), second, !dry && decided.length > 0 ? h("span", { class: "key would-be-key" }, "in dry run") : null],
    marks: (x, y) => [
      inRows && h("path", { class: "line credit", d: stepPath(credit, x, y, end) }),
      decided.length > 0 && h("path", { class: "line would-be", d: stepPath(wouldBe, x, y, end) }),
      h("path", { class: "line", d: stepPath(limits, x, y, end) }),
    ],
  });
}

// Rows over seconds of each batch, from its start to its end: between batches nothing is processed.
function ratePlot(view, points, span, hover, levelName) {
  const spent = (point) => point.total_seconds ?? point.batch_seconds; // of all batches of a piece
  const speed = (point) => (isKnown(spent(point)) && spent(point) > 0 ? point.rows / spent(point) : null);
  const speeds = values(points, speed);
  const arriving = view.up ? view.arrival_rows_per_second : null;
  const top = niceMaximum(1.08 * highest(speeds, [arriving ?? 0]));
  const at = hover === null ? null : pointAt(points, hover);
  const runs = points.map((point) => [point.time - (spent(point) ?? 0), point.time, speed(point)]);
  const readout = rate(at !== null ? speed(at) : level(levelName).still ? null : view.processed_rows_per_second);
  return plot({
    name: "rate",
    title: "Processed",
    readout,
    summary: spoken("Processed", readout, speeds, points, rate, isKnown(arriving) ? `, arriving ${rate(arriving)}` : ""),
    span,
    top,
    format: count,
    hover,
    legend: isKnown(arriving) ? h("span", { class: "key target-key" }, `arriving ${count(arriving)}`) : null,
    marks: (x, y) => [h("path", { class: "line", d: runsPath(runs, x, y, span) }), horizontal(y, arriving, top, "target")],
  });
}

function decisions(view, now) {
  const list = view.decisions.slice(-6).reverse();
  const several = view.sources.length > 1;
  return h(
    "section",
    { class: "panel", key: "decisions" },
    h("h3", null, "Last decisions"),
    list.length === 0
      ? h("p", { class: "muted" }, word(words.reasons, view.limit.reason) ?? "none yet")
      : h(
          "ol",
          { class: "decisions" },
          list.map((decision, index) =>
            h(
              "li",
              { key: `${decision.time}-${decision.source}-${index}` },
              h("time", { title: `${clock(decision.time)}, batch ${decision.batch_id ?? "unknown"}` }, duration(Math.max(0, now - decision.time))),
              h(
                "div",
                null,
                h("span", { class: "change" }, change(decision), several ? ` at source ${decision.source}` : ""),
                " ",
                h("span", null, word(words.reasons, decision.reason) ?? visible(decision.reason, 40)),
                decision.acted ? null : h("span", { class: "badge" }, "not acted on"),
                decision.detail ? h("div", { class: "muted" }, visible(decision.detail, 300)) : null,
              ),
            ),
          ),
        ),
  );
}

function change(decision) {
  const to = (value) => (value === null ? "no limit" : count(value));
  if (decision.before === decision.after) return decision.after === null ? "no limit" : quantity(decision.after, decision.unit);
  return `${to(decision.before)} → ${decision.after === null ? "no limit" : quantity(decision.after, decision.unit)}`;
}

// Capacity in words: whether the target holds, and how much more it would take.
export function capacityWords(view) {
  const said = [];
  const ratio = view.required_capacity_ratio;
  if (!isKnown(ratio)) said.push(words.capacity.unknown);
  else if (ratio > 1) {
    said.push(fill(words.capacity.over, { ratio: count(ratio) }));
    const since = view.capacity_short_since_time;
    if (isKnown(since)) said.push(fill(words.capacity.over_since, { duration: duration(Math.max(0, view.last_event_time - since)) }));
  }
  else said.push(fill(ratio > 0.8 ? words.capacity.near : words.capacity.within, { percent: String(Math.floor(ratio * 100 + 0.5)) }));
  const target = duration(view.target_seconds);
  if (view.target_feasible === null) said.push(words.capacity.target_unknown);
  else said.push(fill(view.target_feasible ? words.capacity.feasible : words.capacity.infeasible, { target }));
  return said;
}

// What the application runs on, what is needed, and what keeps more from helping.
export function executorsWords(view) {
  const told = view.executors;
  if (!told || (!told.present && (told.mode === "off" || !told.note))) return [];
  const values = { present: told.present, slots: told.slots, wanted: told.wanted, asked: told.asked, note: visible(told.note, 200) };
  const text = words.executors;
  if (!told.present) return [fill(text.note, values)];
  const enough = told.wanted === told.present;
  const said = [fill(told.wanted === null ? text.have : enough ? text.enough : text.wanted, values)];
  const unsuited = told.note && (told.mode !== "off" || !(enough || told.wanted === null));
  if (unsuited) said.push(fill(text.note, values));
  if (told.wanted === null) return said;
  if (!enough && !unsuited) {
    if (told.mode !== "on") said.push(text[told.mode]);
    else if (told.asked !== null) said.push(fill(told.asked > told.present ? text.coming : text.asked, values));
  }
  const bound = word(words.executor_bounds, told.bound); // none: enough, or what a newer agent says
  if (bound !== undefined) said.push(fill(bound, values));
  if (told.in_vain) said.push(fill(text.in_vain, { ...told.in_vain, percent: Math.floor(100 * told.in_vain.rows_ratio + 0.5) }));
  return said;
}

function capacity(entry, now) {
  const { view } = entry;
  const still = level(entry.level).still;
  const tone = still ? null : isKnown(view.required_capacity_ratio) && view.required_capacity_ratio > 1 ? "high" : view.target_feasible === false ? "low" : null;
  const said = entry.level === "overloaded" ? capacityWords(view).slice(-1) : capacityWords(view); // the alarm says the rest
  const executors = executorsWords(view).join(" ");
  const main = view.sources.filter((source) => isKnown(source.exclusive_rows) || isKnown(source.floating_rows));
  return h(
    "section",
    { class: "panel", key: "capacity" },
    h("h3", null, "Capacity"),
    still ? h("p", { class: "muted" }, isKnown(view.last_progress_time) ? `As of the last batch, ${duration(Math.max(0, now - view.last_progress_time))} ago.` : "No batch has ended.") : h("p", { class: "said", "data-tone": tone }, said.join(" ")),
    still || executors === "" ? null : h("p", { class: "muted" }, executors),
    figures([
      ["throughput", rate(view.throughput_rows_per_second)],
      ["fixed cost of a batch", duration(view.fixed_cost_seconds)],
      still ? null : ["caught up in", duration(view.estimated_time_to_consume_seconds)],
      ["lag", `${view.lag_state === "UNKNOWN" ? "unknown" : view.lag_state}${view.backlog_seconds > 0 ? `, ${duration(view.backlog_seconds)} behind` : ""}`],
      ...eventTimeWords(view),
      ...(view.mode === "on" ? main : []).map((source) => [`credit${view.sources.length > 1 ? ` of source ${source.index}` : ""}`, `${count(source.exclusive_rows)} own + ${count(source.floating_rows)} shared`]),
    ]),
  );
}

// In dry-run: what happened beside what the same rows would have been under Weir's limits, as estimated.
function comparisonPanel(view, compared) {
  if (view.mode !== "dry-run" || compared === null) return null;
  const { happened, would_be: wouldBe, fit } = compared;
  const known = happened !== null && wouldBe !== null && fit !== null;
  const lines = known
    ? [
        ["longest batch", "longest_seconds", duration],
        ["95 % of batches within", "p95_seconds", duration],
        ["largest batch", "largest_rows", (value) => quantity(value, "rows")],
        ["batches", "batches", count],
        [words.comparison.late, "late_batches", count],
        ["all batches together", "total_seconds", duration],
      ]
    : [];
  return h(
    "section",
    { class: "panel wide comparison", key: "comparison" },
    h("h3", null, words.comparison.title),
    known
      ? [
          h(
            "table",
            { key: "table" },
            h("thead", null, h("tr", null, h("td", null, ""), h("th", { scope: "col" }, "happened"), h("th", { scope: "col" }, "under Weir, about"))),
            h("tbody", null, lines.map(([name, field, write]) => h("tr", { key: field }, h("th", { scope: "row" }, name), h("td", null, write(happened[field])), h("td", { "data-better": wouldBe[field] < happened[field] ? "yes" : "no" }, write(wouldBe[field]))))),
          ),
          h("p", { class: "muted wide-words", key: "fit" }, fill(words.comparison.fit, { batches: count(happened.batches), time: duration(compared.to_time - compared.from_time), median: fit.median.toFixed(2), low: fit.low.toFixed(2), high: fit.high.toFixed(2) })),
        ]
      : h("p", { class: "muted" }, fill(words.comparison.missing, { why: visible(compared.missing, 200) })),
  );
}

const PHASES = ["latestOffset", "getOffset", "setOffsetRange", "getBatch", "queryPlanning", "walCommit", "addBatch", "commitBatch", "commitOffsets"];

function checkpoint(view) {
  const { seconds, phases, deadline_seconds: deadline, eta_seconds: eta, failures_consecutive: failures, interval_seconds: interval } = view.checkpoint;
  const rank = (name) => (PHASES.includes(name) ? PHASES.indexOf(name) : PHASES.length);
  const list = Object.entries(phases).filter(([, value]) => isKnown(value)).sort((one, other) => rank(one[0]) - rank(other[0]) || (one[0] < other[0] ? -1 : 1)).slice(0, 12);
  const total = list.reduce((sum, [, value]) => sum + value, 0);
  return h(
    "section",
    { class: "panel", key: "checkpoint" },
    h("h3", null, "Checkpoint"),
    total > 0
      ? [
          h("div", { class: "phase-bar", role: "img", "aria-label": `Phases of the last batch: ${list.map(([name, value]) => `${visible(name, 40)} ${duration(value)}`).join(", ")}` }, list.map(([name, value]) => h("span", { class: `phase phase-${rank(name)}`, "--share": Math.round((value / total) * 1000) / 10, title: `${visible(name, 40)} ${duration(value)}`, key: `p-${name}` }))),
          h("ul", { class: "phases" }, list.map(([name, value]) => h("li", { key: name }, h("i", { class: `phase-${rank(name)}` }), h("span", null, visible(name, 40)), h("b", null, duration(value))))),
        ]
      : h("p", { class: "muted" }, "No phases known yet."),
    figures([
      ["offset log to commit log", duration(seconds)],
      isKnown(interval) ? ["interval", duration(interval)] : null,
      ["deadline", isKnown(deadline) ? duration(deadline) : "none set"],
      isKnown(eta) ? ["deadline reached in", eta > 0 ? duration(eta) : "passed"] : null,
      failures > 0 ? ["failures in a row", String(failures)] : null,
    ]),
  );
}

// How far event time is behind, and the latest row behind the newest before it: names and figures.
export function eventTimeWords(view) {
  const said = [];
  if (isKnown(view.watermark_lag_seconds)) said.push(["watermark", fill(words.event_time.watermark, { lag: duration(view.watermark_lag_seconds) })]);
  if (isKnown(view.lateness_seconds)) {
    const told = { late: duration(view.lateness_seconds), delay: duration(view.watermark_delay_seconds) };
    said.push(["latest row", fill(words.event_time[isKnown(view.watermark_delay_seconds) ? "latest" : "latest_only"], told)]);
  }
  return said;
}

// What waits in partitions, and where most of it; sentences.
export function partitionsWords(view) {
  const list = view.partitions ?? [];
  if (list.length < 2) return [];
  const total = list.reduce((sum, one) => sum + one.backlog_rows, 0);
  const most = fullest(view)[0];
  // Of what one batch takes whole a partition's share says nothing.
  const times = total > view.batch_rows ? fill(words.partitions.times, { times: count((most.backlog_rows * list.length) / total) }) : "";
  const figures = { count: String(list.length), rows: quantity(total, "rows"), name: partitionName(most), largest: quantity(most.backlog_rows, "rows"), times };
  const said = [fill(total > 0 ? words.partitions.most : words.partitions.none, figures)];
  if (isKnown(view.partitions_age_seconds)) said.push(fill(words.partitions.ago, { ago: duration(view.partitions_age_seconds) }));
  const lost = list.reduce((sum, one) => sum + one.lost_rows, 0);
  if (lost > 0) said.push(fill(words.partitions.lost, { rows: quantity(lost, "rows") }));
  return said;
}

function partitionName(one) {
  return `${visible(one.topic, 60)}-${visible(one.partition, 20)}`;
}

// Those that hold most first; where they hold alike, as they were told.
function fullest(view) {
  return [...view.partitions].sort((one, other) => other.backlog_rows - one.backlog_rows);
}

const SHOWN_PARTITIONS = 8;

function partitions(view) {
  const said = partitionsWords(view);
  if (said.length === 0) return null;
  const shown = fullest(view).slice(0, SHOWN_PARTITIONS);
  const top = shown[0].backlog_rows || 1;
  const rest = view.partitions.length - shown.length;
  return h(
    "section",
    { class: "panel wide", key: "partitions" },
    h("h3", null, "Partitions"),
    h("p", { class: "wide-words" }, h("bdi", null, said.join(" "))),
    h(
      "ul",
      { class: "partitions" },
      shown.map((one) =>
        h(
          "li",
          { key: `${one.source} ${one.topic} ${one.partition}` },
          h("bdi", { class: "operator-name" }, partitionName(one)),
          h("span", { class: "partition-bar", "aria-hidden": "true" }, h("i", { "--share": Math.round((one.backlog_rows / top) * 1000) / 10 })),
          h("span", null, quantity(one.backlog_rows, "rows")),
          h("span", { class: "warn" }, isKnown(one.retention_loss_seconds) ? (one.retention_loss_seconds > 0 ? `deleted in ${duration(one.retention_loss_seconds)}` : "being deleted") : ""),
        ),
      ),
    ),
    rest > 0 ? h("p", { class: "muted" }, `and ${rest} that hold less`) : null,
  );
}

function figures(rows) {
  return h("dl", { class: "figures" }, rows.filter(Boolean).map(([name, value]) => h("div", { key: name }, h("dt", null, name), h("dd", null, value))));
}

function operators(view) {
  if (view.operators.length === 0) return null;
  return h(
    "section",
    { class: "panel wide", key: "operators" },
    h("h3", null, "State"),
    h(
      "ul",
      { class: "operators" },
      view.operators.slice(0, 8).map((operator) =>
        h(
          "li",
          { key: operator.index },
          h("span", { class: "operator-name" }, visible(operator.name, 60)),
          h("span", null, quantity(operator.rows, "rows")),
          h("span", null, quantity(operator.bytes, "bytes")),
          h("span", null, `commit ${duration(operator.commit_seconds)}`),
          operator.dropped_rows_total > 0 ? h("span", { class: "warn" }, `${quantity(operator.dropped_rows_total, "rows")} dropped as late`) : null,
        ),
      ),
    ),
  );
}

function findings(view) {
  if (view.findings.length === 0) return null;
  return h(
    "section",
    { class: "panel wide findings", key: "findings" },
    h("h3", null, "Consistency"),
    h(
      "ul",
      null,
      view.findings.slice(0, 12).map((finding, index) => h("li", { "data-severity": finding.severity, key: index }, h("strong", null, `${word(words.severities, finding.severity) ?? visible(finding.severity, 20)}: `), h("bdi", null, visible(finding.evidence, 300)), ". ", h("span", { class: "muted" }, visible(finding.remedy, 300)))),
    ),
    view.findings.length > 12 ? h("p", { class: "muted" }, `and ${view.findings.length - 12} more: weir checkpoint audit lists them`) : null,
  );
}

// What the stages of one batch waited for their slowest tasks.
function waits(view) {
  const stages = view.alignment?.stages ?? [];
  if (stages.length === 0) return null;
  const batch = isKnown(view.alignment.batch_id) ? ` of batch ${view.alignment.batch_id}` : "";
  return h(
    "section",
    { class: "panel wide waits", key: "waits" },
    h("h3", null, `Waited for the slowest task${batch}: ${duration(view.alignment.seconds)}`),
    h(
      "ul",
      { class: "operators" },
      stages.slice(0, 6).map((stage) =>
        h(
          "li",
          { key: stage.stage },
          h("span", { class: "operator-name" }, `stage ${stage.stage}${isKnown(stage.source) ? `, source ${stage.source}` : ""}`),
          h("span", null, `${duration(stage.wait_seconds)}, ${count(stage.ratio)} times the median`),
          h("span", null, `partition ${stage.partition} on executor `, h("bdi", null, visible(stage.executor, 40)), ", ", h("bdi", null, visible(stage.host, 60))),
          h("span", { class: stage.why === "even" ? null : "warn" }, word(words.waits, stage.why) ?? visible(stage.why, 30)),
        ),
      ),
    ),
  );
}

function advice(view) {
  const list = view.advice ?? [];
  if (list.length === 0) return null;
  return h("section", { class: "panel wide advice", key: "advice" }, h("h3", null, "What would help"), h("ul", { class: "missing" }, list.slice(0, 8).map((one, index) => h("li", { key: index }, h("bdi", null, visible(one, 600))))));
}

function missing(view) {
  const notes = [...view.missing, ...(view.alignment?.missing ? [`stages: ${view.alignment.missing}`] : []), ...view.sources.filter((source) => source.note).map((source) => `source ${source.index}: ${source.note}`)];
  if (notes.length === 0) return null;
  return h("section", { class: "panel wide", key: "missing" }, h("h3", null, "Not known, and why"), h("ul", { class: "missing" }, notes.slice(0, 12).map((note, index) => h("li", { key: index }, h("bdi", null, visible(note, 300))))));
}

function facts(view, now) {
  const list = [
    ["application", view.application_id],
    ["query", view.query_id],
    ["run", view.run_id],
    ["trigger", view.trigger],
    ["checkpoint", view.checkpoint_location],
    ["Spark", view.spark_version],
    ["last event", isKnown(view.last_event_time) ? `${duration(Math.max(0, now - view.last_event_time))} ago` : ""],
  ].filter(([, value]) => value);
  const link = safeLink(view.ui_url);
  return h("footer", { class: "facts", key: "facts" }, list.map(([name, value]) => h("span", { key: name }, `${name} `, h("bdi", null, visible(value, 200)))), link !== null && h("a", { href: link, rel: "noopener noreferrer", target: "_blank", key: "ui" }, "Spark UI"));
}

// Only web addresses become links.
export function safeLink(text) {
  try {
    const url = new URL(text);
    return url.protocol === "http:" || url.protocol === "https:" ? url.href : null;
  } catch {
    return null;
  }
}
