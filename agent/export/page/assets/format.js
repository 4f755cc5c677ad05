// Numbers, durations and names as people read them; the same in every locale.
// agent/export/terminal/format.py does the same for the terminal, and a test holds the two together.

export const UNKNOWN = "–";

// Halves go up. toFixed alone would round the exact binary value, which the terminal could not match.
function rounded(value, digits) {
  const scale = 10 ** digits;
  return (Math.floor(value * scale + 0.5) / scale).toFixed(digits);
}

// Three significant digits with a suffix: 0.25, 4.2, 42, 420, 4.2k, 42.1k, 421k, 4.2M, …
function short(value, suffixes) {
  let scaled = Math.abs(value);
  let step = 0;
  while (scaled >= 999.5 && step < suffixes.length - 1) {
    scaled /= 1000;
    step += 1;
  }
  let text;
  if (step === 0 && Number.isInteger(scaled)) text = String(scaled);
  else if (scaled >= 99.95) text = rounded(scaled, 0);
  else if (scaled >= 0.995) text = rounded(scaled, 1);
  else text = rounded(scaled, 2);
  if (text.includes(".")) text = text.replace(/\.?0+$/, "");
  return (value < 0 && text !== "0" ? "−" : "") + text + suffixes[step];
}

export function count(value) {
  return isKnown(value) ? short(value, ["", "k", "M", "G", "T", "P", "E"]) : UNKNOWN;
}

// A quantity in a source's unit: "52k rows", "1 file", "1.2 GB".
export function quantity(value, unit) {
  if (!isKnown(value)) return UNKNOWN;
  if (unit === "bytes") return short(value, [" B", " kB", " MB", " GB", " TB", " PB", " EB"]);
  const word = unit ?? "rows";
  return `${count(value)} ${value === 1 ? word.replace(/s$/, "") : word}`;
}

export function rate(value) {
  return isKnown(value) ? `${count(value)} rows/s` : UNKNOWN;
}

export function percent(share) {
  return isKnown(share) ? `${rounded(share * 100, 0)} %` : UNKNOWN;
}

// "83 ms", "4.2 s", "42 s", "4 min 12 s", "1 h 3 min", "3 d 4 h".
export function duration(seconds) {
  if (!isKnown(seconds)) return UNKNOWN;
  const value = Math.max(0, seconds);
  if (value === 0) return "0 s";
  if (value < 0.0005) return "< 1 ms";
  if (value < 0.9995) return `${rounded(value * 1000, 0)} ms`;
  if (value < 9.95) return `${rounded(value, 1).replace(/\.0$/, "")} s`;
  const whole = Math.floor(value + 0.5);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return pair(Math.floor(whole / 60), "min", whole % 60, "s");
  const minutes = Math.floor(whole / 60);
  if (minutes < 1440) return pair(Math.floor(minutes / 60), "h", minutes % 60, "min");
  const hours = Math.floor(minutes / 60);
  return pair(Math.floor(hours / 24), "d", hours % 24, "h");
}

function pair(large, largeUnit, little, littleUnit) {
  return little === 0 ? `${large} ${largeUnit}` : `${large} ${largeUnit} ${little} ${littleUnit}`;
}

// 24-hour local time of an epoch second.
export function clock(epochSeconds) {
  if (!isKnown(epochSeconds)) return UNKNOWN;
  const moment = new Date(epochSeconds * 1000);
  const two = (number) => String(number).padStart(2, "0");
  return `${two(moment.getHours())}:${two(moment.getMinutes())}:${two(moment.getSeconds())}`;
}

export function isKnown(value) {
  return typeof value === "number" && Number.isFinite(value);
}

// Characters that move, hide or reorder their neighbours: shown by their code instead.
const UNSEEN =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202f\u205f-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff]|[\u{e0000}-\u{e0fff}]/gu;
const NAMED = { "\n": "␊", "\r": "␍", "\t": "␉", "\u0000": "␀", "\u001b": "␛" };

// A name as it can be shown: nothing invisible, at most `length` characters.
export function visible(text, length = 200) {
  if (text === "") return "(no name)";
  const all = Array.from(String(text).slice(0, 2 * length + 2));
  const shown = all
    .slice(0, length)
    .join("")
    .replace(UNSEEN, (mark) => NAMED[mark] ?? `‹${codeOf(mark)}›`);
  if (shown.trim() === "") return "␣".repeat(Math.min(shown.length, 20));
  return all.length > length ? `${shown}…` : shown;
}

function codeOf(mark) {
  return mark.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
}

// The word for what a driver or a newer agent calls so; a name that every object knows is none.
export function word(list, name) {
  return Object.hasOwn(list, name) ? list[name] : undefined;
}

// A sentence with its figures, each in the place of its {name}.
export function fill(text, figures) {
  return text.replace(/\{(\w+)\}/g, (_, name) => figures[name]);
}
