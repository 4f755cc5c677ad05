// Small plots over the last minutes. Lines and bars are drawn in a stretched SVG; texts are HTML
// beside it, so that they are never stretched.

import { h } from "./dom.js";
import { clock, duration, isKnown } from "./format.js";

const WIDTH = 1000;
const HEIGHT = 100;
const SHORTEST_SECONDS = 60;
const LONGEST_SECONDS = 600;

// The smallest of 1, 1.5, 2, 3, 4, 5, 6, 8 times a power of ten that is not below `value`.
export function niceMaximum(value) {
  if (!(value > 0) || !Number.isFinite(value)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  for (const step of [1, 1.5, 2, 3, 4, 5, 6, 8]) {
    if (step * power >= value * 0.999999) return step * power;
  }
  return 10 * power;
}

// A function from [from, to] to [low, high]; what lies outside is kept at the edge.
export function linear(from, to, low, high) {
  const span = to - from;
  return (value) => {
    const share = span > 0 ? (value - from) / span : 0;
    return low + Math.min(1, Math.max(0, share)) * (high - low);
  };
}

// The time that plots show: all of the history, but at least a minute and at most ten.
export function timeSpan(history, nowSeconds) {
  const first = history.length > 0 ? history[0].time : nowSeconds;
  const length = Math.min(LONGEST_SECONDS, Math.max(SHORTEST_SECONDS, nowSeconds - first));
  return { from: nowSeconds - length, to: nowSeconds, length };
}

// A span of hours that the reader chose, up to now.
export function chosenSpan(seconds, nowSeconds) {
  return { from: nowSeconds - seconds, to: nowSeconds, length: seconds };
}

// Points within the time shown, and the one before it, so that steps begin at the edge.
export function within(history, span) {
  const start = history.findIndex((point) => point.time >= span.from);
  return start < 0 ? history.slice(-1) : history.slice(Math.max(0, start - 1));
}

// A step line through [time, value]; null values break it. Times ascending.
export function stepPath(pairs, x, y, end) {
  let path = "";
  let open = false;
  for (const [time, value] of pairs) {
    if (!isKnown(value)) {
      if (open) path += `H${fixed(x(time))}`;
      open = false;
    } else {
      path += open ? `H${fixed(x(time))}V${fixed(y(value))}` : `M${fixed(x(time))} ${fixed(y(value))}`;
      open = true;
    }
  }
  return open ? `${path}H${fixed(x(end))}` : path;
}

// A level line over each [from, to, value] within the span, joined where they follow closely.
export function runsPath(runs, x, y, span) {
  let path = "";
  let end = null;
  for (const [from, to, value] of runs) {
    if (!isKnown(value) || to < span.from) continue;
    const joined = end !== null && from - end < span.length / 100;
    path += joined ? `H${fixed(x(from))}V${fixed(y(value))}` : `M${fixed(x(from))} ${fixed(y(value))}`;
    path += `H${fixed(x(to))}`;
    end = to;
  }
  return path;
}

// A straight line through [time, value]; null values break it.
export function linePath(pairs, x, y) {
  let path = "";
  let open = false;
  for (const [time, value] of pairs) {
    if (isKnown(value)) path += `${open ? "L" : "M"}${fixed(x(time))} ${fixed(y(value))}`;
    open = isKnown(value);
  }
  return path;
}

// The same line closed down to the floor, one piece for each unbroken run.
export function areaPath(pairs, x, y) {
  let path = "";
  let run = [];
  const close = () => {
    if (run.length > 1) {
      const line = run.map(([time, value]) => `L${fixed(x(time))} ${fixed(y(value))}`).join("");
      path += `M${fixed(x(run[0][0]))} ${HEIGHT}${line}L${fixed(x(run[run.length - 1][0]))} ${HEIGHT}Z`;
    }
    run = [];
  };
  for (const pair of pairs) {
    if (isKnown(pair[1])) run.push(pair);
    else close();
  }
  close();
  return path;
}

function fixed(number) {
  return Math.round(number * 10) / 10;
}

// One plot. `marks(x, y)` draws; `readout` is what stands beside the title.
export function plot({ name, title, readout, summary, span, top, format, marks, hover, legend, tone }) {
  const x = linear(span.from, span.to, 0, WIDTH);
  const y = linear(0, top, HEIGHT, 0);
  return h(
    "figure",
    { class: "plot", "data-plot": name, "data-tone": tone ?? null, key: name },
    h("figcaption", null, h("span", { class: "plot-title" }, title), h("span", { class: "plot-now" }, readout)),
    h(
      "div",
      { class: "plot-area" },
      h(
        "svg",
        {
          viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
          preserveAspectRatio: "none",
          role: "img",
          "aria-label": summary,
          "data-from": span.from,
          "data-to": span.to,
        },
        h("line", { class: "grid", x1: 0, x2: WIDTH, y1: HEIGHT / 2, y2: HEIGHT / 2 }),
        h("line", { class: "floor", x1: 0, x2: WIDTH, y1: HEIGHT, y2: HEIGHT }),
        ...marks(x, y),
        hover !== null && h("line", { class: "cross", x1: fixed(x(hover)), x2: fixed(x(hover)), y1: 0, y2: HEIGHT }),
      ),
      h("span", { class: "tick tick-top", "aria-hidden": "true" }, format(top)),
    ),
    h(
      "div",
      { class: "plot-foot", "aria-hidden": "true" },
      h("span", null, `${duration(span.length)} ago`),
      legend ? h("span", { class: "legend" }, legend) : null,
      h("span", null, hover === null ? "now" : clock(hover)),
    ),
  );
}

export function horizontal(y, value, top, kind) {
  if (!isKnown(value) || value > top) return null;
  return h("line", { class: kind, x1: 0, x2: WIDTH, y1: fixed(y(value)), y2: fixed(y(value)) });
}

export function bar(x, y, from, to, value, kind) {
  const left = x(from);
  const width = Math.max(2.5, x(to) - left - 1);
  const height = Math.max(1.5, HEIGHT - y(value));
  return h("rect", {
    class: kind,
    x: fixed(left),
    y: fixed(HEIGHT - height),
    width: fixed(Math.min(width, WIDTH - left)),
    height: fixed(height),
  });
}

// A list row's own small plot: bars of batch seconds, and the target as a line.
export function sparkline(view, nowSeconds) {
  const span = timeSpan(view.history, nowSeconds);
  const points = view.history.filter((point) => point.time >= span.from && isKnown(point.batch_seconds));
  const target = view.target_seconds;
  const highest = points.reduce((top, point) => Math.max(top, point.batch_seconds), 0);
  const running = view.up && isKnown(view.running_seconds) ? view.running_seconds : 0;
  const top = Math.max(highest, running, 1.5 * (target ?? 0)) || 1;
  const x = linear(span.from, span.to, 0, WIDTH);
  const y = linear(0, top, HEIGHT, 4);
  const bars = points.map((point) => batchBar(x, y, point, view));
  if (running > 0) bars.push(bar(x, y, nowSeconds - running, nowSeconds, running, `bar running ${batchTone(running, view)}`));
  return h(
    "svg",
    { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    h("line", { class: "floor", x1: 0, x2: WIDTH, y1: HEIGHT, y2: HEIGHT }),
    ...bars,
    horizontal(y, target, top, "target"),
  );
}

// A batch as a bar from its start to its end (a point's time), as high as it was long.
export function batchBar(x, y, point, view) {
  const seconds = point.batch_seconds;
  return bar(x, y, point.time - seconds, point.time, seconds, `bar ${batchTone(seconds, view)}`);
}

// Past the deadline, or half above the target; attention.LATE_TARGETS of the agent's core is the same.
export function batchTone(seconds, view) {
  if (isKnown(view.deadline_seconds) && seconds > view.deadline_seconds) return "high";
  const target = view.target_seconds;
  if (!isKnown(target)) return "ok";
  return seconds > 1.5 * target ? "low" : "ok";
}
