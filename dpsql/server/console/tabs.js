/** Tabs by the pattern of ARIA: arrows move between them, and only the chosen one is a stop of the Tab key. */

import {element} from "./elements.js";

/** @typedef {{name: string, panel: HTMLElement, opened?: () => void}} Tab */

/** @param {string} id @param {Tab[]} all @param {Node[]} tools what stands behind the tabs */
export function tabs(id, all, tools = []) {
  const buttons = all.map(({name}, at) =>
    element(
      "button",
      {
        type: "button",
        role: "tab",
        id: `${id}-tab-${at}`,
        "aria-controls": `${id}-panel-${at}`,
        onclick: () => choose(at),
        onkeydown: (event) => turn(event, at),
      },
      name,
    ),
  );
  const panels = all.map(({panel}, at) =>
    element(
      "div",
      {
        role: "tabpanel",
        id: `${id}-panel-${at}`,
        "aria-labelledby": `${id}-tab-${at}`,
        tabindex: 0,
      },
      panel,
    ),
  );

  function choose(chosen) {
    buttons.forEach((button, at) => {
      button.setAttribute("aria-selected", String(at === chosen));
      button.tabIndex = at === chosen ? 0 : -1;
      panels[at].hidden = at !== chosen;
    });
    all[chosen].opened?.();
  }

  function turn(event, at) {
    const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (step === undefined) return;
    const next = (at + step + all.length) % all.length;
    choose(next);
    buttons[next].focus();
  }

  choose(0);
  return element(
    "div",
    {class: "tabs"},
    element(
      "div",
      {class: "tab-bar"},
      element("div", {role: "tablist", "aria-label": "Views of the answer"}, ...buttons),
      element("div", {class: "tools"}, ...tools),
    ),
    ...panels,
  );
}
