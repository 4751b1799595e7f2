/** The lines of EXPLAIN as a tree: what is indented hangs below the line before it. */

import {element} from "./elements.js";

const MECHANISMS_LEFT = /^not [a-z]/;

/** @typedef {{text: string, below: Branch[]}} Branch */

/** @param {string[]} lines */
export const planOf = (lines) => element("div", {class: "plan-tree"}, listOf(treeOf(lines)));

/** @param {string[]} lines @returns {Branch[]} */
function treeOf(lines) {
  const root = {depth: -1, below: []};
  const path = [root];
  for (const line of lines.filter((each) => each.trim() !== "")) {
    const branch = {depth: line.length - line.trimStart().length, text: line.trim(), below: []};
    while (path.at(-1).depth >= branch.depth) path.pop();
    path.at(-1).below.push(branch);
    path.push(branch);
  }
  return root.below;
}

function listOf(branches) {
  const left = branches.filter(({text}) => MECHANISMS_LEFT.test(text));
  const others = branches.filter((branch) => !left.includes(branch));
  return element(
    "ul",
    {},
    ...others.map(itemOf),
    left.length > 0 &&
      element(
        "li",
        {},
        element(
          "details",
          {},
          element("summary", {}, "What was not taken, and why"),
          element("ul", {}, ...left.map(itemOf)),
        ),
      ),
  );
}

/** A line; its second part, behind a gap, says why. */
function itemOf({text, below}) {
  const [first, ...rest] = text.split(/ {2,}/);
  return element(
    "li",
    {},
    element("span", {}, first),
    rest.length > 0 && element("span", {class: "quiet"}, rest.join(" ")),
    below.length > 0 && listOf(below),
  );
}
