/** The statements of all analysts: a search, its results in pages, and as a file. Answers are not included. */

import {get, inTurn} from "./api.js";
import {element, show} from "./elements.js";
import {moment, zone} from "./numbers.js";
import {refusal} from "./price.js";
import {stacked} from "./stacked.js";

const OUTCOMES = {"": "any", answered: "answered", failed: "failed", stopped: "stopped", running: "running", shared: "shared"};
const MOST = 50; // of a page
let count = 0;

/** @param {HTMLElement} place @param {{outcome?: string}} only the outcome, if it is not chosen in the search */
export function showStatements(place, {outcome}) {
  const list = element("div", {"aria-live": "polite"});
  const file = element("a", {class: "button", download: "statements.csv"}, "Save as CSV");
  const analyst = field("Analyst", {autocapitalize: "none", spellcheck: "false"});
  const text = field("Text contains", {spellcheck: "false"});
  const since = field(`Since (${zone()})`, {type: "datetime-local"});
  const until = field(`Before (${zone()})`, {type: "datetime-local"});
  const of = choice();

  const terms = () => {
    const given = {
      analyst: analyst.input.value.trim(),
      text: text.input.value,
      outcome: outcome ?? of.input.value,
      since: inWhole(since.input.value),
      until: inWhole(until.input.value),
    };
    return new URLSearchParams(Object.entries(given).filter(([, told]) => told !== ""));
  };

  async function fill(asked, before = 0) {
    const query = new URLSearchParams({...Object.fromEntries(asked), before: String(before), most: String(MOST)});
    try {
      const told = await inTurn(() => get(`/api/oversight/statements?${query}`));
      if (before === 0) show(list, ...listOf(told, outcome));
      else list.querySelector("tbody").append(...told.statements.map((one) => stacked.row(cellsOf(one, outcome))));
      list.querySelector(".more")?.remove();
      if (told.before !== null) list.append(more(asked, told.before));
    } catch (refused) {
      show(list, ...refusal(refused));
    }
  }

  const more = (asked, before) =>
    element(
      "p",
      {class: "more"},
      element("button", {type: "button", onclick: () => fill(asked, before)}, "Show older ones"),
    );

  function look(event) {
    event?.preventDefault();
    const asked = terms();
    file.setAttribute("href", `/api/oversight/statements.csv?${asked}`);
    fill(asked);
  }

  show(
    place,
    outcome === "answered"
      ? element(
          "p",
          {class: "quiet measure"},
          "Every answer that was released under this budget. The answers themselves are shown only to their analysts.",
        )
      : null,
    element(
      "form",
      {class: "card terms", onsubmit: look, role: "search", "aria-label": "Which statements"},
      ...[analyst, text, outcome === undefined && of, since, until].filter(Boolean).map((one) => one.place),
      element("div", {class: "tools"}, element("button", {type: "submit", class: "first"}, "Show"), file),
    ),
    list,
  );
  look();
}

const field = (title, attributes) => term(title, "input", attributes);

const choice = () =>
  term("Outcome", "select", {}, ...Object.entries(OUTCOMES).map(([value, told]) => element("option", {value}, told)));

/** A term of the search with its label. */
function term(title, tag, attributes, ...options) {
  const id = `term-${++count}`;
  const input = element(tag, {id, ...attributes}, ...options);
  return {input, place: element("div", {class: "term"}, element("label", {for: id}, title), input)};
}

/** A time of the reader's clock with its zone. */
const inWhole = (local) => (local === "" ? "" : new Date(local).toISOString());

function listOf({statements, found}, outcome) {
  const words = found === 1 ? "1 statement" : `${found.toLocaleString("en-US")} statements`;
  const titles = ["When", "Analyst", "Statement", "Cost", ...(outcome === undefined ? ["Outcome"] : [])];
  return [
    element("p", {class: "quiet"}, found === 0 ? "No statement matches." : `${words}, newest first`),
    found > 0 &&
      stacked.table(
        "Statements",
        titles,
        statements.map((one) => cellsOf(one, outcome)),
      ),
  ];
}

function cellsOf({at, analyst, sql, cost, outcome: how}, only) {
  return [
    {text: moment(at), kind: "when"},
    {text: analyst, kind: "name"},
    {text: sql, kind: "sql"},
    {text: cost, kind: "number"},
    ...(only === undefined ? [{text: how, kind: how === "failed" ? "fault" : ""}] : []),
  ];
}
