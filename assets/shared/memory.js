/* Memory over time, a small picture a device. */
(function () {
  "use strict";
  const ex = window.explorer;

  function card(told, pick) {
    const box = document.createElement("button");
    box.className = "mem" + (told.over ? " over" : "");
    box.dataset.device = told.device;
    box.title = told.name + ": peak " + told.peak + (told.share ? ", " + told.share + " of " + told.limit : ", " + told.limit)
      + (told.broken ? ". The scale is broken below the cap" : "") + (told.parts ? ". At the peak: " + told.parts : "") + ". Click to show only this device.";
    const head = ex.element("span", "memh", null, box);
    ex.element("i", "swatch s" + (told.device % 64), null, head);
    ex.element("span", "", told.name, head);
    const value = ex.element("span", "v", null, head);
    ex.element("b", "", told.peak, value);
    if (told.share) ex.element("em", "in-short", " · " + told.share, value);
    ex.element("em", "in-full", " · " + (told.share ? told.share + " of " : "") + told.limit, value);
    const svg = ex.svg("svg", { viewBox: "0 0 100 40", preserveAspectRatio: "none", "aria-hidden": "true" }, box);
    const y = (share) => 40 - share * 37;
    const colour = "var(--d" + (told.device % 8) + ")";
    let path = "M0,40";
    let height = y(told.points.length ? told.points[0][1] : 0);
    path += "L0," + height;
    for (const [x, share] of told.points) {
      path += "H" + (x * 100).toFixed(2) + "V" + y(share).toFixed(2);
      height = y(share);
    }
    path += "H100V40Z";
    ex.svg("path", { d: path, fill: colour, opacity: 0.5 }, svg);
    ex.svg("rect", { x: 0, y: y(told.floor), width: 100, height: 40 - y(told.floor), fill: colour, opacity: 0.75 }, svg);
    if (told.cap !== null) {
      ex.svg("line", { x1: 0, x2: 100, y1: y(told.cap), y2: y(told.cap), class: "cap" }, svg);
      if (told.broken) for (const up of [0, 1.6]) { /* two strokes across the gap: the scale is broken here */
        const at = y(0.76) + up;
        let zigzag = "M0," + at;
        for (let x = 0; x < 100; x += 4) zigzag += "L" + (x + 2) + "," + (at - 1.2) + "L" + (x + 4) + "," + at;
        ex.svg("path", { d: zigzag, class: "break" }, svg);
      }
    }
    box.addEventListener("click", () => pick(told.device));
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
    else place.replaceChildren(...cards.map((told) => card(told, pick)));
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
