"use strict";

(async () => {
  await openPage();
  document.querySelectorAll("nav button").forEach((button) => {
    page.places.set(button.dataset.name, Number(button.dataset.layering));
    button.addEventListener("click", () => {
      const layering = Number(button.dataset.layering);
      const isHidden = !page.hidden.delete(layering) && Boolean(page.hidden.add(layering));
      button.setAttribute("aria-pressed", String(!isHidden));
      for (const own of document.querySelectorAll(`[data-panel="${layering}"]`)) own.hidden = isHidden;
      offerShown();
      drawAll();
    });
  });
  const setUps = [["network", setUpNetwork], ["journeys", setUpJourney], ["names", setUpNames]];
  const waiting = new Map(setUps.filter(([name]) => page.data[name])
    .map(([name, setUp]) => [name === "journeys" ? "journey" : name, () => setUp(page.data[name])]));
  const others = [];

  /* Draw what can be seen now, and set up drawings that are seen for the first time. */
  function drawOpen() {
    drawAll();
    for (const [id, setUp] of waiting) {
      const drawing = document.getElementById(id);
      if (drawing === null || isSeen(drawing)) {
        waiting.delete(id);
        others.push(setUp());
      }
    }
  }

  /* Open the part that the address leads to: "#journey=lli/0/7/s3", "#wire". */
  function openAddressed() {
    const target = document.getElementById(location.hash.slice(1).split("=")[0]);
    const part = target?.closest("details.part");
    if (!part) return;
    part.open = true;
    drawOpen();
    if (!location.hash.includes("=")) target.scrollIntoView();
  }

  const parts = [...document.querySelectorAll("details.part")];
  for (const part of parts) part.addEventListener("toggle", drawOpen);
  openAddressed();
  drawOpen();
  addEventListener("hashchange", openAddressed);
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = parts.filter((part) => !part.open);
    for (const part of closed) part.open = true;
    root.dataset.theme = "light";
    drawOpen();
    page.plots.forEach((plot) => draw(plot, plot.isSmall ? PRINT_WIDTH / 2 - 16 : PRINT_WIDTH));
    others.forEach((show) => show());
  });
  addEventListener("afterprint", () => {
    for (const part of closed) part.open = false;
    delete root.dataset.theme;
    drawAll();
    others.forEach((show) => show());
  });
  root.dataset.ready = "true";
})();
