/* How the bars of a lane are filled: hatches as tiles, and one tone where a bar is too narrow for one. */
(function () {
  "use strict";
  const ex = window.explorer;
  const TILE = 6; /* pixels, as in explorer/view/pictures/shapes.py */
  const STROKE = 1; /* pixels */
  const INKED = 0.352; /* how much of its tile the strokes below cover */

  const STROKES = {
    "/": (line) => { line(-1, 1, 1, -1); line(0, TILE, TILE, 0); line(TILE - 1, TILE + 1, TILE + 1, TILE - 1); },
    "\\": (line) => { line(-1, TILE - 1, 1, TILE + 1); line(0, 0, TILE, TILE); line(TILE - 1, -1, TILE + 1, 1); },
    "-": (line) => line(0, TILE / 2, TILE, TILE / 2),
    x: (line) => { STROKES["/"](line); STROKES["\\"](line); },
    "+": (line) => { line(0, TILE / 2, TILE, TILE / 2); line(TILE / 2, 0, TILE / 2, TILE); },
  };

  const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

  /* The colour that a hatched area has from afar; colours are #rrggbb. */
  function tone(under, over, share) {
    const [a, b] = [channels(under), channels(over)];
    return "rgb(" + a.map((value, i) => Math.round(value + (b[i] - value) * share)).join(",") + ")";
  }

  function tile(hatch, under, ratio) {
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = Math.round(TILE * ratio);
    const pen = canvas.getContext("2d");
    pen.scale(canvas.width / TILE, canvas.height / TILE);
    pen.fillStyle = under;
    pen.fillRect(0, 0, TILE, TILE);
    pen.globalAlpha = hatch.strength;
    pen.strokeStyle = pen.fillStyle = hatch.ink;
    pen.lineWidth = STROKE;
    if (hatch.shape === ".") {
      pen.beginPath();
      pen.arc(TILE / 2, TILE / 2, 1, 0, 2 * Math.PI);
      pen.fill();
    } else STROKES[hatch.shape](function (x0, y0, x1, y1) {
      pen.beginPath();
      pen.moveTo(x0, y0);
      pen.lineTo(x1, y1);
      pen.stroke();
    });
    return canvas;
  }

  /* lane: its values. Returns {plain, at(x)}: the tone of narrow bars; the fill of others, whose hatch begins at
     x, so that it moves with them. */
  ex.filling = function (lane, pen, ratio) {
    const hatch = lane.hatch;
    if (!hatch) return { plain: lane.fill, at: () => lane.fill };
    const canvas = tile(hatch, lane.fill, ratio);
    const pattern = pen.createPattern(canvas, "repeat");
    const scale = TILE / canvas.width;
    return {
      plain: tone(lane.fill, hatch.ink, INKED * hatch.strength),
      at: function (x) {
        pattern.setTransform(new DOMMatrix([scale, 0, 0, scale, x % TILE, 0]));
        return pattern;
      },
    };
  };
})();
