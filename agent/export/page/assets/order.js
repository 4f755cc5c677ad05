// The order of the list, worst first, and what of a query is drawn how. Pure functions of the agent's
// JSON, in which the agent has judged how bad a query is. agent/export/terminal/order.py orders the
// terminal's list alike, and a test holds the two together.

import words from "./words.js";
import { isKnown, visible } from "./format.js";

const RANKS = new Map(words.levels.map((level, index) => [level.name, index]));
const LEVELS = new Map(words.levels.map((level) => [level.name, level]));

export const WINDOW_SECONDS = 60;

// One of a newer agent's is not known here, and may be bad: it comes first.
export function level(name) {
  return LEVELS.get(name) ?? { name, label: visible(name, 20), tone: "low", symbol: "?", means: "this page does not know this level: reload it" };
}

function rank(name) {
  return RANKS.get(name) ?? -1;
}

// [{view, key, level}], worst first; level, then urgency, then names by code point.
export function worstFirst(views) {
  const entries = views.map((view) => ({ view, key: keyOf(view), level: view.attention.level }));
  return entries.sort(
    (one, other) =>
      rank(one.level) - rank(other.level) ||
      other.view.attention.urgency - one.view.attention.urgency ||
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
    level(entry.level).label,
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
