"use strict";

/* The sequence chart of a name: every packet with it that was captured. */
const MOST_PLACES = 8; // with more, the chart begins with the way of a single asker

function setUpNames(data) {
  const $ = (name) => document.getElementById(`names-${name}`);
  const drawing = document.getElementById("names");
  const [run, subject, asker] = [$("run"), $("name"), $("asker")];
  let now = null;

  /* Columns to rows, once for each run: those of a name lie together. */
  function packetsOf(of, place) {
    const { t, d, a, b, k, w, f, n } = of.packets;
    const rows = [];
    for (let at = of.subjects[place].at; at < of.subjects[place].end; at += 1) {
      rows.push({
        a: a[at], b: b[at], sent: t[at], received: d[at] === null ? null : t[at] + Math.max(d[at], 0),
        kind: data.kinds[k[at]], words: data.words[w[at]], frame: f[at], node: data.nodes[n[at]], isOnce: d[at] === -1,
      });
    }
    return rows;
  }

  // Names often differ at their ends only.
  const withoutMiddle = (name) => (name.length > 60 ? `${name.slice(0, 32)}…${name.slice(-26)}` : name);
  const isAsking = (row) => row.kind === "interest" || row.kind === "lli";

  /* Who asks without having been asked: where the name was wanted first. */
  function askersOf(rows) {
    const asked = new Set(rows.filter(isAsking).map((row) => row.b));
    return [...new Set(rows.filter(isAsking).map((row) => row.a))].filter((node) => !asked.has(node));
  }

  /* The packets on the way that one asker's Interests took, from node to node. */
  function onTheWay(rows, from) {
    const way = new Set([from]);
    for (let before = 0; before < way.size;) {
      before = way.size;
      rows.forEach((row) => { if (isAsking(row) && way.has(row.a)) way.add(row.b); });
    }
    return rows.filter((row) => way.has(row.a) && way.has(row.b));
  }

  const ms = (time) => ((time - now.rows[0].sent) / 1000).toFixed(3).replace(/(\.\d\d\d?)0*$/, "$1");
  const fate = (row) => (row.isOnce ? "seen at one end only" : row.received === null ? "not captured where it went" : null);
  const where = (row) => `frame ${row.frame}, captured by ${row.node}`;
  const tableRow = (row) => [
    ms(row.sent), row.isOnce || row.received === null ? "" : ms(row.received),
    data.nodes[row.a], data.nodes[row.b], row.words, row.frame, row.node,
  ];

  function fillNames() {
    const { subjects } = data.runs[run.value];
    subject.replaceChildren(...subjects.map(({ name, trouble }, place) =>
      new Option((trouble ? "! " : "") + withoutMiddle(name), String(place))));
  }

  function fillAskers() {
    const rows = packetsOf(data.runs[run.value], Number(subject.value));
    const askers = askersOf(rows);
    asker.replaceChildren(new Option("all", "-1"), ...askers.map((node) => new Option(data.nodes[node], String(node))));
    asker.closest("label").hidden = askers.length < 2;
    const places = new Set(rows.flatMap((row) => [row.a, row.b])).size;
    asker.value = places > MOST_PLACES && askers.length ? String(askers[0]) : "-1";
  }

  function show() {
    const of = data.runs[run.value];
    const { name, trouble } = of.subjects[Number(subject.value)];
    const all = packetsOf(of, Number(subject.value));
    const rows = asker.value === "-1" ? all : onTheWay(all, Number(asker.value));
    now = { rows };
    const path = [...new Set(rows.flatMap((row) => [row.a, row.b]))];
    drawSequence(drawing, {
      path, rows, notes: [], ms, fate, names: data.nodes, roles: data.nodes.map(() => ""),
      words: (row) => row.words, why: where,
    });
    document.querySelector("#table-names tbody").replaceChildren(...rows.map((row) => {
      const line = document.createElement("tr");
      line.append(...tableRow(row).map((text) => Object.assign(document.createElement("td"), { textContent: text })));
      return line;
    }));
    const count = `${rows.length} packet${rows.length === 1 ? "" : "s"}${rows.length < all.length ? ` of ${all.length}` : ""}`;
    $("told").textContent = `${name}: ${count}${all.length >= data.most ? " at first, more later" : ""}, the first`
      + ` ${(rows[0].sent / 1e6).toFixed(3)} s into ${run.value}${trouble ? "; asked again, refused or unanswered" : ""}.`;
  }

  function remember() {
    fillAskers();
    show();
    history.replaceState(null, "", `#name=${encodeURIComponent(run.value)}/${subject.value}`);
  }

  function readAddress() {
    const found = location.hash.match(/^#name=([^/]+)\/(\d+)$/);
    const name = found && decodeURIComponent(found[1]);
    if (!found || !data.runs[name]?.subjects[Number(found[2])]) return false;
    run.value = name;
    fillNames();
    subject.value = found[2];
    fillAskers();
    show();
    $("menus").scrollIntoView();
    return true;
  }

  run.addEventListener("change", () => { fillNames(); remember(); });
  subject.addEventListener("change", remember);
  asker.addEventListener("change", show);
  const step = (by) => () => {
    subject.value = String(Math.min(Math.max(Number(subject.value) + by, 0), subject.options.length - 1));
    remember();
  };
  $("before").addEventListener("click", step(-1));
  $("after").addEventListener("click", step(1));
  addEventListener("hashchange", readAddress);
  ownRows.names = () => [
    ["sent, ms after the first", "arrived, ms after the first", "from", "to", "what", "frame", "captured by"],
    ...now.rows.map(tableRow),
  ];
  fillNames();
  if (!readAddress()) {
    fillAskers();
    show();
  }
  return show;
}
