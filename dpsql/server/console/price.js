/** What a statement would cost and how exact its numbers would be, before it is run. */

import {element} from "./elements.js";

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

/**
 * @typedef {{column: string, error: number | null, words: string}} ExpectedError
 * @param {{cost: string, left_after: string, affordable: boolean, stored: boolean, errors: ExpectedError[],
 *   notes: string[]}} told
 */
export function priced(told) {
  return fragment(
    element("h2", {}, "Price"),
    element("p", {class: "cost"}, ...costOf(told)),
    !told.affordable && !told.stored ? element("p", {class: "fault"}, "The budget has no room for it.") : null,
    told.errors.length > 0 ? errorsOf(told.errors) : null,
    told.left_after && !told.stored ? leftAfter(told.left_after) : null,
    told.notes.length > 0 ? element("ul", {class: "notes"}, ...told.notes.map((note) => element("li", {}, note))) : null,
  );
}

/** @param {import("./api.js").Refused} refused */
export function refusedPrice(refused) {
  if (refused.code === "explain") {
    return fragment(element("h2", {}, "Price"), element("p", {class: "quiet"}, "Only queries are priced before they run."));
  }
  return fragment(element("h2", {}, "Not answered as it is"), ...refusal(refused));
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
  return cost.startsWith("nothing")
    ? [element("strong", {}, "Free"), why ? `: ${why}` : ""]
    : [element("strong", {}, cost)];
}

/** @param {ExpectedError} told */
function errorInWords({error, words}) {
  if (error === null) return words;
  return error === 0 ? "exact" : error.toLocaleString("en-US", {maximumSignificantDigits: 3});
}

/** What would be left: of each account in percent, and all of it on demand. @param {string} words */
function leftAfter(words) {
  const lines = words.split("; ");
  const parts = lines.map((line) => /^(.*?): .*\((\S+ %) of the budget\)/.exec(line)).filter(Boolean);
  const short = parts.map(([, whose, percent]) => `${whose} ${percent}`).join(", ");
  return element(
    "details",
    {class: "left-after"},
    element("summary", {}, "Left after it", short ? `: ${short}` : ""),
    ...lines.map((line) => element("p", {}, line)),
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
