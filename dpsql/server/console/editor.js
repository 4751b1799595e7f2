/** The editor of SQL: CodeMirror, with completion from public words, and marks under what was refused. */

import {completionsAt} from "./completion.js";
import {
  acceptCompletion,
  autocompletion,
  bracketMatching,
  completionKeymap,
  completionStatus,
  defaultKeymap,
  drawSelection,
  EditorState,
  EditorView,
  HighlightStyle,
  history,
  historyKeymap,
  keymap,
  placeholder,
  Prec,
  setDiagnostics,
  SQLDialect,
  syntaxHighlighting,
  syntaxTree,
  tags,
} from "./vendor/codemirror.js";

/** @typedef {{text: string, from: number}} Statement a statement, and where it begins in the text */

/**
 * An editor in `place`. It stands in a shadow tree, where CodeMirror hands its styles over as style sheets of the tree; as
 * elements of the page they would need a policy of content that is less strict.
 * @param {{place: HTMLElement, publicWords: import("./completion.js").PublicWords, run: () => void, changed: () => void}} given
 */
export function sqlEditor({place, publicWords, run, changed}) {
  const root = place.shadowRoot ?? place.attachShadow({mode: "open"});
  root.replaceChildren();
  const dialect = SQLDialect.define({
    keywords: publicWords.words.map((word) => word.toLowerCase()).join(" "),
    builtin: "",
    types: "",
    doubleQuotedStrings: false,
    specialVar: ":$?",
  });
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      extensions: [
        Prec.highest(
          keymap.of([
            {key: "Mod-Enter", run: () => (run(), true)},
            {key: "Tab", run: acceptCompletion},
          ]),
        ),
        history(),
        drawSelection(),
        bracketMatching(),
        dialect.language,
        syntaxHighlighting(COLOURS),
        LOOKS,
        autocompletion({override: [(context) => completionsAt(context, publicWords)], icons: false}),
        keymap.of([...completionKeymap, ...defaultKeymap, ...historyKeymap]),
        placeholder("SELECT key, COUNT(*), AVG(number) FROM table GROUP BY key"),
        EditorView.lineWrapping,
        REPLACING,
        EditorView.contentAttributes.of({"aria-label": "SQL", spellcheck: "false", autocapitalize: "off"}),
        EditorView.updateListener.of((update) => (update.docChanged || update.selectionSet) && changed()),
      ],
    }),
  });
  return {
    view,
    focus: () => view.focus(),
    isCompleting: () => completionStatus(view.state) === "active",
    text: () => view.state.doc.toString(),
    statement: () => statementAt(view.state),
    write(text) {
      view.dispatch({changes: {from: 0, to: view.state.doc.length, insert: text}, selection: {anchor: text.length}});
    },
    /**
     * Marks the place that a refusal names, or nothing.
     * @param {Statement} statement @param {import("./api.js").Refused | null} refused
     */
    mark(statement, refused) {
      view.dispatch(
        setDiagnostics(view.state, refused === null || refused.start === null ? [] : [placeOf(statement, refused)]),
      );
    },
  };
}

/** What is selected, or else the statement at the cursor or before it. @returns {Statement} */
function statementAt(state) {
  const {from, to, head} = state.selection.main;
  if (from !== to) return trimmed(state.sliceDoc(from, to), from);
  const all = syntaxTree(state).topNode.getChildren("Statement");
  const here = all.filter((node) => node.from <= head).pop() ?? all[0];
  return here ? trimmed(state.sliceDoc(here.from, here.to), here.from) : trimmed(state.doc.toString(), 0);
}

function trimmed(text, from) {
  const begun = text.trimStart();
  return {text: begun.trimEnd(), from: from + text.length - begun.length};
}

/** Places are counted in characters, and here in units of UTF-16. */
function placeOf(statement, refused) {
  const characters = Array.from(statement.text);
  const unit = (at) => characters.slice(0, at).join("").length;
  const from = Math.min(unit(refused.start), Math.max(statement.text.length - 1, 0));
  const to = Math.max(unit(refused.end ?? refused.start + 1), from + 1);
  return {
    from: statement.from + from,
    to: Math.min(statement.from + to, statement.from + statement.text.length),
    severity: "error",
    message: refused.message,
  };
}

/**
 * Puts what is typed in the place of what is selected. Left to themselves, browsers give it the look of what was there, as an
 * attribute that the policy of content forbids.
 */
const REPLACING = EditorView.domEventHandlers({
  beforeinput(event, view) {
    if (event.inputType !== "insertText" || event.data === null || view.state.selection.main.empty) return false;
    event.preventDefault();
    view.dispatch(view.state.replaceSelection(event.data), {userEvent: "input.type", scrollIntoView: true});
    return true;
  },
});

const COLOURS = HighlightStyle.define([
  {tag: tags.keyword, color: "var(--code-keyword)", fontWeight: "600"},
  {tag: [tags.string, tags.number, tags.bool, tags.null, tags.special(tags.name)], color: "var(--code-literal)"},
  {tag: tags.comment, color: "var(--quiet)", fontStyle: "italic"},
]);

const LOOKS = EditorView.theme({
  "&": {
    color: "var(--ink)",
    backgroundColor: "var(--surface)",
    fontSize: "var(--code-size)",
    minHeight: "9.5em",
    maxHeight: "60vh",
  },
  "&.cm-focused": {outline: "none"},
  ".cm-scroller": {fontFamily: "var(--mono)", lineHeight: "1.6", overflow: "auto"},
  ".cm-content": {padding: "12px 6px", caretColor: "var(--ink)", minHeight: "9.5em"},
  ".cm-cursor": {borderLeftColor: "var(--ink)", borderLeftWidth: "2px"},
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "var(--selection)",
  },
  ".cm-placeholder": {color: "var(--quiet)"},
  "&.cm-focused .cm-matchingBracket": {backgroundColor: "var(--selection)", outline: "none"},
  ".cm-lintRange-error": {
    backgroundImage: "none",
    textDecoration: "underline wavy var(--bad) 1.5px",
    textUnderlineOffset: "3px",
    backgroundColor: "var(--bad-faint)",
  },
  ".cm-tooltip": {
    backgroundColor: "var(--surface)",
    color: "var(--ink)",
    border: "1px solid var(--line-strong)",
    borderRadius: "6px",
    boxShadow: "0 6px 20px var(--shadow)",
    overflow: "hidden",
    maxWidth: "min(36rem, 90vw)",
  },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": {fontFamily: "var(--mono)", fontSize: "var(--code-size)", maxHeight: "15em"},
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": {padding: "3px 10px"},
  ".cm-tooltip-autocomplete ul li[aria-selected]": {backgroundColor: "var(--accent)", color: "var(--on-accent)"},
  ".cm-completionDetail": {color: "var(--quiet)", fontStyle: "normal", fontFamily: "var(--sans)", fontSize: "0.85em"},
  "li[aria-selected] .cm-completionDetail": {color: "inherit"},
  ".cm-completionMatchedText": {textDecoration: "none", fontWeight: "700"},
  ".cm-diagnostic": {padding: "6px 10px", fontFamily: "var(--sans)", borderLeft: "4px solid var(--bad)"},
});
