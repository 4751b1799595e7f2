/** The state of the server and its ledger. */

import {get} from "./api.js";
import {definitions, element} from "./elements.js";
import {fill} from "./filling.js";
import {moment} from "./numbers.js";

/** @param {HTMLElement} place */
export async function showHealth(place) {
  await fill(place, async () => {
    const told = await get("/api/oversight/health");
    const facts = [
      ["Version", told.version],
      ["Running since", `${moment(told.started)}, for ${duration(told.uptime_seconds)}`],
      ["Connections", `${whole(told.connections)} of at most ${whole(told.most_connections)}`],
      [
        "Requests",
        `${whole(told.under_way)} running, ${whole(told.waiting)} waiting for an earlier one of the same session`,
      ],
      ["Ledger", [`${whole(told.events)} events`, size(told.ledger_bytes)].filter(Boolean).join(", ")],
      [
        "Newest checkpoint",
        told.checkpoint === null
          ? "none yet; one is written every 1,000 events or so"
          : `event ${whole(told.checkpoint)}, ${moment(told.checkpoint_at)}`,
      ],
    ];
    return [
      element("div", {class: "card"}, definitions(facts, {list: "policy"})),
      element("button", {type: "button", onclick: () => showHealth(place)}, "Refresh"),
    ];
  });
}

const whole = (number) => number.toLocaleString("en-US");

function duration(seconds) {
  const minutes = Math.floor(seconds / 60);
  if (minutes < 1) return "less than a minute";
  if (minutes < 120) return minutes === 1 ? "a minute" : `${minutes} minutes`;
  return minutes < 2880 ? `${Math.floor(minutes / 60)} hours` : `${Math.floor(minutes / 1440)} days`;
}

/** @param {number | null} bytes */
function size(bytes) {
  if (bytes === null) return "in a database";
  const units = ["bytes", "kB", "MB", "GB"];
  const at = Math.min(Math.floor(Math.log10(Math.max(bytes, 1)) / 3), units.length - 1);
  return `${(bytes / 1000 ** at).toLocaleString("en-US", {maximumSignificantDigits: 3})} ${units[at]}`;
}
