/** The charts of an answer, with a choice of what is drawn. */

import {element, show} from "./elements.js";
import {picture} from "./picture.js";

/**
 * One column in one form, drawn for broad, wide and narrow places.
 * @typedef {{number: number, column: string, form: string, caption: string, notes: string[],
 *   broad: string, wide: string, narrow: string}} Chart
 */

let count = 0;

/** @param {import("./answer_card.js").Answer} answer */
export function chartPanel({charts, undrawn}) {
  const why = undrawn && element("p", {class: "quiet"}, `${charts.length > 0 ? "Not drawn" : "No chart"}: ${undrawn}.`);
  if (charts.length === 0) return why;
  const place = element("div", {class: "chart"});
  const of = choice("Number", new Map(charts.map(({number, column}) => [String(number), column])), redraw);
  const as = choice("Drawn as", new Map(charts.map(({form}) => [form, form])), redraw);

  function redraw() {
    const forms = charts.filter(({number}) => String(number) === of.value());
    show(place, figure(forms.find(({form}) => form === as.value()) ?? forms[0]));
  }

  redraw();
  return element("div", {}, element("div", {class: "choices"}, of.place, as.place), place, why);
}

/** @param {Chart} chart */
function figure({caption, notes, broad, wide, narrow}) {
  return element(
    "figure",
    {},
    element("figcaption", {}, caption, element("span", {class: "unseen"}, "; the table has the numbers")),
    element("div", {class: "broad"}, picture(broad)),
    element("div", {class: "wide-picture"}, picture(wide)),
    element("div", {class: "narrow"}, picture(narrow)),
    ...notes.map((note) => element("p", {class: "quiet"}, note)),
  );
}

/**
 * A labelled list to choose from, which is seen where there is a choice.
 * @param {string} title @param {Map<string, string>} options
 */
function choice(title, options, changed) {
  const id = `choice-${++count}`;
  const select = element(
    "select",
    {id, onchange: changed},
    ...[...options].map(([value, text]) => element("option", {value}, text)),
  );
  const place = element("span", {hidden: options.size === 1}, element("label", {for: id}, title), select);
  return {place, value: () => select.value};
}
