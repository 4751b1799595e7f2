/** Notes on an answer: of a long one, only the first clauses until it is opened, as in `answers/display.py`. */

import {element} from "./elements.js";

const LONGEST = 140; // letters of a note that is shown whole

/** A list of notes, or nothing if there are none. @param {string[]} notes */
export function noteList(notes) {
  return notes.length > 0 ? element("ul", {class: "notes"}, ...notes.map((note) => element("li", {}, noteOf(note)))) : null;
}

function noteOf(note) {
  const head = brief(note);
  return head === note ? note : element(
        "details",
        {},
        element("summary", {}, element("span", {class: "brief"}, head), element("span", {class: "whole"}, note)),
      );
}

/** @param {string} note */
function brief(note) {
  if (note.length <= LONGEST) return note;
  const head = note.slice(0, LONGEST);
  const ends = [...head.matchAll(/(?<=.{40})(?:; |: |\. |, | \()/g)].map((found) => found.index);
  return `${head.slice(0, ends.at(-1) ?? head.lastIndexOf(" "))} ...`;
}
