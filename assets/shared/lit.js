/* What is pointed at stays bright and all else dims: the drawing as a whole is made faint, and the bright boxes are copied
   from it to a canvas above. Nothing is styled again, so a large graph answers the pointer as fast as a small one. */
(function () {
  "use strict";
  const ex = window.explorer;
  const DRAWN = "canvas[data-id='layer2-node']"; /* cytoscape's own */
  const FAINT = "0.18";
  const NEAR_PX = 2.5; /* of an edge of the box that is pointed at */
  const HOT_PX = 3; /* of its border */

  /* instance: the cytoscape instance; root: where the theme's colours are. */
  ex.lit = function (instance, root) {
    let bright = null; /* ids of what is bright, or null: everything is */
    let near = null; /* of the box that is pointed at, if it is one */
    let above = null;

    const drawn = (cy) => cy.container() && cy.container().querySelector(DRAWN);

    function canvas(below) {
      if (above && above.parentElement === below.parentElement) return above;
      above = ex.element("canvas", "", "", below.parentElement);
      above.setAttribute("aria-hidden", "true");
      Object.assign(above.style, { position: "absolute", inset: "0", width: "100%", height: "100%", zIndex: "2", pointerEvents: "none" });
      return above;
    }

    /* Edges whose ends are both bright, and those of the box that is pointed at. */
    function edges(cy, nodes) {
      const of = near ? cy.getElementById(near).connectedEdges() : null;
      return nodes.connectedEdges().filter((edge) => (of && of.has(edge)) || (!near && bright.has(edge.source().id()) && bright.has(edge.target().id())));
    }

    function line(pen, edge, colour) {
      const [zoom, pan] = [edge.cy().zoom(), edge.cy().pan()];
      const from = edge.renderedSourceEndpoint();
      const to = edge.renderedTargetEndpoint();
      if (!from || !to) return;
      pen.strokeStyle = colour || edge.style("line-color");
      pen.globalAlpha = colour ? 1 : edge.numericStyle("line-opacity");
      pen.lineWidth = Math.max(1, zoom * (colour ? NEAR_PX : edge.numericStyle("width")));
      pen.beginPath();
      pen.moveTo(from.x, from.y);
      for (const point of edge.segmentPoints() || []) pen.lineTo(point.x * zoom + pan.x, point.y * zoom + pan.y);
      pen.lineTo(to.x, to.y);
      pen.stroke();
      pen.globalAlpha = 1;
    }

    function copy(pen, below, ratio, box) {
      const [x, y] = [Math.floor(box.x1 * ratio), Math.floor(box.y1 * ratio)];
      const [wide, tall] = [Math.ceil(box.x2 * ratio) - x, Math.ceil(box.y2 * ratio) - y];
      if (wide <= 0 || tall <= 0 || x > below.width || y > below.height || x + wide < 0 || y + tall < 0) return;
      pen.clearRect(x / ratio, y / ratio, wide / ratio, tall / ratio);
      pen.drawImage(below, x, y, wide, tall, x / ratio, y / ratio, wide / ratio, tall / ratio);
    }

    function around(node) {
      const at = node.renderedPosition();
      const [wide, tall] = [node.renderedOuterWidth() / 2, node.renderedOuterHeight() / 2];
      return { x1: at.x - wide, y1: at.y - tall, x2: at.x + wide, y2: at.y + tall };
    }

    function paint(cy) {
      const below = drawn(cy);
      if (!below) return;
      below.style.opacity = bright ? FAINT : "";
      if (!bright) {
        if (above) above.hidden = true;
        return;
      }
      const top = canvas(below);
      top.hidden = false;
      if (top.width !== below.width || top.height !== below.height) [top.width, top.height] = [below.width, below.height];
      const ratio = below.width / Math.max(1, below.clientWidth);
      const pen = top.getContext("2d");
      pen.setTransform(1, 0, 0, 1, 0, 0);
      pen.clearRect(0, 0, top.width, top.height);
      pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      const style = getComputedStyle(root());
      const nodes = cy.collection([...bright].map((id) => cy.getElementById(id)).filter((node) => node.length));
      const lines = edges(cy, nodes);
      lines.forEach((edge) => line(pen, edge, near ? style.getPropertyValue("--accent").trim() : ""));
      lines.forEach((edge) => {
        if (edge.data("label") || edge.hasClass("inner")) copy(pen, below, ratio, edge.renderedBoundingBox({ includeNodes: false, includeEdges: false, includeOverlays: false }));
      });
      nodes.forEach((node) => copy(pen, below, ratio, around(node)));
      if (!near) return;
      const box = around(cy.getElementById(near));
      const wide = Math.max(1.5, HOT_PX * cy.zoom());
      pen.strokeStyle = style.getPropertyValue("--ink").trim();
      pen.lineWidth = wide;
      pen.strokeRect(box.x1 + wide / 2, box.y1 + wide / 2, box.x2 - box.x1 - wide, box.y2 - box.y1 - wide);
    }

    const listened = new WeakSet();

    /* boxes: ids of those that stay bright, or null for all; pointed: the one of them whose neighbours do, too. */
    function show(boxes, pointed) {
      ex.whenReady(instance, function (cy) {
        const box = pointed ? cy.getElementById(pointed) : null;
        near = box && box.length ? pointed : null;
        bright = boxes && new Set(boxes);
        if (near) box.neighborhood("node").forEach((node) => { bright.add(node.id()); });
        if (!listened.has(cy)) cy.on("render", () => { if (bright) paint(cy); });
        listened.add(cy);
        paint(cy);
      });
    }

    return { show, bright: () => bright && [...bright] };
  };
})();
