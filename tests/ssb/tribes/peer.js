// A stock Scuttlebutt peer with private groups (ssb-tribes), driven by lines of JSON, as ../node/peer.js is.
// Arguments: directory, port.

const path = require('path')
const readline = require('readline')
const caps = require('ssb-caps')
const SecretStack = require('secret-stack')
const ssbKeys = require('ssb-keys')
const uri = require('ssb-uri2')


const [directory, port] = process.argv.slice(2)
const keys = ssbKeys.loadOrCreateSync(path.join(directory, 'secret'))

const sbot = SecretStack({ appKey: caps.shs })
  .use(require('ssb-db2/core'))
  .use(require('ssb-classic'))
  .use(require('ssb-db2/compat'))
  .use(require('ssb-db2/compat/feedstate'))
  .use(require('ssb-box2'))
  .use(require('ssb-tribes'))
  .use(require('ssb-ebt'))
  .call(null, {
    path: directory,
    keys,
    caps,
    timeout: 60_000,
    timers: { inactivity: 3_600_000 },
    box2: { legacyMode: true },
    connections: {
      incoming: { net: [{ scope: 'public', host: '127.0.0.1', port: Number(port), transform: 'shs' }] },
      outgoing: { net: [{ transform: 'shs' }] },
    },
  })
sbot.ebt.request(sbot.id, true)

const promised = (call) =>
  new Promise((resolve, reject) => call((error, value) => (error ? reject(error) : resolve(value))))

const actions = {
  request: async ({ feeds }) => feeds.forEach((feed) => sbot.ebt.request(feed, true)),
  connect: ({ address }) => promised((done) => sbot.connect(address, done)).then(() => true),
  heads: () => promised((done) => sbot.getVectorClock(done)),
  post: async ({ text }) =>
    (await promised((done) => sbot.db.create({ content: { type: 'post', text }, keys }, done))).key,
  publish: async ({ content }) => (await promised((done) => sbot.db.create({ content, keys }, done))).key,
  sign: async ({ secret, text }) => ssbKeys.sign(secret, text),
  fusion: async ({ feed }) => {
    const { data } = uri.decompose(uri.fromFeedSigil(feed))
    return uri.compose({ type: 'identity', format: 'fusion', data })
  },
  // A private message of box2 to feeds or a group.
  direct: async ({ text, recps }) =>
    (await promised((done) => sbot.tribes.publish({ type: 'post', text, recps }, done))).key,
  createGroup: () => promised((done) => sbot.tribes.create({}, done)).then((group) => group.groupId),
  groups: () => promised((done) => sbot.tribes.list({ subtribes: true }, done)),
  invite: ({ group, feeds }) =>
    promised((done) => sbot.tribes.invite(group, feeds, { text: 'welcome' }, done)).then(() => true),
  exclude: ({ group, feeds }) => promised((done) => sbot.tribes.excludeMembers(group, feeds, done)).then(() => true),
  members: ({ group }) => promised((done) => sbot.tribes.listAuthors(group, done)),
  // The content of a message, opened if this peer can open it.
  content: ({ message }) =>
    promised((done) => sbot.db.get(message, done)).then((value) => value.content),
}

readline.createInterface({ input: process.stdin }).on('line', (line) => {
  const request = JSON.parse(line)
  Promise.resolve()
    .then(() => actions[request.do](request))
    .then(
      (value) => ({ id: request.id, value: value === undefined ? null : value }),
      (error) => ({ id: request.id, error: String((error.cause && error.cause.message) || error.message || error) }),
    )
    .then((answer) => console.log(JSON.stringify(answer)))
})
const address = `net:127.0.0.1:${port}~shs:${keys.public.replace('.ed25519', '')}`
console.log(JSON.stringify({ address, id: sbot.id }))
