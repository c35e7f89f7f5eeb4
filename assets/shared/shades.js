/* What lies over the bars of the schedule: a veil over all that is not bright, and the critical path. However many bars
   there are, they are never restyled. */
(function () {
  "use strict";
  const ex = window.explorer;
  const MANY_RUNS = 120; /* of a critical path, beyond which its edges step back */
  const EDGE = 0.3; /* half of a bar: its upper edge, where no number stands: BAR of explorer/view/timeline/shapes.py */
  const BESIDE = 0.4; /* where a device's row has its transfers, if links have no rows: explorer/view/timeline/shapes.py */

  /* A light veil over everything that is not bright: the complement of the bright bars. */
  function veil(spans, rows, end, bright) {
    const byRow = rows.devices.map(() => []);
    for (let i = 0; i < spans.device.length; i++) {
      const row = spans.row[i];
      if (row >= 0 && (spans.to[i] < 0 || rows.link[row]) && bright(i)) byRow[row].push([spans.start[i], spans.end[i]]);
    }
    return outside(byRow, rows, end);
  }

  /* Per row, what its intervals leave over, as rectangles [from, to, top, bottom]. */
  function outside(byRow, rows, end) {
    const parts = [];
    byRow.forEach(function (intervals, row) {
      let from = 0;
      const [top, bottom] = [rows.middle[row] - rows.height[row] / 2, rows.middle[row] + rows.height[row] / 2];
      for (const [start, stop] of intervals.sort((a, b) => a[0] - b[0])) {
        if (start > from) parts.push([from, start, top, bottom]);
        from = Math.max(from, stop);
      }
      if (end > from) parts.push([from, end, top, bottom]);
    });
    return parts;
  }

  /* The critical path, as lines [from, to, row, row]: along its bars, and from row to row where one waits for another. */
  function lines(path, rows) {
    const strokes = { through: [], between: [] };
    let before = null;
    for (let i = 0; i < path.row.length; i++) {
      const row = path.row[i];
      if (row < 0) continue;
      const y = rows.middle[row] + (path.link[i] && !rows.link[row] ? BESIDE : -EDGE * rows.height[row]);
      strokes.through.push([path.start[i], path.end[i], y, y]);
      if (before) strokes.between.push([before[0], path.start[i], before[1], y]);
      before = [path.end[i], y];
    }
    return strokes;
  }

  /* What is off the critical path: the complement of its bars. */
  function offPath(path, rows, end) {
    const byRow = rows.devices.map(() => []);
    path.row.forEach(function (row, i) { if (row >= 0 && (!path.link[i] || rows.link[row])) byRow[row].push([path.start[i], path.end[i]]); });
    return outside(byRow, rows, end);
  }

  /* All of it, as {name, colour, opacity} with rects or with lines and their width. spans: columns of the bars; rows: of
     the schedule; end: of its time axis; bright: which spans are bright, null for all; path: null without one; root: whose
     CSS variables are the colours. */
  function over(spans, rows, end, bright, path, root) {
    const style = getComputedStyle(root || document.documentElement);
    const paint = (name) => style.getPropertyValue(name).trim();
    const layers = [];
    const drawn = path && path.row.length;
    if (bright) layers.push({ name: "veil", rects: veil(spans, rows, end, bright), colour: paint("--card"), opacity: 0.74 });
    else if (drawn) layers.push({ name: "off path", rects: offPath(path, rows, end), colour: paint("--card"), opacity: 0.6 });
    if (drawn) {
      const strokes = lines(path, rows);
      const stroke = (what, colour, width, opacity) => ({ name: "path", lines: what, colour: paint(colour), width: width, opacity: opacity });
      if (strokes.between.length) layers.push(stroke(strokes.between, "--ink", 1, path.row.length > MANY_RUNS ? 0.25 : 0.55));
      layers.push(stroke(strokes.through, "--card", 4.5, 1), stroke(strokes.through, "--ink", 2.2, 1));
    }
    return layers;
  }

  /* size, x, y, range: of a chart. */
  function draw(pen, shape, x, y, range) {
    const inSight = ([from, to]) => to >= range[0] && from <= range[1];
    pen.globalAlpha = shape.opacity;
    if (shape.rects) {
      pen.fillStyle = shape.colour;
      pen.beginPath(); /* one path: rectangles that touch are not darker where they do */
      for (const part of shape.rects) {
        if (!inSight(part)) continue;
        const [left, right] = [x(Math.max(part[0], range[0])), x(Math.min(part[1], range[1]))];
        pen.rect(left, y(part[2]), right - left, y(part[3]) - y(part[2]));
      }
      pen.fill();
      if (shape.edge) {
        pen.globalAlpha = 1;
        pen.strokeStyle = shape.colour;
        pen.lineWidth = shape.edge;
        pen.stroke();
      }
    } else {
      pen.strokeStyle = shape.colour;
      pen.lineWidth = shape.width;
      pen.beginPath();
      for (const part of shape.lines) {
        if (!inSight(part)) continue;
        pen.moveTo(x(part[0]), y(part[2]));
        pen.lineTo(x(part[1]), y(part[3]));
      }
      pen.stroke();
    }
    pen.globalAlpha = 1;
  }

  ex.shades = { over, draw };
})();
