/** The question back, before a statement that takes much of what is left of an account: by its numbers, and by the keyboard. */

import {closed, element} from "./elements.js";
import {percent} from "./left.js";

const UNSEEN = 400; // milliseconds in which a key is still that of before, and runs nothing

/**
 * Whether the statement is to be run at this price. Enter says yes, Escape no.
 * @param {import("./price.js").Price} price @returns {Promise<boolean>}
 */
export async function confirmed({cost, share, accounts}) {
  const opened = performance.now();
  const run = () => performance.now() - opened >= UNSEEN && dialog.close("run");
  const dialog = element(
    "dialog",
    {
      class: "card",
      "aria-labelledby": "confirm-title",
      "aria-describedby": "confirm-cost",
      onkeydown: (event) => event.key === "Enter" && event.repeat && event.preventDefault(),
    },
    element("h2", {id: "confirm-title"}, "Run it at this price?"),
    element(
      "p",
      {id: "confirm-cost"},
      element("strong", {}, cost),
      ` is ${percent(share)} of what is left`,
      share > 0.5 ? ", so it could not be paid for a second time. " : ". ",
      "What is charged is never given back.",
    ),
    element(
      "table",
      {class: "facts"},
      element("caption", {class: "unseen"}, "What is left of each account"),
      element(
        "thead",
        {},
        element("tr", {}, ...["Account", "Left now", "Left after it"].map((title) => element("th", {scope: "col"}, title))),
      ),
      element("tbody", {}, ...accounts.map(rowOf)),
    ),
    element("details", {class: "left-after"}, element("summary", {}, "In full"), ...accounts.map(inFull)),
    element(
      "div",
      {class: "actions"},
      element("button", {type: "button", class: "first", autofocus: true, onclick: run}, "Run it ", kbd("Enter")),
      element("button", {type: "button", onclick: () => dialog.close("")}, "Do not run it ", kbd("Esc")),
    ),
  );
  return (await closed(dialog)) === "run";
}

const kbd = (key) => element("kbd", {"aria-hidden": "true"}, key);

const rowOf = ({whose, part_left: before, part_left_after: after}) =>
  element(
    "tr",
    {},
    element("th", {scope: "row"}, whose),
    element("td", {}, percent(before)),
    element("td", {}, element("strong", {}, percent(after))),
  );

const inFull = ({whose, left, left_after: after}) => element("p", {}, `${whose}: now ${left}; after it ${after}`);
