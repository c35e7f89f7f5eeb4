/* How the bars of a trace are filled: plotly's names of patterns as tiles, and one tone where a bar is too narrow for one. */
(function () {
  "use strict";
  const ex = window.explorer;
  const TILE = 6; /* pixels, as in explorer/view/timeline/gantt_paint.py */
  const INKED = 1.6; /* of a pattern's solidity: how much of its tile the strokes below cover */

  const STROKES = {
    "/": (line) => { line(-1, 1, 1, -1); line(0, TILE, TILE, 0); line(TILE - 1, TILE + 1, TILE + 1, TILE - 1); },
    "\\": (line) => { line(-1, TILE - 1, 1, TILE + 1); line(0, 0, TILE, TILE); line(TILE - 1, -1, TILE + 1, 1); },
    "-": (line) => line(0, TILE / 2, TILE, TILE / 2),
    "|": (line) => line(TILE / 2, 0, TILE / 2, TILE),
    x: (line) => { STROKES["/"](line); STROKES["\\"](line); },
    "+": (line) => { STROKES["-"](line); STROKES["|"](line); },
  };

  const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

  /* The colour that a hatched area has from afar; colours are #rrggbb. */
  function tone(under, over, share) {
    const [a, b] = [channels(under), channels(over)];
    return "rgb(" + a.map((value, i) => Math.round(value + (b[i] - value) * share)).join(",") + ")";
  }

  function tile(told, under, ratio) {
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = Math.round(TILE * ratio);
    const pen = canvas.getContext("2d");
    pen.scale(canvas.width / TILE, canvas.height / TILE);
    pen.fillStyle = under;
    pen.fillRect(0, 0, TILE, TILE);
    pen.globalAlpha = told.fgopacity === undefined ? 1 : told.fgopacity;
    pen.strokeStyle = pen.fillStyle = told.fgcolor;
    pen.lineWidth = Math.max(0.8, TILE * told.solidity * 0.75);
    if (told.shape === ".") {
      pen.beginPath();
      pen.arc(TILE / 2, TILE / 2, 1, 0, 2 * Math.PI);
      pen.fill();
    } else STROKES[told.shape](function (x0, y0, x1, y1) {
      pen.beginPath();
      pen.moveTo(x0, y0);
      pen.lineTo(x1, y1);
      pen.stroke();
    });
    return canvas;
  }

  /* marker: of a trace. Returns {plain, at(x)}: the tone of narrow bars; the fill of others, whose pattern begins at x, so
     that it moves with them. */
  ex.filling = function (marker, pen, ratio) {
    const told = marker.pattern;
    if (!told || !told.shape) return { plain: marker.color, at: () => marker.color };
    const under = told.bgcolor || marker.color;
    const canvas = tile(told, under, ratio);
    const found = pen.createPattern(canvas, "repeat");
    const scale = TILE / canvas.width;
    const share = told.solidity * INKED * (told.fgopacity === undefined ? 1 : told.fgopacity);
    return {
      plain: tone(under, told.fgcolor, Math.min(1, share)),
      at: function (x) {
        found.setTransform(new DOMMatrix([scale, 0, 0, scale, x % TILE, 0]));
        return found;
      },
    };
  };
})();
