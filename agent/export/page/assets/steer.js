// Who steers a query by hand, what to do about it, and about trouble; in words and commands.
// agent/export/terminal/steer.py says the same for the terminal, and a test holds the two together.

import { duration, fill, isKnown, quantity, visible, word } from "./format.js";
import { level } from "./order.js";
import words from "./words.js";

// The alert whose runbook says what to do; null where nothing need be done.
export function runbookOf(view) {
  return view.attention.to_do ? (level(view.attention.level).runbook ?? null) : null;
}

// [{said, verb}]: each hand at the wheel, and the order that takes it off.
export function steered(view, now) {
  const list = [];
  const held = by(view.held_by, now);
  if (isKnown(view.manual_limit)) list.push({ said: fill(words.steered.manual, { limit: quantity(view.manual_limit, view.manual_unit ?? view.limit.unit), by: held }), verb: "release" });
  else if (view.held) list.push({ said: fill(words.steered.held, { by: held }), verb: "release" });
  if (view.mode !== "on") {
    const set = view.mode_by ? ` ${fill(words.steered.set, { by: by(view.mode_by, now) })}` : "";
    list.push({ said: `${word(words.steered, view.mode) ?? visible(view.mode, 20)}${set}`, verb: "mode on" });
  }
  return list;
}

function by(order, now) {
  if (!order) return words.steered.by_hand;
  const given = { who: visible(order.who, 60), ago: duration(Math.max(0, now - order.time)), why: visible(order.reason, 200) };
  return fill(order.reason ? words.steered.by_why : words.steered.by, given).replace(/\.$/, "");
}

// "weir mode on orders/enrich", fit for a shell; null where the name cannot be typed, or would be
// taken for a pattern or for another name.
export function command(verb, view, url) {
  const { application, query } = view;
  for (const name of [application, query]) {
    if (name === "" || visible(name, 500) !== name || /[*?[\ufffd]/.test(name)) return null;
  }
  if (application.includes("/") || application.startsWith("-")) return null;
  // Always with the address: where it is pasted WEIR_AGENT_URL may name another agent.
  return `weir ${verb} ${quoted(`${application}/${query}`)} --url ${quoted(url)}`;
}

function quoted(text) {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`;
}
