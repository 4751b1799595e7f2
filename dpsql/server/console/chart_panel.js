/** The chart of an answer, with a choice of what is drawn; drawn again when the place gets wider or narrower. */

import {barChart} from "./bar_chart.js";
import {keyToColours} from "./chart_axes.js";
import {drawn, measures} from "./chart_series.js";
import {element, show} from "./elements.js";
import {lineChart} from "./line_chart.js";

let count = 0;

/** @param {import("./answer_card.js").Answer} answer */
export function chartPanel(answer) {
  const possible = measures(answer);
  if (possible.length === 0) return element("p", {class: "quiet"}, "There is no number to draw.");
  const picture = element("div", {class: "picture"});
  const of = choice(
    "Number",
    possible.map((at) => [String(at), answer.columns[at].name]),
    redraw,
  );
  const as = choice(
    "Drawn as",
    [
      ["lines", "lines"],
      ["bars", "bars"],
    ],
    redraw,
  );
  let width = 0;

  function redraw() {
    const told = drawn(answer, Number(of.select.value));
    as.hidden = typeof told === "string" || !told.continuous;
    if (typeof told === "string") return show(picture, element("p", {class: "quiet"}, told));
    if (width === 0) return;
    const chart = told.continuous && as.select.value === "lines" ? lineChart : barChart;
    show(picture, titleOf(told, answer.confidence), keyToColours(told), chart(told, width), ...leftOut(told, chart));
  }

  new ResizeObserver(([{contentRect}]) => {
    if (Math.floor(contentRect.width) === width) return;
    width = Math.floor(contentRect.width);
    redraw();
  }).observe(picture);
  of.place.hidden = possible.length === 1;
  const first = drawn(answer, possible[0]);
  if (typeof first !== "string" && first.few) as.select.value = "bars";
  redraw();
  return element("div", {}, element("div", {class: "choices"}, of.place, as.place), picture);
}

/** What is drawn, in a line. @param {import("./chart_series.js").Drawn} told @param {number | null} confidence */
function titleOf({measure, key, group}, confidence) {
  const by = [key, group].filter(Boolean).join(" and ");
  const within = confidence === null ? "" : `, with ${Number((confidence * 100).toPrecision(6))} % intervals`;
  return element("p", {class: "title"}, element("strong", {}, measure), by ? ` by ${by}` : "", within);
}

/** What the chart does not show, in words. @param {import("./chart_series.js").Drawn} told */
function leftOut({key, series}, chart) {
  const marks = series.flatMap((one) => one.marks);
  const nowhere = chart === lineChart && marks.some((mark) => mark.key === null);
  const open = marks.some((mark) => mark.value !== null && (mark.low === null) !== (mark.high === null));
  const empty = marks.some((mark) => mark.value === null);
  return [
    nowhere && `Rows whose ${key} is NULL are not drawn.`,
    open && "An interval without an end is drawn on its other side only.",
    empty && "A number that is NULL has no mark.",
  ]
    .filter(Boolean)
    .map((words) => element("p", {class: "quiet"}, words));
}

/** A labelled list to choose from. @param {string} title @param {[string, string][]} options */
function choice(title, options, changed) {
  const id = `choice-${++count}`;
  const select = element(
    "select",
    {id, onchange: changed},
    ...options.map(([value, text]) => element("option", {value}, text)),
  );
  const place = element("span", {}, element("label", {for: id}, title), select);
  return {
    select,
    place,
    set hidden(now) {
      place.hidden = now;
    },
  };
}
