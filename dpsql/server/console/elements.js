/** Elements of the page. Texts become text nodes, never markup: names and messages come from people. */

const SVG = "http://www.w3.org/2000/svg";

/**
 * An element with attributes and children. `onclick` and the like are listeners; `false`, `null` and `undefined` leave an
 * attribute or a child out, and `true` sets an attribute without a value.
 * @param {string} tag @param {Record<string, unknown>} [attributes]
 * @param {...(Node | string | number | null | false | undefined)} children
 * @returns {HTMLElement}
 */
export function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for pictures. @returns {SVGElement} */
export function drawing(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** Puts children in the place of those that are there. @param {Element} parent */
export function show(parent, ...children) {
  parent.replaceChildren(...children.filter(isThere));
  return parent;
}

/** A list of names and what they mean. @param {[string, string][]} pairs @param {{list?: string, words?: string}} [classes] */
export function definitions(pairs, {list, words} = {}) {
  return element(
    "dl",
    {class: list},
    ...pairs.flatMap(([name, told]) => [element("dt", {}, name), element("dd", {class: words}, told)]),
  );
}

/** Shows a dialog until it is closed, and returns the value it was closed with. @returns {Promise<string>} */
export function closed(dialog) {
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((answer) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      answer(dialog.returnValue);
    });
  });
}

/** Calls `tell` whenever the size of an element changes, with whether its content is wider or higher than the element. */
export function watchOverflow(place, tell) {
  const measure = () => tell(place.scrollWidth > place.clientWidth, place.scrollHeight > place.clientHeight);
  new ResizeObserver(measure).observe(place);
}

/** An element of the page by its id; one that is missing is a fault of this program. @returns {any} */
export function byId(id) {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`no element ${id}`);
  return found;
}

const isThere = (child) => child !== null && child !== undefined && child !== false;

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (isThere(value)) made.setAttribute(name, String(value));
  }
  made.append(...children.filter(isThere).map((child) => (child instanceof Node ? child : String(child))));
  return made;
}
