/** What the owner declared: who is protected, what is promised, and the tables that can be queried. */

import {get} from "./api.js";
import {definitions, element} from "./elements.js";
import {fill} from "./filling.js";
import {noteList} from "./notes.js";
import {stacked} from "./stacked.js";

/** @param {HTMLElement} place @param {(sql: string, how: {run: boolean}) => void} again */
export async function showTables(place, again) {
  await fill(place, async () => {
    const [account, {tables}] = await Promise.all([get("/api/account"), get("/api/tables")]);
    return [
      policyOf(account),
      promise(),
      element("h2", {}, "Tables"),
      ...tables.map((table, at) => tableOf(table, again, at === tables.findIndex((each) => !each.public))),
    ];
  });
}

function policyOf({unit, confidence, policy, budget, price, notes = []}) {
  const facts = [
    ["Who is protected", unit],
    ["Policy", policy],
    ["Budget", budget],
    ["A statement costs", price],
    ["Intervals", `contain the exact number with ${Number((confidence * 100).toPrecision(6))} % probability`],
  ];
  return element(
    "div",
    {class: "card"},
    definitions(
      facts.filter(([, told]) => told),
      {list: "policy"},
    ),
    noteList(notes),
  );
}

const promise = () =>
  element(
    "div",
    {class: "card"},
    element("h2", {class: "first"}, "The promise"),
    element(
      "p",
      {class: "measure"},
      "Whatever you ask, in any order, and whatever you already know: what you see here would be almost as likely if any one ",
      "of those who are protected were not in the data. The budget limits the difference. Tables, columns and their ",
      "declarations are public.",
    ),
    element(
      "ul",
      {class: "links"},
      ...Object.entries({
        promise: "What is promised, why you can rely on it, and what is not promised",
        accuracy: "How to state an accuracy instead of a price",
        sql: "Which SQL is answered",
      }).map(([name, title]) => element("li", {}, element("a", {href: `/guides/${name}`, target: "_blank"}, title))),
    ),
  );

function tableOf({name, public: isPublic, columns, notes = []}, again, open) {
  const rows = columns.map((column) => [
    {text: column.name, kind: "code"},
    {text: column.type.toLowerCase(), kind: "type"},
    {text: column.words || "nothing more is declared"},
  ]);
  return element(
    "details",
    {class: "card table-card", open},
    element(
      "summary",
      {},
      element("span", {class: "code"}, name),
      " ",
      element("span", {class: `badge ${isPublic ? "" : "private"}`}, isPublic ? "public" : "private"),
      " ",
      element("span", {class: "quiet"}, `${columns.length} columns`),
    ),
    noteList(notes),
    stacked.table(`Columns of ${name}`, ["Column", "Type", "What is declared"], rows),
  );
}
