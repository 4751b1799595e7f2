/** An answer as comma-separated values: beside each noisy number its error and the ends of its interval. */

/** @param {import("./answer_card.js").Answer} answer */
export function asCsv({columns, rows, errors}) {
  const titles = columns.flatMap(({name, exact}) =>
    exact ? [name] : [name, `${name} error`, `${name} low`, `${name} high`],
  );
  const body = rows.map((row, i) =>
    columns.flatMap(({exact}, j) => {
      const told = errors[i]?.[j];
      return exact ? [row[j]] : [row[j], told?.error, told?.low, told?.high];
    }),
  );
  return [titles, ...body].map((line) => line.map(field).join(",") + "\n").join("");
}

/** A value as a field; texts that a spreadsheet would take for a formula begin with an apostrophe. */
function field(value) {
  if (value === null || value === undefined) return "";
  const text =
    typeof value === "string" && /^\s*[=+\-@]/.test(value) && Number.isNaN(Number(value)) ? `'${value}` : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
