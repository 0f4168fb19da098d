// npm's ssb-client: node client.js ADDRESS SECRET. Reads questions, a list of [call, options], and writes their answers.
const connect = require('ssb-client')
const keys = require('ssb-keys')
const pull = require('pull-stream')

const [address, secret] = process.argv.slice(2)
const manifest = { get: 'async', links: 'source' }
const questions = JSON.parse(require('fs').readFileSync(0, 'utf8'))

connect(keys.loadSync(secret), { remote: address, manifest, caps: require('ssb-caps') }, (error, peer) => {
  if (error) throw error
  const next = (answers) => {
    if (answers.length === questions.length) {
      console.log(JSON.stringify(answers))
      process.exit()
    }
    const [call, options] = questions[answers.length]
    const done = (error, value) => next([...answers, error ? { error: true } : value])
    if (manifest[call] === 'async') peer[call](options, done)
    else pull(peer[call](options), pull.collect(done))
  }
  next([])
})
