/** The plan of a statement as a tree, as the server tells it. */

import {element} from "./elements.js";

const MECHANISMS_LEFT = /^not [a-z]/;

/** @typedef {{words: string, because: string, children: Branch[]}} Branch */

/** @param {Branch[]} tree */
export const planOf = (tree) => element("div", {class: "plan-tree"}, listOf(tree));

function listOf(branches) {
  const left = branches.filter(({words}) => MECHANISMS_LEFT.test(words));
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
          element("summary", {}, "Methods that were not chosen, and why"),
          element("ul", {}, ...left.map(itemOf)),
        ),
      ),
  );
}

function itemOf({words, because, children}) {
  return element(
    "li",
    {},
    element("span", {}, words),
    because !== "" && element("span", {class: "quiet"}, because),
    children.length > 0 && listOf(children),
  );
}
