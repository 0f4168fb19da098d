"use strict";

/* The page of `feednet watch`. News come as a script that calls feednetLive(): a page that was opened as a
   file may load a script, but fetch nothing. */
const news = { state: null, chosen: null, drawn: "" };
const POLL_MS = 1000;
const SILENT_MS = 15000;
const silent = document.getElementById("silent");

function filled(parent, children) {
  document.querySelector(parent).replaceChildren(...children);
}

function made(name, content, more = {}) {
  const element = Object.assign(document.createElement(name), more);
  element.append(...[content].flat());
  return element;
}

function tableRow(cells) {
  const row = document.createElement("tr");
  cells.forEach((cell, place) => {
    row.append(place === 0 ? made("th", cell, { scope: "row" }) : made("td", cell, { className: "number" }));
  });
  return row;
}

/* The capture that is shown: the reader's choice, or the one that runs. */
function shownCapture() {
  return news.state.captures[news.chosen ?? news.state.current];
}

function showPlots() {
  const capture = shownCapture();
  const key = `${capture.name} ${capture.version}`;
  if (key === news.drawn) return;
  news.drawn = key;
  for (const plot of page.plots) {
    const spec = capture.figures[plot.element.id];
    plot.element.closest("figure").hidden = spec === undefined;
    if (spec === undefined) continue;
    plot.spec = spec;
    draw(plot);
  }
  filled("#table-nodes tbody", capture.nodes.map(tableRow));
}

function show() {
  const { state } = news;
  document.title = `${state.headline} – feednet`;
  filled("#headline", [state.headline]);
  document.getElementById("headline").dataset.phase = state.phase;
  filled("#facts", state.facts.map(([label, text]) => made("div", [made("dt", label), made("dd", text)])));
  filled("#links", state.links.flatMap(({ text, href }) => [made("a", text, { href }), " "]));
  filled("#table-captures tbody", state.captures.map(({ cells }) => tableRow(cells)));
  document.querySelectorAll("nav button").forEach((button, place) => {
    button.setAttribute("aria-pressed", String(place === (news.chosen ?? state.current)));
    button.disabled = !state.captures[place].version;
  });
  if (state.phase === "over") silent.hidden = true;
  showPlots();
}

function feednetLive(state) {
  if (news.state !== null && state.updated_ms <= news.state.updated_ms) return;
  news.state = state;
  show();
}

function poll(feed) {
  const script = Object.assign(document.createElement("script"), { src: `${feed}?${Date.now()}` });
  script.onload = script.onerror = () => {
    script.remove();
    const age = Date.now() - news.state.updated_ms;
    const isOver = news.state.phase === "over" && !news.state.pending;
    silent.hidden = news.state.phase === "over" || age < SILENT_MS;
    silent.querySelector("span").textContent = `for ${Math.round(age / 1000)} s`;
    if (!isOver) setTimeout(poll, POLL_MS, feed);
  };
  document.head.append(script);
}

(async () => {
  await openPage();
  document.querySelectorAll("nav button").forEach((button, place) => {
    button.addEventListener("click", () => {
      news.chosen = news.chosen === place ? null : place;
      show();
    });
  });
  feednetLive(page.data.live);
  if (page.data.live.phase !== "over" || page.data.live.pending) poll(document.getElementById("live").dataset.feed);
  root.dataset.ready = "true";
})();
