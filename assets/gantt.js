/* The schedule: one Plotly.react per plan; highlights are a single overlay shape. */
(function () {
  "use strict";
  const ex = (window.explorer = window.explorer || {});
  let bars = null;
  let rows = { kind: "devices", stages: [], devices: [] };
  let end = 1;
  let lanesBelow = [];
  let numbering = null;
  const MOST_NUMBERS = 1200;
  const SIZES = [11, 9]; /* pixels */
  let held = null; /* a clicked bar's stage or a clicked device stays highlighted */

  const place = () => (window.Plotly ? document.getElementById("gantt") : null);
  const frame = () => { const plot = place(); return plot && plot._fullLayout ? plot : null; };
  const config = {
    displayModeBar: false, displaylogo: false, showSendToCloud: false, plotlyServerURL: "", scrollZoom: true,
    doubleClick: "reset", responsive: false,
  };

  function draw(message, done) {
    bars = message.bars;
    rows = message.rows;
    const range = message.figure.layout.xaxis.range;
    end = range[1];
    held = null;
    lanesBelow = message.figure.layout.shapes;
    ex.whenReady(place, function (plot) {
      const margin = message.figure.layout.margin;
      const texts = numbers(message.figure.data, range, plot.clientWidth - margin.l - margin.r);
      message.figure.data.forEach(function (trace, i) {
        if (!texts[i]) return;
        Object.assign(trace, { text: texts[i].text, constraintext: "none" });
        trace.textfont.size = texts[i].size || SIZES[0];
      });
      delete message.figure.layout.uniformtext;
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
    for (let row = 0; row < rows.devices.length; row++) {
      let from = 0;
      for (let i = 0; i < bars.device.length; i++) {
        if (bars.row[i] !== row || bars.to[i] >= 0 || !keep(i)) continue;
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
    show((i) => bars.row[i] >= 0 && (rows.kind === "devices" ? bars.device[i] === device : rows.devices[bars.row[i]].includes(device)));
    for (const card of document.querySelectorAll("[data-device]")) {
      card.classList.toggle("held", +card.dataset.device === device);
    }
    ex.send({ type: "select", kind: "device", id: String(device) });
  }

  function holdStage(stage, device) {
    ex.graph.select(null);
    held = "stage " + stage;
    ex.graph.showStage(stage, true);
    ex.stages.mark(stage);
    show((i) => bars.stage[i] === stage);
    const kind = document.querySelector(".graph-card").dataset.graph === "stages" || rows.kind === "stages" ? "stage" : "device";
    ex.send({ type: "select", kind: kind, id: String(kind === "stage" ? stage : device) });
  }

  function release() {
    held = null;
    ex.stages.mark(null);
    for (const card of document.querySelectorAll(".held")) card.classList.remove("held");
    ex.graph.clear();
    if (!ex.graph.selection()) { ex.graph.highlight(null); show(null); }
  }

  /* The lanes' names filter by device. */
  function lanes(plot) {
    plot.querySelectorAll(".ytick text").forEach(function (label, row) {
      label.style.pointerEvents = "all";
      label.style.cursor = "pointer";
      label.onclick = () => (rows.kind === "stages" ? holdStage(rows.stages[row], rows.devices[row][0]) : holdDevice(row));
    });
  }

  /* Micro-batch numbers of what is in sight: all of a trace, or none where a bar is too narrow for its
     own; null for traces without. range: of the time axis; width: its pixels. */
  function numbers(traces, range, width) {
    const scale = width / (range[1] - range[0]);
    let count = 0;
    const found = traces.map(function (trace) {
      if (!trace.textfont) return null;
      let size = SIZES[0];
      const text = trace.customdata.map(function (i) {
        const micro = bars.micro[i];
        const unnumbered = micro < 0 || bars.kind[i] === "U" || bars.kind[i] === "R";
        if (unnumbered || bars.end[i] < range[0] || bars.start[i] > range[1]) return "";
        const words = String(micro);
        const room = ((bars.end[i] - bars.start[i]) * scale - 1.5) / (0.58 * words.length);
        size = room >= size ? size : room >= SIZES[1] ? SIZES[1] : 0;
        count += 1;
        return words;
      });
      return { size: size, text: size ? text : text.map(() => "") };
    });
    return count <= MOST_NUMBERS ? found : found.map((told) => told && { size: 0, text: told.text.map(() => "") });
  }

  function number() {
    const plot = frame();
    if (!plot || !bars) return;
    const axis = plot._fullLayout.xaxis;
    const change = { text: [], "textfont.size": [] };
    const which = [];
    numbers(plot.data, axis.range, axis._length).forEach(function (told, position) {
      if (!told || told.text.join() === plot.data[position].text.join()) return;
      change.text.push(told.text);
      change["textfont.size"].push(told.size || SIZES[0]);
      which.push(position);
    });
    if (which.length) window.Plotly.restyle(plot, change, which);
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
        ex.stages.light(bars.stage[i]);
      });
      plot.on("plotly_unhover", function () {
        if (held || ex.graph.selection()) return;
        ex.graph.highlight(null);
        ex.stages.light(null);
      });
      plot.on("plotly_click", function (event) {
        const i = index(event);
        if (i === undefined) return;
        holdStage(bars.stage[i], bars.device[i]);
      });
      plot.on("plotly_relayout", function (event) {
        if (!Object.keys(event).some((key) => key.startsWith("xaxis"))) return;
        clearTimeout(numbering);
        numbering = setTimeout(number, 140);
      });
    });
    const canvas = document.querySelector(".gantt-card .canvas");
    new ResizeObserver(function () {
      const plot = frame();
      if (plot) window.Plotly.Plots.resize(plot).then(number);
    }).observe(canvas);
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

  ex.gantt = { draw, showStages, holdDevice, holdStage, release, fit, listen };
})();
