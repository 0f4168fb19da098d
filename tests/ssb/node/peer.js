// A stock Scuttlebutt peer, driven by lines of JSON: {"id": n, "do": name, ...} on standard input, and
// {"id": n, "value": ...} or {"id": n, "error": text} on standard output. Its first line is its address.

const readline = require('readline')
const caps = require('ssb-caps')
const pull = require('pull-stream')
const SecretStack = require('secret-stack')
const ssbKeys = require('ssb-keys')

const [path, port] = process.argv.slice(2)
const keys = ssbKeys.loadOrCreateSync(require('path').join(path, 'secret'))

const sbot = SecretStack({ appKey: caps.shs })
  .use(require('ssb-db2'))
  .use(require('ssb-db2/compat/ebt'))
  .use(require('ssb-db2/compat/history-stream'))
  .use(require('ssb-ebt'))
  .use(require('ssb-blobs'))
  .call(null, {
    path,
    keys,
    caps,
    timeout: 60_000,
    timers: { inactivity: 3_600_000 },
    connections: {
      incoming: { net: [{ scope: 'public', host: '127.0.0.1', port: Number(port), transform: 'shs' }] },
      outgoing: { net: [{ transform: 'shs' }] },
    },
  })

sbot.ebt.request(sbot.id, true)

const promised = (call) =>
  new Promise((resolve, reject) => call((error, value) => (error ? reject(error) : resolve(value))))

const actions = {
  whoami: async () => sbot.id,
  // Publish `count` posts, each with `size` letters.
  publish: async ({ count, size }) => {
    let last
    for (let n = 0; n < count; n++) {
      const content = { type: 'post', text: `${n} `.padEnd(size, 'x') }
      last = await promised((done) => sbot.db.create({ keys, content, feedFormat: 'classic' }, done))
    }
    return last && last.key
  },
  create: ({ content, recps }) =>
    promised((done) =>
      sbot.db.create(
        recps
          ? { keys, content, recps, encryptionFormat: 'box', feedFormat: 'classic' }
          : { keys, content, feedFormat: 'classic' },
        done,
      ),
    ).then((message) => message.key),
  request: async ({ feed, wanted }) => sbot.ebt.request(feed, wanted !== false),
  connect: ({ address }) => promised((done) => sbot.connect(address, done)).then(() => true),
  heads: () =>
    promised((done) => sbot.getVectorClock(done)),
  messages: ({ feed }) =>
    new Promise((resolve, reject) => {
      const { where, author, toPullStream } = require('ssb-db2/operators')
      pull(
        sbot.db.query(where(author(feed)), toPullStream()),
        pull.collect((error, found) =>
          error ? reject(error) : resolve(found.map((m) => ({ key: m.key, value: m.value }))),
        ),
      )
    }),
  get: ({ id }) => promised((done) => sbot.db.get(id, done)),
  addBlob: ({ size, letter }) =>
    new Promise((resolve, reject) =>
      pull(
        pull.values([Buffer.alloc(size, letter)]),
        sbot.blobs.add((error, hash) => (error ? reject(error) : resolve(hash))),
      ),
    ),
  wantBlob: ({ id }) => promised((done) => sbot.blobs.want(id, done)),
  hasBlob: ({ id }) => promised((done) => sbot.blobs.has(id, done)),
  close: () => promised((done) => sbot.close(true, done)).then(() => process.exit(0)),
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
console.log(JSON.stringify({ address: sbot.getAddress('public') || `net:127.0.0.1:${port}~shs:${keys.public.split('.')[0]}`, id: sbot.id }))
