/* How a trace of the schedule is filled: a colour, or a hatch of plotly's names as a tile. */
const TILE = 6; /* pixels, as in explorer/view/timeline/gantt_paint.py */

const STROKES = {
  "/": (line) => { line(-1, 1, 1, -1); line(0, TILE, TILE, 0); line(TILE - 1, TILE + 1, TILE + 1, TILE - 1); },
  "\\": (line) => { line(-1, TILE - 1, 1, TILE + 1); line(0, 0, TILE, TILE); line(TILE - 1, -1, TILE + 1, 1); },
  "-": (line) => line(0, TILE / 2, TILE, TILE / 2),
  "|": (line) => line(TILE / 2, 0, TILE / 2, TILE),
  x: (line) => { STROKES["/"](line); STROKES["\\"](line); },
  "+": (line) => { STROKES["-"](line); STROKES["|"](line); },
};

export function paint(marker, context, ratio) {
  const told = marker.pattern;
  if (!told || !told.shape) return marker.color;
  const tile = document.createElement("canvas");
  tile.width = tile.height = Math.round(TILE * ratio);
  const pen = tile.getContext("2d");
  pen.scale(tile.width / TILE, tile.height / TILE);
  pen.fillStyle = told.bgcolor || marker.color;
  pen.fillRect(0, 0, TILE, TILE);
  pen.globalAlpha = told.fgopacity;
  pen.strokeStyle = pen.fillStyle = told.fgcolor;
  pen.lineWidth = Math.max(0.8, TILE * told.solidity * 0.75);
  if (told.shape === ".") {
    pen.beginPath();
    pen.arc(TILE / 2, TILE / 2, 1, 0, 2 * Math.PI);
    pen.fill();
  } else {
    STROKES[told.shape]((x0, y0, x1, y1) => {
      pen.beginPath();
      pen.moveTo(x0, y0);
      pen.lineTo(x1, y1);
      pen.stroke();
    });
  }
  const found = context.createPattern(tile, "repeat");
  found.setTransform(new DOMMatrix().scale(TILE / tile.width));
  return found;
}
