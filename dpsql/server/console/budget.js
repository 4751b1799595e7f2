/** The page of what is spent and left, and what it was spent on. */

import {get} from "./api.js";
import {definitions, element} from "./elements.js";
import {fill} from "./filling.js";
import {percent} from "./left.js";
import {moment} from "./numbers.js";

/** @param {HTMLElement} place */
export async function showBudget(place) {
  await fill(place, async () => {
    const {accounts, history, words} = await get("/api/budget");
    return [
      element("p", {class: "quiet measure"}, words),
      element("div", {class: "accounts"}, ...accounts.map(accountOf)),
      element("h2", {}, "What you spent it on"),
      history.length === 0
        ? element("p", {class: "quiet"}, "You were not charged for any statement yet.")
        : historyOf(history),
    ];
  });
}

/** The card of an account. */
export function accountOf({whose, limit, spent, left, share}) {
  const fill = element("div", {class: "fill"});
  fill.style.width = `${Math.min(Math.max(share, 0), 1) * 100}%`;
  return element(
    "article",
    {class: "card account-card"},
    element("h2", {}, whose),
    element("p", {class: "cost"}, element("strong", {}, percent(1 - share)), " left, ", percent(share), " spent"),
    element(
      "div",
      {class: "meter", role: "img", "aria-label": `${percent(share)} of the budget of ${whose} is spent`},
      fill,
    ),
    definitions(Object.entries({limit, spent, left})),
  );
}

function historyOf(history) {
  const rows = history
    .toReversed()
    .map(({at, sql, cost, outcome}) =>
      element(
        "tr",
        {},
        element("td", {class: "when"}, at ? moment(at) : ""),
        element("td", {class: "sql"}, sql),
        element("td", {class: "number"}, cost || "free"),
        element("td", {}, outcome === "failed" ? element("span", {class: "fault"}, "not answered") : outcome),
      ),
    );
  return element(
    "div",
    {class: "scroll", tabindex: 0, role: "region", "aria-label": "History"},
    element(
      "table",
      {class: "listing"},
      element(
        "thead",
        {},
        element(
          "tr",
          {},
          ...["When", "Statement", "Cost", "Outcome"].map((title) =>
            element("th", {scope: "col", class: title === "Cost" ? "number" : ""}, title),
          ),
        ),
      ),
      element("tbody", {}, ...rows),
    ),
  );
}
