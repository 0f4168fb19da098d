"use strict";

/* The sequence chart of one item: which packets had to do with it, drawn from what the page holds. */
const MOST_ROWS = 250;

function journeyOf(data, choice) {
  const of = data.layerings[choice.layering];
  const { packets, items } = of;
  const reason = (place) => data.reasons[packets.w[place]];
  if (!of.sent) {
    let time = 0;
    of.sent = packets.t.map((step) => (time += step));
  }
  const arrival = (place) => (packets.d[place] < 0 ? null : of.sent[place] + packets.d[place]);
  const deliveries = new Map();
  let published = null;
  items.s.forEach((seq, place) => {
    if (seq === choice.item && items.f[place] === choice.feed) {
      deliveries.set(items.n[place], items.d[place]);
      published = items.p[place];
    }
  });
  const source = data.feeds[choice.feed].publisher;
  const isItem = (place) => packets.f[place] === choice.feed && packets.s[place] === choice.item
    && ["item", "copy"].includes(reason(place).key);

  // The way that the item took: back from the subscriber, from each node to whom it had the item of first.
  const first = new Map();
  packets.t.forEach((_, place) => {
    const time = arrival(place);
    if (time !== null && isItem(place) && !(first.get(packets.b[place])?.time <= time)) {
      first.set(packets.b[place], { from: packets.a[place], time });
    }
  });
  let path;
  if (choice.subscriber === "all") {
    path = [...new Set(Object.entries(data.paths).filter(([key]) => key.startsWith(`${choice.feed}/`))
      .flatMap(([, way]) => way))];
  } else {
    const end = data.nodes.indexOf(choice.subscriber);
    path = [end];
    while (first.has(path[0]) && !path.includes(first.get(path[0]).from)) path.unshift(first.get(path[0]).from);
    // And the way that it should have taken, where the two differ: it may have been lost there.
    (data.paths[`${choice.feed}/${end}`] ?? [source, end]).forEach((node, place, planned) => {
      if (!path.includes(node)) path.splice(place ? path.indexOf(planned[place - 1]) + 1 : 0, 0, node);
    });
  }
  const wanted = path.filter((node) => deliveries.has(node)).map((node) => deliveries.get(node));
  const isThere = choice.subscriber === "all" || deliveries.has(path.at(-1));
  const end = isThere && wanted.length ? Math.max(...wanted) : of.end;
  const begin = published ?? 0;

  // What tells of new items matters until the subscriber asks for this one.
  const asks = packets.t.findIndex((_, place) => packets.a[place] === path.at(-1) && packets.f[place] === choice.feed
    && packets.s[place] === choice.item && reason(place).key === "ask");
  const asked = asks < 0 || choice.subscriber === "all" ? end : of.sent[asks];

  const rows = [];
  const last = new Map(); // before publication only the last of a kind on a link is shown
  const heard = new Set();
  packets.t.forEach((_, place) => {
    const [a, b, sent] = [packets.a[place], packets.b[place], of.sent[place]];
    if (packets.f[place] !== choice.feed || sent > end || !path.includes(a) || !path.includes(b)) return;
    const { key, kind } = reason(place);
    const seq = packets.s[place];
    const isAbout = {
      interest: seq === choice.item || (seq === 0 && sent >= begin && sent <= asked) || key === "hold",
      nack: seq === choice.item,
      data: seq === choice.item || (key === "answer" && seq === 0 && sent >= begin && sent <= asked),
      lli: key === "cancel" ? sent >= begin : seq <= choice.item && choice.item < seq + packets.c[place],
      idle: heard.delete(`${b} ${a}`),
    }[kind];
    if (!isAbout || (kind === "idle" && packets.l.length && packets.l[place] < choice.item)) return;
    const row = { place, a, b, sent, received: arrival(place), key, kind, seq, earlier: 0 };
    if (kind === "lli") heard.add(`${a} ${b}`);
    const link = `${a} ${b} ${kind} ${key === "hold"}`;
    if (sent < begin && kind !== "data" && last.has(link)) {
      const before = rows.indexOf(last.get(link));
      row.earlier = 1 + rows[before].earlier;
      rows.splice(before, 1);
    }
    if (sent < begin) last.set(link, row);
    rows.push(row);
  });
  return { path, rows: rows.slice(0, MOST_ROWS), all: rows.length, published, deliveries, source, packets };
}

/* A packet in a few words, and why it was sent. */
function packetWords(row, { packets }) {
  const credit = packets.c[row.place];
  const state = packets.l.length && packets.l[row.place] !== null
    ? ` tip ${packets.p[row.place]} limit ${packets.l[row.place]}` : "";
  const more = row.earlier ? `, ${row.earlier} before` : "";
  const words = {
    ask: `Interest ${row.seq}`, again: `Interest ${row.seq}, again`, hold: "persistent Interest",
    newest: "newest?", notify: `notify ${row.seq}`, sync: "state vector", other: "Interest",
    cancel: "LLI: cancel", item: `item ${row.seq}`, copy: `item ${row.seq}, again`, state: "FeedState",
    answer: "answer", nack: `Nack: ${credit}`,
  }[row.key] ?? `LLI (${row.seq}, ${credit}) ${row.key}s`;
  return words + (row.key === "state" ? state : row.kind === "data" && state ? ` + FeedState${state}` : "") + more;
}

function setUpJourney(data) {
  const $ = (name) => document.getElementById(`journey-${name}`);
  const drawing = document.getElementById("journey");
  const [layering, feed, item, subscriber] = ["layering", "feed", "item", "subscriber"].map($);
  let now = null;

  function fillSubscribers() {
    const before = subscriber.value;
    const ends = Object.keys(data.paths).map((key) => key.split("/").map(Number))
      .filter(([number, end]) => number === Number(feed.value) && end !== data.feeds[number].publisher)
      .map(([, end]) => data.nodes[end]);
    subscriber.replaceChildren(...[...ends, "all"].map((name) => new Option(name === "all" ? "all nodes" : name, name)));
    if ([...ends, "all"].includes(before)) subscriber.value = before;
  }

  const ms = (time) => ((time - (now.published ?? now.rows[0]?.sent ?? 0)) / 1000).toFixed(2);

  function drawChart() {
    const { path, rows, published, deliveries, source } = now;
    const notes = [];
    if (published !== null && path.includes(source)) notes.push([source, published, `item ${item.value} published`]);
    for (const node of path) {
      if (deliveries.has(node)) notes.push([node, deliveries.get(node), "delivered"]);
    }
    drawSequence(drawing, {
      path, rows, notes, ms, names: data.nodes, roles: data.roles,
      words: (row) => packetWords(row, now),
      why: (row) => data.reasons[now.packets.w[row.place]].text,
    });
  }

  function tableRow(row) {
    return [
      ms(row.sent), row.received === null ? "lost" : ms(row.received), data.nodes[row.a], data.nodes[row.b],
      packetWords(row, now), data.reasons[now.packets.w[row.place]].text,
    ];
  }

  function show() {
    const of = data.layerings[layering.value];
    item.max = String(Math.min(data.feeds[Number(feed.value)].items, of.last) || 1);
    item.value = String(Math.min(Math.max(Math.round(Number(item.value)) || 1, 1), Number(item.max)));
    const choice = {
      layering: layering.value, feed: Number(feed.value), item: Number(item.value), subscriber: subscriber.value,
    };
    now = journeyOf(data, choice);
    drawChart();
    document.querySelector("#table-journey tbody").replaceChildren(...now.rows.map((row) => {
      const line = document.createElement("tr");
      line.append(...tableRow(row).map((text) => Object.assign(document.createElement("td"), { textContent: text })));
      return line;
    }));
    const lost = now.rows.filter((row) => row.received === null).length;
    const when = now.published === null ? "is not known to have been published"
      : `was published ${(now.published / 1e6).toFixed(3)} s into the run`;
    const end = data.nodes.indexOf(choice.subscriber);
    const there = choice.subscriber === "all" ? `delivered to ${now.deliveries.size} node${now.deliveries.size === 1 ? "" : "s"}`
      : now.deliveries.has(end) ? `delivered at ${choice.subscriber} after ${ms(now.deliveries.get(end))} ms`
        : `not delivered at ${choice.subscriber}`;
    $("told").textContent = `Item ${choice.item} ${when}; ${there}. `
      + `${now.all} packets had to do with it on this way${lost ? `, ${lost} of them lost` : ""}`
      + `${now.all > now.rows.length ? `; the first ${now.rows.length} are shown` : ""}.`;
  }

  function remember() {
    show();
    history.replaceState(null, "", `#journey=${layering.value}/${feed.value}/${item.value}/${subscriber.value}`);
  }

  function readAddress() {
    const found = decodeURIComponent(location.hash).match(/^#journey=([^/]+)\/(\d+)\/(\d+)\/(.+)$/);
    if (!found) return false;
    const [, name, number, seq, end] = found;
    if (!(name in data.layerings) || !data.feeds[Number(number)]) return false;
    [layering.value, feed.value, item.value] = [name, number, seq];
    fillSubscribers();
    if ([...subscriber.options].some((option) => option.value === end)) subscriber.value = end;
    show();
    document.getElementById("journey-menus").scrollIntoView();
    return true;
  }

  feed.addEventListener("change", () => { fillSubscribers(); remember(); });
  for (const menu of [layering, item, subscriber]) menu.addEventListener("change", remember);
  const step = (by) => () => { item.value = String(Number(item.value) + by); remember(); };
  /* The next item after the chosen one, in any feed, of which a packet was lost on the way. */
  function nextLost() {
    const { packets } = data.layerings[layering.value];
    const lost = packets.d.map((time, place) => [time, packets.f[place], packets.s[place]])
      .filter(([time, of, seq], place) => time < 0 && of >= 0 && seq > 0 && data.reasons[packets.w[place]].key === "item")
      .map(([, of, seq]) => [of, seq]).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    const now = [Number(feed.value), Number(item.value)];
    const next = lost.find(([of, seq]) => of > now[0] || (of === now[0] && seq > now[1])) ?? lost[0];
    if (next) choose(...next, "all");
  }

  /* The delivery that took longest from publication. */
  function slowest() {
    const { items } = data.layerings[layering.value];
    let worst = 0;
    items.d.forEach((time, place) => {
      if (time - items.p[place] > items.d[worst] - items.p[worst]) worst = place;
    });
    if (items.s.length) choose(items.f[worst], items.s[worst], data.nodes[items.n[worst]]);
  }

  function choose(of, seq, end) {
    [feed.value, item.value] = [String(of), String(seq)];
    fillSubscribers();
    if ([...subscriber.options].some((option) => option.value === end)) subscriber.value = end;
    remember();
  }

  $("lost").addEventListener("click", nextLost);
  $("worst").addEventListener("click", slowest);
  $("before").addEventListener("click", step(-1));
  $("after").addEventListener("click", step(1));
  addEventListener("hashchange", readAddress);
  ownRows.journey = () => [
    ["sent, ms after publication", "arrived, ms after publication", "from", "to", "what", "why"], ...now.rows.map(tableRow),
  ];
  // At first an item that was lost somewhere, if there is one: its journey tells more.
  function startWithLoss() {
    const { packets } = data.layerings[layering.value];
    const lost = packets.d.findIndex((time, place) =>
      time < 0 && packets.f[place] >= 0 && data.reasons[packets.w[place]].key === "item");
    if (lost < 0) return;
    [feed.value, item.value] = [String(packets.f[lost]), String(packets.s[lost])];
    fillSubscribers();
    const behind = Object.entries(data.paths).find(([key, way]) => key.startsWith(`${packets.f[lost]}/`)
      && way.some((node, place) => node === packets.a[lost] && way[place + 1] === packets.b[lost]));
    if (behind) subscriber.value = data.nodes[behind[1].at(-1)];
  }

  fillSubscribers();
  if (!readAddress()) {
    startWithLoss();
    show();
  }
  return show;
}
