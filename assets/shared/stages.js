/* The DAG of stages: a box a stage, from left to right by depth. Columns and lanes come from the server;
   here they become pixels: the largest boxes that fit, in several lines where one is too narrow. */
(function () {
  "use strict";
  const ex = window.explorer;
  const SIZES = {
    full: { w: 148, most: 200, h: 92, gx: 46, gy: 14 },
    compact: { w: 84, most: 150, h: 48, gx: 38, gy: 12 },
    snug: { w: 80, most: 104, h: 48, gx: 20, gy: 10 },
    line: { w: 104, most: 190, h: 27, gx: 38, gy: 9 },
    mini: { w: 40, most: 64, h: 32, gx: 15, gy: 8 },
  };
  const TRIES = [["full", 1], ["compact", 1], ["line", 1], ["snug", 1], ["full", 9], ["compact", 9], ["snug", 9], ["mini", 1],
    ["line", 9], ["mini", 99]];
  const PAD = 14;
  const LINE_GAP = 10;
  const HEAD = 17;
  const CORRIDOR = 7; /* above the boxes of a line, for arrows that go around */
  let dag = null;
  let picked = null;

  const place = () => document.getElementById("stages");

  function made(name, className, text, parent) {
    const element = document.createElement(name);
    if (className) element.className = className;
    if (text !== undefined && text !== null) element.textContent = text;
    if (parent) parent.appendChild(element);
    return element;
  }

  /* Lines of columns, each with the lanes it spans. */
  function lines(perLine) {
    const rows = [];
    for (let from = 0; from < dag.columns; from += perLine) {
      const boxes = dag.boxes.filter((b) => b.column >= from && b.column < from + perLine);
      const lanes = boxes.map((b) => b.lane);
      rows.push({ from: from, boxes: boxes, low: Math.min(...lanes), high: Math.max(...lanes) });
    }
    return rows;
  }

  function plan(name, most, width, height, last) {
    const size = SIZES[name];
    const fits = (side) => Math.max(1, Math.floor((width - 2 * side + size.gx) / (size.w + size.gx)));
    const side = dag.columns > fits(PAD) ? Math.min(ex.arrows.TURN, size.gx / 2) + 8 : PAD; /* room to turn the line */
    const room = fits(side);
    let count = Math.ceil(dag.columns / room);
    if (count > most && !last) return null;
    const perLine = Math.ceil(dag.columns / count);
    const rows = lines(perLine);
    count = rows.length;
    const head = HEAD + (count > 1 ? CORRIDOR : 0);
    const tall = rows.reduce((sum, l) => sum + head + (l.high - l.low) * (size.h + size.gy) + size.h, (count - 1) * LINE_GAP);
    if (tall + 2 * PAD > height && !last) return null;
    const spare = width - 2 * side - perLine * size.w - (perLine - 1) * size.gx;
    const grow = Math.max(0, Math.min(spare / (perLine + 0.5 * (perLine - 1)), size.most - size.w));
    const airy = Math.max(0, Math.min(spare - perLine * grow, (perLine - 1) * 60));
    const gx = size.gx + (perLine > 1 ? airy / (perLine - 1) : 0);
    return { name, lines: rows, perLine, w: size.w + grow, h: size.h, gx, gy: size.gy, tall, head, side };
  }

  function fitted(width, height) {
    for (const [name, most] of TRIES) {
      const layout = plan(name, most, width, height, false);
      if (layout) return layout;
    }
    return plan("line", 99, width, height, true);
  }

  function redraw() {
    const box = place();
    if (!box || !dag || box.clientWidth < 40) return;
    box.replaceChildren();
    if (dag.too_many) { made("p", "empty", dag.note + " are too many to draw; the table below has them.", box); return; }
    if (!dag.boxes.length) return;
    const fit = fitted(box.clientWidth, box.clientHeight);
    const wide = fit.perLine * fit.w + (fit.perLine - 1) * fit.gx;
    const left = Math.max(fit.side, (box.clientWidth - wide) / 2);
    const single = fit.lines.length === 1;
    const spare = Math.max(0, box.clientHeight - 2 * PAD - fit.tall);
    const rise = single ? fit.lines[0].high - fit.lines[0].low : 0;
    const pitch = fit.h + fit.gy + (rise ? Math.min(spare / rise, 0.5 * fit.h) : 0);
    const between = LINE_GAP + (single ? 0 : Math.min(spare / (fit.lines.length - 1), 24));
    const tall = fit.tall + rise * (pitch - fit.h - fit.gy) + (fit.lines.length - 1) * (between - LINE_GAP);
    let top = Math.max(PAD - 4, (box.clientHeight - tall) / 2);
    const at = {};
    const taken = []; /* rectangles that no label may cover */
    const sheet = made("div", "sheet", null, box);
    const svg = ex.svg("svg", { "aria-hidden": "true" }, sheet);
    for (const line of fit.lines) {
      line.top = top + fit.head;
      line.bottom = line.top + (line.high - line.low) * pitch + fit.h;
      for (const entry of line.boxes) {
        at[entry.stage] = {
          x: left + (entry.column - line.from) * (fit.w + fit.gx), y: line.top + (entry.lane - line.low) * pitch, line: line,
        };
      }
      heads(sheet, line, fit, left, top, taken);
      top = line.bottom + between;
    }
    const height = Math.max(box.clientHeight, top - between + PAD);
    sheet.style.height = height + "px";
    svg.setAttribute("width", box.clientWidth);
    svg.setAttribute("height", height);
    ex.arrows.draw(dag.edges, svg, sheet, at, fit, taken);
    for (const entry of dag.boxes) stage(sheet, entry, at[entry.stage], fit);
    if (dag.edges.some((edge) => edge.between && !edge.waits)) {
      const key = made("span", "between-key", null, sheet);
      made("i", "", null, key);
      made("span", "", "between nodes", key);
    }
    mark(picked);
  }

  /* How many stages are still to pass, above each column. */
  function heads(sheet, line, fit, left, top, taken) {
    const depths = {};
    for (const entry of line.boxes) depths[entry.column] = Math.max(depths[entry.column] || 0, entry.depth);
    Object.keys(depths).forEach(function (column, i) {
      const words = (i === 0 ? "depth " : "") + depths[column];
      const head = made("span", "depth", words, sheet);
      const middle = left + (column - line.from) * (fit.w + fit.gx) + fit.w / 2;
      head.style.left = middle + "px";
      head.style.top = top - 2 + "px";
      const half = words.length * 3 + 4;
      taken.push([middle - half, top - 2, middle + half, top + 12]);
    });
  }

  function stage(sheet, entry, where, fit) {
    const box = made("button", "stage " + fit.name + (entry.bottleneck ? " slowest" : "") + (entry.glue ? " glue" : ""), null, sheet);
    box.dataset.stage = entry.stage;
    box.title = entry.label;
    Object.assign(box.style, { left: where.x + "px", top: where.y + "px", width: fit.w + "px", height: fit.h + "px" });
    const shown = entry.devices.slice(0, 8);
    const stops = shown.map((d, i) => "var(--d" + (d % 8) + ") " + (100 * i) / shown.length + "% " + (100 * (i + 1)) / shown.length + "%");
    made("i", "band", null, box).style.background = "linear-gradient(" + stops.join(", ") + ")";
    const head = made("span", "who", null, box);
    made("span", "sr", "Stage ", head); /* heard as what stands in it; the title describes it in full */
    made("b", "", String(entry.stage), head);
    const tight = fit.w < 120;
    const times = entry.devices.length > 1 && !tight ? " ×" + entry.devices.length : "";
    if (fit.name !== "mini") made("span", "", (tight ? entry.who_short : entry.who) + times, head);
    if (fit.name === "full") {
      const roomy = fit.w >= 176;
      if (roomy && entry.bottleneck) made("em", "flag", "bottleneck", head);
      const time = made("span", "row", null, box);
      if (roomy) made("span", "", "fwd ", time);
      made("b", "", entry.forward, time);
      made("span", "", roomy ? " bwd " : " / ", time);
      made("b", "", entry.backward, time);
      made("span", "row", entry.share + (roomy ? " of work · " : " · ") + entry.flight + " in flight", box);
      const last = made("span", "row", entry.samples + (entry.samples === 1 ? " sample" : " samples") + (entry.recompute ? " · recompute" : ""), box);
      if (!roomy && entry.bottleneck) made("em", "flag", " bottleneck", last);
      memory(box, entry, roomy ? entry.peak : entry.peak_short);
    } else if (fit.name === "compact" || fit.name === "snug") {
      made("span", "row", entry.both + (fit.w > 112 ? " · " + entry.share : ""), box);
      memory(box, entry, null);
    } else if (fit.name === "line") {
      made("span", "row", entry.both, head);
    } else {
      memory(box, entry, null);
    }
    box.addEventListener("mouseenter", () => hover(entry.stage));
    box.addEventListener("mouseleave", () => hover(null));
    box.addEventListener("click", () => (picked === entry.stage ? ex.gantt.release() : ex.gantt.holdStage(entry.stage, entry.devices[0])));
  }

  function memory(box, entry, words) {
    const row = made("span", "held", null, box);
    const bar = made("i", "bar" + (entry.of_cap > 1 ? " over" : ""), null, row);
    made("i", "", null, bar).style.width = Math.min(100, 100 * (entry.of_cap || 0)) + "%";
    if (words) made("span", "", words, row);
  }

  /* -- what is picked ------------------------------------------------------------------------------ */

  function look(stage, className) {
    const box = place();
    if (!box) return;
    for (const button of box.querySelectorAll(".stage")) button.classList.toggle(className, +button.dataset.stage === stage);
    for (const line of box.querySelectorAll(".arrow")) {
      line.classList.toggle("near", stage !== null && (+line.dataset.source === stage || +line.dataset.target === stage));
    }
  }

  function hover(stage) {
    look(stage === null ? picked : stage, "hot");
    if (picked === null) ex.gantt.showStages(stage === null ? null : new Set([stage]));
  }

  function mark(stage) {
    picked = stage;
    const box = place();
    if (!box) return;
    box.classList.toggle("has-picked", stage !== null);
    for (const button of box.querySelectorAll(".stage")) button.setAttribute("aria-pressed", String(+button.dataset.stage === stage));
    look(stage, "hot");
  }

  function step(dx, dy) {
    const from = document.activeElement.closest("#stages .stage");
    const all = [...place().querySelectorAll(".stage")];
    if (!from) { if (all.length) all[0].focus(); return; }
    const centre = (e) => { const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; };
    const at = centre(from);
    let [best, least] = [null, Infinity];
    for (const other of all) {
      const [x, y] = centre(other);
      const along = (x - at[0]) * dx + (y - at[1]) * dy;
      const aside = Math.abs((x - at[0]) * dy) + Math.abs((y - at[1]) * dx);
      if (along > 1 && along + 2 * aside < least) [best, least] = [other, along + 2 * aside];
    }
    if (best) best.focus();
  }

  function listen() {
    const canvas = document.querySelector(".canvas.of-stages");
    new ResizeObserver(redraw).observe(canvas);
    canvas.addEventListener("keydown", function (event) {
      const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
      if (moves[event.key]) step(...moves[event.key]);
      else if (event.key === "Escape") ex.gantt.release();
      else return;
      event.preventDefault();
    });
    canvas.addEventListener("click", function (event) {
      if (!event.target.closest(".stage")) ex.gantt.release();
    });
  }

  function draw(message) {
    dag = message;
    picked = null;
    redraw();
  }

  ex.stages = { draw, redraw, mark, listen, light: (stage) => look(stage === null ? picked : stage, "hot") };
})();
