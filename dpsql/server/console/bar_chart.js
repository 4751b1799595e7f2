/** Bars that lie, so that names of any length can be read, with the interval over each and its number behind it. */

import {extent, label, lines, scale, ticks, widthOf} from "./chart_axes.js";
import {drawing} from "./elements.js";
import {plain} from "./numbers.js";

const BAR = 22;
const GAP = 10;
const TOP = 8;
const BOTTOM = 30;
const PAD = 8;

/** @param {import("./chart_series.js").Drawn} told @param {number} width in pixels */
export function barChart(told, width) {
  const marks = told.series.flatMap(({marks: each}) => each);
  const names = [...new Set(marks.map((mark) => mark.name))];
  const left = Math.min(Math.max(0, ...names.map(widthOf)), Math.round(width * 0.32)) + PAD;
  const right = Math.min(Math.max(...marks.map((mark) => widthOf(mark.words))), Math.round(width * 0.42)) + PAD;
  const range = extent([0, ...marks.flatMap((mark) => [mark.value, mark.low, mark.high])]);
  const x = scale(range, [left, Math.max(width - right, left + 40)]);
  const parts = [];
  const groups = [];
  let y = TOP;
  for (const name of names) {
    const shownName = lines(name, left - PAD);
    const rows = told.series.flatMap((series, at) =>
      series.marks.filter((mark) => mark.name === name).map((mark) => ({mark, at})),
    );
    const high = Math.max(rows.length * BAR, shownName.length * 16 + 4);
    groups.push(label(left - PAD, y + high / 2, shownName, {class: "name", "text-anchor": "end"}));
    rows.forEach(({mark, at}, row) => parts.push(bar(mark, at, x, y + (high - rows.length * BAR) / 2 + row * BAR)));
    y += high + GAP;
  }
  return drawing(
    "svg",
    {
      class: "chart",
      role: "img",
      width,
      height: y + BOTTOM,
      viewBox: `0 0 ${width} ${y + BOTTOM}`,
      "aria-label": `Bars of ${told.measure}${told.key && ` by ${told.key}`}, each with its interval; the table has the numbers`,
    },
    ...grid(x, range, y, width),
    ...groups,
    ...parts,
    drawing("line", {class: "zero", x1: x(0), x2: x(0), y1: TOP - 4, y2: y}),
  );
}

function bar(mark, at, x, top) {
  const middle = top + BAR / 2;
  const far = Math.max(x(0), ...[mark.value, mark.low, mark.high].filter((each) => each !== null).map(x));
  const from = Math.min(x(0), x(mark.value ?? 0));
  return drawing(
    "g",
    {class: `series-${at}`},
    drawing(
      "rect",
      {class: "mark", x: from, y: top + 3, width: Math.abs(x(mark.value ?? 0) - x(0)), height: BAR - 6, rx: 2},
      drawing("title", {}, `${mark.name}: ${mark.words}`),
    ),
    whisker(mark, x, middle),
    drawing("text", {class: "words", x: far + 7, y: middle, dy: "0.35em"}, mark.words),
  );
}

/** The interval of a mark; a side without an end is not drawn. */
function whisker(mark, x, y) {
  if (mark.value === null) return "";
  const low = x(mark.low ?? mark.value);
  const high = x(mark.high ?? mark.value);
  const caps = [mark.low !== null && low, mark.high !== null && high].filter((cap) => cap !== false);
  return drawing("path", {
    class: "interval",
    d: [`M${low} ${y}H${high}`, ...caps.map((cap) => `M${cap} ${y - 4}V${y + 4}`)].join(""),
  });
}

function grid(x, range, bottom, width) {
  const count = Math.max(2, Math.floor((x(range[1]) - x(range[0])) / Math.max(70, widthOf(plain(range[1])) + 24)));
  return ticks(range, count).flatMap((tick) => [
    drawing("line", {class: "grid", x1: x(tick), x2: x(tick), y1: TOP - 4, y2: bottom}),
    drawing(
      "text",
      {class: "tick", x: Math.min(x(tick), width - widthOf(plain(tick)) / 2), y: bottom + 16, "text-anchor": "middle"},
      plain(tick),
    ),
  ]);
}
