/** A question before an act that affects others, and a message that is shown once. */

import {closed, element} from "./elements.js";

/**
 * Whether the user agrees. Escape means no; the button that has the focus at first closes the dialog without doing anything.
 * @param {{title: string, words: string, act: string}} asked @returns {Promise<boolean>}
 */
export async function agreed({title, words, act}) {
  const dialog = element(
    "dialog",
    {class: "card", "aria-labelledby": "look-title", "aria-describedby": "look-words"},
    element("h2", {id: "look-title"}, title),
    element("p", {id: "look-words"}, words),
    element(
      "div",
      {class: "actions"},
      element("button", {type: "button", autofocus: true, onclick: () => dialog.close("")}, "Do nothing"),
      element("button", {type: "button", class: "first", onclick: () => dialog.close("yes")}, act),
    ),
  );
  return (await closed(dialog)) === "yes";
}

/** Shows a message until the user closes it. @param {string} title @param {...(Node | string)} words */
export function told(title, ...words) {
  const dialog = element(
    "dialog",
    {class: "card", "aria-labelledby": "look-title"},
    element("h2", {id: "look-title"}, title),
    ...words,
    element(
      "div",
      {class: "actions"},
      element("button", {type: "button", class: "first", onclick: () => dialog.close()}, "Done"),
    ),
  );
  return closed(dialog);
}
