/** What is left, at the head of every page: of the account that has the smallest part left. */

import {get} from "./api.js";
import {byId} from "./elements.js";

/** Asks the server and says it. */
export async function tellLeft() {
  const {accounts} = await get("/api/budget");
  byId("left").textContent =
    accounts.length > 0 ? `${percent(Math.min(...accounts.map(({share}) => 1 - share)))} left` : "";
}

/** A part of a whole. @param {number} part from 0 to 1 */
export function percent(part) {
  const held = Math.min(Math.max(part, 0), 1) * 100;
  return `${Number(held.toFixed(held > 1 && held < 99 ? 0 : 1))} %`;
}
