/* The schedule: one Plotly.react per plan; highlights are a single overlay shape. */
(function () {
  "use strict";
  const ex = (window.explorer = window.explorer || {});
  let bars = null;
  let names = [];
  let end = 1;
  let lanesBelow = [];
  let held = null; /* a clicked bar's stage or a clicked device stays highlighted */

  const place = () => (window.Plotly ? document.getElementById("gantt") : null);
  const frame = () => { const plot = place(); return plot && plot._fullLayout ? plot : null; };
  const config = {
    displayModeBar: false, displaylogo: false, showSendToCloud: false, plotlyServerURL: "", scrollZoom: true,
    doubleClick: "reset", responsive: false,
  };

  function draw(message, done) {
    bars = message.bars;
    names = message.devices;
    const range = message.figure.layout.xaxis.range;
    end = range[1];
    held = null;
    lanesBelow = message.figure.layout.shapes;
    ex.whenReady(place, function (plot) {
      window.Plotly.react(plot, message.figure.data, message.figure.layout, config).then(function () {
        lanes(plot);
        if (ex.graph.selection()) ex.graph.clear();
        requestAnimationFrame(done);
      });
    });
  }

  /* A light veil over everything that is not kept: the complement of the kept bars, as one path. */
  function veil(keep) {
    const parts = [];
    const rect = (x0, x1, y0, y1) => {
      if (x1 > x0) parts.push("M" + x0 + "," + y0 + "L" + x1 + "," + y0 + "L" + x1 + "," + y1 + "L" + x0 + "," + y1 + "Z");
    };
    for (let row = 0; row < names.length; row++) {
      let from = 0;
      for (let i = 0; i < bars.device.length; i++) {
        if (bars.device[i] !== row || bars.to[i] >= 0 || !keep(i)) continue;
        rect(from, bars.start[i], row - 0.5, row + 0.5);
        from = Math.max(from, bars.end[i]);
      }
      rect(from, end, row - 0.5, row + 0.5);
    }
    return parts.join("");
  }

  function show(keep) {
    const plot = frame();
    if (!plot || !bars) return;
    const paper = getComputedStyle(document.documentElement).getPropertyValue("--card").trim();
    const shapes = keep
      ? [{ type: "path", path: veil(keep), fillcolor: paper, opacity: 0.74, line: { width: 0 }, layer: "above" }]
      : [];
    window.Plotly.relayout(plot, { shapes: lanesBelow.concat(shapes) });
  }

  const showStages = (stages) => {
    if (held && !stages) return;
    show(stages ? (i) => stages.has(bars.stage[i]) : null);
  };

  function holdDevice(device) {
    if (held === "device " + device) { release(); return; }
    held = "device " + device;
    ex.graph.highlight(ex.graph.byDevice(device), null);
    show((i) => bars.device[i] === device);
    for (const card of document.querySelectorAll("[data-device]")) {
      card.classList.toggle("held", +card.dataset.device === device);
    }
    ex.send({ type: "select", kind: "device", id: String(device) });
  }

  function release() {
    held = null;
    for (const card of document.querySelectorAll(".held")) card.classList.remove("held");
    ex.graph.clear();
    if (!ex.graph.selection()) { ex.graph.highlight(null); show(null); }
  }

  /* The lanes' names filter by device. */
  function lanes(plot) {
    plot.querySelectorAll(".ytick text").forEach(function (label, row) {
      label.style.pointerEvents = "all";
      label.style.cursor = "pointer";
      label.onclick = () => holdDevice(row);
    });
  }

  function fit() {
    const plot = frame();
    if (plot) window.Plotly.relayout(plot, { "xaxis.range": [0, end] });
  }

  function zoom(by, shift) {
    const plot = frame();
    if (!plot) return;
    const [a, b] = plot._fullLayout.xaxis.range;
    const middle = (a + b) / 2 + shift * (b - a);
    const half = ((b - a) / 2) * by;
    window.Plotly.relayout(plot, { "xaxis.range": [middle - half, middle + half] });
  }

  function listen() {
    ex.whenReady(frame, function (plot) {
      const index = (event) => event.points[0] && event.points[0].customdata;
      plot.on("plotly_hover", function (event) {
        const i = index(event);
        if (held || ex.graph.selection() || i === undefined) return;
        ex.graph.showStage(bars.stage[i], false);
      });
      plot.on("plotly_unhover", function () { if (!held && !ex.graph.selection()) ex.graph.highlight(null); });
      plot.on("plotly_click", function (event) {
        const i = index(event);
        if (i === undefined) return;
        ex.graph.select(null);
        held = "stage " + bars.stage[i];
        ex.graph.showStage(bars.stage[i], true);
        show((j) => bars.stage[j] === bars.stage[i]);
        ex.send({ type: "select", kind: "device", id: String(bars.device[i]) });
      });
    });
    const canvas = document.querySelector(".gantt-card .canvas");
    new ResizeObserver(() => { const plot = frame(); if (plot) window.Plotly.Plots.resize(plot); }).observe(canvas);
    canvas.addEventListener("keydown", function (event) {
      const acts = {
        "+": [0.7, 0], "=": [0.7, 0], "-": [1.4, 0], ArrowLeft: [1, -0.1], ArrowRight: [1, 0.1],
      };
      if (acts[event.key]) zoom(...acts[event.key]);
      else if (event.key === "0") fit();
      else if (event.key === "Escape") { ex.graph.select(null); release(); }
      else return;
      event.preventDefault();
    });
  }

  ex.gantt = { draw, showStages, holdDevice, release, fit, listen };
})();
