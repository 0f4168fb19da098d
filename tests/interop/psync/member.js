// A member of a PSync group by NDNts. Arguments: node_modules, a Unix socket, the group's prefix.
// Input: lines "NAME NUMBER", to publish. Output: the same for each update, then ready.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [modules, socket, prefix] = process.argv.slice(2);
const load = (path) => import(pathToFileURL(`${modules}/@ndn/${path}`));
const { Forwarder } = await load("fw/lib/mod_node.js");
const { Name } = await load("packet/lib/mod_node.js");
const { UnixTransport } = await load("node-transport/lib/mod_node.js");
const { FullSync } = await load("psync/lib/psync/full_node.js");
const { makePSyncCompatParam } = await load("psync/lib/psync/param-compat_node.js");
const { PSyncZlib } = await load("psync/lib/psync/param-zlib_node.js");

const face = await UnixTransport.createFace({ fw: Forwarder.getDefault() }, socket);
face.addRoute(new Name("/"));
const p = makePSyncCompatParam({ ibltCompression: PSyncZlib, contentCompression: PSyncZlib });
const sync = new FullSync({ p, syncPrefix: new Name(prefix) });
sync.addEventListener("update", ({ node, hiSeqNum }) => console.log(`${node.id} ${hiSeqNum}`));
createInterface({ input: process.stdin }).on("line", (line) => {
  const [name, number] = line.split(" ");
  sync.add(new Name(name)).seqNum = Number(number);
});
console.log("ready");
