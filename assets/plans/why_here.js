/* What an operator would cost elsewhere is listed below the selection; rows are filled in as answers arrive. */
(function () {
  "use strict";
  const FOLLOWED_MS = 4000;
  document.addEventListener("click", function (event) {
    if (!event.target.closest || !event.target.closest('[data-act="why-here"]')) return;
    const watch = new MutationObserver(() => requestAnimationFrame(function () {
      const card = document.querySelector(".why-here");
      if (card) card.scrollIntoView({ block: "nearest" });
    }));
    watch.observe(document.getElementById("inspector"), { childList: true, subtree: true });
    setTimeout(() => watch.disconnect(), FOLLOWED_MS);
  });
})();
