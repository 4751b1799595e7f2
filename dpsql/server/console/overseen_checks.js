/** Checks of the policy and of the whole ledger, which run when they are asked for. */

import {inTurn, post} from "./api.js";
import {element, show} from "./elements.js";
import {refusal} from "./price.js";

/** @param {HTMLElement} place */
export function showChecks(place) {
  const found = element("div", {role: "status"});
  const button = element("button", {type: "button", class: "first", onclick: run}, "Check now");

  async function run() {
    button.disabled = true;
    show(found, element("p", {class: "progress busy"}, "Checking. Every event of the ledger is read."));
    try {
      const {checks} = await inTurn(() => post("/api/oversight/checks"));
      show(found, element("ul", {class: "checks"}, ...checks.map(checkOf)));
    } catch (refused) {
      show(found, ...refusal(refused));
    } finally {
      button.disabled = false;
    }
  }

  show(
    place,
    element(
      "p",
      {class: "quiet measure"},
      "Reads the policy again, compares it with what earlier charges have promised, and verifies the whole ledger.",
    ),
    button,
    found,
    element(
      "p",
      {class: "quiet measure"},
      "On the owner's machine, ",
      element("code", {}, "dpsql check"),
      " also compares the policy with the database, and ",
      element("code", {}, "dpsql check ", element("span", {class: "option"}, "--rows")),
      " counts the values that the policy cuts off; these counts are private, so they are never shown here.",
    ),
  );
}

const checkOf = ({fine, words}) =>
  element(
    "li",
    {class: "card"},
    element("strong", {class: fine ? "" : "fault"}, fine ? "In order" : "Look at this"),
    " ",
    element("span", {}, words),
  );
