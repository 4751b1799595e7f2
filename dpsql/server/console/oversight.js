/** The page of auditors and owners, with several views. The server decides who may see them. */

import {element, show} from "./elements.js";
import {showAccounts} from "./overseen_accounts.js";
import {showChecks} from "./overseen_checks.js";
import {showHealth} from "./overseen_health.js";
import {showIncidents} from "./overseen_incidents.js";
import {showStatements} from "./overseen_statements.js";

const VIEWS = new Map([
  ["statements", {title: "Statements", shown: (place) => showStatements(place, {})}],
  ["accounts", {title: "Accounts", shown: showAccounts}],
  ["releases", {title: "Releases", shown: (place) => showStatements(place, {outcome: "answered"})}],
  ["incidents", {title: "Incidents", shown: showIncidents}],
  ["checks", {title: "Checks", shown: showChecks}],
  ["server", {title: "Server", shown: showHealth}],
]);

/** @param {HTMLElement} place @param {string} named the view, as the address has it @param {{role: string}} account */
export function showOversight(place, named, account) {
  const chosen = VIEWS.has(named) ? named : "statements";
  const view = element("div", {});
  const links = [...VIEWS].map(([name, {title}]) =>
    element("a", {href: `#oversight/${name}`, "aria-current": name === chosen ? "page" : null}, title),
  );
  const hadFocus = place.contains(document.activeElement);
  show(place, element("nav", {class: "views", "aria-label": "Oversight"}, ...links), view);
  if (hadFocus) links.find((link) => link.hasAttribute("aria-current")).focus(); // the one that was pressed is gone
  VIEWS.get(chosen).shown(view, account);
}
