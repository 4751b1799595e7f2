/** The page of what is spent and left, and what it was spent on. */

import {get} from "./api.js";
import {definitions, element} from "./elements.js";
import {fill} from "./filling.js";
import {percent} from "./left.js";
import {moment} from "./numbers.js";
import {stacked} from "./stacked.js";

/** @param {HTMLElement} place */
export async function showBudget(place) {
  await fill(place, async () => {
    const {accounts, today, history, words} = await get("/api/budget");
    return [
      element("p", {class: "quiet measure"}, words),
      element("div", {class: "accounts"}, ...accounts.map(accountOf), today && shareOf(today)),
      element("h2", {}, "What you spent it on"),
      history.length === 0
        ? element("p", {class: "quiet"}, "You were not charged for any statement yet.")
        : historyOf(history),
    ];
  });
}

/** The card of what an account may spend each day. */
const shareOf = ({whose, limit, renews, ...rest}) =>
  accountOf({...rest, whose: `${whose}, today`, limit: `${limit} a day`, renews: moment(renews)});

/** The card of an account. */
export function accountOf({whose, limit, spent, left, share, renews}) {
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
    definitions(Object.entries({limit, spent, left, ...(renews && {renews})})),
  );
}

const historyOf = (history) =>
  stacked.table("History", ["When", "Statement", "Cost", "Outcome"], history.toReversed().map(chargeOf));

const chargeOf = ({at, sql, cost, outcome}) => [
  {text: at ? moment(at) : "", kind: "when"},
  {text: sql, kind: "sql"},
  {text: cost || "free", kind: "number"},
  {text: outcome, kind: outcome === "failed" ? "fault" : ""},
];
