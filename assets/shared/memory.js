/* Memory over time, a small picture a device. */
(function () {
  "use strict";
  const ex = window.explorer;

  function card(figures, pick) {
    const box = document.createElement("button");
    box.className = "mem" + (figures.over ? " over" : "");
    box.dataset.device = figures.device;
    box.title = figures.name + ": peak " + figures.peak + (figures.share ? ", " + figures.share + " of " + figures.limit : ", " + figures.limit)
      + (figures.broken ? ". The scale is broken below the cap" : "") + (figures.parts ? ". At the peak: " + figures.parts : "") + ". Click to show only this device.";
    const head = ex.element("span", "memh", null, box);
    ex.element("i", "swatch s" + (figures.device % 64), null, head);
    ex.element("span", "", figures.name, head);
    const value = ex.element("span", "v", null, head);
    ex.element("b", "", figures.peak, value);
    if (figures.share) ex.element("em", "in-short", " · " + figures.share, value);
    ex.element("em", "in-full", " · " + (figures.share ? figures.share + " of " : "") + figures.limit, value);
    const svg = ex.svg("svg", { viewBox: "0 0 100 40", preserveAspectRatio: "none", "aria-hidden": "true" }, box);
    const y = (share) => 40 - share * 37;
    const colour = "var(--d" + (figures.device % 8) + ")";
    let path = "M0,40";
    let height = y(figures.points.length ? figures.points[0][1] : 0);
    path += "L0," + height;
    for (const [x, share] of figures.points) {
      path += "H" + (x * 100).toFixed(2) + "V" + y(share).toFixed(2);
      height = y(share);
    }
    path += "H100V40Z";
    ex.svg("path", { d: path, fill: colour, opacity: 0.5 }, svg);
    ex.svg("rect", { x: 0, y: y(figures.floor), width: 100, height: 40 - y(figures.floor), fill: colour, opacity: 0.75 }, svg);
    if (figures.cap !== null) {
      ex.svg("line", { x1: 0, x2: 100, y1: y(figures.cap), y2: y(figures.cap), class: "cap" }, svg);
      if (figures.broken) for (const up of [0, 1.6]) { /* two strokes across the gap: the scale is broken here */
        const at = y(0.76) + up;
        let zigzag = "M0," + at;
        for (let x = 0; x < 100; x += 4) zigzag += "L" + (x + 2) + "," + (at - 1.2) + "L" + (x + 4) + "," + at;
        ex.svg("path", { d: zigzag, class: "break" }, svg);
      }
    }
    box.addEventListener("click", () => pick(figures.device));
    return box;
  }

  /* As many columns as fit, but rows of the same length. */
  function columns(place) {
    const strips = place.classList.contains("of-strips");
    const count = strips ? place.querySelectorAll(".mem-panel").length : place.children.length;
    const fit = Math.max(1, Math.floor(place.clientWidth / (strips ? 215 : 190)));
    if (count) place.style.setProperty("--columns", Math.ceil(count / Math.ceil(count / fit)));
  }

  const watched = new WeakSet();

  /* place: the frame; strips: of many devices, null for a card each; pick: what a click on a device does. */
  function drawIn(place, cards, strips, pick) {
    place.classList.toggle("of-strips", !!strips);
    if (strips) ex.strips(place, strips, pick);
    else place.replaceChildren(...cards.map((each) => card(each, pick)));
    columns(place);
    if (!watched.has(place)) new ResizeObserver(() => columns(place)).observe(place);
    watched.add(place);
  }

  ex.memory = {
    drawIn,
    draw: function (cards, strips) {
      const place = document.getElementById("memory-cards");
      if (place) drawIn(place, cards, strips, (device) => ex.gantt.holdDevice(device));
    },
  };
})();
