// A stock Scuttlebutt peer, driven by lines of JSON: {"id": n, "do": name, ...} on standard input, and
// {"id": n, "value": ...} or {"id": n, "error": text} on standard output. Its first line is its address and id.
// Arguments: directory, port, and "ebt" or "history", the way in which it replicates; "rooms" is "ebt" with the
// plugins ssb-conn and ssb-room-client.

const path = require('path')
const readline = require('readline')
const caps = require('ssb-caps')
const pull = require('pull-stream')
const SecretStack = require('secret-stack')
const ssbKeys = require('ssb-keys')

const [directory, port, way] = process.argv.slice(2)
const keys = ssbKeys.loadOrCreateSync(path.join(directory, 'secret'))

const stack = SecretStack({ appKey: caps.shs })
  .use(require('ssb-db2'))
  .use(require('ssb-db2/compat/ebt'))
  .use(require('ssb-db2/compat/history-stream'))
  .use(require('ssb-blobs'))
if (way !== 'history') stack.use(require('ssb-ebt'))
if (way === 'rooms') stack.use(require('ssb-conn')).use(require('ssb-room-client'))
const tunnel = way === 'rooms' ? { tunnel: [{ scope: 'public', transform: 'shs' }] } : {}
const sbot = stack.call(null, {
  path: directory,
  keys,
  caps,
  timeout: 60_000,
  timers: { inactivity: 3_600_000 },
  connections: {
    incoming: { net: [{ scope: 'public', host: '127.0.0.1', port: Number(port), transform: 'shs' }], ...tunnel },
    outgoing: { net: [{ transform: 'shs' }], ...tunnel },
  },
})
// Without this it would not hand out its own feed.
if (way !== 'history') sbot.ebt.request(sbot.id, true)

const promised = (call) =>
  new Promise((resolve, reject) => call((error, value) => (error ? reject(error) : resolve(value))))

const write = (writer, content, recps, format) =>
  promised((done) => {
    const message = { keys: writer, content, feedFormat: 'classic' }
    sbot.db.create(recps ? { ...message, recps, encryptionFormat: format || 'box' } : message, done)
  })

const actions = {
  // Publish posts of `size` letters.
  publish: async ({ count, size }) => {
    for (let n = 0; n < count; n++) await write(keys, { type: 'post', text: `${n} `.padEnd(size, 'x') })
  },
  // Members that are undefined are left out of what is signed, and are in the log.
  create: async ({ content, recps, format }) => {
    const whole = typeof content === 'string' ? content : { ...content, root: undefined }
    return (await write(keys, whole, recps, format)).key
  },
  // Make `feeds` feeds of others, of `count` messages each, and hand them out; the fourth message of the first
  // feed is `odd`, if that is given.
  makeFeeds: async ({ feeds, count, odd }) => {
    const ids = []
    for (let n = 0; n < feeds; n++) {
      const writer = ssbKeys.generate()
      for (let m = 0; m < count; m++) {
        await write(writer, odd && n === 0 && m === 3 ? odd : { type: 'post', text: `${n} ${m}` })
      }
      if (way !== 'history') sbot.ebt.request(writer.id, true)
      ids.push(writer.id)
    }
    return ids
  },
  request: async ({ feeds }) => feeds.forEach((feed) => sbot.ebt.request(feed, true)),
  unrequest: async ({ feeds }) => feeds.forEach((feed) => sbot.ebt.request(feed, false)),
  connect: ({ address }) => promised((done) => sbot.connect(address, done)).then(() => true),
  // Get a feed by createHistoryStream from a peer, once.
  fetch: async ({ address, feed }) => {
    const rpc = await promised((done) => sbot.connect(address, done))
    const messages = await new Promise((resolve, reject) =>
      pull(
        rpc.createHistoryStream({ id: feed, keys: false }),
        pull.collect((error, found) => (error ? reject(error) : resolve(found))),
      ),
    )
    for (const message of messages) await promised((done) => sbot.db.add(message, done))
  },
  // Wait until all is in the log on disk.
  drain: () => promised((done) => sbot.db.onDrain(() => setTimeout(done, 1000))),
  heads: () => promised((done) => sbot.getVectorClock(done)),
  ids: ({ feed }) =>
    new Promise((resolve, reject) => {
      const { author, toPullStream, where } = require('ssb-db2/operators')
      pull(
        sbot.db.query(where(author(feed)), toPullStream()),
        pull.collect((error, found) => {
          if (error) return reject(error)
          resolve(found.sort((a, b) => a.value.sequence - b.value.sequence).map((m) => m.key))
        }),
      )
    }),
  // The content of a message, opened if it is private.
  content: ({ message }) => promised((done) => sbot.db.get(message, done)).then((value) => value.content),
  addBlob: ({ size, letter }) =>
    new Promise((resolve, reject) =>
      pull(
        pull.values([Buffer.alloc(size, letter)]),
        sbot.blobs.add((error, hash) => (error ? reject(error) : resolve(hash))),
      ),
    ),
  wantBlob: ({ blob }) => promised((done) => sbot.blobs.want(blob, done)),
  blobSize: ({ blob }) => promised((done) => sbot.blobs.size(blob, done)),
  // Rooms: call with ssb-conn, who is there, aliases, and pubs that ssb-conn has read in logs.
  conn: ({ address }) => promised((done) => sbot.conn.connect(address, done)).then(() => true),
  attendants: async () => [...sbot.conn.staging().entries()].map(([address, data]) => [data.type, address]),
  peers: async () => [...sbot.conn.hub().entries()].map(([address, data]) => [data.state, address]),
  registerAlias: ({ room, alias }) => promised((done) => sbot.roomClient.registerAlias(room, alias, done)),
  revokeAlias: ({ room, alias }) => promised((done) => sbot.roomClient.revokeAlias(room, alias, done)),
  consumeAlias: ({ uri }) => promised((done) => sbot.roomClient.consumeAliasUri(uri, done)).then(() => true),
  // Call as the guest whom an invite's seed makes, and ask to be followed.
  useInvite: async ({ address, seed }) => {
    const invite = { name: 'invite', manifest: { use: 'async' }, init: () => ({ use: () => {} }) }
    const guest = SecretStack({ appKey: caps.shs })
      .use(invite)
      .call(null, {
        path: path.join(directory, 'guest'),
        keys: ssbKeys.generate('ed25519', Buffer.from(seed, 'base64')),
        caps,
        connections: { incoming: {}, outgoing: { net: [{ transform: 'shs' }] } },
      })
    const rpc = await promised((done) => guest.connect(address, done))
    return promised((done) => rpc.invite.use({ feed: sbot.id }, done)).then((message) => message.value.content)
  },
}

readline.createInterface({ input: process.stdin }).on('line', (line) => {
  const request = JSON.parse(line)
  Promise.resolve()
    .then(() => actions[request.do](request))
    .then(
      (value) => ({ id: request.id, value: value === undefined ? null : value }),
      (error) => ({ id: request.id, error: String(error.message || error) }),
    )
    .then((answer) => console.log(JSON.stringify(answer)))
})
const address = `net:127.0.0.1:${port}~shs:${keys.public.replace('.ed25519', '')}`
console.log(JSON.stringify({ address, id: sbot.id }))
