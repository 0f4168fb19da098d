// A stock room server (npm's ssb-room), without its web page: its first line of output is its address and id.
// Arguments: directory and port.

const fs = require('fs')
const path = require('path')
const caps = require('ssb-caps')
const SecretStack = require('secret-stack')
const ssbKeys = require('ssb-keys')

const [directory, port] = process.argv.slice(2)
const keys = ssbKeys.loadOrCreateSync(path.join(directory, 'secret'))
fs.writeFileSync(path.join(directory, 'roomcfg'), JSON.stringify({ name: 'stock room', description: '' }))

const room = SecretStack({ appKey: caps.shs })
  .use(require('ssb-conn'))
  .use(require('ssb-room/invite'))
  .use(require('ssb-room/tunnel/server'))
  .use(require('ssb-room/ssb-shims'))
  .call(null, {
    path: directory,
    keys,
    caps,
    conn: { autostart: false },
    timers: { inactivity: 3_600_000 },
    connections: {
      incoming: { net: [{ scope: 'public', host: '127.0.0.1', port: Number(port), transform: 'shs' }] },
      outgoing: { net: [{ transform: 'shs' }] },
    },
  })
const address = `net:127.0.0.1:${port}~shs:${keys.public.replace('.ed25519', '')}`
console.log(JSON.stringify({ address, id: room.id }))
