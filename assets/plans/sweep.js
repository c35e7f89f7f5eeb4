/* A sweep: the plan's time at each value of one axis, and below it what is proved that no plan can beat. */
(function () {
  "use strict";
  const ex = (window.explorer = window.explorer || {});
  const NAMES = { devices: "GPUs", memory_bytes: "memory a GPU", micro_batches: "micro-batches", bandwidth_bytes_per_s: "bandwidth of a link" };
  const BOX = { l: 74, r: 26, t: 22, b: 38 };
  let sweep = null;

  function seconds(value) {
    const [unit, name] = value >= 1 ? [1, " s"] : value >= 1e-3 ? [1e-3, " ms"] : [1e-6, " µs"];
    return +(value / unit).toPrecision(3) + name;
  }

  function redraw() {
    const place = document.getElementById("sweep-plot");
    place.replaceChildren();
    const [width, height] = [place.clientWidth, place.clientHeight];
    if (!sweep || !sweep.values || !sweep.values.length || width < 120 || height < 60) return;
    const svg = ex.svg("svg", { width: width, height: height, role: "group", "aria-label": "Time at each value: " + NAMES[sweep.axis] }, place);
    const logs = sweep.values.map((value) => Math.log2(value));
    const [first, last] = [logs[0], logs[logs.length - 1]];
    const X = (i) => BOX.l + ((logs[i] - first) / (last - first || 1)) * (width - BOX.l - BOX.r);
    const solved = sweep.points.map((p) => p.objective_s).filter((s) => s !== null);
    const most = Math.max(...solved, 0) || 1;
    const Y = (s) => height - BOX.b - (s / (1.06 * most)) * (height - BOX.t - BOX.b);
    for (const share of [0, 0.5, 1]) {
      ex.svg("line", { x1: BOX.l, x2: width - BOX.r, y1: Y(share * most), y2: Y(share * most), class: "axis" }, svg);
      if (solved.length) ex.svg("text", { x: BOX.l - 8, y: Y(share * most) + 4, "text-anchor": "end" }, svg, share ? seconds(share * most) : "0");
    }
    sweep.labels.forEach((label, i) => ex.svg("text", { x: X(i), y: height - 20, "text-anchor": "middle" }, svg, label));
    ex.svg("text", { x: width - BOX.r, y: height - 4, "text-anchor": "end" }, svg, NAMES[sweep.axis]);
    const line = (key, name) => {
      const corners = sweep.points.map((p, i) => (p[key] === null ? null : [X(i), Y(p[key])])).filter(Boolean);
      if (corners.length) ex.svg("path", { d: corners.map((c, i) => (i ? "L" : "M") + c.join(",")).join(""), class: name }, svg);
      return corners;
    };
    const bound = line("bound_s", "bound");
    line("objective_s", "objective");
    if (bound.length > 1) ex.svg("text", { x: bound[bound.length - 1][0], y: bound[bound.length - 1][1] + 14, "text-anchor": "end", class: "proved" }, svg, "bound");
    sweep.points.forEach(function (point, i) {
      if (point.objective_s === null) {
        const none = ex.svg("text", { x: X(i), y: Y(0) - 6, "text-anchor": "middle", class: "none" }, svg, "✕");
        ex.svg("title", {}, none, sweep.labels[i] + ": " + point.status + ". " + point.reason);
        return;
      }
      const words = sweep.labels[i] + ": " + point.text;
      if (sweep.knee === i) {
        const ring = ex.svg("circle", { cx: X(i), cy: Y(point.objective_s), r: 10, class: "knee" }, svg);
        ex.svg("title", {}, ring, "The knee: more memory than this helps little");
      }
      const dot = ex.svg("circle", { cx: X(i), cy: Y(point.objective_s), r: 5, class: "point", tabindex: "0", role: "button", "data-act": "go-sweep", "data-arg": i, "aria-label": "Go to " + words }, svg);
      ex.svg("title", {}, dot, words + " (a click asks it)");
      ex.svg("text", { x: X(i), y: Y(point.objective_s) - (sweep.knee === i ? 17 : 10), "text-anchor": "middle", class: "value" }, svg, point.text);
    });
  }

  function draw(message) {
    sweep = message;
    document.getElementById("sweep-note").textContent = message.words;
    document.getElementById("sweep-start").disabled = message.going;
    document.getElementById("sweep-stop").disabled = !message.going;
    redraw();
  }

  function listen() {
    const axis = () => document.querySelector('#sweep-axis [aria-pressed="true"]').dataset.value;
    document.getElementById("sweep-axis").addEventListener("click", function (event) {
      const button = event.target.closest("[data-value]");
      if (button) ex.looks.press("sweep-axis", button.dataset.value);
    });
    document.getElementById("sweep-start").addEventListener("click", () => ex.send({ type: "sweep", element: axis() }));
    document.getElementById("sweep-stop").addEventListener("click", () => ex.send({ type: "stop-sweep" }));
    const plot = document.getElementById("sweep-plot");
    plot.addEventListener("keydown", function (event) {
      const point = event.target.closest("[data-act]");
      if (point && (event.key === "Enter" || event.key === " ")) {
        ex.send({ type: "go-sweep", element: point.dataset.arg });
        event.preventDefault();
      }
    });
    new ResizeObserver(redraw).observe(plot);
  }

  ex.sweep = { draw, listen };
})();
