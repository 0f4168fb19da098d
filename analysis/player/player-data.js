"use strict";

/* The run behind the page. Each layering's packets and tables lie in windows of time, which are decompressed when
   they are needed; times are ns from the run's start. */
const MOST_WINDOWS = 24; // kept decompressed, of each layering
const STEADY = ["counter", "route"]; // tables that are sampled, or do not change

/* The number of ascending values that are at most `limit`. */
function countUntil(values, limit) {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

function summed(deltas, begin) {
  let time = begin;
  return deltas.map((delta) => (time += delta));
}

class Layering {
  constructor(name, place, index) {
    Object.assign(this, index, { name, place, windows: new Map(), texts: new Map(), needed: [0, 0] });
  }

  windowAt(time) {
    return Math.max(0, countUntil(this.begins, time) - 1);
  }

  /* Open a window. */
  async open(k) {
    if (!this.windows.has(k)) {
      const raw = JSON.parse(await unpack(`w-${this.place}-${k}`));
      this.windows.set(k, this.#prepared(raw, k));
    }
    return this.windows.get(k);
  }

  #prepared({ p, e, cells, feeds, start, changes }, k) {
    const begin = this.begins[k];
    p.t = summed(p.t, begin);
    const life = p.d.reduce((most, took) => Math.max(most, took < 0 ? -2 * took : took), 0);
    const times = summed(changes.t, begin);
    const nodes = new Map(); // node -> the cells and changes of its tables
    const of = (node) => nodes.get(node) ?? nodes.set(node, { cells: [], moves: [] }).get(node);
    cells.forEach(([node], cell) => of(node).cells.push(cell));
    changes.c.forEach((cell, place) => of(cells[cell][0]).moves.push(place));
    return { k, first: this.firsts[k], begin, p, e, life, cells, feeds, start, nodes, moves: { ...changes, t: times } };
  }

  /* Open all that it takes to show a time, and what follows. */
  async need(time) {
    const k = this.windowAt(time);
    this.needed = [this.back[k], k + 1];
    for (let each = this.back[k]; each <= k; each += 1) await this.open(each);
    if (k + 1 < this.begins.length) this.open(k + 1);
    this.#forget();
  }

  /* Forget the windows that were opened first and are not needed now. */
  #forget() {
    const [low, high] = this.needed;
    for (const k of this.windows.keys()) {
      if (this.windows.size <= MOST_WINDOWS) return;
      if (k < low || k > high) this.windows.delete(k);
    }
  }

  packetIn(window, place) {
    const { p } = window;
    const { key, kind, words } = page.data.reasons[p.w[place]];
    return {
      layering: this, id: window.first + place, place, packets: p, key, words, reason: page.data.reasons[p.w[place]].text,
      kind: p.k[place], a: p.a[place], b: p.b[place], sent: p.t[place], took: Math.abs(p.d[place]), isLost: p.d[place] < 0,
      feed: p.f[place], seq: p.s[place], size: p.z[place], cause: p.u[place], family: kind, earlier: 0,
    };
  }

  async packet(id) {
    const window = await this.open(countUntil(this.firsts.slice(0, -1), id) - 1);
    return this.packetIn(window, id - window.first);
  }

  /* What a packet is made of, and what it caused. */
  async dissection(packet) {
    const k = countUntil(this.firsts.slice(0, -1), packet.id) - 1;
    if (!this.texts.has(k)) this.texts = new Map([[k, JSON.parse(await unpack(`x-${this.place}-${k}`))]]);
    const { fields, effects, repairs } = this.texts.get(k);
    const own = Object.entries(fields).map(([name, values]) => [name, values[packet.place]]).filter(([, value]) => value !== null);
    return { fields: Object.fromEntries(own), effects: effects[packet.place], repair: repairs[packet.place] };
  }

  /* The packets on their way at a time; need() was called for it. */
  flying(time) {
    const k = this.windowAt(time);
    const found = [];
    for (let each = this.back[k]; each <= k; each += 1) {
      const window = this.windows.get(each);
      const { t, d } = window.p;
      for (let place = countUntil(t, time) - 1; place >= 0 && t[place] >= time - window.life; place -= 1) {
        if (time < t[place] + (d[place] < 0 ? -2 * d[place] : d[place])) found.push(this.packetIn(window, place));
      }
    }
    return found;
  }

  /* The rows of a node's tables at a time: [{ table, key, value, since, feed }], those that have just gone included,
     with value null; and the time of the last change. need() was called for the time. */
  state(node, time) {
    const window = this.windows.get(this.windowAt(time));
    const own = window.nodes.get(node);
    if (own === undefined) return { rows: [], changed: null };
    const rows = new Map();
    for (const cell of own.cells) {
      const [, table, key] = window.cells[cell];
      if (cell < window.start.length) rows.set(cell, { table, key, value: window.start[cell], since: -1, feed: window.feeds[cell] });
    }
    let changed = null;
    const { t, c, v } = window.moves;
    for (const place of own.moves) {
      if (t[place] > time) break;
      const [, table, key] = window.cells[c[place]];
      if (!STEADY.includes(table)) changed = t[place];
      rows.set(c[place], { table, key, value: v[place], since: t[place], feed: window.feeds[c[place]] });
    }
    return { rows: [...rows.values()].filter(({ value, since }) => value !== null || since === changed), changed };
  }

  /* What happened in (after, until], within one window's reach: nodes where tables changed, and events. */
  recent(after, until) {
    const window = this.windows.get(this.windowAt(until));
    const { t, c } = window.moves;
    const changed = new Set();
    for (let place = countUntil(t, after); place < t.length && t[place] <= until; place += 1) {
      const [node, table] = window.cells[c[place]];
      if (!STEADY.includes(table)) changed.add(node);
    }
    const events = window.e.filter(([time]) => time > after && time <= until);
    return { changed, events };
  }

  /* The events of a window that a filter wants, as { time, type, ... }. */
  *#events(window, filter) {
    const { p } = window;
    const wants = (type) => filter.event === "any" || filter.event === type;
    if (wants("packet") || wants("loss")) {
      for (let place = 0; place < p.t.length; place += 1) {
        const packet = this.packetIn(window, place);
        if (!filter.takesPacket(packet)) continue;
        if (wants("packet")) yield { time: packet.sent, type: "packet", packet };
        if (wants("loss") && packet.isLost) yield { time: packet.sent + Math.round(packet.took / 2), type: "loss", packet };
      }
    }
    if (wants("state") && filter.kind < 0) {
      const { t, c, v } = window.moves;
      for (let place = 0; place < t.length; place += 1) {
        const [node, table, key] = window.cells[c[place]];
        if (!STEADY.includes(table) && filter.takes(node, window.feeds[c[place]], 0)) {
          yield { time: t[place], type: "state", node, table, key, value: v[place] };
        }
      }
    }
    if (filter.kind >= 0) return;
    for (const [time, node, event, feed, seq] of window.e) {
      const type = event === "delivered" ? "delivery" : page.data.errors.includes(event) ? "error" : "event";
      if (wants(type) && filter.takes(node, feed, seq)) yield { time, type, node, event, feed, seq };
    }
  }

  /* The next event after a time (direction 1), or the last before it (-1); null if there is none. */
  async find(time, direction, filter) {
    const k = this.windowAt(time);
    let best = null;
    const isPast = (each) => (direction > 0 ? this.begins[each] > best.time : each < this.back[k]);
    const begin = direction > 0 ? this.back[k] : k;
    for (let each = begin; each >= 0 && each < this.begins.length; each += direction) {
      if (best !== null && isPast(each)) break;
      for (const event of this.#events(await this.open(each), filter)) {
        const isBeyond = direction > 0 ? event.time > time : event.time < time;
        if (!isBeyond || (best !== null && direction * (event.time - best.time) > 0)) continue;
        best = best?.time === event.time ? { ...best, alike: best.alike + 1 } : { ...event, alike: 0 };
      }
      this.#forget();
    }
    return best && { ...best, layering: this };
  }
}
