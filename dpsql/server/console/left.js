/** What is left, at the head of every page: of the account, or share of this day, that has the smallest part left. */

import {get} from "./api.js";
import {byId} from "./elements.js";

/** Asks the server and says it. */
export async function tellLeft() {
  const {accounts, today} = await get("/api/budget");
  const all = today === null ? accounts : [...accounts, today];
  byId("left").textContent = all.length > 0 ? `${percent(Math.min(...all.map(({share}) => 1 - share)))} left` : "";
}

/** A part of a whole. @param {number} part from 0 to 1 */
export function percent(part) {
  const held = Math.min(Math.max(part, 0), 1) * 100;
  return `${Number(held.toFixed(held > 1 && held < 99 ? 0 : 1))} %`;
}
