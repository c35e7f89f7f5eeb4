/* When the parts of the page are first there, in milliseconds after navigation. */
window.__first = {};
(function look() {
  const first = window.__first;
  const now = performance.now();
  const graph = document.getElementById("graph");
  const drawn = window.explorer && window.explorer.gantt ? window.explorer.gantt.drawn() : null;
  if (!first.controls && document.getElementById("solve")) first.controls = now;
  if (!first.graph && graph && graph._cyreg && graph._cyreg.cy.nodes().length > 3) first.graph = now;
  if (!first.bars && drawn && drawn.pieces) first.bars = now;
  if (!first.bars) requestAnimationFrame(look);
})();
