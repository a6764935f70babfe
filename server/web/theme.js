// theme.js - selects the light or dark theme before the first paint. This script is not a module,
// because modules are deferred.
(function () {
  "use strict";
  const dark = matchMedia("(prefers-color-scheme: dark)");
  function chosen() {
    try {
      return localStorage.getItem("bloomgate-theme") || "auto";
    } catch {
      return "auto"; // storage is unavailable, so use the OS theme
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
        // If storage is unavailable, the choice lasts until the page is reloaded.
      }
      apply();
    },
  };
  dark.addEventListener("change", apply);
  apply();
})();
