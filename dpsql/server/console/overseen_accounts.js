/** The total and the accounts of all analysts. Owners add analysts here, and close and reopen accounts. */

import {get, inTurn, post} from "./api.js";
import {accountOf} from "./budget.js";
import {copying, inShell} from "./copying.js";
import {definitions, element, show} from "./elements.js";
import {fill} from "./filling.js";
import {percent} from "./left.js";
import {refusal} from "./price.js";
import {agreed, told} from "./second_look.js";
import {stacked} from "./stacked.js";

const ofTheOwner = (budget) => [
  ["Forgive incidents and late answers", `dpsql budget --budget ${inShell(budget)} --reopen NAME`],
  ["Change a limit", "dpsql check, after editing the policy; then restart the server"],
  ["Add an auditor or an owner", "dpsql user add NAME --role auditor"],
  ["Set a password", "dpsql user password NAME"],
  ["Remove a user", "dpsql user remove NAME"],
];

/** @param {HTMLElement} place @param {{role: string, budget: string}} account */
export async function showAccounts(place, account) {
  const said = element("p", {role: "status", class: "unseen"});
  const list = element("div", {});
  show(place, said, list);
  await fillAccounts(list, account, said);
}

/** @param {HTMLElement} said an element that announces what was done */
async function fillAccounts(place, account, said) {
  const again = async (words, whose) => {
    await fillAccounts(place, account, said);
    said.textContent = words;
    place.querySelector(`[data-of="${CSS.escape(whose)}"]`)?.focus(); // the button that was pressed is gone
  };
  await fill(place, async () => {
    const {total, accounts} = await get("/api/oversight/accounts");
    const owns = account.role === "owner";
    const fault = element("div", {role: "alert"});
    const titles = ["Analyst", "Spent", "Left", "Statements", "Failed", "Late", "State", ...(owns ? ["Action"] : [])];
    return [
      element("div", {class: "accounts"}, accountOf({...total, limit: total.limit ?? "", left: total.left ?? ""})),
      element("h2", {}, "Analysts"),
      fault,
      stacked.table(
        "Accounts",
        titles,
        accounts.map((one) => cellsOf(one, owns, fault, again)),
      ),
      owns && adding(again),
      owns && commands(account.budget),
    ];
  });
}

function cellsOf(one, owns, fault, again) {
  const state = stateOf(one);
  return [
    {text: one.whose, kind: "name"},
    {text: one.share === null ? one.spent : `${percent(one.share)} of ${one.limit}`, narrow: " spent"},
    {text: one.share === null ? "no limit of its own" : percent(1 - one.share), narrow: one.share === null ? null : " left"},
    {text: one.statements.toLocaleString("en-US"), kind: "number", narrow: one.statements === 1 ? " statement" : " statements"},
    {text: one.may_fail === null ? `${one.failed}` : `${one.failed} of ${one.may_fail}`, kind: "number", narrow: " failed"},
    {text: String(one.late), kind: "number", narrow: " late"},
    {text: state, kind: one.closed ? "fault" : ""},
    ...(owns ? [{content: actsOf(one, fault, again)}] : []),
  ];
}

function stateOf({role, closed, signs_on: signsOn, failed, may_fail: most, waits_seconds: waits}) {
  if (closed) return "closed by an owner";
  if (role === null && !signsOn) return "no user";
  if (most !== null && failed >= most) return "closed by incidents";
  if (waits > 0) return `waits ${waits} s`;
  return [role, signsOn && "single sign-on"].filter(Boolean).join(", ");
}

function actsOf({whose, role, closed, signs_on: signsOn}, fault, again) {
  if (role === "owner" || (role === null && !signsOn)) return [];
  const act = closed ? "Reopen" : "Close";
  const words = closed
    ? `${whose} can log in again and spend what is left. Incidents are not forgiven.`
    : `${whose} is logged out at the next request, and cannot log in until the account is reopened. Charges are kept.`;
  const run = async () => {
    if (!(await agreed({title: `${act} the account of ${whose}?`, words, act: `${act} it`}))) return;
    try {
      await inTurn(() => post(`/api/oversight/users/${act.toLowerCase()}`, {name: whose}));
      await again(`The account of ${whose} is ${closed ? "open" : "closed"}`, whose);
    } catch (refused) {
      show(fault, ...refusal(refused));
    }
  };
  return [
    element("button", {type: "button", onclick: run, "data-of": whose, "aria-label": `${act} the account of ${whose}`}, act),
  ];
}

function adding(again) {
  const name = element("input", {
    id: "new-analyst",
    autocapitalize: "none",
    autocomplete: "off",
    spellcheck: "false",
    required: true,
  });
  const fault = element("div", {role: "alert"});
  async function add(event) {
    event.preventDefault();
    const words = `${name.value} can then log in, and spends from this budget within its limits. A password is chosen at random.`;
    if (!(await agreed({title: `Add the analyst ${name.value}?`, words, act: "Add"}))) return;
    try {
      const made = await inTurn(() => post("/api/oversight/users", {name: name.value}));
      await again(`${made.name} is added`, made.name);
      told(
        `${made.name} is added`,
        element("p", {}, "The password, which is shown this once:"),
        element("p", {class: "code password"}, made.password),
        element("p", {}, ...copying("Copy the password", () => made.password)),
        element("p", {class: "quiet"}, "Pass it on by a channel that others cannot read."),
      );
    } catch (refused) {
      show(fault, ...refusal(refused));
    }
  }
  return element(
    "form",
    {class: "card terms adding", onsubmit: add, "aria-label": "Add an analyst"},
    element("div", {class: "term"}, element("label", {for: "new-analyst"}, "Name of a new analyst"), name),
    element("div", {class: "tools"}, element("button", {type: "submit"}, "Add")),
    fault,
  );
}

/** Acts that need a command, because an attacker who controls the process that serves this page could do all that it can. */
const commands = (budget) =>
  element(
    "div",
    {class: "card"},
    element("h2", {class: "first"}, "Only by command"),
    element(
      "p",
      {class: "quiet measure"},
      "These change what can be revealed, or who has which rights. Run them on the owner's machine.",
    ),
    definitions(ofTheOwner(budget), {list: "commands", words: "code"}),
  );
