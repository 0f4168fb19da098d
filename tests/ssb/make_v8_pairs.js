// Makes v8_pairs.json, what V8 itself says, next to this file: node tests/ssb/make_v8_pairs.js
//   numbers: [bits of a double in hex, JSON.stringify of it]
//   texts:   [JSON text, JSON.stringify(JSON.parse(text), null, 2), JSON.stringify(JSON.parse(text))]
//   refused: texts at which JSON.parse throws
//   messages: signed by node's crypto, not by libsodium
'use strict'
const crypto = require('crypto')
const fs = require('fs')
const path = require('path')

const double = new DataView(new ArrayBuffer(8))
function bits(number) {
  double.setFloat64(0, number)
  return double.getBigUint64(0).toString(16).padStart(16, '0')
}

// Edges of the layouts and of the doubles, then random bit patterns from a fixed seed.
const numbers = [0, -0, 1, -1, 0.1, 1 / 3, 100, 123456789012345680000, 1439392020612.001]
for (const edge of [2 ** 31, 2 ** 32, 2 ** 53, 2 ** 63, 2 ** 64, 2 ** 70]) numbers.push(edge - 1, edge, edge + 1, edge * 1.5)
numbers.push(Number.MIN_VALUE, 2.2250738585072014e-308, Number.MAX_VALUE, -Number.MAX_VALUE, Number.EPSILON)
for (const e of [-324, -323, -308, -100, -10, -7, -6, -5, -4, -1, 1, 15, 16, 17, 20, 21, 22, 100, 308]) {
  for (const m of ['1', '1.5', '9.999999999999999', '-4.35']) numbers.push(Number(m + 'e' + e))
}
let seed = crypto.createHash('sha256').update('v8 pairs').digest()
for (let i = 0; i < 100; i++) {
  seed = crypto.createHash('sha256').update(seed).digest()
  numbers.push(seed.readDoubleBE(0))
  numbers.push((seed.readInt32BE(8) / 2 ** (seed[12] % 40)) * 10 ** (seed[13] % 24))
}

const texts = [
  '0', '-0', '-0.0', '0e5', '1E2', '1e+2', '1.50', '1e400', '-1e400', '1e-400', '9007199254740993',
  '123456789012345678901234567890', '-9007199254740993', '1e23', '0.000001', '0.0000001', '[1e400]',
  'null', ' true ', '\t\r\nfalse\n', '""', '[]', '{}', '[[]]', '[{}]', '{"a":[]}', '{"":{"":""}}',
  '[1,[2,[3,{"a":[null]}]]]',
  '{"4294967294":1,"4294967295":2,"4294967293":3,"0":4}', '{"b":0,"01":1,"1":2,"-1":3,"1.0":4,"00":5,"a":6}',
  '{"10":1,"9":2,"10":3,"8":4}', '{"a":1,"2":2,"a":3,"1":4,"2":5}', '{"\\u0661":1,"\\u00b2":2,"3":3," 4":4,"1e1":5}',
  '{"99999999999":1,"5":2}', '{"a":1,"4294967294":2}', '{"a":1,"4294967295":2}', '{"a":1,"4294967296":2}',
  '{"__proto__":{"a":1},"constructor":2,"toString":3}',
  '"\\u0000\\u0001\\u0007\\b\\t\\n\\u000b\\f\\r\\u001b\\u001f"', '"\\" \\\\ \\/ / \'"', '"\\u007f\\u0080\\u009f\\u00a0\\u00ad"',
  '"\\u2028\\u2029\\ufeff\\ufffe\\uffff"', '"\\ud83d\\ude00"', '"\\ude00\\ud83d"', '"\\ud83d"', '"\\uDE00x"',
  '"\\ud83d\\ud83d\\ude00\\ude00"', '"\u00e9\u20ac\ud83d\ude00\\ud800"', '{"\\ud800":1,"\\ud83d\\ude00":2}',
]
const refused = [
  '', ' ', 'NaN', 'Infinity', '-Infinity', '[NaN]', 'undefined', 'nul', 'True', "'a'", '"', '"a', '"\\x41"', '"\\u12"',
  '"\\u12g4"', '"\\u 123"', '"\\', '"\n"', '"\u0000"', '"\u001f"', '01', '-01', '00', '+1', '.5', '1.', '1.e5', '1e', '1e+', '-',
  '0x10', '1_000', '1 2', '--1', '[', ']', '[1,]', '[,1]', '[1 2]', '{', '{"a"}', '{"a":}', '{"a":1,}', '{a:1}',
  '{"a":1 "b":2}', '{1:2}', '{"a"::1}', '\ufeff1', '\u00a01', '\f1', '\v1', '1\u2028', '// a\n1', '/**/1', '[1]]', '\u0661',
]

const key = (first) => crypto.createPrivateKey({
  key: Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), Buffer.alloc(32, first)]),
  format: 'der', type: 'pkcs8',
})
function publicKey(first) {
  return crypto.createPublicKey(key(first)).export({ format: 'der', type: 'spki' }).subarray(-32).toString('base64')
}
function message(seedByte, content, timestamp, hmacKey) {
  const value = { previous: null, sequence: 1, author: `@${publicKey(seedByte)}.ed25519`, timestamp, hash: 'sha256', content }
  let signed = Buffer.from(JSON.stringify(value, null, 2), 'utf8')
  if (hmacKey) signed = crypto.createHmac('sha512', hmacKey).update(signed).digest().subarray(0, 32)
  value.signature = crypto.sign(null, signed, key(seedByte)).toString('base64') + '.sig.ed25519'
  const text = JSON.stringify(value, null, 2)
  return {
    seed: Buffer.alloc(32, seedByte).toString('hex'),
    hmac_key: hmacKey ? hmacKey.toString('hex') : null,
    text,
    id: '%' + crypto.createHash('sha256').update(Buffer.from(text, 'latin1')).digest('base64') + '.sha256',
  }
}
const odd = { type: 'post', b: 1e21, 10: -0, 9: 1e-7, text: 'caf\u00e9 \u20ac \ud83d\ude00 \ud800 \u2028\u007f\u0001', '': [[], {}, null] }

const refuses = (text) => { try { JSON.parse(text); return false } catch { return true } }
const accepted = refused.filter((text) => !refuses(text))
if (accepted.length) throw new Error('not refused: ' + JSON.stringify(accepted))

const lines = (rows) => '[\n' + rows.map((row) => '  ' + JSON.stringify(row)).join(',\n') + '\n ]'
fs.writeFileSync(path.join(__dirname, 'v8_pairs.json'), `{
 "made": "by V8: node tests/ssb/make_v8_pairs.js, which says what is what",
 "numbers": ${lines(numbers.filter(Number.isFinite).map((n) => [bits(n), JSON.stringify(n)]))},
 "texts": ${lines(texts.map((t) => [t, JSON.stringify(JSON.parse(t), null, 2), JSON.stringify(JSON.parse(t))]))},
 "refused": ${lines(refused)},
 "messages": ${lines([
    message(1, odd, 1439392020612.001),
    message(2, odd, -0, Buffer.alloc(32, 7)),
    message(3, 'aGVsbG8=.box', 1),
    message(3, 'aGVsbG8=.box2', 1),
  ])}
}
`)
