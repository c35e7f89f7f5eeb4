/* Where one is in a graph that is larger than its frame: all boxes in small, and the part in sight. A press or a drag goes
   there. Hidden while all is in sight. */
(function () {
  "use strict";
  const ex = window.explorer;
  const [WIDE, TALL, EDGE] = [132, 84, 4];
  const PARTLY = 0.98; /* of the graph: what counts as all of it in sight */

  /* frame: what it stands in; cy: the graph; root: where the theme's colours are. Returns what says that boxes changed. */
  ex.minimap = function (frame, cy, root) {
    const canvas = ex.element("canvas", "minimap", "", frame);
    canvas.setAttribute("aria-hidden", "true");
    canvas.hidden = true;
    const pen = canvas.getContext("2d");
    const still = document.createElement("canvas"); /* the boxes, painted once */
    let all = null;
    let fresh = false;
    let due = false;

    function measure() {
      const ratio = window.devicePixelRatio || 1;
      for (const each of [canvas, still]) [each.width, each.height] = [WIDE * ratio, TALL * ratio];
      const box = cy.nodes().boundingBox({ includeLabels: false, includeOverlays: false });
      const scale = Math.min((WIDE - 2 * EDGE) / box.w, (TALL - 2 * EDGE) / box.h);
      all = { ...box, ratio, scale, left: (WIDE - box.w * scale) / 2 - box.x1 * scale, top: (TALL - box.h * scale) / 2 - box.y1 * scale };
      const ink = still.getContext("2d");
      ink.setTransform(ratio, 0, 0, ratio, 0, 0);
      cy.nodes().forEach(function (node) {
        const at = node.position();
        const [wide, tall] = [Math.max(1.5, node.width() * scale), Math.max(1.2, node.height() * scale)];
        ink.fillStyle = node.hasClass("mixed") ? node.style("border-color") : node.style("background-color");
        ink.fillRect(at.x * scale + all.left - wide / 2, at.y * scale + all.top - tall / 2, wide, tall);
      });
      fresh = true;
    }

    function paint() {
      due = false;
      if (cy.destroyed() || !cy.nodes().length) { canvas.hidden = true; return; }
      const sight = cy.extent();
      if (!all) all = cy.nodes().boundingBox({ includeLabels: false, includeOverlays: false });
      const inside = (a, b, from, to) => Math.max(0, Math.min(b, to) - Math.max(a, from)) / Math.max(1, b - a);
      canvas.hidden = inside(all.x1, all.x2, sight.x1, sight.x2) > PARTLY && inside(all.y1, all.y2, sight.y1, sight.y2) > PARTLY;
      if (canvas.hidden) return;
      if (!fresh) measure();
      const style = getComputedStyle(root());
      pen.setTransform(1, 0, 0, 1, 0, 0);
      pen.clearRect(0, 0, canvas.width, canvas.height);
      pen.drawImage(still, 0, 0);
      pen.setTransform(all.ratio, 0, 0, all.ratio, 0, 0);
      const [x1, x2] = [sight.x1, sight.x2].map((x) => Math.min(WIDE - 1, Math.max(1, x * all.scale + all.left)));
      const [y1, y2] = [sight.y1, sight.y2].map((y) => Math.min(TALL - 1, Math.max(1, y * all.scale + all.top)));
      pen.lineWidth = 1.5;
      pen.strokeStyle = style.getPropertyValue("--ink").trim();
      pen.strokeRect(x1, y1, x2 - x1, y2 - y1);
    }

    function soon() {
      if (due) return;
      due = true;
      requestAnimationFrame(paint);
    }

    function go(event) {
      const box = canvas.getBoundingClientRect();
      const at = { x: (event.clientX - box.left - all.left) / all.scale, y: (event.clientY - box.top - all.top) / all.scale };
      cy.pan({ x: cy.width() / 2 - at.x * cy.zoom(), y: cy.height() / 2 - at.y * cy.zoom() });
    }
    canvas.addEventListener("pointerdown", function (event) { canvas.setPointerCapture(event.pointerId); go(event); event.stopPropagation(); });
    canvas.addEventListener("pointermove", function (event) { if (canvas.hasPointerCapture(event.pointerId)) go(event); });
    cy.on("viewport resize", soon);
    return () => { all = null; fresh = false; soon(); };
  };
})();
