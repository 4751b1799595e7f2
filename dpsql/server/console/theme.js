/** Light or dark: as the system says, until the reader chooses. Runs before the page is drawn, so that it does not flash. */
"use strict";

(() => {
  const KEY = "dpsql.theme";
  const NEXT = {auto: "light", light: "dark", dark: "auto"};
  const root = document.documentElement;
  const wanted = () => (localStorage.getItem(KEY) in NEXT ? localStorage.getItem(KEY) : "auto");
  const apply = () => {
    root.dataset.theme = wanted();
    for (const chosen of document.querySelectorAll("[data-theme-chosen]")) chosen.textContent = wanted();
  };
  apply();
  document.addEventListener("DOMContentLoaded", () => {
    apply();
    for (const button of document.querySelectorAll("[data-theme-switch]")) {
      button.addEventListener("click", () => {
        localStorage.setItem(KEY, NEXT[wanted()]);
        apply();
      });
    }
  });
})();
