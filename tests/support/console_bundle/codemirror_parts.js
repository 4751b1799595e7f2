// What the console uses of CodeMirror 6; `npm run bundle` makes one file of it. All packages are under the MIT licence.
export {acceptCompletion, autocompletion, completionKeymap, completionStatus, startCompletion} from "@codemirror/autocomplete";
export {defaultKeymap, history, historyKeymap} from "@codemirror/commands";
export {SQLDialect} from "@codemirror/lang-sql";
export {HighlightStyle, bracketMatching, syntaxHighlighting, syntaxTree} from "@codemirror/language";
export {setDiagnostics} from "@codemirror/lint";
export {Compartment, EditorState, Prec} from "@codemirror/state";
export {EditorView, drawSelection, keymap, placeholder} from "@codemirror/view";
export {tags} from "@lezer/highlight";
