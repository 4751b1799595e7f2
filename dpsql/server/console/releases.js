/** What the analyst was answered before, and tables of their own. */

import {get} from "./api.js";
import {element} from "./elements.js";
import {fill} from "./filling.js";
import {moment} from "./numbers.js";

/** @param {HTMLElement} place @param {(sql: string, how: {run: boolean}) => void} again */
export async function showReleases(place, again) {
  await fill(place, async () => {
    const {answers, tables} = await get("/api/releases");
    return [
      element("h2", {}, "Answers"),
      answers.length === 0
        ? element("p", {class: "quiet"}, "No answers yet.")
        : element("ul", {class: "releases"}, ...answers.toReversed().map((answer) => answerOf(answer, again))),
      element("h2", {}, "Tables of your own"),
      tables.length === 0
        ? element(
            "p",
            {class: "quiet"},
            "None yet. ",
            element("code", {}, "CREATE SYNTHETIC TABLE name AS SELECT ..."),
            " makes one; queries on it are free.",
          )
        : element("ul", {class: "releases"}, ...tables.map((table) => tableOf(table, again))),
    ];
  });
}

function answerOf({at, sql, cost}, again) {
  return element(
    "li",
    {class: "card"},
    element("pre", {class: "sql"}, sql),
    element(
      "div",
      {class: "tools"},
      element("span", {class: "quiet"}, [at && moment(at), cost && `paid ${cost}`].filter(Boolean).join(" · ")),
      element(
        "button",
        {type: "button", onclick: () => again(sql, {run: true}), "aria-label": `Show again ${sql}`},
        "Show again",
      ),
    ),
  );
}

function tableOf({name, columns}, again) {
  const sql = `SELECT COUNT(*) FROM ${/^[A-Za-z_]\w*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`}`;
  return element(
    "li",
    {class: "card"},
    element("p", {}, element("strong", {}, name), " ", element("span", {class: "quiet"}, columns.join(", "))),
    element(
      "div",
      {class: "tools"},
      element("span", {class: "quiet"}, "synthetic; free"),
      element(
        "button",
        {type: "button", onclick: () => again(sql, {run: false}), "aria-label": `Query ${name}`},
        "Query it",
      ),
    ),
  );
}
