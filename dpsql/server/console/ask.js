/** The first page: a statement, its price while it is written, and the answers of this visit. */

import {answerCard, refusedCard} from "./answer_card.js";
import {inTurn, post} from "./api.js";
import {sqlEditor} from "./editor.js";
import {byId, show} from "./elements.js";
import {tellLeft} from "./left.js";
import {priced, refusedPrice, unpriced} from "./price.js";

const PAUSE = 350; // milliseconds of quiet after which a price is asked for

/** @param {import("./completion.js").PublicWords} publicWords */
export function askPage(publicWords) {
  const editor = sqlEditor({place: byId("editor"), publicWords, run, changed});
  const answers = byId("answers");
  let timer = 0;
  let asked = "";
  let running = false;

  function changed() {
    const {text} = editor.statement();
    if (text === asked) return;
    asked = text;
    clearTimeout(timer);
    editor.mark(editor.statement(), null);
    if (text === "") return show(byId("price"), unpriced());
    timer = setTimeout(price, PAUSE);
  }

  /**
   * Shows the price of the statement at the cursor; one that is outdated when it comes is not shown.
   * @returns {Promise<boolean>} whether it was answered before, and so is free
   */
  async function price() {
    const statement = editor.statement();
    if (running || statement.text === "") return false;
    byId("price").dataset.state = "asking";
    return inTurn(async () => {
      if (editor.statement().text !== statement.text || running) return false;
      const told = await outcome(post("/api/price", {sql: statement.text}));
      if (editor.statement().text !== statement.text) return false;
      delete byId("price").dataset.state;
      show(byId("price"), told.refused ? refusedPrice(told.refused) : priced(told.answer));
      byId("price-said").textContent = told.refused
        ? told.refused.message
        : byId("price").querySelector(".cost").textContent;
      editor.mark(editor.statement(), told.refused ?? null);
      return told.answer?.stored === true;
    });
  }

  async function run() {
    const statement = editor.statement();
    if (running || statement.text === "") return;
    clearTimeout(timer);
    const stop = begun();
    const told = await inTurn(() => outcome(post("/api/query", {sql: statement.text, charts: true})));
    stop();
    const edit = () => (editor.write(statement.text), editor.focus());
    if (told.refused) {
      if (editor.statement().text === statement.text) editor.mark(editor.statement(), told.refused);
      answers.prepend(refusedCard(statement.text, told.refused, edit));
      byId("progress").textContent = "Not answered";
    } else {
      answers.prepend(answerCard(statement.text, told.answer, edit));
      byId("progress").textContent = `Answered: ${told.answer.rows.length.toLocaleString("en-US")} rows`;
    }
    tellLeft().catch(() => undefined);
    await price();
  }

  /** Shows that a statement runs, and for how long; what is returned ends it. */
  function begun() {
    const started = performance.now();
    const tell = () => {
      const seconds = Math.floor((performance.now() - started) / 1000);
      byId("progress").textContent = seconds < 1 ? "Running" : `Running for ${seconds} s`;
    };
    const ticking = setInterval(tell, 1000);
    setRunning(true);
    tell();
    return () => {
      clearInterval(ticking);
      setRunning(false);
    };
  }

  function setRunning(now) {
    running = now;
    byId("run").disabled = now;
    byId("cancel").hidden = !now;
    byId("progress").classList.toggle("busy", now);
  }

  byId("run").onclick = run;
  byId("cancel").onclick = async () => {
    byId("progress").textContent = "Stopping";
    await outcome(post("/api/cancel"));
  };
  show(answers);
  show(byId("price"), unpriced());
  return {
    focus: () => editor.focus(),
    /**
     * Puts a statement into the editor, and runs it where that is wanted and free.
     * @param {string} text @param {{run?: boolean}} [how]
     */
    async write(text, {run: wanted = false} = {}) {
      editor.write(text);
      editor.focus();
      clearTimeout(timer);
      const {text: meant} = editor.statement();
      if ((await price()) && wanted && editor.statement().text === meant) await run();
    },
  };
}

/** What came of a call, whether it was refused or not. */
async function outcome(call) {
  try {
    return {answer: await call};
  } catch (refused) {
    return {refused};
  }
}
