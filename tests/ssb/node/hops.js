// Reads lines {start, max, graph} and writes the hops that stock peers compute, a line each.
const LayeredGraph = require('layered-graph')
const lines = require('readline').createInterface({ input: process.stdin })

lines.on('line', (line) => {
  const { start, max, graph } = JSON.parse(line)
  const layered = LayeredGraph({ start, max })
  layered.createLayer('contacts')(graph)
  console.log(JSON.stringify(layered.getHops()))
})
