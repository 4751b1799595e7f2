/** Calls of the server that this page came from. */

/** What the server refused, in its words. `start` and `end` are places in the statement, counted in characters. */
export class Refused extends Error {
  /**
   * @param {number} status of HTTP; 0 where there was no answer
   * @param {{code?: string, message?: string, try?: string | null, start?: number | null, end?: number | null}} told
   */
  constructor(status, told) {
    super(told.message || "the server sent a response that this page does not understand");
    this.status = status;
    this.code = told.code || "";
    this.remedy = told.try || "";
    this.start = told.start ?? null;
    this.end = told.end ?? null;
  }
}

/** Told on `document` when the session is over. */
export const SIGNED_OUT = "dpsql:signed-out";

export const get = (path) => call("GET", path);
export const post = (path, body = {}) => call("POST", path, body);

let last = Promise.resolve();

/**
 * Runs calls that need the analyst's one connection after each other, as it answers one statement at a time.
 * @template T @param {() => Promise<T>} made @returns {Promise<T>}
 */
export function inTurn(made) {
  const mine = last.then(made);
  last = mine.then(
    () => undefined,
    () => undefined,
  );
  return mine;
}

async function call(method, path, body) {
  const response = await reached(path, {
    method,
    credentials: "same-origin",
    cache: "no-store",
    headers: {Accept: "application/json", "X-Dpsql": "1", ...(body && {"Content-Type": "application/json"})},
    body: body && JSON.stringify(body),
  });
  const told = await response.json().catch(() => ({}));
  if (response.ok) return told;
  if (response.status === 401 && path !== "/api/login") document.dispatchEvent(new CustomEvent(SIGNED_OUT));
  throw new Refused(response.status, inWordsOfPages(told.error || {}));
}

/** What programs are told to send, as people would do it. */
const inWordsOfPages = (error) =>
  error.code === "busy" ? {...error, try: "again when it has ended, or cancel it; it may be running in another tab"} : error;

async function reached(path, request) {
  try {
    return await fetch(path, request);
  } catch {
    throw new Refused(0, {message: "the server cannot be reached", try: "again in a moment; the connection may be down"});
  }
}
