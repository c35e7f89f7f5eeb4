/* What stands under the pointer of a chart, beside it. */
(function () {
  "use strict";
  const ex = window.explorer;

  /* What a bar says is written with a few tags and its names are escaped. Here it is text, bold where it says so. */
  function linesOf(words) {
    const lines = [];
    for (const line of String(words).split(/<br\s*\/?>/i)) {
      const place = document.createElement("span");
      for (const part of new DOMParser().parseFromString(line, "text/html").body.childNodes) {
        const made = part.nodeName === "B" ? document.createElement("b") : document.createTextNode("");
        made.textContent = part.textContent;
        place.appendChild(made);
      }
      lines.push(place);
    }
    return lines;
  }

  /* Its text alone. */
  const plain = (words) => linesOf(words).map((line) => line.textContent).join(" ");

  /* frame: what it stays inside of, and which may scroll. */
  function box(frame) {
    const tip = document.createElement("div");
    tip.className = "tip-box";
    tip.hidden = true;
    frame.appendChild(tip);
    let shown = null;
    return {
      hide() { tip.hidden = true; shown = null; },
      /* words: see above; beside a point of the window. */
      show(words, clientX, clientY) {
        if (shown !== words) tip.replaceChildren(...linesOf(words));
        [tip.hidden, shown] = [false, words];
        const place = frame.getBoundingClientRect();
        const [x, y] = [clientX - place.left, clientY - place.top];
        const left = x + 14 + tip.offsetWidth > place.width ? x - tip.offsetWidth - 10 : x + 14;
        const top = y + 16 + tip.offsetHeight > place.height ? y - tip.offsetHeight - 8 : y + 16;
        tip.style.left = Math.max(3, left) + frame.scrollLeft + "px";
        tip.style.top = Math.max(3, top) + frame.scrollTop + "px";
      },
    };
  }

  ex.tip = { box, plain };
})();
