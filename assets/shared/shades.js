/* What lies over the bars of the schedule, as plotly's shapes: a veil over all that is not bright, and the
   critical path. A shape each, however many bars there are: the bars themselves are never restyled. */
(function () {
  "use strict";
  const ex = window.explorer;
  const MANY_RUNS = 120; /* of a critical path, beyond which its edges step back */
  const BESIDE = 0.4; /* where a device's row has its transfers, if links have no rows: explorer/view/timeline/gantt_paint.py */

  /* A light veil over everything that is not kept: the complement of the kept bars, as one path. */
  function veil(spans, rows, end, keep) {
    const kept = rows.devices.map(() => []);
    for (let i = 0; i < spans.device.length; i++) {
      const row = spans.row[i];
      if (row >= 0 && (spans.to[i] < 0 || rows.link[row]) && keep(i)) kept[row].push([spans.start[i], spans.end[i]]);
    }
    return outside(kept, rows, end);
  }

  /* Per row, what its intervals leave over, as rectangles in one path. */
  function outside(kept, rows, end) {
    const parts = [];
    const rect = (x0, x1, y0, y1) => {
      if (x1 > x0) parts.push("M" + x0 + "," + y0 + "L" + x1 + "," + y0 + "L" + x1 + "," + y1 + "L" + x0 + "," + y1 + "Z");
    };
    kept.forEach(function (intervals, row) {
      let from = 0;
      const [top, bottom] = [rows.middle[row] - rows.height[row] / 2, rows.middle[row] + rows.height[row] / 2];
      for (const [start, stop] of intervals.sort((a, b) => a[0] - b[0])) {
        rect(from, start, top, bottom);
        from = Math.max(from, stop);
      }
      rect(from, end, top, bottom);
    });
    return parts.join("");
  }


  /* The critical path: lines through its bars, and edges from row to row where one waits for another. */
  function lines(path, rows) {
    const found = { through: "", between: "" };
    let before = null;
    for (let i = 0; i < path.row.length; i++) {
      const row = path.row[i];
      if (row < 0) continue;
      const y = (rows.middle[row] + (path.link[i] && !rows.link[row] ? BESIDE : 0)).toFixed(3);
      found.through += "M" + path.start[i] + "," + y + "L" + path.end[i] + "," + y;
      if (before) found.between += "M" + before + "L" + path.start[i] + "," + y;
      before = path.end[i] + "," + y;
    }
    return found;
  }

  /* What is off the critical path: the complement of its bars. */
  function offPath(path, rows, end) {
    const kept = rows.devices.map(() => []);
    path.row.forEach(function (row, i) { if (row >= 0 && (!path.link[i] || rows.link[row])) kept[row].push([path.start[i], path.end[i]]); });
    return outside(kept, rows, end);
  }

  /* All of it. spans: columns of the bars; rows: of the schedule; end: of its time axis; keep: which spans are
     bright, null for all; path: null without one; root: whose CSS variables are the colours. */
  function over(spans, rows, end, keep, path, root) {
    const style = getComputedStyle(root || document.documentElement);
    const paint = (name) => style.getPropertyValue(name).trim();
    const found = [];
    const shade = (what, opacity) => ({ type: "path", path: what, fillcolor: paint("--card"), opacity: opacity, line: { width: 0 }, layer: "above" });
    const drawn = path && path.row.length;
    if (keep) found.push(shade(veil(spans, rows, end, keep), 0.74));
    else if (drawn) found.push({ ...shade(offPath(path, rows, end), 0.6), name: "off path" });
    if (drawn) {
      const told = lines(path, rows);
      const stroke = (what, colour, width, opacity) => ({
        type: "path", path: what, layer: "above", opacity: opacity, line: { color: paint(colour), width: width }, name: "path" });
      if (told.between) found.push(stroke(told.between, "--ink", 1, path.row.length > MANY_RUNS ? 0.25 : 0.55));
      found.push(stroke(told.through, "--card", 4.5, 1), stroke(told.through, "--ink", 2.2, 1));
    }
    return found;
  }

  ex.shades = { over };
})();
