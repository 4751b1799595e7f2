/** Numbers as people read them: no more digits than their error leaves meaning to, and none that is cut off. */

/**
 * @typedef {[number | null, number | null]} Range
 * @typedef {{name: string, type: string, exact: boolean, approximate: boolean, range?: Range | null}} Column
 * @typedef {{low: number | null, high: number | null, error: number | null} | null} Told an interval; an end that is null is open
 */

const NUMERIC = /INT|DOUBLE|FLOAT|DECIMAL|NUMERIC|REAL/;
const WHOLE = /INT/;
const EVEN = 0.25; // sides of an interval that differ by less, as a part of its half width, are told as one

/** @param {Column} column */
export const isNumeric = (column) => NUMERIC.test(column.type.toUpperCase());

const isWhole = (column) => WHOLE.test(column.type.toUpperCase());

const isTemporal = (column) => /DATE|TIME/.test(column.type.toUpperCase());

/** A value; digits follow from its interval. @param {unknown} value @param {Column} column @param {Told} [told] */
export function shown(value, column, told = null) {
  if (value === null || value === undefined) return "NULL";
  if (typeof value === "boolean") return value ? "true" : "false";
  if (!isNumeric(column)) return String(value);
  if (typeof value === "string" || isWhole(column)) return grouped(String(value));
  return withDigits(value, marginOf(value, told));
}

/** An interval behind its value: ± half its width, or its ends where these are not the same distance away, or only one. */
export function interval(value, column, told) {
  if (!told || value === null || value === undefined) return "";
  const low = end(told.low);
  const high = end(told.high);
  if (isTemporal(column)) return `${told.low ?? "…"} … ${told.high ?? "…"}`;
  if (low === null && high === null) return "of any error";
  const below = Number(value) - low;
  const above = high - Number(value);
  if (low === null) return `≤ ${bound(high, column, above)}`;
  if (high === null) return `≥ ${bound(low, column, below)}`;
  const margin = (high - low) / 2;
  const whole = isWhole(column);
  const uneven = Math.abs(below - above) > Math.max(EVEN * margin, whole ? 1 + 1e-9 : 0);
  if (isAllOf(column.range, low, high)) return `any of ${bound(low, column, margin)} … ${bound(high, column, margin)}`;
  if (uneven) return `${bound(low, column, margin)} … ${bound(high, column, margin)}`;
  if (margin === 0) return "± 0";
  if (whole) return `± ${margin >= 1 ? grouped(String(Math.ceil(margin - 1e-9))) : withDigits(margin, margin)}`;
  return `± ${withDigits(Math.max(below, above), Math.max(below, above))}`;
}

/** Whether an interval is all that is possible, so that it tells nothing. */
const isAllOf = (range, low, high) => Boolean(range) && low <= (range[0] ?? -Infinity) && high >= (range[1] ?? Infinity);

/** A finite end of an interval, or null. */
export function end(value) {
  const number = value === null || value === undefined ? NaN : Number(value);
  return Number.isFinite(number) ? number : null;
}

/** A moment as the day and minute where the reader is, with the zone. @param {string} at in ISO form */
export function moment(at) {
  const when = new Date(at);
  if (Number.isNaN(when.getTime())) return String(at);
  return `${when.toLocaleString("sv-SE", {dateStyle: "short", timeStyle: "short"})} ${zone(when)}`;
}

/** The time zone where the reader is, such as UTC+1. */
export function zone(when = new Date()) {
  const minutes = -when.getTimezoneOffset();
  if (minutes === 0) return "UTC";
  const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
  return `UTC${minutes < 0 ? "−" : "+"}${hours}${rest ? `:${String(rest).padStart(2, "0")}` : ""}`;
}

/** How far a value may be off, for its digits: half an interval, or the distance of its only end; null where it has none. */
function marginOf(value, told) {
  const low = told ? end(told.low) : null;
  const high = told ? end(told.high) : null;
  if (low !== null && high !== null && high > low) return (high - low) / 2;
  const only = low ?? high;
  return only === null ? null : Math.abs(only - value);
}

const bound = (value, column, margin) =>
  isWhole(column) ? grouped(String(Math.round(value))) : withDigits(value, Math.abs(margin));

function withDigits(value, margin) {
  if (!Number.isFinite(value)) return String(value);
  if (margin === null || !(margin > 0)) return value.toLocaleString("en-US", {maximumSignificantDigits: 10});
  const decimals = Math.min(Math.max(0, 1 - Math.floor(Math.log10(margin))), 10);
  return value.toLocaleString("en-US", {minimumFractionDigits: decimals, maximumFractionDigits: decimals});
}

/** Digits in threes, of numbers of any length, as these come as texts. @param {string} text */
function grouped(text) {
  const [, sign, whole, rest] = /^([-+]?)(\d*)(.*)$/.exec(text);
  return sign + whole.replace(/\B(?=(\d{3})+$)/g, ",") + rest;
}
