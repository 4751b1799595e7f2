/** An answer as a table: keys and noisy numbers told apart, every number whole, its interval beside it. */

import {element, watchOverflow} from "./elements.js";
import {interval, isNumeric, shown} from "./numbers.js";

const FIRST = 200; // rows that are shown at once

/** @param {import("./answer_card.js").Answer} answer @param {string} sql */
export function answerTable(answer, sql) {
  const body = element("tbody", {});
  const place = element(
    "div",
    {class: "scroll", tabindex: 0, role: "group", "aria-label": "Rows of the answer"},
    element(
      "table",
      {class: "answer-table"},
      element("caption", {class: "unseen"}, `Answer to ${sql}`),
      element("thead", {}, element("tr", {}, ...answer.columns.flatMap(titleOf))),
      body,
    ),
  );
  const aside = element("p", {class: "quiet", hidden: true}, "There is more to the right: scroll the table sideways.");
  const more = element("button", {type: "button", class: "plain", onclick: () => add(Infinity)});
  let next = 0;

  function add(count) {
    const until = Math.min(next + count, answer.rows.length);
    body.append(
      ...answer.rows.slice(next, until).map((row, at) => rowOf(row, answer.errors[next + at] ?? [], answer.columns)),
    );
    next = until;
    more.hidden = next >= answer.rows.length;
    more.textContent = `Show all ${answer.rows.length.toLocaleString("en-US")} rows`;
  }

  add(FIRST);
  if (answer.rows.length === 0) return element("div", {}, place, element("p", {class: "quiet"}, "No rows."));
  watchOverflow(place, (wider) => (aside.hidden = !wider));
  return element("div", {}, place, aside, more);
}

function titleOf(column) {
  const side = isNumeric(column) ? "number" : "";
  return [
    column.exact
      ? element("th", {scope: "col", class: side}, column.name)
      : element("th", {scope: "col", class: "noisy", colspan: 2}, column.name),
  ];
}

function rowOf(row, errors, columns) {
  return element("tr", {}, ...columns.flatMap((column, at) => cellsOf(row[at], column, errors[at] ?? null)));
}

function cellsOf(value, column, told) {
  const missing = value === null || value === undefined;
  const side = `${isNumeric(column) ? "number" : ""} ${missing ? "missing" : ""}`;
  const text = shown(value, column, told);
  if (column.exact) return [element("td", {class: side}, text)];
  return [
    element("td", {class: `noisy ${side}`}, text),
    element("td", {class: "noisy interval"}, interval(value, column, told)),
  ];
}
