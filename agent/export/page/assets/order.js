// How bad a query is, and the order of the list: worst first. Pure functions of the agent's JSON.
// agent/export/terminal/order.py says the same for the terminal, and a test holds the two together.

import words from "./words.js";
import { isKnown } from "./format.js";

const RANKS = new Map(words.levels.map((level, index) => [level.name, index]));
const LEVELS = new Map(words.levels.map((level) => [level.name, level]));

export const LATE_RUNNING_TARGETS = 2;
export const LATE_TARGETS = 1.5;
export const WINDOW_SECONDS = 60;
const GROWING_POINTS = 6;
const GROWING_FACTOR = 1.25;

// The first of these that holds, by name; `words.levels` lists them, worst first.
export function levelOf(view) {
  const running = view.up && isKnown(view.running_seconds) ? view.running_seconds : null;
  if (view.state === "terminated") return view.failure === null ? "ended" : "failed";
  if (view.up && view.state === "stalled") return "hung";
  if (running !== null && isKnown(view.deadline_seconds) && running > view.deadline_seconds) return "hung";
  if (["spiralling", "timing_out", "dead"].includes(view.spiral.phase)) return "spiralling";
  if (!view.up) return "lost";
  const ratio = view.required_capacity_ratio;
  if (isKnown(ratio) && ratio > 1) return "overloaded";
  if (view.pressure === "high") return "pressured";
  if (view.target_feasible === false) return "infeasible";
  if (isGrowing(view.history)) return "growing";
  const target = view.target_seconds;
  if (isKnown(target)) {
    if (running !== null && running > LATE_RUNNING_TARGETS * target) return "late";
    const last = view.state === "idle" ? null : view.batch_seconds;
    if (isKnown(last) && last > LATE_TARGETS * target) return "late";
  }
  if (view.pressure === "low") return "low";
  return view.state === "idle" ? "idle" : "ok";
}

export function level(name) {
  return LEVELS.get(name);
}

// More than a batch waits, and the later half of the history holds a quarter more than the earlier.
export function isGrowing(history) {
  const known = history.filter((point) => isKnown(point.backlog_rows));
  if (known.length < GROWING_POINTS) return false;
  const half = Math.floor(known.length / 2);
  const earlier = mean(known.slice(0, half));
  const later = mean(known.slice(half));
  const last = known[known.length - 1];
  return later > GROWING_FACTOR * earlier && last.backlog_rows > last.rows;
}

function mean(points) {
  let sum = 0;
  for (const point of points) sum += point.backlog_rows;
  return sum / points.length;
}

// Within a level, how bad; only its power of two counts, so that neighbours don't swap all the time.
export function weight(view, name) {
  if (name === "hung" || name === "late") return doublings(view.running_seconds ?? 0);
  if (name === "overloaded") return doublings(10 * view.required_capacity_ratio);
  if (isKnown(view.backlog_seconds)) return doublings(view.backlog_seconds);
  return doublings((view.backlog_rows ?? 0) / 1000);
}

function doublings(value) {
  let left = value;
  let steps = 0;
  while (left >= 1 && steps < 64) {
    left /= 2;
    steps += 1;
  }
  return steps;
}

// [{view, key, level}], worst first; level, then weight, then names by code point.
export function worstFirst(views) {
  const ranked = views.map((view) => {
    const name = levelOf(view);
    return { view, key: keyOf(view), level: name, rank: RANKS.get(name), weight: weight(view, name) };
  });
  return ranked.sort(
    (one, other) =>
      one.rank - other.rank ||
      other.weight - one.weight ||
      byCodePoint(one.view.application, other.view.application) ||
      byCodePoint(one.view.query, other.view.query),
  );
}

export function keyOf(view) {
  return `${encodeURIComponent(wellFormed(view.application))}/${encodeURIComponent(wellFormed(view.query))}`;
}

// A lone surrogate has no place in an address.
function wellFormed(text) {
  return text.replace(/[\ud800-\udfff]/gu, "\ufffd");
}

export function byCodePoint(one, other) {
  if (one === other) return 0;
  const first = Array.from(one);
  const second = Array.from(other);
  const length = Math.min(first.length, second.length);
  for (let index = 0; index < length; index += 1) {
    const difference = first[index].codePointAt(0) - second[index].codePointAt(0);
    if (difference !== 0) return difference;
  }
  return first.length - second.length;
}

// Shares of the last minute by state: {busy, backpressured, idle}, adding up to 1; null where no
// batch tells. A point's time is its batch's end. A batch counts as backpressured when the limit left more behind
// than the batch took.
export function shares(view, nowSeconds) {
  const points = view.history;
  const running = view.up && isKnown(view.running_seconds) ? view.running_seconds : null;
  if (points.length === 0 && running === null) return null;
  const first = points.length > 0 ? points[0].time - (points[0].batch_seconds ?? 0) : nowSeconds - running;
  const start = Math.max(nowSeconds - WINDOW_SECONDS, first);
  const length = nowSeconds - start;
  if (!(length > 0)) return null;
  let busy = 0;
  let held = 0;
  const add = (from, to, back) => {
    const seconds = Math.max(0, Math.min(to, nowSeconds) - Math.max(from, start));
    if (back) held += seconds;
    else busy += seconds;
  };
  for (const point of points) {
    const back = point.limited && (!isKnown(point.backlog_rows) || point.backlog_rows > point.rows);
    if (isKnown(point.batch_seconds)) add(point.time - point.batch_seconds, point.time, back);
  }
  if (running !== null) add(nowSeconds - running, nowSeconds, holdsBack(view));
  const total = Math.max(length, busy + held); // clocks differ a little: never over the whole
  return { busy: busy / total, backpressured: held / total, idle: (total - busy - held) / total };
}

// Whether a limit holds back more than the next batch takes, as far as is known now.
function holdsBack(view) {
  return view.sources.some((source) => isKnown(source.limit) && isKnown(source.backlog) && source.backlog > source.limit);
}

// Every word must be found in the names, the state, the level, the mode or the sources.
export function matches(entry, words_) {
  if (words_.length === 0) return true;
  const { view } = entry;
  const text = [
    view.application,
    view.query,
    view.state,
    LEVELS.get(entry.level).label,
    view.mode === "on" ? "" : view.mode,
    view.held ? "hold" : "",
    view.sink,
    ...view.sources.map((source) => source.description),
  ]
    .join("\n")
    .toLowerCase();
  return words_.every((word) => text.includes(word));
}

export function filterWords(text) {
  return text.toLowerCase().split(/\s+/).filter(Boolean);
}
