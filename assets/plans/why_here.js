/* What it would cost elsewhere stands below what is selected: whoever asks sees the answer as it comes. */
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
