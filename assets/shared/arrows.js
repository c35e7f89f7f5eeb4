/* Arrows between the boxes of the stage view: a curve where nothing is in the way, else around the boxes. */
(function () {
  "use strict";
  const ex = window.explorer;
  const TURN = 17; /* pixels beyond a box at which an arrow turns */

  /* at: stage -> {x, y, line {top, bottom}} of its box; fit: {w, h, gx} of all; taken: rectangles
     [left, top, right, bottom] that no label may cover. */
  function draw(edges, svg, sheet, at, fit, taken) {
    const defs = ex.svg("defs", {}, svg);
    const tip = ex.svg("marker", { id: "tip", viewBox: "0 0 6 6", refX: 5.5, refY: 3, markerWidth: 6, markerHeight: 6,
      markerUnits: "userSpaceOnUse", orient: "auto" }, defs);
    ex.svg("path", { d: "M0,0L6,3L0,6Z", class: "tip" }, tip);
    for (const p of Object.values(at)) taken.push([p.x, p.y, p.x + fit.w, p.y + fit.h]);
    const labels = [];
    edges.forEach(function (edge, i) {
      const a = at[edge.source];
      const b = at[edge.target];
      const way = direct(a, b, fit, at, edge) || around(a, b, fit, i);
      const line = ex.svg("path", {
        d: way.d, class: "arrow" + (edge.between ? " between" : "") + (edge.waits ? " waits" : ""), "data-source": edge.source, "data-target": edge.target,
        "stroke-width": (0.8 + 1.2 * edge.weight).toFixed(2), "marker-end": "url(#tip)",
      }, svg);
      ex.svg("title", {}, line).textContent = "stage " + edge.source + " to " + edge.target + ": "
        + (edge.waits ? "waits only, reads nothing" : edge.text + " a micro-batch" + (edge.between ? ", between nodes" : ""));
      if (!edge.waits) labels.push([edge, way]);
    });
    if (fit.gx < 36) return;
    labels.sort((a, b) => b[0].weight - a[0].weight);
    for (const [edge, way] of labels) {
      const half = edge.text.length * 2.9 + 2;
      const spot = [way.x - half, way.y - 7, way.x + half, way.y + 7];
      if (taken.some((t) => spot[0] < t[2] && spot[2] > t[0] && spot[1] < t[3] && spot[3] > t[1])) continue;
      taken.push(spot);
      const label = document.createElement("span");
      label.className = "bytes";
      label.textContent = edge.text;
      sheet.appendChild(label);
      label.style.left = way.x + "px";
      label.style.top = way.y + "px";
    }
  }

  /* A curve from right to left edge, if no box is in its way. */
  function direct(a, b, fit, at, edge) {
    if (a.line !== b.line || b.x <= a.x) return null;
    const [x0, y0, x3, y3] = [a.x + fit.w, a.y + fit.h / 2, b.x, b.y + fit.h / 2];
    const bend = Math.min(60, (x3 - x0) / 2);
    const [x1, x2] = [x0 + bend, x3 - bend];
    const point = (t) => {
      const u = 1 - t;
      return [u * u * u * x0 + 3 * u * u * t * x1 + 3 * u * t * t * x2 + t * t * t * x3,
        (u * u * u + 3 * u * u * t) * y0 + (3 * u * t * t + t * t * t) * y3];
    };
    for (let t = 0.04; t < 1; t += 0.04) {
      const [x, y] = point(t);
      for (const key of Object.keys(at)) {
        const box = at[key];
        if (+key === edge.source || +key === edge.target) continue;
        if (x > box.x - 3 && x < box.x + fit.w + 3 && y > box.y - 3 && y < box.y + fit.h + 3) return null;
      }
    }
    const [x, y] = point(0.5);
    return { d: "M" + x0 + "," + y0 + "C" + x1 + "," + y0 + " " + x2 + "," + y3 + " " + x3 + "," + y3, x: x, y: y };
  }

  /* Along the gaps between columns and lines, where no box is. */
  function around(a, b, fit, i) {
    const shift = ((i % 5) - 2) * Math.min(1.8, fit.gx / 8);
    const turn = Math.min(TURN, fit.gx / 2);
    const out = a.x + fit.w + turn + shift;
    const into = b.x - turn + shift;
    const [y0, y3] = [a.y + fit.h / 2, b.y + fit.h / 2];
    let along = b.line.top - 7 + shift;
    if (a.line === b.line) {
      const above = Math.min(a.y, b.y) - a.line.top <= a.line.bottom - Math.max(a.y, b.y) - fit.h;
      along = above ? a.line.top - 7 + shift : a.line.bottom + 8 + shift;
    } else if (b.line.top < a.line.top) along = b.line.bottom + 9 + shift;
    const corners = [[a.x + fit.w, y0], [out, y0], [out, along], [into, along], [into, y3], [b.x, y3]];
    let d = "M" + corners[0].join(",");
    for (let n = 1; n < corners.length - 1; n++) {
      const [before, here, after] = [corners[n - 1], corners[n], corners[n + 1]];
      const near = (p) => {
        const length = Math.hypot(p[0] - here[0], p[1] - here[1]) || 1;
        const r = Math.min(6, length / 2);
        return [here[0] + ((p[0] - here[0]) * r) / length, here[1] + ((p[1] - here[1]) * r) / length];
      };
      d += "L" + near(before).join(",") + "Q" + here.join(",") + " " + near(after).join(",");
    }
    d += "L" + corners[5].join(",");
    return { d: d, x: (out + into) / 2, y: along };
  }

  ex.arrows = { draw, TURN };
})();
