/** What is asked now: a statement, the values of its parameters, and its price. The server is asked once for each of them. */

import {post} from "./api.js";

const MAY_HAVE_PARAMETERS = /[?$:]/;

/**
 * What came of a call, whether it was refused or not.
 * @template T @typedef {{answer?: T, refused?: import("./api.js").Refused}} Outcome
 */
/** A statement; its values are null where some are missing. @typedef {{sql: string, parameters: unknown | null}} Asked */

/** @param {() => string} statement the one at the cursor @param {ReturnType<import("./parameters.js").parameterFields>} fields */
export function questions(statement, fields) {
  let described = "";
  let known = {key: "", told: null};

  return {
    /** What is asked now; refused where the statement is wrong whatever its values are. @returns {Promise<Outcome<Asked>>} */
    async now() {
      const sql = statement();
      if (sql !== described) {
        const told = MAY_HAVE_PARAMETERS.test(sql) ? await outcome(post("/api/describe", {sql})) : {answer: {parameters: []}};
        if (told.refused) return told;
        if (statement() === sql) {
          described = sql;
          fields.set(told.answer.parameters);
        }
      }
      return {answer: {sql, parameters: fields.values()}};
    },

    /** @param {Asked} asked @returns {Promise<Outcome<import("./price.js").Price>>} */
    async price(asked) {
      const key = JSON.stringify(asked);
      if (known.key === key) return known.told;
      const told = await outcome(post("/api/price", asked));
      if (told.answer) known = {key, told};
      return told;
    },

    /** Nothing is asked. */
    clear() {
      described = "";
      fields.set([]);
    },

    /** Prices are to be asked for anew, as something may have been charged. */
    forget() {
      known = {key: "", told: null};
    },
  };
}

/** @template T @param {Promise<T>} call @returns {Promise<Outcome<T>>} */
export async function outcome(call) {
  try {
    return {answer: await call};
  } catch (refused) {
    return {refused};
  }
}
