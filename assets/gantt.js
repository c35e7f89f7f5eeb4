/* The schedule: a chart on a canvas (shared/chart.js), and what is bright in it. Of many operators, runs are drawn, and those in
   sight are asked for again as one zooms in. */
(function () {
  "use strict";
  const ex = (window.explorer = window.explorer || {});
  let chart = null;
  let bars = null;
  let spans = null; /* what is highlighted: all bars, of which runs may be drawn */
  let rows = { kind: "devices", stages: [], devices: [], middle: [], height: [], link: [] };
  let operators = false; /* whether a bar is an operator, or a run of them */
  let path = null;
  let way = null; /* what an idle device waits for: a way through the schedule, in place of the critical path */
  let idle = null; /* that idle time, as a shape */
  let turn = null; /* the search that the drawn plan is of */
  let scale_s = 1; /* seconds in a unit of the time axis */
  let held = null; /* a clicked bar's stage or a clicked device stays highlighted */
  let bright = null; /* what is bright now */

  const place = () => document.getElementById("gantt");
  const ready = () => chart !== null && chart.ready();

  function draw(message, done) {
    ex.whenReady(place, function (plot) {
      if (!chart) chart = ex.chart(plot.parentElement, plot, host);
      const range = zoomed(message);
      ({ bars, rows, path, scale_s, turn } = message);
      spans = message.spans || message.bars;
      operators = message.by_operator;
      held = bright = way = idle = null;
      chart.draw(message, range);
      if (rows.path) show(null);
      ex.clock.drawn(message);
      if (ex.graph.selection()) ex.graph.clear();
      requestAnimationFrame(done);
    });
  }

  /* A better plan of the same search comes while somebody looks closely: they go on looking there. */
  function zoomed(message) {
    if (!ready() || message.turn !== turn || message.scale_s !== scale_s || message.reason === "pair") return null;
    const [from, to] = chart.range();
    return to - from < 0.97 * chart.end() && to < message.figure.axis.end ? [from, to] : null;
  }

  /* The bars of the part that is in sight now. */
  function refine(message) {
    if (!ready()) return;
    bars = message.bars;
    chart.refine(message);
  }

  function show(wanted, along) {
    bright = wanted;
    [way, idle] = along || [null, null];
    if (ready()) chart.show(bright, way || (rows.path ? path : null), idle ? [idle] : null);
  }

  /* A device's idle time, from and to in seconds, and what it waits for. */
  function showWait(message) {
    const colour = getComputedStyle(document.documentElement).getPropertyValue("--accent").trim();
    const shape = ex.idleShape(rows, message.device, message.idle_s, scale_s, colour);
    if (!shape) return;
    held = "wait";
    show(null, [message.path, shape]);
  }

  /* Where a point of the page is in the schedule: row, seconds, and whether a bar is there; null beside it. */
  function under(x, y) {
    const spot = ready() ? chart.under(x, y) : null;
    return spot && { row: spot.row, at_s: spot.at * scale_s, bar: chart.barAt(x, y) !== null };
  }

  /* What is in sight, for what lies over it; the axis in seconds. */
  function sight() {
    if (!ready()) return null;
    const [from, to] = chart.range();
    const { sheet, left, width, top, tall } = chart.sight();
    return { plot: sheet, rows: rows, left: left, width: width, from: from * scale_s, to: to * scale_s, scale_s: scale_s, top: top, tall: tall };
  }

  /* That much of the schedule in sight, in seconds. */
  function look(from, to) {
    if (ready()) chart.look(from / scale_s, to / scale_s);
  }

  /* The critical path on or off. */
  function showPath(on) {
    rows.path = on;
    show(bright);
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
    if (i < 0 || !ready()) return;
    holdOperator(spans.key[i]);
    const [from, to] = [from_s / scale_s, to_s / scale_s];
    const shown = chart.range();
    const end = chart.end();
    if (from >= shown[0] && to <= shown[1] && to - from > 0.02 * (shown[1] - shown[0])) return;
    const half = Math.min(end / 2, Math.max(12 * (to - from), end / 60));
    const middle = Math.min(Math.max((from + to) / 2, half), end - half);
    chart.look(middle - half, middle + half);
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

  const fit = () => { if (ready()) chart.fit(); };

  const host = {
    root: () => document.documentElement,
    hover(i) {
      if (held || ex.graph.selection()) return;
      if (i === null || bars.key[i] < 0) {
        ex.graph.highlight(null);
        ex.stages.light(null);
        return;
      }
      ex.graph.showKey(bars.key[i], false);
      ex.stages.light(bars.stage[i]);
    },
    pick(i) {
      if (!operators) holdStage(bars.stage[i], bars.device[i]);
      else if (bars.key[i] >= 0) holdOperator(bars.key[i]);
      else { /* a run: large enough that its operators can be clicked */
        const room = 0.15 * (bars.end[i] - bars.start[i]);
        chart.look(bars.start[i] - room, bars.end[i] + room);
      }
    },
    /* The rows' names filter by device. */
    pickRow(row) {
      if (rows.link[row]) holdRow(row);
      else if (rows.kind === "stages") holdStage(rows.stages[row], rows.devices[row][0]);
      else holdDevice(rows.devices[row][0]);
    },
    release() {},
    ask: (from, to) => ex.send({ type: "window", from: from, to: to }),
    wheel: () => true,
    moved: () => ex.clock.place(),
    laid: () => ex.clock.fit(),
  };

  function listen() {
    document.querySelector(".gantt-card .canvas").addEventListener("keydown", function (event) {
      if (event.key === "Escape") { ex.graph.select(null); release(); ex.clock.rest(); }
      else if (!ready() || !chart.key(event)) return;
      event.preventDefault();
    });
  }

  const drawn = () => (ready() ? chart.drawn() : null);

  ex.gantt = { draw, refine, showStages, showKeys, showPath, showWait, under, sight, look, holdDevice, holdStage, reveal, release, fit, listen, drawn };
})();
