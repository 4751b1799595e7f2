/** Statements that failed after their charge or were stopped, and answers that left late. */

import {get} from "./api.js";
import {copying, inShell} from "./copying.js";
import {element} from "./elements.js";
import {fill} from "./filling.js";
import {moment} from "./numbers.js";
import {stacked} from "./stacked.js";

const CAUSES = {
  request: "cancelled by the analyst",
  "time limit": "the time limit was reached",
  "client left": "the connection was lost",
  "server stopped": "the server was stopped",
  "data changed": "files of the database changed",
};

/** @param {HTMLElement} place @param {{budget: string}} account */
export async function showIncidents(place, {budget}) {
  await fill(place, async () => {
    const {failures, stopped, late} = await get("/api/oversight/incidents");
    return [
      element(
        "p",
        {class: "quiet measure"},
        "A statement that fails after its charge stays charged. Look for what the statements of an analyst have in common: ",
        "somebody may provoke failures to learn something.",
      ),
      causes(budget),
      element("h2", {}, "Failed after their charge"),
      failures.length === 0
        ? element("p", {class: "quiet"}, "No statement failed.")
        : stacked.table("Failures", ["When", "Analyst", "Statement", "State"], failures.map(failureOf)),
      element("h2", {}, "Stopped after their charge"),
      stopped.length === 0
        ? element("p", {class: "quiet"}, "No statement was stopped.")
        : stacked.table("Stopped statements", ["Analyst", "Why", "Statements"], stopped.map(stopOf)),
      element("h2", {}, "Late answers"),
      late.length === 0
        ? element("p", {class: "quiet"}, "No answer left late.")
        : stacked.table("Late answers", ["Analyst", "Left at", "Answers"], late.map(lateOf)),
    ];
  });
}

/** Where each cause is shown. */
const causes = (budget) => {
  const command = `dpsql budget --budget ${inShell(budget)}`;
  return element(
    "div",
    {class: "card"},
    element("h2", {class: "first"}, "Why a statement failed"),
    element(
      "p",
      {class: "quiet measure"},
      "The cause may depend on the rows, so no page shows it. On the owner's machine, in the folder of the policy, this command ",
      "lists every failure with its cause: memory, disk, or another fault.",
    ),
    element("div", {class: "command"}, element("code", {}, command), element("span", {}, ...copying("Copy", () => command))),
  );
};

const stopOf = ({analyst, cause, number}) => [
  {text: analyst, kind: "name"},
  {text: CAUSES[cause] ?? cause},
  {text: number.toLocaleString("en-US"), kind: "number", narrow: number === 1 ? " statement" : " statements"},
];

const failureOf = ({at, analyst, sql, forgiven}) => [
  {text: moment(at), kind: "when"},
  {text: analyst, kind: "name"},
  {text: sql, kind: "sql"},
  {text: forgiven ? "forgiven" : "counts towards the limit"},
];

const lateOf = ({analyst, step, number}) => [
  {text: analyst, kind: "name"},
  {text: `${(2 ** step).toLocaleString("en-US")} times the pace`},
  {text: String(number), kind: "number", narrow: number === 1 ? " answer" : " answers"},
];
