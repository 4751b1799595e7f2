/** What is drawn of an answer: which keys go along the axis, which make groups, and the numbers with their intervals. */

import {end, interval, isNumeric, isTemporal, shown} from "./numbers.js";

export const MOST_SERIES = 8; // more colours cannot be told apart
const FEW_BARS = 8; // numbers as keys that are more likely names of things than points along a line
const MOST_BARS = 120;
const FEW = 3; // different numbers from which on a line says more than bars

/** @typedef {{key: unknown, name: string, value: number | null, low: number | null, high: number | null, words: string}} Mark */
/** @typedef {{name: string, marks: Mark[]}} Series */
/**
 * `few`: the keys along the axis are numbers, but so few that bars say more.
 * @typedef {{measure: string, key: string, group: string, continuous: boolean, temporal: boolean, whole: boolean,
 *   few: boolean, series: Series[]}} Drawn
 */

/** @typedef {import("./answer_card.js").Answer} Answer */

/** The columns that can be drawn: numbers with noise, or all numbers but a first key. @param {Answer} answer */
export function measures({columns}) {
  const numeric = columns.map((_, at) => at).filter((at) => isNumeric(columns[at]));
  const noisy = numeric.filter((at) => !columns[at].exact);
  return noisy.length > 0 ? noisy : numeric.filter((at) => at > 0 || columns.length === 1);
}

/**
 * The marks of one column, or words on why they cannot be drawn.
 * @param {Answer} answer @param {number} measure @returns {Drawn | string}
 */
export function drawn(answer, measure) {
  const {columns, rows} = answer;
  const keys = keysOf(columns, measure);
  if (rows.length === 0) return "There are no rows to draw.";
  if (keys.length > 2) return `An answer with ${keys.length} keys is not drawn: GROUP BY one or two of them.`;
  const [first, second] = inOrder(answer, keys);
  const names = second === undefined ? [""] : [...new Set(rows.map((row) => named(row[second], columns[second])))];
  if (names.length > MOST_SERIES) {
    return `${columns[second].name} has ${names.length} values, and ${MOST_SERIES} colours can be told apart.`;
  }
  const continuous = first !== undefined && isContinuous(answer, first);
  if (!continuous && rows.length > MOST_BARS) return `${rows.length} bars cannot be told apart: LIMIT ${MOST_BARS}.`;
  const marks = rows.map((row, at) => ({
    group: second === undefined ? "" : named(row[second], columns[second]),
    ...markOf(answer, at, first, measure),
  }));
  return {
    measure: columns[measure].name,
    key: first === undefined ? "" : columns[first].name,
    group: second === undefined ? "" : columns[second].name,
    continuous,
    temporal: continuous && isTemporal(columns[first]),
    whole: marks.every(({key}) => key === null || Number.isInteger(Number(key))),
    few: continuous && !isTemporal(columns[first]) && new Set(marks.map(({name}) => name)).size <= FEW_BARS,
    series: names.map((name) => ({name, marks: marks.filter((mark) => mark.group === name)})),
  };
}

function keysOf(columns, measure) {
  const open = columns.every((column) => column.exact);
  return columns.map((_, at) => at).filter((at) => (open ? at < measure : columns[at].exact));
}

/** A number or a date goes along the axis. */
function inOrder(answer, keys) {
  const turned = keys.length === 2 && isContinuous(answer, keys[1]) && !isContinuous(answer, keys[0]);
  return turned ? [keys[1], keys[0]] : keys;
}

function isContinuous({columns, rows}, key) {
  if (isTemporal(columns[key])) return true;
  return isNumeric(columns[key]) && new Set(rows.map((row) => row[key]).filter((value) => value !== null)).size >= FEW;
}

function markOf({columns, rows, errors}, at, first, measure) {
  const value = rows[at][measure];
  const told = errors[at]?.[measure] ?? null;
  const column = columns[measure];
  const key = first === undefined ? null : rows[at][first];
  return {
    key,
    name: first === undefined ? "" : named(key, columns[first]),
    value: end(value),
    low: told ? end(told.low) : end(value),
    high: told ? end(told.high) : end(value),
    words: `${shown(value, column, told)} ${interval(value, column, told)}`.trim(),
  };
}

const named = (value, column) => shown(value, column);
