"use strict";

/* The sequence chart of a name: every packet with it that was captured. */
function setUpNames(data) {
  const $ = (name) => document.getElementById(`names-${name}`);
  const drawing = document.getElementById("names");
  const [run, subject] = [$("run"), $("name")];
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
      new Option(trouble ? `! ${name}` : name, String(place))));
  }

  function show() {
    const of = data.runs[run.value];
    const { name, trouble } = of.subjects[Number(subject.value)];
    const rows = packetsOf(of, Number(subject.value));
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
    const count = `${rows.length} packet${rows.length === 1 ? "" : "s"}`;
    $("told").textContent = `${name}: ${count}${rows.length === data.most ? " at first, more later" : ""}, the first`
      + ` ${(rows[0].sent / 1e6).toFixed(3)} s into ${run.value}${trouble ? "; asked again, refused or unanswered" : ""}.`;
  }

  function remember() {
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
    show();
    $("menus").scrollIntoView();
    return true;
  }

  run.addEventListener("change", () => { fillNames(); remember(); });
  subject.addEventListener("change", remember);
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
  if (!readAddress()) show();
  return show;
}
