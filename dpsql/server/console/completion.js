/** What can follow in a statement, from public facts alone: words of SQL, and the tables, columns and values of the policy. */

/**
 * @typedef {{name: string, type: string, words?: string, values?: unknown[]}} PublicColumn
 * @typedef {{name: string, public: boolean, columns: PublicColumn[], notes?: string[]}} Table
 * @typedef {{tables: Table[], words: string[]}} PublicWords
 * @typedef {{pos: number, explicit: boolean, state: import("./vendor/codemirror.js").EditorState}} CompletionContext
 */

const IN_TEXT = /(?:"?(\w+)"?\s*(?:=|<>|!=|IN\s*\([^()]*)\s*)?'([^']*)$/i;
const AFTER_TABLE = /\b(?:FROM|JOIN|DESCRIBE|AGAINST)\s+("?\w*)$/i;
const OF_TABLE = /(\w+)\.("?\w*)$/;

/** A source of completions for CodeMirror. @param {CompletionContext} context @param {PublicWords} known */
export function completionsAt(context, known) {
  const before = context.state.sliceDoc(0, context.pos);
  const [begun, options] = fitting(before, context.state.doc.toString(), known);
  if (options.length === 0 || (begun === "" && !context.explicit && !/'$|\.$|\b(FROM|JOIN)\s+$/i.test(before))) return null;
  return {from: context.pos - begun.length, options, validFor: /^[^'"\s.,()]*$/};
}

/** The word that is begun, and those that can stand in its place. @returns {[string, object[]]} */
function fitting(before, whole, known) {
  const open = (before.match(/'/g) ?? []).length % 2 === 1 ? IN_TEXT.exec(before) : null;
  if (open !== null) return [open[2], valuesOf(open[1], known)];
  const table = AFTER_TABLE.exec(before);
  if (table !== null) return [table[1], known.tables.map(tableOption)];
  const dotted = OF_TABLE.exec(before);
  if (dotted !== null) return [dotted[2], columnsOf(tableCalled(dotted[1], whole, known), 2)];
  const begun = /["\w]*$/.exec(before)[0];
  const named = known.tables.filter((each) => new RegExp(`\\b${escaped(each.name)}\\b`, "i").test(whole));
  const others = known.tables.filter((each) => !named.includes(each));
  return [
    begun,
    [
      ...named.flatMap((each) => columnsOf(each, 2)),
      ...others.flatMap((each) => columnsOf(each, 0)),
      ...known.tables.map(tableOption),
      ...known.words.map((word) => ({label: word, type: "keyword"})),
    ],
  ];
}

function valuesOf(column, known) {
  const listed = known.tables
    .flatMap((table) => table.columns)
    .filter((each) => each.values && (column === undefined || each.name.toLowerCase() === column.toLowerCase()));
  const texts = new Map(
    listed.flatMap((each) => each.values.filter((value) => typeof value === "string").map((value) => [value, each.name])),
  );
  return [...texts].map(([value, name]) => ({
    label: value,
    apply: `${value.replaceAll("'", "''")}'`,
    detail: name,
    type: "constant",
  }));
}

const tableOption = (table) => ({
  label: table.name,
  apply: written(table.name),
  detail: table.public ? "public table" : "private table",
  type: "class",
  boost: 1,
});

const columnsOf = (table, boost) =>
  (table?.columns ?? []).map((column) => ({
    label: column.name,
    apply: written(column.name),
    detail: `${table.name} · ${column.type}`,
    type: "property",
    boost,
  }));

/** The table of a name or of an alias. */
function tableCalled(name, whole, known) {
  const direct = known.tables.find((each) => each.name.toLowerCase() === name.toLowerCase());
  return (
    direct ??
    known.tables.find((each) =>
      new RegExp(`\\b${escaped(each.name)}"?\\s+(?:AS\\s+)?"?${escaped(name)}\\b`, "i").test(whole),
    )
  );
}

/** A name as SQL writes it. */
const written = (name) => (/^[A-Za-z_]\w*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`);

const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
