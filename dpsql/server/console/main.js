/** The application: who is signed in, and which page is shown. */

import {get, post, SIGNED_OUT} from "./api.js";
import {askPage} from "./ask.js";
import {showBudget} from "./budget.js";
import {byId} from "./elements.js";
import {tellLeft} from "./left.js";
import {showOversight} from "./oversight.js";
import {showReleases} from "./releases.js";
import {signIn} from "./sign_in.js";
import {showTables} from "./tables.js";
import {showTime} from "./time.js";

const KNOWN = "dpsql.signed-in"; // so that the server is not asked in vain who this is
const ENTERED = "dpsql.entered"; // when somebody was let in last, so that pages which wait for it go on
const DRAFT = "dpsql.draft"; // what was in the editor when a session ended, for whoever wrote it
const OVER = "The session has ended. Sign in again; your answers are kept.";
const PAGES = ["ask", "budget", "releases", "tables", "time", "oversight"];

let ask = null;
let account = null;
let shownFor = null; // the name of who is signed in on this page

/** Why a single sign-on did not succeed, by the code in the address. */
const SIGN_ON = {
  failed: "The sign-on failed. Try it again, or ask the owner of the data.",
  role: "You signed on, but have no role here. The owner of the data can give you one.",
  closed: "This account cannot be used. Ask the owner of the data.",
  busy: "Too many people are signing in. Try again in a moment.",
};

async function begin() {
  const signedOn = new URLSearchParams(location.search).get("sign-on");
  if (signedOn !== null) {
    history.replaceState(null, "", `/${location.hash}`);
    if (signedOn !== "done") return outside(SIGN_ON[signedOn] ?? SIGN_ON.failed);
  } else if (localStorage.getItem(KNOWN) === null) return outside();
  try {
    await inside(await get("/api/account"));
  } catch (refused) {
    outside(refused.status === 401 ? OVER : refused.message);
  }
}

function outside(reason = "") {
  signIn(reason, async () => inside(await get("/api/account")));
}

/** Loads the page anew when its session is over: an answer that comes later is not to be shown to whoever is next. */
function leave() {
  if (ask === null) return;
  sessionStorage.setItem(DRAFT, JSON.stringify({of: shownFor, text: ask.text()}));
  ask = null;
  location.reload();
}

async function inside(told) {
  account = told;
  shownFor = account.name;
  if (localStorage.getItem(KNOWN) === account.name) localStorage.setItem(ENTERED, String(Date.now()));
  else localStorage.setItem(KNOWN, account.name); // other pages are told of what changes, once
  const {tables, words} = await get("/api/tables");
  byId("to-oversight").hidden = account.role === "analyst";
  byId("to-time").hidden = !account.grows;
  byId("sign-in").hidden = true;
  byId("console").hidden = false;
  byId("who").textContent = `${account.name} · ${account.budget}`;
  tellLeft().catch(() => undefined);
  ask = askPage({tables, words});
  const draft = JSON.parse(sessionStorage.getItem(DRAFT));
  sessionStorage.removeItem(DRAFT);
  if (draft?.of === account.name) ask.write(draft.text);
  turn();
}

/** Shows the page that the address names. */
function turn() {
  if (ask === null) return;
  const [named, view = ""] = location.hash.slice(1).split("/");
  const first = account.role === "auditor" ? "oversight" : "ask"; // auditors can ask nothing that is charged
  const there = {oversight: account.role !== "analyst", time: account.grows};
  const page = PAGES.includes(named) && (there[named] ?? true) ? named : first;
  if (named === "content") return;
  scrollTo(0, 0);
  for (const each of PAGES) byId(`page-${each}`).hidden = each !== page;
  for (const link of document.querySelectorAll("header nav a")) {
    if (link.getAttribute("href") === `#${page}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${byId(`title-${page}`).textContent} – dpsql`;
  if (page === "ask") ask.focus();
  if (page === "budget") showBudget(byId("budget"));
  if (page === "releases") showReleases(byId("releases"), again);
  if (page === "tables") showTables(byId("tables"), again);
  if (page === "time") showTime(byId("time"));
  if (page === "oversight") showOversight(byId("oversight"), view, account);
}

/** Goes to the first page with a statement, and runs it if that is wanted and free. @param {string} sql */
function again(sql, {run}) {
  location.hash = "ask";
  ask.write(sql, {run});
}

addEventListener("hashchange", turn);
addEventListener("storage", ({key, newValue}) => {
  // somebody else signed in, or out, on another page: the cookie of both is one, so this page would ask, and pay, as they
  if ((key === KNOWN && newValue !== shownFor) || (key === ENTERED && shownFor === null)) location.reload();
});
document.addEventListener(SIGNED_OUT, leave);
byId("sign-out").addEventListener("click", async () => {
  localStorage.removeItem(KNOWN);
  await post("/api/logout").catch(() => undefined);
  location.reload(); // so that nothing of this analyst stays on the page
});
begin();
