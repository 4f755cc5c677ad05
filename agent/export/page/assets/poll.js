// Asks the agent again and again: every two seconds, more slowly when an answer is costly or the
// agent does not answer, and not at all while nobody looks.

export const EVERY_SECONDS = 2;
export const LONGEST_WAIT_SECONDS = 30;
const TIMEOUT_SECONDS = 20;
const FULL_HISTORY = 120;
const SHORT_HISTORY = 24;
const MANY_QUERIES = 40;
const MOST_DETAILS = 6;

// Seconds until the next try: doubled with each failure; after a success at least four times what
// the answer cost, so that a page never keeps an agent or a browser busy.
export function waitSeconds(failures, costSeconds) {
  if (failures > 0) return Math.min(LONGEST_WAIT_SECONDS, EVERY_SECONDS * 2 ** Math.min(failures - 1, 10));
  return Math.min(LONGEST_WAIT_SECONDS, Math.max(EVERY_SECONDS, 4 * costSeconds));
}

// How many points of history to ask for: with many queries (or none known yet) only what the list
// itself draws.
export function historyWanted(queries) {
  return queries === null || queries > MANY_QUERIES ? SHORT_HISTORY : FULL_HISTORY;
}

// What went wrong, in words.
export class Unanswered extends Error {}

// The agent says why, such as to a token that opens less than it did; whoever stands between does not.
async function refusal(response) {
  const told = (await response.json().catch(() => null))?.error?.message;
  if (typeof told === "string" && told !== "") return `the agent says: ${told}`;
  const later = [429, 502, 503, 504].includes(response.status);
  return `what answers ${later ? "cannot now" : "is no Weir agent"} (HTTP ${response.status})`;
}

async function get(address) {
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(), TIMEOUT_SECONDS * 1000);
  try {
    const options = { signal: stop.signal, cache: "no-store", headers: { accept: "application/json" } };
    let response = await fetch(address, { ...options, redirect: "manual" });
    // One within its own site may lead on; a login of another one is blocked, or no JSON.
    if (response.type === "opaqueredirect") response = await followed(address, options);
    if (response.status === 401) throw new Unanswered("the agent wants a token: reload the page and give it as password");
    if (!response.ok) throw new Unanswered(await refusal(response));
    return await response.json();
  } catch (error) {
    if (error instanceof Unanswered) throw error;
    if (stop.signal.aborted) throw new Unanswered(`no answer within ${TIMEOUT_SECONDS} s`);
    throw new Unanswered(error instanceof SyntaxError ? "what answered is no Weir agent" : "no connection");
  } finally {
    clearTimeout(timer);
  }
}

async function followed(address, options) {
  const response = await fetch(address, options).catch((error) => {
    if (options.signal.aborted) throw error;
    return null;
  });
  if (response?.status >= 500 || response?.headers.get("content-type")?.includes("json")) return response;
  throw new Unanswered("something in front of the agent asks to log in: reload the page");
}

// The last hours of a query, two minutes a piece; empty where they cannot be had.
export async function hours(key) {
  try {
    return (await get(`v1/queries/${key}/history`)).pieces ?? [];
  } catch {
    return [];
  }
}

// What dry-run decided against what happened; null where it cannot be had.
export async function comparison(key) {
  try {
    return (await get(`v1/queries/${key}/comparison`)).comparison ?? null;
  } catch {
    return null;
  }
}

// Everything for one refresh. `wanted` are keys of open queries, whose whole history is fetched one
// by one where the list came with less.
export async function snapshot(known, wanted) {
  const history = historyWanted(known);
  const answer = await get(`v1/queries?history=${history}`);
  if (!Array.isArray(answer.queries)) throw new Unanswered("what answered is no Weir agent");
  const details = new Map();
  if (history < FULL_HISTORY) {
    await Promise.all(
      wanted.slice(0, MOST_DETAILS).map(async (key) => {
        try {
          details.set(key, (await get(`v1/queries/${key}`)).query);
        } catch {
          // It may just have gone; the list's own short history will do.
        }
      }),
    );
  }
  return { answer, details };
}
