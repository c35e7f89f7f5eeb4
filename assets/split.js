/* The bars between the parts of the page: drag them, or move them with the arrow keys; and one part in place of all. */
(function () {
  "use strict";
  const ex = (window.explorer = window.explorer || {});
  const FRAME_MS = 220; /* after the last change of the graph's size */
  const FRAME_SHARE = 0.08; /* of a side: smaller changes are fitted here */
  const BARS = [
    { of: ".split.upright", kept: "explorer-split", name: "--split", less: "ArrowLeft", more: "ArrowRight",
      at: (event, frame) => (event.clientX - frame.left) / frame.width, frame: ".views" },
    { of: ".split.flat", kept: "explorer-split-below", name: "--above", less: "ArrowUp", more: "ArrowDown",
      at: (event, frame) => (event.clientY - frame.top) / frame.height, frame: ".panes" },
  ];

  function listenTo(bar) {
    const handle = document.querySelector(bar.of);
    const frame = document.querySelector(bar.frame);
    const now = () => +handle.getAttribute("aria-valuenow");
    function put(share) {
      const percent = Math.min(+handle.getAttribute("aria-valuemax"), Math.max(+handle.getAttribute("aria-valuemin"), share));
      frame.style.setProperty(bar.name, percent + "%");
      handle.setAttribute("aria-valuenow", Math.round(percent));
      localStorage.setItem(bar.kept, percent);
    }
    if (localStorage.getItem(bar.kept)) put(+localStorage.getItem(bar.kept));
    handle.addEventListener("pointerdown", function (event) {
      handle.setPointerCapture(event.pointerId);
      event.preventDefault();
    });
    handle.addEventListener("pointermove", function (event) {
      if (handle.hasPointerCapture(event.pointerId)) put(100 * bar.at(event, frame.getBoundingClientRect()));
    });
    handle.addEventListener("keydown", function (event) {
      const by = { [bar.less]: -3, [bar.more]: 3 }[event.key];
      if (!by) return;
      put(now() + by);
      event.preventDefault();
    });
    handle.addEventListener("dblclick", function () { /* as it was at first */
      frame.style.removeProperty(bar.name);
      localStorage.removeItem(bar.kept);
      handle.setAttribute("aria-valuenow", handle.dataset.usual);
    });
  }

  /* -- one part in place of all -------------------------------------------------------------------- */

  const centre = () => document.getElementById("centre");

  function whole(part) {
    if (part) centre().dataset.whole = part;
    else delete centre().dataset.whole;
    for (const button of document.querySelectorAll("[data-whole-of]")) {
      const on = button.dataset.wholeOf === part;
      button.setAttribute("aria-pressed", String(on));
      button.textContent = on ? "⤡" : "⤢";
    }
  }

  const toggle = (part) => whole(centre().dataset.whole === part ? null : part);

  function keys(event) {
    const writes = event.target.closest && event.target.closest("input, textarea, select, dialog, [contenteditable]");
    if (event.key !== "m" || writes || event.ctrlKey || event.metaKey || event.altKey) return;
    const card = event.target.closest && event.target.closest(".card");
    const button = card && card.querySelector("[data-whole-of]");
    toggle(centre().dataset.whole || (button ? button.dataset.wholeOf : "graph"));
    event.preventDefault();
  }

  /* -- how large the graph's place is --------------------------------------------------------------- */

  let timer = null;
  let sentSize = null;

  function sendCanvas() {
    const place = document.querySelector(".graph-card .canvas");
    const size = [place.clientWidth, place.clientHeight];
    const same = sentSize && size.every((side, i) => Math.abs(side - sentSize[i]) <= FRAME_SHARE * sentSize[i]);
    if (same || Math.min(...size) < 40) return;
    if (sentSize) ex.send({ type: "canvas", width: size[0], height: size[1] });
    sentSize = size;
  }

  ex.split = {
    sentCanvas: (size) => { sentSize = size; }, /* a question says it too */
    listen: function () {
      BARS.forEach(listenTo);
      for (const button of document.querySelectorAll("[data-whole-of]")) button.addEventListener("click", () => toggle(button.dataset.wholeOf));
      document.addEventListener("keydown", keys);
      new ResizeObserver(function () { clearTimeout(timer); timer = setTimeout(sendCanvas, FRAME_MS); }).observe(document.querySelector(".graph-card .canvas"));
    },
  };
})();
