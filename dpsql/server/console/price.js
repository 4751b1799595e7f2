/** What a statement would cost and how exact its numbers would be, before it is run. */

import {element} from "./elements.js";
import {percent} from "./left.js";
import {noteList} from "./notes.js";

/** Before anything is written. */
export function unpriced() {
  return fragment(
    element("h2", {}, "Price"),
    element(
      "p",
      {class: "quiet"},
      "While you write, this shows what the statement would cost, and how exact its numbers would be. ",
      "Looking costs nothing.",
    ),
  );
}

/** While the values of parameters are missing. */
export function awaited() {
  return fragment(
    element("h2", {}, "Price"),
    element("p", {class: "cost"}, "Not known yet"),
    element("p", {class: "quiet"}, "The price is shown once every parameter below the statement has a value."),
  );
}

/**
 * @typedef {{column: string, error: number | null, words: string}} ExpectedError
 * @typedef {{whose: string, left: string, part_left: number, left_after: string | null, part_left_after: number | null}} Account
 * @typedef {{cost: string, affordable: boolean, stored: boolean, costly: boolean, share: number | null, accounts: Account[],
 *   errors: ExpectedError[], notes: string[]}} Price
 */

/** @param {Price} told */
export function priced(told) {
  return fragment(
    element("h2", {}, "Price"),
    element("p", {class: "cost"}, ...costOf(told)),
    !told.affordable ? element("p", {class: "fault"}, "The budget cannot pay for it.") : null,
    told.errors.length > 0 ? errorsOf(told.errors) : null,
    told.accounts.length > 0 ? leftOf(told) : null,
    noteList(told.notes),
  );
}

/** @param {import("./api.js").Refused} refused */
export function refusedPrice(refused) {
  if (refused.code === "explain") {
    return fragment(element("h2", {}, "Price"), element("p", {class: "quiet"}, "Only queries are priced before they run."));
  }
  return fragment(element("h2", {}, "This statement cannot be answered"), ...refusal(refused));
}

/** The words of a refusal, and what to write instead. @param {import("./api.js").Refused} refused */
export function refusal(refused) {
  return [
    element("p", {class: "fault"}, refused.message),
    refused.remedy ? element("p", {class: "remedy"}, element("strong", {}, "Try "), refused.remedy) : null,
  ].filter(Boolean);
}

function costOf({cost, stored}) {
  if (stored) return [element("strong", {}, "Free"), ", as it was answered before"];
  const [, why] = /^nothing(?:: (.*))?$/.exec(cost) ?? [];
  return cost.startsWith("nothing") ? [element("strong", {}, "Free"), why ? `: ${why}` : ""] : [element("strong", {}, cost)];
}

/** @param {ExpectedError} told */
function errorInWords({error, words}) {
  if (error === null) return words;
  const size = Math.abs(error);
  if (size === 0) return "exact";
  if (size < 1e-4 || size >= 1e12) return error.toExponential(1).replace("e+", "e");
  return error.toLocaleString("en-US", {maximumSignificantDigits: 3});
}

/** What would be left, or is left now where that is not enough: of each account in percent, and all of it on demand. */
function leftOf({accounts, affordable}) {
  const told = accounts.map(({whose, left, left_after: after, part_left: part, part_left_after: partAfter}) =>
    affordable ? [whose, percent(partAfter), after] : [whose, percent(part), left],
  );
  return element(
    "details",
    {class: "left-after"},
    element(
      "summary",
      {},
      affordable ? "Left after it: " : "Left now: ",
      told.map(([whose, part]) => `${whose} ${part}`).join(", "),
    ),
    ...told.map(([whose, , words]) => element("p", {}, `${whose}: ${words}`)),
  );
}

function errorsOf(errors) {
  const rows = errors.map((told) =>
    element("tr", {}, element("th", {scope: "row"}, told.column), element("td", {}, errorInWords(told))),
  );
  return element(
    "table",
    {class: "facts"},
    element("caption", {}, "Expected standard error"),
    element("tbody", {}, ...rows),
  );
}

function fragment(...children) {
  const made = document.createDocumentFragment();
  made.append(...children.filter(Boolean));
  return made;
}
