/** Commands and other texts to be copied, with words that say whether the browser allowed it. */

import {element} from "./elements.js";

/** A name as a word of a command. @param {string} name */
export const inShell = (name) => (/^[\w.-]+$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`);

/** A button that copies a text, and where it says so. @param {string} title @param {() => string} text @returns {Node[]} */
export function copying(title, text) {
  const said = element("span", {role: "status", class: "quiet"});
  async function copy() {
    try {
      await navigator.clipboard.writeText(text());
      said.textContent = "Copied";
    } catch {
      said.textContent = "The browser did not allow copying";
    }
  }
  return [said, element("button", {type: "button", class: "plain", onclick: copy}, title)];
}
