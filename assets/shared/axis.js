/* The time axis of a schedule, and what is written into its plot. */
(function () {
  "use strict";
  const ex = window.explorer;
  const TICK_SPACING = 76; /* pixels from tick to tick, about */
  const FONT = "system-ui, -apple-system, 'Segoe UI', sans-serif";

  /* Round times of a range and how they read, at steps of 1, 2 or 5 times a power of ten. */
  function ticks(range, width, suffix) {
    const rough = (range[1] - range[0]) / Math.min(12, Math.max(2, width / TICK_SPACING));
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((times) => times * power).find((value) => value >= rough * (1 - 1e-9));
    const places = Math.min(12, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
    const ticks = [];
    for (let i = Math.ceil(range[0] / step - 1e-9); i * step <= range[1]; i++) {
      ticks.push({ at: i * step, words: (i * step).toFixed(places) + suffix });
    }
    return ticks;
  }

  /* Lines over the rows, and the times on a canvas of their own, which stays in sight while the rows scroll.
     size: of a chart; x: pixels of a time; unit: of the times; colours: of the figure. */
  function draw(pen, head, size, x, range, unit, colours) {
    head.font = "10.5px " + FONT;
    head.textBaseline = "middle";
    head.textAlign = "center";
    head.fillStyle = colours.quiet;
    pen.strokeStyle = colours.grid;
    pen.lineWidth = 1;
    let last = -Infinity;
    for (const tick of ticks(range, size.width, " " + unit)) {
      const at = x(tick.at);
      pen.beginPath();
      pen.moveTo(Math.round(at) + 0.5, size.top - 5);
      pen.lineTo(Math.round(at) + 0.5, size.top + size.height);
      pen.stroke();
      const half = head.measureText(tick.words).width / 2;
      const middle = Math.min(Math.max(at, half + 2), size.wide - half - 2);
      if (middle - half < last + 8) continue;
      head.fillText(tick.words, middle, size.top - 14);
      last = middle + half;
    }
  }

  /* A note at a time, on the side of it where there is room; later: where the axis goes on long after it. */
  function note(pen, size, at, y, words, later, colours) {
    if (at < size.left || at > size.left + size.width) return;
    pen.font = "10.5px " + FONT;
    const wide = pen.measureText(words).width;
    const after = later ? at + wide + 10 <= size.left + size.width : at - wide - 10 < size.left;
    const from = after ? at + 4 : at - 4 - wide;
    pen.fillStyle = colours.background;
    pen.fillRect(from - 2, y - 15, wide + 4, 15);
    pen.fillStyle = colours.text;
    pen.textAlign = "left";
    pen.textBaseline = "middle";
    pen.fillText(words, from, y - 7);
  }

  ex.axis = { ticks, draw, note, FONT };
})();
