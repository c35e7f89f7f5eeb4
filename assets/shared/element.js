/* An element with its class and its text, at the end of its parent; and moving among elements by arrow keys. */
(function () {
  "use strict";
  const ex = window.explorer;

  ex.element = function (name, className, text, parent) {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text) made.textContent = text;
    return parent.appendChild(made);
  };

  /* Of the elements of `place` that fit `selector` one is a stop of the Tab key; `keys`, a step each, go on from there. */
  ex.roving = function (place, selector, keys) {
    place.addEventListener("keydown", function (event) {
      const all = [...place.querySelectorAll(selector)];
      const at = all.indexOf(event.target);
      const by = keys[event.key];
      if (!by || at < 0) return;
      const next = all[Math.min(all.length - 1, Math.max(0, at + by))];
      event.target.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
      event.preventDefault();
      event.stopPropagation();
    });
  };
})();
