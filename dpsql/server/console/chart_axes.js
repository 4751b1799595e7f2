/** Scales, ticks and texts of charts. */

import {drawing} from "./elements.js";

/** A linear scale from numbers to pixels. @param {number[]} from @param {number[]} to */
export function scale([low, high], [start, stop]) {
  const span = high - low || 1;
  return (value) => start + ((value - low) / span) * (stop - start);
}

/** The least and the greatest of what is there. @param {(number | null)[]} numbers @returns {[number, number]} */
export function extent(numbers) {
  const there = numbers.filter((number) => number !== null);
  return there.length === 0 ? [0, 1] : [there.reduce((a, b) => Math.min(a, b)), there.reduce((a, b) => Math.max(a, b))];
}

/** Round numbers within a range, about `count` of them, at least `least` apart. @param {number[]} range */
export function ticks([low, high], count, least = 0) {
  const rough = Math.max((high - low) / Math.max(count, 1), least) || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= rough) ?? rough;
  const found = [];
  for (let at = Math.ceil(low / step); at * step <= high + step * 1e-9; at += 1)
    found.push(Number((at * step).toPrecision(12)));
  return found;
}

const ruler = document.createElement("canvas").getContext("2d");

/** The width of a text in a chart, in pixels. @param {string} text */
export function widthOf(text) {
  ruler.font = `13px ${getComputedStyle(document.body).fontFamily}`;
  return Math.ceil(ruler.measureText(text).width) + 1;
}

/** A text in lines of at most `width` pixels; words that are longer are parted, and nothing is cut off. */
export function lines(text, width) {
  const made = [""];
  for (const word of text.split(/(?<=[\s_/-])/).flatMap((part) => pieces(part, width))) {
    if (made.at(-1) !== "" && widthOf(made.at(-1) + word) > width) made.push("");
    made[made.length - 1] += word;
  }
  return made;
}

function pieces(word, width) {
  if (widthOf(word) <= width) return [word];
  const letters = Array.from(word);
  const size = Math.max(1, Math.floor((letters.length * width) / widthOf(word)) - 1);
  return Array.from({length: Math.ceil(letters.length / size)}, (_, at) =>
    letters.slice(at * size, (at + 1) * size).join(""),
  );
}

/** Lines of text around the height `y`. */
export function label(x, y, texts, attributes = {}) {
  const top = y - (texts.length - 1) * 8;
  return drawing(
    "text",
    {x, y: top, dy: "0.35em", ...attributes},
    ...texts.map((text, at) => drawing("tspan", {x, ...(at > 0 && {dy: 16})}, text)),
  );
}

/** The colours of groups by name, above a chart. @param {import("./chart_series.js").Drawn} told */
export function keyToColours(told) {
  if (told.group === "") return null;
  const key = document.createElement("p");
  key.className = "colours";
  key.append(
    `${told.group}: `,
    ...told.series.map((series, at) => {
      const item = document.createElement("span");
      item.className = `series-${at}`;
      item.textContent = series.name;
      return item;
    }),
  );
  return key;
}
