/** Pages that the server is asked for when they are turned to. */

import {inTurn} from "./api.js";
import {element, show} from "./elements.js";
import {refusal} from "./price.js";

/**
 * Shows what is made of answers of the server, or why there are none. Until they are there, what was there before stays.
 * @param {HTMLElement} place @param {() => Promise<(Node | false)[]>} made
 */
export async function fill(place, made) {
  if (place.childElementCount === 0) {
    show(place, element("p", {class: "quiet"}, "Loading. If a statement is running, this waits until it ends."));
  }
  try {
    show(place, ...(await inTurn(made)));
  } catch (refused) {
    show(place, ...refusal(refused));
  }
}
