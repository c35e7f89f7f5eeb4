/* The schedule: one Plotly.react per plan; highlights are a single overlay shape. Of many operators, runs are
   drawn, and those in sight are asked for again as one zooms in. */
(function () {
  "use strict";
  const ex = (window.explorer = window.explorer || {});
  let bars = null;
  let spans = null; /* what is highlighted: all bars, of which runs may be drawn */
  let rows = { kind: "devices", stages: [], devices: [], middle: [], height: [], link: [] };
  let detail = { merged: false, from: 0, to: 1 };
  let operators = false; /* whether a bar is an operator, or a run of them */
  let path = null;
  let way = null; /* what an idle device waits for: a way through the schedule, in place of the critical path */
  let idle = null; /* that idle time, as a shape */
  let turn = null; /* the search that the drawn plan is of */
  let scale_s = 1; /* seconds in a unit of the time axis */
  let end = 1;
  let lanesBelow = [];
  let numbering = null;
  const SIZE = 11; /* pixels of a bar's number, where it says none */
  const ROW_PX = 22; /* lower rows scroll rather than shrink */
  let held = null; /* a clicked bar's stage or a clicked device stays highlighted */
  let keep = null; /* what is bright now */

  const place = () => (window.Plotly ? document.getElementById("gantt") : null);
  const frame = () => { const plot = place(); return plot && plot._fullLayout ? plot : null; };
  const config = {
    displayModeBar: false, displaylogo: false, showSendToCloud: false, plotlyServerURL: "", scrollZoom: true,
    doubleClick: "reset", responsive: false,
  };

  function draw(message, done) {
    const kept = zoomed(message);
    bars = message.bars;
    spans = message.spans || message.bars;
    rows = message.rows;
    detail = message.detail;
    operators = message.by_operator;
    path = message.path;
    scale_s = message.scale_s;
    const range = message.figure.layout.xaxis.range;
    turn = message.turn;
    end = range[1];
    if (kept) message.figure.layout.xaxis.range = kept;
    held = keep = way = idle = null;
    lanesBelow = message.figure.layout.shapes;
    ex.whenReady(place, function (plot) {
      const margin = message.figure.layout.margin;
      write(message.figure.data, range, plot.clientWidth - margin.l - margin.r);
      delete message.figure.layout.uniformtext;
      const grown = tall(plot);
      message.figure.layout.shapes = lanesBelow.concat(overlays());
      window.Plotly.react(plot, message.figure.data, message.figure.layout, config).then(function () {
        if (grown) window.Plotly.Plots.resize(plot);
        lanes(plot);
        ex.clock.drawn(message);
        if (kept) ask();
        if (ex.graph.selection()) ex.graph.clear();
        requestAnimationFrame(done);
      });
    });
  }

  /* The numbers of bars, as large as they fit. */
  function write(traces, range, width) {
    const texts = ex.numbers(traces, bars, range, width);
    traces.forEach(function (trace, i) {
      if (!texts[i]) return;
      Object.assign(trace, { text: texts[i].text, constraintext: "none" });
      trace.textfont.size = texts[i].size || SIZE;
    });
  }

  /* A better plan of the same search comes while somebody looks closely: they go on looking there. */
  function zoomed(message) {
    const plot = frame();
    if (!plot || message.turn !== turn || message.scale_s !== scale_s || message.reason === "pair") return null;
    const [from, to] = plot._fullLayout.xaxis.range;
    return to - from < 0.97 * end && to < message.figure.layout.xaxis.range[1] ? [from, to] : null;
  }

  /* Many rows of links: the plot is as tall as they need, and scrolls. Says whether that changed. */
  function tall(plot) {
    const need = Math.round(rows.height.reduce((sum, height) => sum + height, 0) * ROW_PX + 34) + "px";
    if (plot.style.minHeight === need) return false;
    plot.style.minHeight = need;
    return true;
  }

  /* The bars of the part that is in sight now. */
  function refine(message) {
    const plot = frame();
    if (!plot) return;
    bars = message.bars;
    detail = message.detail;
    write(message.data, plot._fullLayout.xaxis.range, plot._fullLayout.xaxis._length);
    window.Plotly.react(plot, message.data, plot.layout, config).then(() => lanes(plot));
  }

  /* Runs come apart, or others come into sight: the server knows them. */
  function ask() {
    const plot = frame();
    if (!plot || !bars || spans === bars) return;
    const [from, to] = plot._fullLayout.xaxis.range;
    if (ex.detailDue(detail, [from, to], operators)) ex.send({ type: "window", from: from, to: to });
  }

  /* Everything above the bars: the veil over what is not bright, and the critical path, or that of a wait. */
  const overlays = () => ex.shades.over(spans, rows, end, keep, way || (rows.path ? path : null)).concat(idle || []);

  function show(wanted, along) {
    const plot = frame();
    keep = wanted;
    [way, idle] = along || [null, null];
    if (!plot || !bars) return;
    window.Plotly.relayout(plot, { shapes: lanesBelow.concat(overlays()) });
  }

  /* A device's idle time, from and to in seconds, and what it waits for. */
  function showWait(message) {
    const row = rows.devices.findIndex((devices, i) => !rows.link[i] && devices.includes(message.device));
    if (row < 0) return;
    held = "wait";
    const [x0, x1] = message.idle_s.map((at) => at / scale_s);
    const half = 0.36 * rows.height[row];
    const colour = getComputedStyle(document.documentElement).getPropertyValue("--accent").trim();
    show(null, [message.path, { type: "rect", name: "idle", layer: "above", x0: x0, x1: x1, y0: rows.middle[row] - half, y1: rows.middle[row] + half,
      fillcolor: colour, opacity: 0.28, line: { color: colour, width: 1.5 } }]);
  }

  /* Where a point of the page is in the schedule: row, and seconds; null beside it. */
  function under(x, y) {
    const plot = frame();
    if (!plot) return null;
    const box = plot.getBoundingClientRect();
    const [across, down] = [plot._fullLayout.xaxis, plot._fullLayout.yaxis];
    const [at, height] = [across.p2l(x - box.left - across._offset), down.p2l(y - box.top - down._offset)];
    const row = rows.middle.findIndex((middle, i) => Math.abs(height - middle) <= rows.height[i] / 2);
    return row >= 0 && at >= across.range[0] && at <= across.range[1] ? { row: row, at_s: at * scale_s } : null;
  }

  /* What is in sight, for what lies over it; the axis in seconds. */
  function sight() {
    const plot = frame();
    if (!plot || !bars) return null;
    const [across, down] = [plot._fullLayout.xaxis, plot._fullLayout.yaxis];
    return {
      plot: plot, rows: rows, left: across._offset, width: across._length, from: across.range[0] * scale_s, to: across.range[1] * scale_s,
      scale_s: scale_s, top: (row) => down._offset + down.l2p(rows.middle[row]), tall: (row) => Math.abs(down.l2p(rows.height[row]) - down.l2p(0)),
    };
  }

  /* That much of the schedule in sight, in seconds. */
  function look(from, to) {
    const plot = frame();
    if (plot) window.Plotly.relayout(plot, { "xaxis.range": [from / scale_s, to / scale_s] });
  }

  /* The critical path on or off. */
  function showPath(on) {
    rows.path = on;
    show(keep);
  }

  const showStages = (stages) => {
    if (held && !stages) return;
    show(stages ? (i) => stages.has(spans.stage[i]) : null);
  };

  const showKeys = (keys) => {
    if (held && !keys) return;
    show(keys ? (i) => keys.has(spans.key[i]) : null);
  };

  function holdDevice(device) {
    if (held === "device " + device) { release(); return; }
    held = "device " + device;
    ex.graph.highlight(ex.graph.byDevice(device), null);
    show((i) => spans.row[i] >= 0 && (rows.kind === "devices" || rows.link[spans.row[i]]
      ? spans.device[i] === device : rows.devices[spans.row[i]].includes(device)));
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
    show((i) => spans.stage[i] === stage);
    const kind = document.querySelector(".graph-card").dataset.graph === "stages" || rows.kind === "stages" ? "stage" : "device";
    ex.send({ type: "select", kind: kind, id: String(kind === "stage" ? stage : device) });
  }

  /* An operator with its gradients, wherever they run; centred in the graph. */
  function holdOperator(key) {
    ex.graph.select(null);
    held = "operator " + key;
    ex.graph.showKey(key, true);
    ex.stages.mark(null);
    show((i) => spans.key[i] === key);
    ex.send({ type: "select", kind: "operator", id: String(key) });
  }

  /* A span that is named elsewhere: held, and large enough to be seen. */
  function reveal(operator, from_s, to_s) {
    const i = spans ? spans.operator.indexOf(operator) : -1;
    const plot = frame();
    if (i < 0 || !plot) return;
    holdOperator(spans.key[i]);
    const [from, to] = [from_s / scale_s, to_s / scale_s];
    const shown = plot._fullLayout.xaxis.range;
    if (from >= shown[0] && to <= shown[1] && to - from > 0.02 * (shown[1] - shown[0])) return;
    const half = Math.min(end / 2, Math.max(12 * (to - from), end / 60));
    const middle = Math.min(Math.max((from + to) / 2, half), end - half);
    window.Plotly.relayout(plot, { "xaxis.range": [middle - half, middle + half] });
  }

  function holdRow(row) {
    if (held === "row " + row) { release(); return; }
    held = "row " + row;
    show((i) => spans.row[i] === row);
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
      label.onclick = () => (rows.link[row] ? holdRow(row)
        : rows.kind === "stages" ? holdStage(rows.stages[row], rows.devices[row][0]) : holdDevice(rows.devices[row][0]));
    });
  }

  function number() {
    const plot = frame();
    if (!plot || !bars) return;
    const axis = plot._fullLayout.xaxis;
    const change = { text: [], "textfont.size": [] };
    const which = [];
    ex.numbers(plot.data, bars, axis.range, axis._length).forEach(function (told, position) {
      if (!told || told.text.join() === plot.data[position].text.join()) return;
      change.text.push(told.text);
      change["textfont.size"].push(told.size || SIZE);
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
        if (held || ex.graph.selection() || i === undefined || bars.key[i] < 0) return;
        ex.graph.showKey(bars.key[i], false);
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
        if (!operators) holdStage(bars.stage[i], bars.device[i]);
        else if (bars.key[i] >= 0) holdOperator(bars.key[i]);
        else { /* a run: large enough that its operators can be clicked */
          const room = 0.15 * (bars.end[i] - bars.start[i]);
          window.Plotly.relayout(plot, { "xaxis.range": [bars.start[i] - room, bars.end[i] + room] });
        }
      });
      plot.on("plotly_relayouting", () => ex.clock.place());
      plot.on("plotly_afterplot", () => ex.clock.fit());
      plot.on("plotly_relayout", function (event) {
        if (!Object.keys(event).some((key) => key.startsWith("xaxis"))) return;
        clearTimeout(numbering);
        numbering = setTimeout(function () { number(); ask(); }, 140);
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
      else if (event.key === "Escape") { ex.graph.select(null); release(); ex.clock.rest(); }
      else return;
      event.preventDefault();
    });
  }

  ex.gantt = { draw, refine, showStages, showKeys, showPath, showWait, under, sight, look, holdDevice, holdStage, reveal, release, fit, listen };
})();
