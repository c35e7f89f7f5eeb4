/* An SVG element with its attributes, and text where there is some, at the end of its parent. */
(function () {
  "use strict";
  const ex = window.explorer;

  ex.svg = function (name, attributes, parent, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const key of Object.keys(attributes)) made.setAttribute(key, attributes[key]);
    if (text !== undefined) made.textContent = text;
    parent.appendChild(made);
    return made;
  };
})();
