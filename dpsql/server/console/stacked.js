/** Tables whose cells are stacked on narrow pages. They state their roles, which such a layout would lose. */

import {element} from "./elements.js";

/** @typedef {{text?: string, kind?: string, content?: Node[], narrow?: string | null}} Cell */

export const stacked = {
  /** @param {string} name @param {string[]} titles @param {Cell[][]} rows */
  table(name, titles, rows) {
    return element(
      "table",
      {class: "listing stacked", role: "table", "aria-label": name},
      element(
        "thead",
        {role: "rowgroup"},
        element("tr", {role: "row"}, ...titles.map((title) => element("th", {scope: "col", role: "columnheader"}, title))),
      ),
      element("tbody", {role: "rowgroup"}, ...rows.map(stacked.row)),
    );
  },

  /** @param {Cell[]} cells */
  row: (cells) =>
    element(
      "tr",
      {role: "row"},
      ...cells.map(({text = "", kind = "", content = [], narrow = null}) =>
        element("td", {role: "cell", class: kind, "data-narrow": narrow}, text, ...content),
      ),
    ),
};
