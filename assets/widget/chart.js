/* The schedule on two canvases: the figure that the page hands to plotly, drawn by a few lines of its own.
   host: root(), whose CSS variables are the colours; pick(bar, event), pickRow(row), hover(bar or null), release(), and
   ask(from, to) for the bars of a part that comes into sight. */
import { made, plainLines } from "./html.js";
import { explorerParts as ex } from "./parts.js";
import { paint } from "./paint.js";

const FONT = "system-ui, -apple-system, 'Segoe UI', sans-serif";
const TICKS = 7;
const ROW_PX = 22; /* lower rows scroll rather than shrink */
const CLICK_PX = 4; /* a pointer that moves farther drags */
const LEAST = 0.7; /* pixels of a bar that is there at all */

export function chart(frame, host) {
  const sheet = made("div", "chart", null, frame);
  const below = made("canvas", "", null, sheet);
  const above = made("canvas", "", null, sheet);
  const names = made("div", "row-names", null, sheet);
  const tip = made("div", "tip-box", null, frame, { role: "status" });
  tip.hidden = true;
  let plan = null;
  let data = [];
  let bars = null;
  let detail = null;
  let range = [0, 1];
  let keep = null;
  let pathOn = false;
  let size = null; /* pixels of the sheet, and the plot in it */
  let asked = null;

  const end = () => plan.figure.layout.xaxis.range[1];
  const spans = () => plan.spans || plan.bars;
  const x = (time) => size.left + ((time - range[0]) / (range[1] - range[0])) * size.width;
  const timeAt = (px) => range[0] + ((px - size.left) / size.width) * (range[1] - range[0]);
  const y = (row) => size.top + (row - size.high) * size.row;

  function draw(next, keepRange) {
    const same = keepRange && plan && plan.scale_s === next.scale_s && range[1] - range[0] < 0.97 * end();
    plan = next;
    ({ bars, detail } = next);
    data = next.figure.data;
    keep = null;
    pathOn = next.rows.path;
    range = same ? range : [...next.figure.layout.xaxis.range];
    layOut();
    if (same) ask();
  }

  function refine(found) {
    if (!plan) return;
    ({ data, bars, detail } = found);
    render();
  }

  /* The sheet is as tall as its rows need, and scrolls in its frame. */
  function layOut() {
    if (!plan) return;
    const layout = plan.figure.layout;
    const total = plan.rows.height.reduce((sum, height) => sum + height, 0);
    const wide = frame.clientWidth;
    const tall = Math.max(frame.clientHeight, Math.round(total * ROW_PX + 34));
    if (wide < 40 || tall < 40) return;
    const [low, high] = layout.yaxis.range;
    const margin = layout.margin;
    const left = Math.min(margin.l, 0.34 * wide);
    size = { wide, tall, left, top: margin.t, width: wide - left - margin.r, height: tall - margin.t - margin.b, high,
      row: (tall - margin.t - margin.b) / (low - high), ratio: window.devicePixelRatio || 1 };
    sheet.style.height = tall + "px";
    for (const canvas of [below, above]) {
      canvas.width = Math.round(wide * size.ratio);
      canvas.height = Math.round(tall * size.ratio);
      canvas.style.width = wide + "px";
      canvas.style.height = tall + "px";
    }
    name();
    render();
  }

  function name() {
    names.replaceChildren();
    plan.rows.middle.forEach(function (middle, row) {
      const link = plan.rows.link[row];
      const button = made("button", "row-name" + (link ? " of-link" : ""), null, names);
      for (const device of plan.rows.devices[row].slice(0, 3)) made("i", "swatch s" + (device % 32), null, button);
      const label = plainLines(plan.figure.layout.yaxis.ticktext[row])[0].replace(/^[■\s]+/, "");
      made("span", "", label, button);
      button.style.top = y(middle) + "px";
      button.style.width = size.left - 6 + "px";
      button.title = label + ": show only this";
      button.addEventListener("click", () => host.pickRow(row));
    });
  }

  function begin(canvas) {
    const pen = canvas.getContext("2d");
    pen.setTransform(size.ratio, 0, 0, size.ratio, 0, 0);
    pen.clearRect(0, 0, size.wide, size.tall);
    return pen;
  }

  /* From times and rows to pixels, for paths that are written in them. */
  const toPixels = () => {
    const scale = size.width / (range[1] - range[0]);
    return new DOMMatrix([scale, 0, 0, size.row, size.left - range[0] * scale, size.top - size.high * size.row]);
  };

  function shape(pen, told) {
    const path = new Path2D();
    if (told.type === "path") path.addPath(new Path2D(told.path), toPixels());
    else { path.moveTo(x(told.x0), y(told.y0)); path.lineTo(x(told.x1), y(told.y1)); }
    pen.globalAlpha = told.opacity === undefined ? 1 : told.opacity;
    if (told.fillcolor) { pen.fillStyle = told.fillcolor; pen.fill(path); }
    if (told.line && told.line.width) {
      pen.strokeStyle = told.line.color;
      pen.lineWidth = told.line.width;
      pen.setLineDash(told.line.dash ? [5, 4] : []);
      pen.stroke(path);
      pen.setLineDash([]);
    }
    pen.globalAlpha = 1;
  }

  function clip(pen) {
    pen.save();
    pen.beginPath();
    pen.rect(size.left, size.top - 6, size.width, size.height + 12);
    pen.clip();
  }

  function render() {
    if (!size) return;
    const layout = plan.figure.layout;
    const pen = begin(below);
    clip(pen);
    for (const told of layout.shapes) if (told.layer === "below") shape(pen, told);
    pen.restore();
    axis(pen, layout.xaxis);
    clip(pen);
    const texts = ex.numbers(data, bars, range, size.width);
    data.forEach((trace, i) => drawTrace(pen, trace, texts[i]));
    for (const told of layout.shapes) if (told.layer !== "below") shape(pen, told);
    pen.restore();
    shade();
  }

  function axis(pen, told) {
    const rough = (range[1] - range[0]) / TICKS;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((times) => times * power).find((value) => value >= rough * (1 - 1e-9));
    const places = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    pen.font = `10.5px ${FONT}`;
    pen.textBaseline = "middle";
    let last = -Infinity;
    for (let i = Math.ceil(range[0] / step - 1e-9); i * step <= range[1]; i++) {
      const at = x(i * step);
      pen.strokeStyle = told.gridcolor;
      pen.lineWidth = 1;
      pen.beginPath();
      pen.moveTo(Math.round(at) + 0.5, size.top - 5);
      pen.lineTo(Math.round(at) + 0.5, size.top + size.height);
      pen.stroke();
      const words = (i * step).toFixed(places) + told.ticksuffix;
      const half = pen.measureText(words).width / 2;
      const middle = Math.min(Math.max(at, half + 2), size.wide - half - 2);
      if (middle - half < last + 8) continue;
      pen.fillStyle = told.tickfont.color;
      pen.textAlign = "center";
      pen.fillText(words, middle, size.top - 14);
      last = middle + half;
    }
  }

  function drawTrace(pen, trace, numbers) {
    const tall = trace.width * size.row;
    const fill = paint(trace.marker, pen, size.ratio);
    const line = trace.marker.line || { width: 0 };
    trace.base.forEach(function (from, i) {
      const [left, right] = [x(from), x(from + trace.x[i])];
      if (right < size.left || left > size.left + size.width) return;
      const wide = Math.max(right - left, LEAST);
      const top = y(trace.y[i]) - tall / 2;
      pen.fillStyle = fill;
      pen.fillRect(left, top, wide, tall);
      const edge = Array.isArray(line.width) ? line.width[i] : line.width;
      if (edge && wide > 2) {
        pen.strokeStyle = line.color;
        pen.lineWidth = edge;
        pen.strokeRect(left, top, wide, tall);
      }
      if (numbers && numbers.text[i]) {
        pen.font = `${numbers.size || 11}px ${FONT}`;
        pen.fillStyle = trace.textfont.color;
        pen.textAlign = "center";
        pen.textBaseline = "middle";
        pen.fillText(numbers.text[i], (left + right) / 2, y(trace.y[i]) + 0.5);
      }
    });
  }

  /* What lies over the bars: a veil over what is not bright, and the critical path. */
  function shade() {
    if (!size) return;
    const pen = begin(above);
    clip(pen);
    for (const told of ex.shades.over(spans(), plan.rows, end(), keep, pathOn ? plan.path : null, host.root())) shape(pen, told);
    pen.restore();
  }

  function show(wanted) {
    keep = wanted;
    if (plan) shade();
  }

  function showPath(on) {
    pathOn = on;
    if (plan) shade();
  }

  /* -- looking closer ------------------------------------------------------------------------------ */

  function zoom(by, shift, about) {
    if (!plan) return;
    const width = range[1] - range[0];
    const next = Math.min(width * by, end());
    const share = about === undefined ? 0.5 : (about - range[0]) / width;
    const middle = about === undefined ? (range[0] + range[1]) / 2 + shift * width : about;
    let from = about === undefined ? middle - next / 2 : middle - share * next;
    from = Math.min(Math.max(from, 0), Math.max(0, end() - next));
    range = [from, from + Math.max(next, end() * 1e-6)];
    render();
    ask();
  }

  function fit() {
    if (!plan) return;
    range = [0, end()];
    render();
    ask();
  }

  /* Runs come apart, or others come into sight: the kernel knows them. */
  function ask() {
    clearTimeout(asked);
    asked = setTimeout(function () {
      if (plan && plan.spans && ex.detailDue(detail, range, plan.by_operator)) host.ask(range[0], range[1]);
    }, 140);
  }

  /* -- what is under the pointer ------------------------------------------------------------------- */

  function barAt(event) {
    const box = sheet.getBoundingClientRect();
    const [px, py] = [event.clientX - box.left, event.clientY - box.top];
    if (!plan || !size || px < size.left) return null;
    for (const trace of [...data].reverse()) {
      const tall = trace.width * size.row;
      for (let i = 0; i < trace.base.length; i++) {
        if (Math.abs(y(trace.y[i]) - py) > Math.max(tall / 2, 2)) continue;
        const left = x(trace.base[i]);
        if (px >= left - 0.5 && px <= left + Math.max((x(trace.base[i] + trace.x[i]) - left), LEAST) + 0.5) {
          return { bar: trace.customdata[i], words: trace.hovertext[i] };
        }
      }
    }
    return null;
  }

  function point(event) {
    const found = barAt(event);
    above.style.cursor = found ? "pointer" : "default";
    tip.hidden = !found;
    host.hover(found ? found.bar : null);
    if (!found) return;
    tip.replaceChildren(...plainLines(found.words).map((line, i) => made(i ? "span" : "b", "", line)));
    const box = frame.getBoundingClientRect();
    const [px, py] = [event.clientX - box.left, event.clientY - box.top];
    tip.style.left = Math.max(4, Math.min(px + 12, box.width - tip.offsetWidth - 4)) + "px";
    tip.style.top = Math.max(4, py + 18 + tip.offsetHeight > box.height ? py - tip.offsetHeight - 10 : py + 18) + "px";
  }

  let dragged = null;
  above.addEventListener("pointerdown", function (event) {
    dragged = { x: event.clientX, range: [...range], moved: false };
    above.setPointerCapture(event.pointerId);
  });
  above.addEventListener("pointermove", function (event) {
    if (!dragged) { point(event); return; }
    const by = event.clientX - dragged.x;
    if (!plan || (Math.abs(by) < CLICK_PX && !dragged.moved)) return;
    dragged.moved = true;
    tip.hidden = true;
    const width = dragged.range[1] - dragged.range[0];
    const from = Math.min(Math.max(dragged.range[0] - (by / size.width) * width, 0), Math.max(0, end() - width));
    range = [from, from + width];
    render();
  });
  above.addEventListener("pointerup", function (event) {
    const moved = dragged && dragged.moved;
    dragged = null;
    if (moved) { ask(); return; }
    const found = barAt(event);
    if (found) host.pick(found.bar); else host.release();
  });
  above.addEventListener("pointerleave", function () { if (!dragged) { tip.hidden = true; host.hover(null); } });
  above.addEventListener("dblclick", fit);
  /* The wheel belongs to the notebook until the chart has the focus. */
  frame.addEventListener("wheel", function (event) {
    const focused = frame === frame.getRootNode().activeElement;
    if (!plan || !size || !(focused || event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    const box = sheet.getBoundingClientRect();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, 0, timeAt(event.clientX - box.left));
  }, { passive: false });
  frame.addEventListener("keydown", function (event) {
    const acts = { "+": [0.7, 0], "=": [0.7, 0], "-": [1.4, 0], ArrowLeft: [1, -0.1], ArrowRight: [1, 0.1] };
    if (acts[event.key]) zoom(...acts[event.key]);
    else if (event.key === "0") fit();
    else if (event.key === "Escape") host.release();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  const watching = new ResizeObserver(layOut);
  watching.observe(frame);

  return {
    draw, refine, show, showPath, fit,
    bars: () => bars,
    spans: () => (plan ? spans() : null),
    zoomTo(from, to) { range = [from, to]; render(); ask(); },
    clear() { plan = null; size = null; sheet.style.height = ""; names.replaceChildren(); below.width = above.width = 1; },
    dispose() { clearTimeout(asked); watching.disconnect(); },
  };
}
