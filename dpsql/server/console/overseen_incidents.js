/** Statements that failed after their charge, and answers that left late. */

import {get} from "./api.js";
import {element} from "./elements.js";
import {fill} from "./filling.js";
import {moment} from "./numbers.js";
import {stacked} from "./stacked.js";

/** @param {HTMLElement} place */
export async function showIncidents(place) {
  await fill(place, async () => {
    const {failures, late} = await get("/api/oversight/incidents");
    return [
      element(
        "p",
        {class: "quiet measure"},
        "A statement that fails after its charge stays charged. Why it failed may depend on the rows, so it is not shown here. ",
        "Look for what the statements of an analyst have in common: somebody may provoke failures to learn something.",
      ),
      element("h2", {}, "Failed after their charge"),
      failures.length === 0
        ? element("p", {class: "quiet"}, "No statement failed.")
        : stacked.table("Failures", ["When", "Analyst", "Statement", "Counts"], failures.map(failureOf)),
      element("h2", {}, "Late answers"),
      late.length === 0
        ? element("p", {class: "quiet"}, "No answer left late.")
        : stacked.table("Late answers", ["Analyst", "Left at", "Answers"], late.map(lateOf)),
    ];
  });
}

const failureOf = ({at, analyst, sql, forgiven}) => [
  {text: moment(at), kind: "when"},
  {text: analyst, kind: "name"},
  {text: sql, kind: "sql"},
  {text: forgiven ? "forgiven" : "counts"},
];

const lateOf = ({analyst, step, number}) => [
  {text: analyst, kind: "name"},
  {text: `${(2 ** step).toLocaleString("en-US")} times the pace`},
  {text: String(number), kind: "number", narrow: number === 1 ? " answer" : " answers"},
];
