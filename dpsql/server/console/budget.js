/** What is spent and left, and what it was spent on. */

import {get} from "./api.js";
import {element, show} from "./elements.js";
import {moment} from "./numbers.js";
import {refusal} from "./price.js";

/** @param {HTMLElement} place */
export async function showBudget(place) {
  try {
    const {accounts, history} = await get("/api/budget");
    show(
      place,
      element("div", {class: "accounts"}, ...accounts.map(accountOf)),
      element("h2", {}, "What it was spent on"),
      history.length === 0 ? element("p", {class: "quiet"}, "Nothing was asked yet.") : historyOf(history),
    );
  } catch (refused) {
    show(place, ...refusal(refused));
  }
}

function accountOf({whose, limit, spent, left, share}) {
  const percent = Math.min(Math.max(share * 100, 0), 100);
  const fill = element("div", {class: "fill"});
  fill.style.width = `${percent}%`;
  const title = whose === "all" ? "All analysts together" : whose;
  return element(
    "article",
    {class: "card account-card"},
    element("h2", {}, title),
    element("p", {class: "cost"}, element("strong", {}, `${roundedPercent(100 - percent)} %`), " left"),
    element("div", {class: "meter", role: "img", "aria-label": `${roundedPercent(percent)} % of ${title} is spent`}, fill),
    element(
      "dl",
      {},
      element("dt", {}, "limit"),
      element("dd", {}, limit),
      element("dt", {}, "spent"),
      element("dd", {}, spent),
      element("dt", {}, "left"),
      element("dd", {}, left),
    ),
  );
}

const roundedPercent = (percent) => Number(percent.toFixed(percent > 1 && percent < 99 ? 0 : 1));

function historyOf(history) {
  const rows = history.map(({at, sql, cost, answered}) =>
    element(
      "tr",
      {},
      element("td", {class: "when"}, at ? moment(at) : ""),
      element("td", {class: "sql"}, sql),
      element("td", {class: "number"}, cost || "free"),
      element("td", {}, answered ? "answered" : element("span", {class: "fault"}, "not answered")),
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
