/** A question back before an act that others will notice. */

import {element} from "./elements.js";

/**
 * Whether it is to be done. Escape says no, and the first button that has the focus does nothing.
 * @param {{title: string, words: string, act: string}} asked @returns {Promise<boolean>}
 */
export function agreed({title, words, act}) {
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
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((answer) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      answer(dialog.returnValue === "yes");
    });
  });
}

/** Says something that is shown once. @param {string} title @param {...(Node | string)} words */
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
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
