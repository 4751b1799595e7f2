/** Lines over a number or a date, with intervals as bands. */

import {extent, scale, ticks, widthOf} from "./chart_axes.js";
import {drawing} from "./elements.js";
import {plain} from "./numbers.js";

const HEIGHT = 300;
const TOP = 12;
const BOTTOM = 48;
const PAD = 8;
const DAY = 86_400_000;

/** @param {import("./chart_series.js").Drawn} told @param {number} width in pixels */
export function lineChart(told, width) {
  const place = told.temporal ? (key) => Date.parse(String(key)) : Number;
  const series = told.series.map(({name, marks}) => ({
    name,
    marks: marks.filter((mark) => mark.key !== null).sort((a, b) => place(a.key) - place(b.key)),
  }));
  const all = series.flatMap(({marks}) => marks);
  const range = padded(extent(all.flatMap((mark) => [mark.value, mark.low, mark.high])));
  const heights = ticks(range, 5);
  const left = Math.max(...heights.map((tick) => widthOf(plain(tick)))) + PAD;
  const across = extent(all.map((mark) => place(mark.key)));
  const right = Math.max(12, widthOf(along(told, across[1])) / 2);
  const x = scale(across, [left + 6, width - right]);
  const y = scale(range, [HEIGHT - BOTTOM, TOP]);
  return drawing(
    "svg",
    {
      class: "chart",
      role: "img",
      width,
      height: HEIGHT,
      viewBox: `0 0 ${width} ${HEIGHT}`,
      "aria-label": `Lines of ${told.measure} by ${told.key}, with bands for intervals; the table has the numbers`,
    },
    ...heights.flatMap((tick) => [
      drawing("line", {class: "grid", x1: left, x2: width - 4, y1: y(tick), y2: y(tick)}),
      drawing("text", {class: "tick", x: left - PAD, y: y(tick), dy: "0.35em", "text-anchor": "end"}, plain(tick)),
    ]),
    ...below(told, across, x, width),
    ...series.map((one, at) => lineOf(one, at, (mark) => x(place(mark.key)), y)),
  );
}

function lineOf({name, marks}, at, x, y) {
  const drawnMarks = marks.filter((mark) => mark.value !== null);
  const low = (mark) => y(mark.low ?? mark.value);
  const high = (mark) => y(mark.high ?? mark.value);
  const band = [
    ...drawnMarks.map((mark) => `${x(mark)} ${high(mark)}`),
    ...drawnMarks.toReversed().map((mark) => `${x(mark)} ${low(mark)}`),
  ];
  return drawing(
    "g",
    {class: `series-${at}`},
    band.length > 0 && drawing("path", {class: "band", d: `M${band.join("L")}Z`}),
    drawing("path", {
      class: "line",
      d: drawnMarks.map((mark, i) => `${i ? "L" : "M"}${x(mark)} ${y(mark.value)}`).join(""),
    }),
    ...drawnMarks.flatMap((mark) => [
      drawing("path", {class: "interval", d: `M${x(mark)} ${low(mark)}V${high(mark)}`}),
      drawing(
        "circle",
        {class: "mark", cx: x(mark), cy: y(mark.value), r: 3},
        drawing("title", {}, `${name && `${name}, `}${mark.name}: ${mark.words}`),
      ),
    ]),
  );
}

function below(told, across, x, width) {
  const apart = widthOf(along(told, across[1])) + 28;
  const count = Math.max(2, Math.floor((x(across[1]) - x(across[0])) / apart));
  const found = told.temporal ? days(across, count) : ticks(across, count, told.whole ? 1 : 0);
  return [
    ...found.map((tick) =>
      drawing("text", {class: "tick", x: x(tick), y: HEIGHT - BOTTOM + 18, "text-anchor": "middle"}, along(told, tick)),
    ),
    drawing(
      "text",
      {class: "name", x: (x(across[0]) + x(across[1])) / 2, y: HEIGHT - 8, "text-anchor": "middle"},
      told.key,
    ),
  ];
}

/** Days at equal steps. */
function days([low, high], count) {
  const step = Math.max(DAY, Math.ceil((high - low) / count / DAY) * DAY);
  return Array.from({length: Math.floor((high - low) / step) + 1}, (_, at) => low + at * step);
}

/** A key along the axis; commas only where keys are long, as years have none. */
function along({temporal, series}, value) {
  if (temporal) return new Date(value).toISOString().slice(0, 10);
  const short = series.every(({marks}) => marks.every(({key}) => Math.abs(Number(key)) < 10_000));
  return short ? String(Number(value.toPrecision(8))) : plain(value);
}

/** A range with a little room; from zero where that is near, as a line that starts in the air looks steeper than it is. */
function padded([low, high]) {
  const room = (high - low || Math.abs(high) || 1) * 0.05;
  return [low >= 0 && low < high / 2 ? 0 : low - room, high + room];
}
