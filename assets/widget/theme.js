/* Light or dark, as the notebook around it is. */
const luminance = (colour) => {
  const parts = colour.match(/[\d.]+/g);
  if (!parts || (parts.length > 3 && Number(parts[3]) < 0.5)) return null;
  return (0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]) / 255;
};

export function themeOf(el) {
  const jupyter = document.body.dataset.jpThemeLight; /* JupyterLab, Notebook 7 */
  if (jupyter) return jupyter === "false" ? "dark" : "light";
  const classes = [...document.body.classList, ...document.documentElement.classList];
  if (classes.some((name) => /^(vscode-dark|vscode-high-contrast|dark|dark-theme|theme-dark)$/.test(name))) return "dark";
  if (classes.some((name) => /^(vscode-light|light|light-theme|theme-light)$/.test(name))) return "light";
  for (let at = el; at; at = at.parentElement || (at.getRootNode().host ?? null)) {
    const light = luminance(getComputedStyle(at).backgroundColor);
    if (light !== null) return light < 0.5 ? "dark" : "light";
  }
  return window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

/* then(): whenever it may have changed. Returns what ends the watching. */
export function watchTheme(then) {
  const watching = new MutationObserver(then);
  for (const element of [document.documentElement, document.body]) {
    watching.observe(element, { attributes: true, attributeFilter: ["class", "data-jp-theme-light", "data-jp-theme-name", "data-theme", "data-vscode-theme-kind"] });
  }
  return () => watching.disconnect();
}
