// theme.js - light or dark, decided before anything is drawn. Not a module: modules wait.
(function () {
  "use strict";
  const dark = matchMedia("(prefers-color-scheme: dark)");
  function chosen() {
    try {
      return localStorage.getItem("bloomgate-theme") || "auto";
    } catch {
      return "auto"; // no storage: the system's
    }
  }
  function apply() {
    const theme = chosen();
    document.documentElement.dataset.theme = theme === "auto" ? (dark.matches ? "dark" : "light") : theme;
    document.documentElement.dataset.chosen = theme;
  }
  window.bloomgateTheme = {
    chosen,
    choose(theme) {
      try {
        localStorage.setItem("bloomgate-theme", theme);
      } catch {
        // It holds for this page then.
      }
      apply();
    },
  };
  dark.addEventListener("change", apply);
  apply();
})();
