/** Pictures that the server drew, as elements of this page: made anew of the elements and attributes that such pictures have. */

import {drawing} from "./elements.js";

const ELEMENTS = new Set(["svg", "g", "title", "text", "rect", "circle", "line", "polygon", "polyline"]);
const ATTRIBUTES = new Set(
  `viewBox width height role aria-label class x y x1 x2 y1 y2 cx cy r points fill fill-opacity stroke stroke-width stroke-opacity
   stroke-dasharray font-size text-anchor`.split(/\s+/),
);

/** The picture, without anything else that its text may hold; null where it is none. @param {string} svg */
export function picture(svg) {
  return copy(new DOMParser().parseFromString(svg, "image/svg+xml").documentElement);
}

function copy(node) {
  if (node.nodeType === Node.TEXT_NODE) return node.data;
  if (!ELEMENTS.has(node.nodeName)) return null;
  const kept = [...node.attributes].filter(({name}) => ATTRIBUTES.has(name)).map(({name, value}) => [name, value]);
  return drawing(node.nodeName, Object.fromEntries(kept), ...[...node.childNodes].map(copy));
}
