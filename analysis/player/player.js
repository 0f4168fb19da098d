"use strict";

/* The player: draws the networks at a time, and lets the time pass. */
const MOST_MARKS = 300; // drawn in one network
const SPEEDS = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000]; // ms a second
const PULSE_S = 0.35; // how long a node shines
const REFRESH_MS = 150; // between tables while time passes
const MARKS = [
  "M0-5A5 5 0 1 1 0 5A5 5 0 1 1 0-5Z", "M0-6L6 0L0 6L-6 0Z", "M-5-5L5 5M-5 5L5-5", "M0-5L5 4H-5Z", "M0 5L5-4H-5Z",
  "M-4.5-4.5H4.5V4.5H-4.5Z", "M-6-2H6V2H-6Z", "M-2-6H2V6H-2Z", "M0-6L5-2L3 5H-3L-5-2Z",
];

const player = {
  time: 0, speed: 0, isPlaying: false, layerings: [], panes: new Map(), selected: null, end: 0, drawing: Promise.resolve(), refreshed: 0,
};
const $ = (id) => document.getElementById(id);

function shownLayerings() {
  return player.layerings.filter(({ name }) => player.panes.get(name).element.hidden === false);
}

/* What the menus choose: of events and of the packets that are drawn. */
function filter() {
  const [event, feed, node, kind, item] = ["event", "feed", "node", "kind", "item"].map((id) => $(id).value);
  const takes = (name, of, seq) => (node === "" || name === node) && (feed === "" || of === Number(feed))
    && (item === "" || seq === Number(item));
  return {
    event, kind: kind === "" ? -1 : Number(kind), takes,
    takesPacket: ({ a, b, feed: of, seq, kind: own, family, packets, place }) => {
      // An LLI is about a range of items; its loss is not theirs.
      const isLli = family === "lli" && packets.c[place] > 0 && event !== "loss";
      const isItem = item === "" || (isLli ? seq <= Number(item) && Number(item) < seq + packets.c[place] : seq === Number(item));
      return isItem && (kind === "" || own === Number(kind)) && (feed === "" || of === Number(feed))
        && (node === "" || page.data.nodes[a] === node || page.data.nodes[b] === node);
    },
  };
}

/* Networks. */
function makePane(layering) {
  const drawing = $("drawing").content.firstElementChild.cloneNode(true);
  drawing.setAttribute("aria-label", `The network, ${layering.name}`);
  drawing.querySelectorAll(".lane").forEach((lane) => {
    lane.removeAttribute("tabindex");
    lane.removeAttribute("role");
    lane.removeAttribute("aria-label");
  });
  for (const node of drawing.querySelectorAll(".node")) {
    const { name } = node.dataset;
    for (const [key, value] of Object.entries({ tabindex: 0, role: "button", "aria-label": `Tables of ${name}` })) node.setAttribute(key, value);
    const members = page.data.nodes.filter((each) => page.data.drawn[each] === name);
    const choose = () => select({ layering, node: members[0] ?? name });
    node.addEventListener("click", choose);
    node.addEventListener("keydown", (event) => {
      if (event.key === "Enter") choose();
    });
  }
  const list = element("ul", { class: "plain" });
  const count = element("summary", {});
  const box = element("section", { class: "pane" }, element("h2", {}, layering.name),
    element("div", { class: "scroll" }, drawing), element("details", {}, count, list));
  const lanes = new Map(page.data.lanes.map(([a, b, ...line], place) => [`${a}\t${b}`, { line, element: drawing.querySelectorAll(".lane")[place] }]));
  $("panes").append(box);
  player.panes.set(layering.name, { element: box, drawing, marks: drawing.querySelector(".packets"), list, count, lanes });
}

function drawMark(pane, packet, time) {
  const { nodes, drawn, kinds } = page.data;
  const lane = pane.lanes.get(`${drawn[nodes[packet.a]]}\t${drawn[nodes[packet.b]]}`);
  if (lane === undefined) return;
  const [x1, y1, x2, y2] = lane.line;
  const share = packet.took ? (time - packet.sent) / packet.took : 1;
  const along = packet.isLost ? Math.min(share, 0.5) : share;
  const fall = packet.isLost ? Math.max(0, share - 0.5) / 1.5 : 0; // 0 to 1
  const edge = Math.min(0.25, 26 / (Math.hypot(x2 - x1, y2 - y1) || 1)); // names of nodes stay free
  const place = edge + (1 - 2 * edge) * along;
  const [x, y] = [x1 + (x2 - x1) * place, y1 + (y2 - y1) * place + 60 * fall * fall];
  const { title, colour, mark } = kinds[packet.kind];
  const isChosen = player.selected?.packet?.id === packet.id && player.selected.layering === packet.layering;
  const group = svgElement("g", {
    class: `packet${packet.isLost ? " lost" : ""}${isChosen ? " chosen" : ""}`, transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`,
    opacity: (1 - fall).toFixed(2), style: `--kind: var(${colour})`,
  });
  group.append(svgElement("title", {}, `${titleOf(packet)}, ${placesOf(packet)}`), svgElement("circle", { class: "hit", r: 13 }),
    svgElement("path", { d: MARKS[mark] }));
  group.addEventListener("click", () => select({ layering: packet.layering, packet }));
  pane.marks.append(group);
}

function drawPane(layering, time) {
  const pane = player.panes.get(layering.name);
  const chosen = filter();
  const flying = layering.flying(time).filter(chosen.takesPacket).sort((a, b) => a.isLost - b.isLost);
  pane.marks.replaceChildren();
  for (const packet of flying.slice(-MOST_MARKS)) drawMark(pane, packet, time);
  const { changed, events } = layering.recent(time - PULSE_S * player.speed * 1e6, time);
  const at = new Set(events.filter(([, , event]) => event === "delivered").map(([, node]) => page.data.drawn[node]));
  const moved = new Set([...changed].map((node) => page.data.drawn[node]));
  const own = player.selected?.layering === layering && player.selected.node ? page.data.drawn[player.selected.node] : null;
  for (const node of pane.drawing.querySelectorAll(".node")) {
    const { name } = node.dataset;
    node.classList.toggle("delivered", at.has(name));
    node.classList.toggle("changed", moved.has(name));
    node.classList.toggle("chosen", name === own);
  }
  const down = new Set(layering.state("", time).rows.filter(({ value }) => value !== null)
    .flatMap(({ key }) => [key.split("--"), key.split("--").reverse()].map((ends) => ends.map((end) => page.data.drawn[end]).join("\t"))));
  for (const [ends, { element: lane }] of pane.lanes) lane.classList.toggle("down", down.has(ends));
  const more = flying.length > MOST_MARKS ? `, ${MOST_MARKS} of them drawn` : "";
  pane.count.textContent = `${flying.length} packet${flying.length === 1 ? "" : "s"} on the links${more}`;
  if (pane.list.parentElement.open) {
    pane.list.replaceChildren(...flying.slice(0, 20).map((packet) => element("li", {}, packetButton(packet, (each) => select({ layering, packet: each })))));
  }
}

/* Draw a time. Drawings follow each other; of those that wait only the last is drawn. */
function show(time, isForced = true) {
  player.time = Math.min(Math.max(0, Math.round(time)), player.end);
  const wanted = player.time;
  player.drawing = player.drawing.then(async () => {
    if (wanted !== player.time) return;
    await Promise.all(shownLayerings().map((layering) => layering.need(wanted)));
    if (wanted !== player.time) return;
    shownLayerings().forEach((layering) => drawPane(layering, wanted));
    $("time").value = String(wanted);
    $("time").setAttribute("aria-valuetext", seconds(wanted));
    $("now").value = seconds(wanted);
    await showPanel(isForced);
  });
  return player.drawing;
}

async function showPanel(isForced) {
  const now = performance.now();
  if (!isForced && now - player.refreshed < REFRESH_MS) return;
  const { layering, packet, node } = player.selected ?? {};
  if (packet && (isForced || player.shownPacket !== packet)) {
    const parts = await packetPanel(packet, (each) => visit({ time: each.sent + (each.isLost ? Math.round(each.took / 2) : 0), layering, packet: each }));
    $("panel").replaceChildren(...parts.filter(Boolean));
    player.shownPacket = packet;
  } else if (node && layering.windows.has(layering.windowAt(player.time))) {
    const isOpen = new Set([...$("panel").querySelectorAll("details[open]")].map(({ dataset }) => dataset.table));
    $("panel").replaceChildren(nodeMenu(layering, node), ...nodePanel(layering, node, player.time));
    for (const part of $("panel").querySelectorAll("details")) part.open = isOpen.has(part.dataset.table);
  }
  player.refreshed = now;
  document.querySelectorAll(".scroll").forEach(allowKeys);
}

/* Other layerings of the node, and other nodes of this layering. */
function nodeMenu(layering, node) {
  const menu = (label, names, now, choose) => element("label", {}, `${label} `, element("select", {
    onchange: ({ target }) => choose(target.value),
  }, ...names.map((name) => element("option", { selected: name === now ? "" : null }, name))));
  const names = page.data.nodes.slice(0, $("node").options.length - 1);
  return element("div", { class: "menus" },
    menu("Node", names, node, (name) => select({ layering, node: name })),
    menu("Layering", shownLayerings().map(({ name }) => name), layering.name,
      (name) => select({ layering: player.layerings.find((each) => each.name === name), node })));
}

function select(choice) {
  player.selected = choice;
  $("told").textContent = choice.packet ? `${seconds(player.time)}, ${choice.layering.name}: ${titleOf(choice.packet)}, ${placesOf(choice.packet)}`
    : `${seconds(player.time)}, ${choice.layering.name}: tables of ${choice.node}`;
  return show(player.time);
}

/* Go to a time, and show what is there. */
function visit({ time, layering, packet, node }) {
  pause();
  if (packet) player.selected = { layering, packet };
  else if (node && page.data.nodes.includes(node)) player.selected = { layering, node };
  return show(time);
}

/* Go to a time that is no event's. */
function leap(time) {
  pause();
  const shown = show(time);
  $("told").textContent = `At ${seconds(player.time)}.`;
  return shown;
}

/* Events. */
function eventText({ time, type, layering, packet, node, event, feed, seq, table, key, value }) {
  const what = {
    packet: () => `${titleOf(packet)} sent, ${placesOf(packet)}`,
    loss: () => `${titleOf(packet)} lost, ${placesOf(packet)}`,
    state: () => `${page.data.tables[table]?.title ?? table} at ${node || "the network"}: ${key.replace("\t", ", ")}${value === null ? " gone" : ""}`,
  }[type] ?? (() => `${event} at ${node || "the network"}${seq ? `, item ${seq}` : ""}${feed >= 0 && page.data.feeds.length > 1 ? ` of ${page.data.feeds[feed]}` : ""}`);
  return `${seconds(time)}, ${layering.name}: ${what()}`;
}

async function step(direction) {
  pause();
  const chosen = filter();
  const found = (await Promise.all(shownLayerings().map((each) => each.find(player.time, direction, chosen)))).filter(Boolean);
  const next = found.sort((a, b) => direction * (a.time - b.time))[0];
  const more = next?.alike ? ` (and ${next.alike} more at this moment)` : "";
  $("told").textContent = next ? `${eventText(next)}${more}` : `No such event ${direction > 0 ? "after" : "before"} ${seconds(player.time)}.`;
  if (next) await visit(next);
  const { bottom, top } = $("panel").getBoundingClientRect();
  // Below the networks on a narrow page.
  if (next && (bottom < 0 || top > innerHeight - 80)) $("panel").scrollIntoView({ block: "nearest" });
}

/* Time. */
function pause() {
  player.isPlaying = false;
  $("play").setAttribute("aria-pressed", "false");
  $("play").textContent = "▶ Play";
}

async function play() {
  if (player.time >= player.end) await show(0);
  player.isPlaying = true;
  $("play").setAttribute("aria-pressed", "true");
  $("play").textContent = "❚❚ Pause";
  let last = performance.now();
  while (player.isPlaying) {
    const now = await new Promise((done) => requestAnimationFrame(done));
    if (!player.isPlaying) return;
    let time = player.time + Math.min(100, Math.max(0, now - last)) * player.speed * 1e3;
    last = now;
    if ($("skip").checked) time = await pastIdle(time);
    await show(time, false);
    if (player.time >= player.end) pause();
  }
}

/* Where nothing is on a link, time goes on to shortly before the next packet. */
async function pastIdle(time) {
  const shown = shownLayerings();
  await Promise.all(shown.map((layering) => layering.need(Math.min(time, player.end))));
  if (time >= player.end || shown.some((layering) => layering.flying(time).length > 0)) return time;
  const chosen = { ...filter(), event: "packet", takesPacket: () => true };
  const found = (await Promise.all(shown.map((each) => each.find(time, 1, chosen)))).filter(Boolean).map((each) => each.time);
  const next = found.length ? Math.min(...found) : player.end;
  return Math.max(time, next - 0.3 * player.speed * 1e6);
}

function setSpeed(place) {
  player.place = Math.min(Math.max(0, place), SPEEDS.length - 1);
  player.speed = SPEEDS[player.place];
  $("speed").value = `${player.speed >= 1000 ? `${player.speed / 1000} s` : `${player.speed} ms`} a second`;
}

function drawOverview() {
  const shown = shownLayerings();
  const sums = (what) => shown[0] ? shown[0].overview[what].map((_, place) => shown.reduce((sum, each) => sum + each.overview[what][place], 0)) : [];
  const [all, lost] = [sums("packets"), sums("lost")];
  const most = Math.max(1, ...all);
  const bar = (value, place, kind) => svgElement("rect", { class: kind, x: place, width: 1, y: 20 - 20 * value, height: 20 * value });
  $("overview").replaceChildren(...all.map((value, place) => bar(Math.sqrt(value / most), place, "sent")),
    ...lost.flatMap((value, place) => (value ? [bar(0.3, place, "lost")] : [])));
}

const KEYS = {
  " ": () => (player.isPlaying ? pause() : play()),
  n: () => step(1),
  p: () => step(-1),
  "+": () => setSpeed(player.place + 1),
  "-": () => setSpeed(player.place - 1),
  ArrowRight: () => leap(player.time + player.speed * 1e5),
  ArrowLeft: () => leap(player.time - player.speed * 1e5),
  Home: () => leap(0),
  End: () => leap(player.end),
};

function onKey(event) {
  const isTyping = event.target.matches("select, input:not([type=range])") || (event.key === " " && event.target.matches("button, summary, input"));
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey || !(event.key in KEYS)) return;
  event.preventDefault();
  KEYS[event.key]();
}

function fillKey() {
  const present = [...new Set(player.layerings.flatMap(({ kinds }) => kinds))].sort((a, b) => a - b);
  let others = 6;
  page.data.kinds.forEach((kind, place) => {
    const key = page.data.kindKeys[place];
    kind.mark = { interest: 0, lli: 1, nack: 2, idle: 3, hello: 4, data: 5 }[key] ?? (present.includes(place) ? others++ % MARKS.length : 5);
  });
  $("key").replaceChildren(...present.map((place) => {
    const { title, colour, mark } = page.data.kinds[place];
    const drawing = svgElement("svg", { viewBox: "-8 -8 16 16", "aria-hidden": "true", style: `--kind: var(${colour})` });
    drawing.append(svgElement("path", { d: MARKS[mark] }));
    return element("li", {}, drawing, ` ${title}`);
  }));
  $("kind").append(...present.map((place) => new Option(page.data.kinds[place].title, place)));
}

function listen() {
  $("play").addEventListener("click", KEYS[" "]);
  $("next").addEventListener("click", KEYS.n);
  $("before").addEventListener("click", KEYS.p);
  $("faster").addEventListener("click", KEYS["+"]);
  $("slower").addEventListener("click", KEYS["-"]);
  $("time").addEventListener("input", () => leap(Number($("time").value)));
  for (const id of ["feed", "node", "kind", "item"]) $(id).addEventListener("input", () => show(player.time));
  document.addEventListener("keydown", onKey);
  document.querySelectorAll("nav button").forEach((button) => button.addEventListener("click", () => {
    const pane = player.panes.get(button.dataset.name).element;
    pane.hidden = !pane.hidden;
    button.setAttribute("aria-pressed", String(!pane.hidden));
    drawOverview();
    show(player.time);
  }));
  document.querySelectorAll(".pane details").forEach((part) => part.addEventListener("toggle", () => show(player.time)));
}

(async () => {
  try {
    page.data = JSON.parse(await unpack("data"));
  } catch (error) {
    $("failed").hidden = false;
    throw error;
  }
  player.layerings = Object.entries(page.data.layerings).map(([name, index], place) => new Layering(name, place, index));
  player.end = Math.max(...player.layerings.map(({ end }) => end));
  $("time").max = String(player.end);
  fillKey();
  player.layerings.forEach(makePane);
  player.layerings.slice(2).forEach(({ name }) => {
    player.panes.get(name).element.hidden = true;
    document.querySelector(`nav button[data-name="${name}"]`).setAttribute("aria-pressed", "false");
  });
  setSpeed(Math.max(0, countUntil(SPEEDS, player.layerings[0].usual / 1e6) - 1));
  drawOverview();
  listen();
  const asked = location.hash.match(/^#t=([\d.]+)$/);
  await show(asked ? Number(asked[1]) * 1e9 : 0);
  root.dataset.ready = "true";
})();
