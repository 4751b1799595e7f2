/** One answer: its table, its chart and its plan, with what it cost and what it means. */

import {answerTable} from "./answer_table.js";
import {inTurn, post} from "./api.js";
import {asCsv} from "./answer_csv.js";
import {chartPanel} from "./chart_panel.js";
import {copying} from "./copying.js";
import {element, show, watchOverflow} from "./elements.js";
import {noteList} from "./notes.js";
import {end} from "./numbers.js";
import {planOf} from "./plan_tree.js";
import {refusal} from "./price.js";
import {tabs} from "./tabs.js";

let count = 0;

/**
 * @typedef {import("./numbers.js").Column} Column
 * @typedef {import("./numbers.js").Told} Told
 * @typedef {{columns: Column[], rows: unknown[][], errors: Told[][], cost: string, stored: boolean,
 *   shared?: boolean, notes: string[], left: string, confidence: number | null,
 *   charts: import("./chart_panel.js").Chart[], undrawn: string | null}} Answer
 */

/**
 * The values of the parameters, and these in words.
 * @typedef {{parameters: unknown, words: string}} Given
 */

/** @param {string} sql @param {Given} given @param {Answer} answer @param {() => void} edit */
export function answerCard(sql, given, answer, edit) {
  const card = cardOf(sql, given, edit);
  const plan = element("div", {class: "plan"});
  card.append(
    element("p", {class: "spent"}, ...spentOf(answer)),
    tabs(
      `answer-${++count}`,
      [
        {name: "Table", panel: answerTable(answer, sql)},
        {name: "Chart", panel: chartPanel(answer)},
        {name: "Plan", panel: plan, opened: () => fillPlan(plan, {sql, parameters: given.parameters})},
      ],
      copying("Copy as CSV", () => asCsv(answer)),
    ),
    element("p", {class: "legend"}, meaningOf(answer)),
    noteList(answer.notes) ?? "",
  );
  return card;
}

/** A statement that was refused or interrupted. @param {Given} given @param {import("./api.js").Refused} refused */
export function refusedCard(sql, given, refused, edit) {
  const card = cardOf(sql, given, edit);
  card.classList.add("refused");
  card.append(...refusal(refused));
  return card;
}

function cardOf(sql, {words}, edit) {
  const card = element("article", {class: "card answer", "aria-label": `Answer to ${sql}`});
  const remove = element("button", {type: "button", class: "plain", onclick: () => card.remove()}, "Remove");
  const text = element("pre", {class: "sql"}, sql);
  watchOverflow(text, (_, higher) => (text.tabIndex = higher ? 0 : -1)); // so that keys can scroll it
  card.append(
    element(
      "div",
      {class: "head"},
      text,
      element("div", {class: "tools"}, element("button", {type: "button", class: "plain", onclick: edit}, "Edit"), remove),
    ),
    words && element("p", {class: "given"}, `with ${words}`),
  );
  return card;
}

function spentOf({cost, stored, shared}) {
  const told = shared ? "Answered before for another analyst: no cost" : "Answered before: no cost";
  const what = stored ? told : cost ? `Cost ${cost}` : "No cost: only public tables were read";
  return [element("strong", {}, what)];
}

/** In a line, what intervals and colours mean. @param {Answer} answer */
function meaningOf({columns, rows, errors, confidence}) {
  const noisy = columns.some((column) => !column.exact);
  if (!noisy) return "All columns are exact.";
  const open = errors.some((row) => row.some((told) => told && (end(told.low) === null) !== (end(told.high) === null)));
  const approximate = columns.filter((column) => column.approximate).map((column) => column.name);
  const percent = Number((confidence * 100).toPrecision(6));
  return [
    `Tinted columns are noisy. The ${percent} % interval, shown as ± or by its two ends, contains the exact number with this `
      + "probability.",
    open ? "≥ is a lower bound." : "",
    approximate.length > 0 ? `It is approximate for ${approximate.join(", ")}.` : "",
    rows.some((row) => row.includes(null)) ? "NULL does not count as a value." : "",
  ]
    .filter(Boolean)
    .join(" ");
}

async function fillPlan(place, asked) {
  if (place.childElementCount > 0) return;
  try {
    show(place, planOf((await inTurn(() => post("/api/price", asked))).tree));
  } catch (refused) {
    show(place, ...refusal(refused));
  }
}
