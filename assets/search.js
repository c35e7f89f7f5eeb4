/* How the search goes: the plan's objective and the proved bound over time, small in the rail and large in a tab. */
(function () {
  "use strict";
  const ex = (window.explorer = window.explorer || {});
  const TICKED_MS = 480;
  let search = null;
  let now_s = 0;
  let drawn_at = 0;

  /* A chart in a frame; large ones have axes. */
  function chart(place, large) {
    if (!place) return;
    place.replaceChildren();
    const [width, height] = [place.clientWidth, place.clientHeight];
    if (!search || width < 40 || height < 24) return;
    const curve = search.curve;
    const box = large ? { l: 66, r: 92, t: 12, b: 24 } : { l: 2, r: 2, t: 4, b: 4 };
    const svg = ex.svg("svg", { width: width, height: height, role: "img", "aria-label": "Objective and bound over time: " + curve.words }, place);
    const spread = search.running && now_s > curve.end_s ? curve.end_s / now_s : 1;
    const X = (x, last) => box.l + (last ? 1 : x * spread) * (width - box.l - box.r);
    const Y = (y) => height - box.b - y * (height - box.t - box.b);
    const stairs = (corners) => corners.map((c, i) => (i ? "L" : "M") + X(c[0], i === corners.length - 1) + "," + Y(c[1])).join("");
    if (large) {
      for (const y of [0, 1]) ex.svg("line", { x1: box.l, x2: width - box.r, y1: Y(y), y2: Y(y), class: "axis" }, svg);
      ex.svg("text", { x: box.l - 8, y: Y(1) + 4, "text-anchor": "end" }, svg, curve.high);
      ex.svg("text", { x: box.l - 8, y: Y(0) + 4, "text-anchor": "end" }, svg, curve.low);
      ex.svg("text", { x: box.l, y: height - 6 }, svg, "0 s");
      ex.svg("text", { x: width - box.r, y: height - 6, "text-anchor": "end" }, svg, spread < 1 ? now_s.toFixed(1) + " s" : curve.end);
    }
    const floor = curve.bound.length ? curve.bound[curve.bound.length - 1][1] : 0;
    if (curve.objective.length) {
      const first = X(curve.objective[0][0]);
      ex.svg("path", { d: stairs(curve.objective) + "V" + Y(floor) + "H" + first + "Z", class: "between" }, svg);
    }
    if (curve.bound.length) ex.svg("path", { d: stairs(curve.bound), class: "bound" }, svg);
    if (curve.objective.length) ex.svg("path", { d: stairs(curve.objective), class: "objective" }, svg);
    if (curve.marks.length <= 60) {
      for (const [x, y] of curve.marks) ex.svg("circle", { cx: X(x), cy: Y(y), r: large ? 2.6 : 1.8 }, svg);
    }
    if (large && curve.objective.length) {
      const last = curve.objective[curve.objective.length - 1];
      const plan = Y(last[1]);
      ex.svg("text", { x: width - box.r + 8, y: plan + 4, class: "strong" }, svg, curve.best_text);
      const bound = curve.bound.length ? Math.max(Y(floor), plan + 14) : height - box.b - 2;
      if (curve.bound.length || curve.bound_below) {
        ex.svg("text", { x: width - box.r + 8, y: Math.min(height - 4, bound + 4), class: "proved" }, svg, (curve.bound_below ? "↓ " : "") + curve.bound_text);
      }
    }
  }

  function redraw() {
    drawn_at = performance.now();
    const mini = document.getElementById("search-mini");
    chart(mini && mini.querySelector(".plot"), false);
    chart(document.getElementById("search-plot"), true);
  }

  function draw(message) {
    search = message;
    now_s = message.elapsed_s;
    const words = message.curve.words;
    for (const place of document.querySelectorAll(".search-words")) place.textContent = words;
    const bound = document.querySelector("#search-words-more");
    if (bound) bound.textContent = message.curve.best_s === null ? "" : "bound " + message.curve.bound_text + " · gap " + message.curve.gap;
    document.body.classList.toggle("searched", message.running || message.curve.plans > 0);
    redraw();
  }

  /* The right edge of a running search is now. */
  function tick(seconds) {
    now_s = seconds;
    if (search && search.running && performance.now() - drawn_at > TICKED_MS) redraw();
  }

  function listen() {
    const seen = new ResizeObserver(redraw);
    for (const place of [document.querySelector("#search-mini .plot"), document.getElementById("search-plot")]) if (place) seen.observe(place);
  }

  ex.search = { draw, tick, listen };
})();
