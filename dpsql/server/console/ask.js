/** The first page: a statement, its price while it is written, and the answers of this visit. */

import {answerCard, refusedCard} from "./answer_card.js";
import {inTurn, post} from "./api.js";
import {confirmed} from "./confirm.js";
import {sqlEditor} from "./editor.js";
import {byId, show} from "./elements.js";
import {tellLeft} from "./left.js";
import {parameterFields} from "./parameters.js";
import {awaited, priced, refusedPrice, unpriced} from "./price.js";
import {outcome, questions} from "./question.js";

const PAUSE = 350; // milliseconds of quiet after which a price is asked for

/** @param {import("./completion.js").PublicWords} publicWords */
export function askPage(publicWords) {
  const editor = sqlEditor({place: byId("editor"), publicWords, run, changed});
  const fields = parameterFields({place: byId("parameters"), changed: priceSoon, run});
  const question = questions(() => editor.statement().text, fields);
  const answers = byId("answers");
  let timer = 0;
  let asked = "";
  let running = false;
  let stopped = false; // whether what runs was to stop

  function changed() {
    const {text} = editor.statement();
    if (text === asked) return;
    asked = text;
    clearTimeout(timer);
    editor.mark(editor.statement(), null);
    if (text !== "") return priceSoon();
    question.clear();
    show(byId("price"), unpriced());
  }

  function priceSoon() {
    clearTimeout(timer);
    if (!running) byId("progress").textContent = "";
    timer = setTimeout(price, PAUSE);
  }

  /**
   * Shows the price of the statement at the cursor; one that is outdated when it comes is not shown.
   * @returns {Promise<boolean>} whether it was answered before, and so is free
   */
  async function price() {
    const {text} = editor.statement();
    const isOutdated = () => editor.statement().text !== text || running;
    if (running || text === "") return false;
    byId("price").dataset.state = "asking";
    return inTurn(async () => {
      if (isOutdated()) return false;
      const now = await question.now();
      const values = now.answer?.parameters;
      const told = now.refused || values === null ? now : await question.price(now.answer);
      if (isOutdated()) return false;
      delete byId("price").dataset.state;
      if (told.refused) show(byId("price"), refusedPrice(told.refused));
      else show(byId("price"), values === null ? awaited() : priced(told.answer));
      byId("price-said").textContent = told.refused?.message ?? byId("price").querySelector(".cost").textContent;
      blame(text, told.refused ?? null);
      return told.answer?.stored === true;
    });
  }

  /** Marks the words at fault, and says it at the field of a value. */
  function blame(text, refused) {
    if (editor.statement().text !== text) return;
    editor.mark(editor.statement(), refused);
    if (refused !== null) fields.blame(text, refused);
  }

  async function run() {
    const {text} = editor.statement();
    if (running || text === "") return;
    clearTimeout(timer);
    let stop = begun();
    const now = await inTurn(question.now);
    const given = now.answer?.parameters === null ? null : {parameters: now.answer?.parameters ?? [], words: fields.words()};
    if (given === null) {
      stop("Not run: a value is missing or wrong");
      fields.demand();
      return price();
    }
    const due = now.refused ? now : await inTurn(() => question.price(now.answer));
    if (due.answer) {
      delete byId("price").dataset.state;
      show(byId("price"), priced(due.answer));
    }
    if (!stopped && due.answer?.costly) {
      stop("");
      if (!(await confirmed(due.answer))) stopped = true;
      else stop = begun();
    }
    if (stopped) {
      stop("Not run, and not charged");
      editor.focus();
      return price();
    }
    const told = now.refused ? now : await inTurn(() => outcome(post("/api/query", {...now.answer, charts: true})));
    question.forget();
    const edit = putBack(text);
    blame(text, told.refused ?? null);
    answers.prepend(told.refused ? refusedCard(text, given, told.refused, edit) : answerCard(text, given, told.answer, edit));
    stop(told.refused ? "Not answered" : `Answered: ${told.answer.rows.length.toLocaleString("en-US")} rows`);
    tellLeft().catch(() => undefined);
    await price();
  }

  /** What puts a statement back as it is now, with its values. */
  function putBack(text) {
    const texts = fields.texts();
    return () => {
      fields.write(texts);
      editor.write(text);
      editor.focus();
    };
  }

  /** Shows that a statement runs, and for how long; what is returned ends it, and says how. */
  function begun() {
    const started = performance.now();
    const tell = () => {
      const seconds = Math.floor((performance.now() - started) / 1000);
      if (!stopped) byId("progress").textContent = seconds < 1 ? "Running" : `Running for ${seconds} s`;
    };
    const ticking = setInterval(tell, 1000);
    stopped = false;
    setRunning(true);
    tell();
    return (how) => {
      clearInterval(ticking);
      setRunning(false);
      byId("progress").textContent = how;
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
    stopped = true;
    byId("progress").textContent = "Stopping";
    await outcome(post("/api/cancel"));
  };
  show(answers);
  show(byId("price"), unpriced());
  return {
    /** When the page is turned to: what could not be asked before may be answered now. */
    focus() {
      editor.focus();
      priceSoon();
    },
    text: () => editor.text(),
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
