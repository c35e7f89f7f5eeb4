/* The schedule on two canvases: bars below, and what lies over them above. The figure is of explorer/view/timeline/canvas.py;
   a frame draws what is in sight of it.
   frame: the element that is as large as the chart may be, and scrolls; place: where it is put. host: root(), whose CSS
   variables are the colours; pick(bar, event), pickRow(row), hover(bar or null), release(), ask(from, to) for the bars of a
   part that comes into sight, wheel(event): whether the wheel is the chart's; and, where wanted, moved() and laid(). */
(function () {
  "use strict";
  const ex = window.explorer;
  const ROW_PX = 17; /* lower rows scroll rather than shrink */
  const FEW_ROWS = 16; /* up to which that holds; more of them get lower, so that all are in sight */
  const THIN_PX = 6;
  const CLICK_PX = 4; /* a pointer that moves farther drags */
  const PINCH_PX = 16; /* nearer fingers say nothing of how far apart they want to be */
  const LEAST = 0.7; /* pixels of a bar that is there at all */
  const HATCHED = 3; /* pixels from which a bar has its hatch and its edge: a narrower one would only look dirty */
  const HATCHED_TALL = 7; /* and of its height */
  const PALEST = 0.3; /* of a run, however sparse its bars */
  const ASK_MS = 140;
  const PRINT_RATIO = 3;
  const EDGED = 0.006; /* of the part of a schedule in sight: what a bar must take to have an edge */
  const EDGE = 0.6; /* pixels */
  const RIGHT = 12; /* pixels beside the plot, above it and below it */
  const TOP = 26;
  const BOTTOM = 6;
  const LATE = 0.6; /* of the axis: a mark after it has its words before it */
  const HEAD_PX = 6; /* between the times above and the rows */

  ex.chart = function (frame, place, host) {
    const sheet = ex.element("div", "chart", "", place);
    const below = ex.element("canvas", "", "", sheet);
    const above = ex.element("canvas", "", "", sheet);
    const head = ex.element("canvas", "chart-head", "", sheet);
    for (const canvas of [below, above, head]) canvas.setAttribute("aria-hidden", "true");
    const names = ex.element("div", "row-names", "", sheet);
    const tip = ex.tip.box(frame);
    let plan = null;
    let lanes = [];
    let bars = null;
    let detail = null;
    let range = [0, 1];
    let size = null; /* pixels of the sheet, and the plot in it */
    let bands = []; /* the figure's shapes below the bars, each with its path */
    let numbers = [];
    let over = []; /* see ex.shades */
    let painted = { below: 0, above: 0 };
    let wanted = null; /* the frame that was requested */
    let pending = null;
    let shown = -1; /* the bar that was reported last */

    const end = () => plan.figure.axis.end;
    const spans = () => plan.spans || plan.bars;
    const perUnit = () => size.width / (range[1] - range[0]);
    const x = (time) => size.left + (time - range[0]) * perUnit();
    const timeAt = (px) => range[0] + (px - size.left) / perUnit();
    const y = (row) => size.top + (row - size.high) * size.row;

    /* next: a scene's schedule; initial: the range to show of it, or null for all. */
    function draw(next, initial) {
      plan = next;
      use(next.figure.lanes, next);
      bands = next.figure.bands.map((band) => ({ fill: band.fill, path: new Path2D(band.path) }));
      over = [];
      range = initial || [0, end()];
      tip.hide();
      layOut();
      if (initial) requestDetail();
    }

    function use(source, next) {
      ({ bars, detail } = next);
      lanes = ex.lanes.of(source);
      fill();
    }

    function refine(refined) {
      if (!plan) return;
      use(refined.lanes, refined);
      request();
    }

    const fill = () => lanes.forEach((lane) => { lane.filling = ex.filling(lane.source, below.getContext("2d"), size ? size.ratio : 1); });

    /* The sheet is as tall as its rows need, and scrolls in its frame. */
    function layOut(ratio) {
      if (!plan) return;
      const { low, high, left: margin } = plan.figure;
      const total = plan.rows.height.reduce((sum, height) => sum + height, 0);
      const wide = frame.clientWidth;
      const least = total * Math.max(THIN_PX, ROW_PX * Math.min(1, FEW_ROWS / total));
      const tall = Math.max(frame.clientHeight, Math.round(least + 34));
      if (wide < 40 || tall < 40) return;
      const indent = (plan.rows.groups || []).length ? ex.rowNames.BRACKET_PX : 0;
      const left = Math.round(Math.min(margin + indent, 0.34 * wide));
      size = { wide, tall, left, top: TOP, width: wide - left - RIGHT, height: tall - TOP - BOTTOM, high,
        row: (tall - TOP - BOTTOM) / (low - high), ratio: ratio || window.devicePixelRatio || 1 };
      sheet.style.height = tall + "px";
      for (const [canvas, high] of [[below, tall], [above, tall], [head, size.top - HEAD_PX]]) {
        canvas.width = Math.round(wide * size.ratio);
        canvas.height = Math.round(high * size.ratio);
        canvas.style.width = wide + "px";
        canvas.style.height = high + "px";
      }
      fill();
      ex.rowNames.draw(names, plan.rows, size, y, host.pickRow);
      render();
      if (host.laid) host.laid();
    }

    function begin(canvas) {
      const pen = canvas.getContext("2d");
      pen.setTransform(size.ratio, 0, 0, size.ratio, 0, 0);
      pen.clearRect(0, 0, size.wide, size.tall);
      return pen;
    }

    function clip(pen) {
      pen.save();
      pen.beginPath();
      pen.rect(size.left, size.top - 6, size.width, size.height + 12);
      pen.clip();
    }

    /* One frame, however often something changed since the last. */
    function request() {
      if (wanted === null) wanted = requestAnimationFrame(function () { wanted = null; render(); });
    }

    function render() {
      if (wanted !== null) { cancelAnimationFrame(wanted); wanted = null; }
      if (!size || !plan) return;
      const { axis, colours, mark } = plan.figure;
      const pen = begin(below);
      clip(pen);
      for (const band of bands) drawBand(pen, band);
      pen.restore();
      ex.axis.draw(pen, begin(head), size, x, range, axis.unit, colours);
      clip(pen);
      dividers(pen, colours.grid);
      painted.below = 0;
      for (const lane of lanes) drawLane(pen, lane);
      numbers = ex.numbers(lanes, bars, range, size.width, size.row);
      lanes.forEach((lane, i) => { if (numbers[i] && numbers[i].size) write(pen, lane, numbers[i]); });
      if (mark) drawMark(pen, mark, colours);
      pen.restore();
      shade();
      if (host.moved) host.moved();
    }

    /* A path in times and rows. */
    function drawBand(pen, { fill, path }) {
      const drawn = new Path2D();
      const scale = perUnit();
      drawn.addPath(path, new DOMMatrix([scale, 0, 0, size.row, size.left - range[0] * scale, size.top - size.high * size.row]));
      pen.fillStyle = fill;
      pen.fill(drawn);
    }

    /* A dashed line across all rows, and what ends there. */
    function drawMark(pen, mark, colours) {
      const at = x(mark.at);
      const foot = y(plan.figure.low);
      pen.strokeStyle = colours.text;
      pen.lineWidth = 1.5;
      pen.setLineDash([5, 4]);
      pen.beginPath();
      pen.moveTo(at, y(-0.5));
      pen.lineTo(at, foot);
      pen.stroke();
      pen.setLineDash([]);
      ex.axis.note(pen, size, at, foot, mark.words, mark.at <= LATE * end(), colours);
    }

    /* A line between the rows of one node and those of the next. */
    function dividers(pen, colour) {
      pen.fillStyle = colour;
      for (const { from } of plan.rows.groups || []) {
        if (from) pen.fillRect(size.left, Math.round(y(plan.rows.middle[from] - plan.rows.height[from] / 2)) - 0.5, size.width, 1);
      }
    }

    function drawLane(pen, lane) {
      const { source, filling } = lane;
      const tall = Math.max(lane.tall * size.row, 0.5);
      const hatched = tall >= HATCHED_TALL ? HATCHED : Infinity;
      const top = y(lane.y) - tall / 2;
      const edged = !source.edge ? Infinity : source.edge.always ? 0 : EDGED * size.width;
      const opacity = source.opacity === undefined ? 1 : source.opacity;
      const origin = x(0);
      const far = size.width + 20; /* what begins or ends beyond is cut there: canvases are bad at large numbers */
      pen.globalAlpha = opacity;
      ex.lanes.pieces(lane, range, perUnit(), function (i, from, to) {
        const [left, right] = [Math.max(from, -20), Math.min(to, far)];
        painted.below += 1;
        pen.fillStyle = to - from >= hatched ? filling.at(origin) : filling.plain;
        pen.fillRect(size.left + left, top, right - left, tall);
        if (to - from >= Math.max(edged, hatched)) {
          pen.strokeStyle = source.edge.colour;
          pen.lineWidth = source.edge.always ? 1 : EDGE;
          pen.strokeRect(size.left + left, top, right - left, tall);
        }
      }, function (left, right, share) {
        painted.below += 1;
        pen.globalAlpha = opacity * (right - left > LEAST ? Math.max(PALEST, share) : 1);
        pen.fillStyle = filling.plain;
        pen.fillRect(size.left + Math.max(left, -20), top, Math.max(Math.min(right, far) - Math.max(left, -20), LEAST), tall);
        pen.globalAlpha = opacity;
      });
      pen.globalAlpha = 1;
    }

    /* Numbers, in the middle of what is in sight of their bars. */
    function write(pen, lane, labels) {
      pen.font = labels.size + "px " + ex.axis.FONT;
      pen.fillStyle = lane.source.ink;
      pen.textAlign = "center";
      pen.textBaseline = "middle";
      const middle = y(lane.y) + 0.5;
      labels.text.forEach(function (text, n) {
        if (!text) return;
        const [left, right] = [x(Math.max(range[0], lane.from[labels.first + n])), x(Math.min(range[1], lane.to[labels.first + n]))];
        if (right - left >= 0.58 * labels.size * Math.min(text.length, 3)) pen.fillText(text, (left + right) / 2, middle);
      });
    }

    function shade() {
      if (!over.length && !painted.above) return;
      const pen = begin(above);
      clip(pen);
      for (const shape of over) ex.shades.draw(pen, shape, x, y, range);
      pen.restore();
      painted.above = over.length;
    }

    /* What is bright (of all spans; null for everything), a way through the schedule or null, and more shapes. */
    function show(bright, path, more) {
      if (!plan) return;
      over = ex.shades.over(spans(), plan.rows, end(), bright, path, host.root()).concat(more || []);
      if (size) shade();
    }

    /* -- looking closer ---------------------------------------------------------------------------- */

    function look(from, to) {
      if (!plan) return;
      const width = Math.min(Math.max(to - from, end() * 1e-6), end());
      const begin = Math.min(Math.max(from, 0), end() - width);
      range = [begin, begin + width];
      request();
      requestDetail();
    }

    /* by: the new width; shift: to the side, as a share of the old; about: the time that stays where it is. */
    function zoom(by, shift, about) {
      if (!plan) return;
      const width = range[1] - range[0];
      const next = Math.min(width * by, end());
      const fixed = about === undefined ? (range[0] + range[1]) / 2 : about;
      const from = fixed - ((fixed - range[0]) / width) * next + (shift || 0) * width;
      look(from, from + next);
    }

    function fit() {
      if (plan) look(0, end());
    }

    /* Runs are split into bars, or others come into sight: who made the plan knows them. */
    function requestDetail() {
      clearTimeout(pending);
      pending = setTimeout(function () {
        if (plan && plan.spans && ex.detailDue(detail, range, plan.by_operator)) host.ask(range[0], range[1]);
      }, ASK_MS);
    }

    /* -- what is under the pointer ----------------------------------------------------------------- */

    function inSheet(clientX, clientY) {
      const box = sheet.getBoundingClientRect();
      return [clientX - box.left, clientY - box.top];
    }

    /* {bar, words} at a point of the window, or null. */
    function barAt(clientX, clientY) {
      if (!plan || !size) return null;
      const [px, py] = inSheet(clientX, clientY);
      if (px < size.left || px > size.left + size.width) return null;
      const slack = Math.max(LEAST, 1) / perUnit();
      for (let n = lanes.length - 1; n >= 0; n--) {
        const lane = lanes[n];
        if (Math.abs(y(lane.y) - py) > Math.max((lane.tall * size.row) / 2, 2)) continue;
        const nearest = ex.lanes.barAt(lane, timeAt(px), slack);
        if (nearest >= 0) return { bar: lane.source.at[lane.at[nearest]], words: lane.source.words[lane.at[nearest]] };
      }
      return null;
    }

    /* Row and time at a point of the window; null beside the plot. */
    function under(clientX, clientY) {
      if (!plan || !size) return null;
      const [px, py] = inSheet(clientX, clientY);
      const row = plan.rows.middle.findIndex((middle, i) => Math.abs(y(middle) - py) <= (plan.rows.height[i] * size.row) / 2);
      return row >= 0 && px >= size.left && px <= size.left + size.width ? { row: row, at: timeAt(px) } : null;
    }

    function point(event) {
      const under = barAt(event.clientX, event.clientY);
      above.style.cursor = under ? "pointer" : "default";
      if (under) tip.show(under.words, event.clientX, event.clientY);
      else tip.hide();
      const bar = under ? under.bar : -1;
      if (bar !== shown) host.hover(under ? bar : null);
      shown = bar;
    }

    function leave() {
      tip.hide();
      if (shown >= 0) host.hover(null);
      shown = -1;
    }

    /* Two fingers: the instants they were put on stay under them. */
    const fingers = new Map(); /* pointer -> where it is on the sheet */
    let held = null; /* [instant, pointer] of both */

    function pinch() {
      const [[first, one], [second, other]] = held;
      const [a, b] = [fingers.get(one), fingers.get(other)];
      if (Math.abs(b - a) < PINCH_PX) return;
      const unit = (second - first) / (b - a);
      if (unit > 0) look(first - (a - size.left) * unit, first + (size.left + size.width - a) * unit);
    }

    function touched(event) {
      if (event.pointerType !== "touch") return false;
      fingers.set(event.pointerId, inSheet(event.clientX, event.clientY)[0]);
      if (fingers.size !== 2) return false;
      held = [...fingers].map(([pointer, at]) => [timeAt(at), pointer]).sort((a, b) => a[0] - b[0]);
      if (Math.abs(fingers.get(held[0][1]) - fingers.get(held[1][1])) < PINCH_PX) held = null;
      return held !== null;
    }

    function lifted(event) {
      fingers.delete(event.pointerId);
      if (fingers.size < 2) held = null;
    }

    let dragged = null;
    above.addEventListener("pointerdown", function (event) {
      if (event.button || !plan || !size) return;
      if (touched(event)) {
        dragged = null;
        leave();
        return;
      }
      dragged = { x: event.clientX, range: [...range], moved: false };
      above.setPointerCapture(event.pointerId);
    });
    above.addEventListener("pointermove", function (event) {
      if (fingers.has(event.pointerId)) fingers.set(event.pointerId, inSheet(event.clientX, event.clientY)[0]);
      if (held) { pinch(); return; }
      if (!dragged) { point(event); return; }
      const by = event.clientX - dragged.x;
      if (Math.abs(by) < CLICK_PX && !dragged.moved) return;
      dragged.moved = true;
      leave();
      above.style.cursor = "grabbing";
      const shift = (by / size.width) * (dragged.range[1] - dragged.range[0]);
      look(dragged.range[0] - shift, dragged.range[1] - shift);
    });
    above.addEventListener("pointerup", function (event) {
      lifted(event);
      const moved = dragged && dragged.moved;
      const pressed = dragged !== null;
      dragged = null;
      if (moved || !pressed) { point(event); return; }
      const under = barAt(event.clientX, event.clientY);
      if (under) host.pick(under.bar, event);
      else host.release();
    });
    above.addEventListener("pointercancel", function (event) { lifted(event); dragged = null; });
    above.addEventListener("pointerleave", function () { if (!dragged) leave(); });
    above.addEventListener("dblclick", fit);
    /* The wheel zooms about the pointer; sideways, or with shift, it moves. */
    above.addEventListener("wheel", function (event) {
      if (!plan || !size || !host.wheel(event)) return;
      event.preventDefault();
      tip.hide();
      const lines = event.deltaMode === 1 ? 16 : 1;
      const along = event.shiftKey ? event.deltaX || event.deltaY : Math.abs(event.deltaX) > Math.abs(event.deltaY) ? event.deltaX : 0;
      if (along) { zoom(1, (along * lines) / size.width); return; }
      const by = Math.exp(Math.min(Math.max(event.deltaY * lines, -150), 150) / 500);
      zoom(by, 0, timeAt(inSheet(event.clientX, event.clientY)[0]));
    }, { passive: false });
    ex.rowNames.listen(names);

    /* +, -, arrows and 0. Returns whether the key was one of them. */
    function key(event) {
      const acts = { "+": [0.7, 0], "=": [0.7, 0], "-": [1.4, 0], ArrowLeft: [1, -0.1], ArrowRight: [1, 0.1] };
      if (acts[event.key]) zoom(...acts[event.key]);
      else if (event.key === "0") fit();
      else return false;
      return true;
    }

    const watching = new ResizeObserver(() => layOut());
    watching.observe(frame);
    const toPaper = () => layOut(PRINT_RATIO); /* as sharp in print as type is */
    const fromPaper = () => layOut();
    window.addEventListener("beforeprint", toPaper);
    window.addEventListener("afterprint", fromPaper);

    return {
      draw, refine, show, look, zoom, fit, key, barAt, under,
      bars: () => bars,
      spans: () => (plan ? spans() : null),
      range: () => range,
      end: () => (plan ? end() : 1),
      ready: () => plan !== null && size !== null,
      /* Where things are: {sheet, left, width, top(row), tall(row)}, pixels of the sheet. */
      sight: () => ({ sheet: sheet, left: size.left, width: size.width, top: (row) => y(plan.rows.middle[row]), tall: (row) => plan.rows.height[row] * size.row }),
      /* What is drawn, for who asks: the figure, its part in sight, what lies over it, numbers and pieces. */
      drawn: () => ({ lanes: lanes.map((lane) => lane.source), figure: plan.figure, range: range, over: over, pieces: painted.below, row: size.row,
        notes: plan.figure.mark ? [plan.figure.mark.words] : [], numbers: numbers.flatMap((labels) => (labels ? labels.text.filter(Boolean) : [])) }),
      clear() { plan = null; size = null; lanes = []; over = []; tip.hide(); sheet.style.height = ""; names.replaceChildren(); below.width = above.width = head.width = 1; },
      dispose() {
        clearTimeout(pending);
        watching.disconnect();
        window.removeEventListener("beforeprint", toPaper);
        window.removeEventListener("afterprint", fromPaper);
      },
    };
  };
})();
