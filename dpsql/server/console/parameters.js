/** The values of a statement's parameters: a field for each, by the types that the server tells. */

import {element, show} from "./elements.js";

/** @typedef {{name: string, type: string}} Parameter */

const NUMBER = /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i;
const WHOLE = /^[-+]?\d+$/;
const KINDS = {
  BIGINT: {words: "whole number", example: "12", read: wholeOf},
  DOUBLE: {words: "number", example: "0.5", read: numberOf},
  DATE: {words: "date", example: "2020-01-31", read: (text) => timeOf(text, "DATE", /^\d{4}-\d\d-\d\d$/)},
  TIMESTAMP: {
    words: "date and time",
    example: "2020-01-31 12:00",
    read: (text) => timeOf(text, "TIMESTAMP", /^\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?$/),
  },
  BOOLEAN: {words: "true or false", choices: ["true", "false"], read: (text) => text === "true"},
  VARCHAR: {words: "text", example: "", read: (_, text) => text},
};

/** The kind of a type; of a list, such as that of = ANY($1), its values between commas. @param {string} type */
function kindOf(type) {
  if (!type.endsWith("[]")) return KINDS[type] ?? KINDS.VARCHAR;
  const {words, example, read} = KINDS[type.slice(0, -2)] ?? KINDS.VARCHAR;
  return {words: `list, each a ${words}`, example: `${example || "a"}, ${example || "b"}`, read: (text) => listOf(text, read)};
}

/** A parameter as it is written in the statement; those of ? have numbers here. @param {string} name */
const written = (name) => (name.startsWith("?") ? `? ${name.slice(1)}` : /^\d/.test(name) ? `$${name}` : `:${name}`);

/**
 * The fields, in a place of the page that is hidden where there are none.
 * @param {{place: HTMLElement, changed: () => void, run: () => void}} given
 */
export function parameterFields({place, changed, run}) {
  /** @type {Field[]} */
  let fields = [];
  const texts = new Map(); // what was written, by the keys of fields, so that fields that come back have it
  place.hidden = true;
  show(place);

  return {
    /** Has fields for these parameters. @param {Parameter[]} parameters */
    set(parameters) {
      const same = parameters.length === fields.length && fields.every((one, at) => isOf(one, parameters[at]));
      if (same) return;
      fields = parameters.map((parameter) => new Field(parameter, texts, {changed, run}));
      place.hidden = fields.length === 0;
      show(place, ...fields.map((field) => field.place));
    },

    /** The values as the server takes them, or null where some are missing or wrong, which is then said at their fields. */
    values() {
      const read = fields.map((field) => field.value());
      if (read.includes(undefined)) return null;
      if (fields.every(({name}) => name.startsWith("?"))) return read;
      return Object.fromEntries(fields.map(({name}, at) => [name, read[at]]));
    },

    /** In words, for answers: what each parameter was. */
    words: () => fields.map(({name, text}) => `${written(name)} = ${text}`).join(", "),

    /** What is written in the fields, to be put back later. */
    texts: () => new Map(fields.map(({key, text}) => [key, text])),

    /** @param {Map<string, string>} given */
    write(given) {
      for (const [key, text] of given) texts.set(key, text);
      for (const field of fields) if (given.has(field.key)) field.text = given.get(field.key);
    },

    /** Goes to the first field that is missing or wrong, and says so there. */
    demand() {
      for (const field of fields) if (field.text === "") field.blame("A value is needed.");
      fields.find((field) => field.value() === undefined)?.focus();
    },

    /** Says at its field what the server refused, where it named the place of one. @param {string} text of the statement */
    blame(text, refused) {
      const name = refused === null ? null : nameAt(text, refused);
      for (const field of fields) if (field.name === name) field.blame(refused.message);
    },
  };
}

const isOf = (field, {name, type}) => field.name === name && field.type === type;

let count = 0;

/** A parameter with what is written for it. */
class Field {
  constructor({name, type}, texts, {changed, run}) {
    this.name = name;
    this.type = type;
    this.key = `${name} ${type}`;
    this.kind = kindOf(type);
    const id = `parameter-${++count}`;
    const noted = () => {
      texts.set(this.key, this.text);
      this.blame("");
      changed();
    };
    this.input = this.kind.choices
      ? element(
          "select",
          {id, onchange: noted},
          ...["", ...this.kind.choices].map((value) => element("option", {value}, value || "choose")),
        )
      : element("input", {
          id,
          type: "text",
          autocomplete: "off",
          autocapitalize: "off",
          spellcheck: "false",
          placeholder: this.kind.example && `such as ${this.kind.example}`,
          oninput: noted,
        });
    this.input.setAttribute("aria-describedby", `${id}-fault`);
    this.input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault(); // or else Firefox would have the same key answer a question that is asked back
      run();
    });
    this.fault = element("span", {id: `${id}-fault`, class: "fault"});
    this.place = element(
      "div",
      {class: "parameter"},
      element("label", {for: id}, element("code", {}, written(name)), " ", element("span", {class: "quiet"}, this.kind.words)),
      this.input,
      this.fault,
    );
    this.text = texts.get(this.key) ?? "";
  }

  get text() {
    return this.input.value;
  }

  set text(text) {
    this.input.value = text;
  }

  focus() {
    this.input.focus();
  }

  /** As the server takes it; undefined where it is missing or wrong. */
  value() {
    if (this.text === "") return undefined;
    const read = this.kind.read(this.text.trim(), this.text);
    this.blame(read === undefined ? `A ${this.kind.words} is needed, such as ${this.kind.example}.` : "");
    return read;
  }

  blame(words) {
    this.fault.textContent = words;
    if (words === "") this.input.removeAttribute("aria-invalid");
    else this.input.setAttribute("aria-invalid", "true");
  }
}

/** The values between commas; undefined where one is wrong. */
function listOf(text, read) {
  const found = text.split(",").map((part) => read(part.trim(), part.trim()));
  return found.includes(undefined) ? undefined : found;
}

function wholeOf(text) {
  if (!WHOLE.test(text)) return numberOf(text);
  return Number.isSafeInteger(Number(text)) ? Number(text) : {type: "BIGINT", value: text};
}

function numberOf(text) {
  return NUMBER.test(text) && Number.isFinite(Number(text)) ? {type: "DOUBLE", value: text} : undefined;
}

/** A day of the calendar, or a moment of it. */
function timeOf(text, type, form) {
  const day = text.slice(0, 10);
  const time = new Date(`${text.replace(" ", "T")}${type === "DATE" ? "" : "Z"}`);
  const isThere = form.test(text) && !Number.isNaN(time.getTime()) && time.toISOString().startsWith(day);
  return isThere ? {type, value: text} : undefined;
}

/** The name of the parameter at the place that a refusal names; null where none is there. */
function nameAt(text, {start, end}) {
  if (start === null) return null;
  const characters = Array.from(text);
  const at = characters.slice(start, end ?? start + 1).join("");
  if (at === "?") return `?${countOfMarks(characters.slice(0, start).join("")) + 1}`;
  return /^[:$](.+)$/.exec(at)?.[1] ?? null;
}

/** How many ? stand in a text, but for quotes and comments. */
const countOfMarks = (text) =>
  (text.replace(/'[^']*'|"[^"]*"|--[^\n]*|\/\*[^]*?\*\//g, "").match(/\?/g) ?? []).length;
