/** What is left in each period of tables that grow, and the standing queries with their numbers. */

import {answerTable} from "./answer_table.js";
import {get, inTurn, post} from "./api.js";
import {asCsv} from "./answer_csv.js";
import {chartPanel} from "./chart_panel.js";
import {copying} from "./copying.js";
import {definitions, element, show} from "./elements.js";
import {fill} from "./filling.js";
import {noteList} from "./notes.js";
import {refusal} from "./price.js";
import {stacked} from "./stacked.js";
import {tabs} from "./tabs.js";

let count = 0;

/** @param {HTMLElement} place */
export async function showTime(place) {
  await fill(place, async () => {
    const {periods, queries} = await get("/api/time");
    return [
      element("h2", {}, "Standing queries"),
      queries.length === 0
        ? element(
            "p",
            {class: "quiet"},
            "None yet. ",
            element("code", {}, "CREATE STANDING QUERY name AS SELECT ..."),
            " keeps one; it costs nothing until a period closes.",
          )
        : element("div", {class: "standing"}, ...queries.map(queryOf)),
      element("h2", {}, "Left in each period"),
      periods.length === 0 ? element("p", {class: "quiet"}, "No period is closed yet.") : periodsOf(periods),
    ];
  });
}

const periodsOf = (periods) =>
  stacked.table(
    "Periods",
    ["Period", "Account", "Left", "Limit", "Tables", "Revised"],
    periods.map(({tables, period, whose, limit, left, revised}) => [
      {text: period, kind: "when"},
      {text: whose, kind: "name"},
      {text: left, narrow: " left"},
      {text: limit, narrow: " allowed"},
      {text: tables},
      {text: revised},
    ]),
  );

/** The card of a standing query. Its numbers are loaded at once if they are the user's own. */
function queryOf(query) {
  const {name, analyst, statement, own, readable} = query;
  const numbers = element("div", {class: "series", "aria-live": "polite"});
  if (own) load(query, numbers);
  else show(numbers, ...(readable ? offer(query, numbers) : [withheld(query)]));
  return element(
    "article",
    {class: "card", "aria-label": `Standing query ${name}`},
    element("h3", {}, name),
    element("pre", {class: "sql"}, statement),
    definitions(factsOf(query), {list: "policy"}),
    numbers,
    readable && element("p", {class: "quiet"}, "In any query: ", element("code", {}, `SELECT * FROM standing.${name}`)),
    !own && element("p", {class: "quiet"}, `Charged to ${analyst}, who alone can drop it.`),
  );
}

const factsOf = ({analyst, last, next, closes, price, year_in_period, year_in_all, room}) =>
  [
    ["Made by", analyst],
    ["Measured until", last || "no period yet"],
    ["Next period", next && `${next}, which closes on ${closes}`],
    ["Price of a period", price],
    ["A year ahead", year_in_period === year_in_all ? year_in_all : `${year_in_period} in a period, ${year_in_all} in all`],
    ["Room in the budget", room],
  ].filter(([, told]) => told);

const withheld = ({analyst}) =>
  element("p", {class: "quiet"}, `Its numbers are shown to ${analyst} only, as this budget does not share answers.`);

const offer = (query, numbers) => [
  element(
    "button",
    {type: "button", onclick: () => load(query, numbers), "aria-label": `Show the numbers of ${query.name}`},
    "Show its numbers",
  ),
  element("p", {class: "quiet"}, "Free. The ledger records that they were shown to you."),
];

async function load({name, statement}, place) {
  show(place, element("p", {class: "quiet"}, "Loading its numbers."));
  try {
    const {answer, periods} = await inTurn(() => post("/api/series", {name}));
    show(place, ...(answer === null ? [unmeasured()] : seriesOf(answer, periods, statement)));
  } catch (refused) {
    show(place, ...refusal(refused));
  }
}

const unmeasured = () =>
  element(
    "p",
    {class: "quiet"},
    "No period is measured yet. The owner's timer does that: ",
    element("code", {}, "dpsql publish"),
  );

const seriesOf = (answer, periods, statement) => [
  tabs(
    `series-${++count}`,
    [
      {name: "Chart", panel: chartPanel(answer)},
      {name: "Table", panel: answerTable(answer, statement)},
      {name: "Periods", panel: pricesOf(periods)},
    ],
    copying("Copy as CSV", () => asCsv(answer)),
  ),
  answer.notes.length > 0 && element("p", {class: "quiet"}, `Of the newest period, ${periods.at(-1).period}:`),
  noteList(answer.notes),
];

const pricesOf = (periods) =>
  stacked.table(
    "Measured periods",
    ["Period", "Days", "Price in the period", "Price in all"],
    periods.toReversed().map(({period, first, last, price_in_period, price_in_all}) => [
      {text: period, kind: "name"},
      {text: first === last ? first : `${first} to ${last}`, kind: "when"},
      {text: price_in_period, narrow: " in the period"},
      {text: price_in_all, narrow: " in all"},
    ]),
  );
