-- NDN, NDNLPv2 and the packets of controlled push, muxrpc and tinySSB, for Wireshark and tshark (3.6 or newer, Lua 5.2 to 5.4).
--
-- SPDX-License-Identifier: MIT
--
-- Put this file into Wireshark's folder for personal Lua plugins, or name it: tshark -X lua_script:feednet.lua ...
-- Formats: NDN packet format 0.3; NDN naming conventions, revision 3; NFD wiki, "NDNLPv2", revision 63; feednet's
-- docs/controlled-push.md; Scuttlebutt Protocol Guide, "RPC protocol". captures/dissectors/summary.py writes the same fields and lines; a test compares them.
--
-- A packet is read from a Lua string and shown by ranges of the buffer. What is malformed is raised as a table, so
-- that it cannot be taken for a mistake in this file, and is shown as expert information where it happened.

-- Installed and named by -X lua_script: as well, it is read twice; `package.loaded` is what all scripts share.
if package.loaded["feednet.lua"] then return end
local is_first, ndn = pcall(Proto, "ndn", "Named Data Networking")
if not is_first then
    report_failure("feednet.lua: another plugin has the name ndn, of ndn-tools or an older feednet: keep one of them")
    return
end
package.loaded["feednet.lua"] = true

local byte, char, sub, rep = string.byte, string.char, string.sub, string.rep
local unpack = table.unpack

------------------------------------------------------------------------------------------------------------------
-- Fields

local SIGNATURE_TYPES = {
    [0] = "DigestSha256", [1] = "SignatureSha256WithRsa", [3] = "SignatureSha256WithEcdsa",
    [4] = "SignatureHmacWithSha256", [5] = "SignatureEd25519", [200] = "NullSignature",
}
local CONTENT_TYPES = {
    [0] = "Blob", [1] = "Link", [2] = "Key", [3] = "Nack", [4] = "Manifest", [5] = "PrefixAnnouncement",
    [9] = "KiteAck",
}
local NACK_REASONS = { [0] = "None", [50] = "Congestion", [100] = "Duplicate", [150] = "NoRoute" }
local CACHE_POLICIES = { [1] = "NoCache" }

local F = {}

local function field(key, kind, title, ...)
    F[key] = ProtoField[kind]("ndn." .. key, title, ...)
end

field("type", "string", "Type")
field("problem", "string", "Problem")
field("name", "string", "Name")
field("can_be_prefix", "bool", "CanBePrefix")
field("must_be_fresh", "bool", "MustBeFresh")
field("forwarding_hint", "string", "ForwardingHint")
field("nonce", "uint32", "Nonce", base.HEX)
field("lifetime", "uint64", "InterestLifetime (ms)")
field("hop_limit", "uint8", "HopLimit")
field("parameters", "bytes", "ApplicationParameters")
field("persistent", "bool", "Persistent")
field("content_type", "uint64", "ContentType", base.DEC, CONTENT_TYPES)
field("freshness", "uint64", "FreshnessPeriod (ms)")
field("final_block", "string", "FinalBlockId")
field("content", "bytes", "Content")
field("signature.type", "uint64", "SignatureType", base.DEC, SIGNATURE_TYPES)
field("signature.key_name", "string", "KeyLocator Name")
field("signature.key_digest", "bytes", "KeyLocator KeyDigest")
field("signature.nonce", "bytes", "SignatureNonce")
field("signature.time", "uint64", "SignatureTime (ms since 1970)")
field("signature.seq_num", "uint64", "SignatureSeqNum")
field("signature.not_before", "string", "NotBefore")
field("signature.not_after", "string", "NotAfter")
field("signature.value", "bytes", "SignatureValue")
field("lp.sequence", "uint64", "Sequence", base.HEX)
field("lp.frag_index", "uint64", "FragIndex")
field("lp.frag_count", "uint64", "FragCount")
field("lp.pit_token", "bytes", "PitToken")
field("lp.nack_reason", "uint64", "NackReason", base.DEC, NACK_REASONS)
field("lp.incoming_face", "uint64", "IncomingFaceId")
field("lp.next_hop_face", "uint64", "NextHopFaceId")
field("lp.cache_policy", "uint64", "CachePolicyType", base.DEC, CACHE_POLICIES)
field("lp.congestion_mark", "uint64", "CongestionMark")
field("lp.ack", "uint64", "Ack", base.HEX)
field("lp.tx_sequence", "uint64", "TxSequence", base.HEX)
field("lp.non_discovery", "bool", "NonDiscovery")
field("lp.prefix_announcement", "string", "PrefixAnnouncement")
field("lli.credit", "uint64", "SendCredit")
field("lli.first", "uint64", "First item granted")
field("lli.last", "uint64", "Last item granted")
field("feed.name", "string", "Feed")
field("feed.item", "uint64", "Item")
field("feed.fork", "uint64", "Forked at item")
field("feed.tip", "uint64", "Tip: newest item that the sender can push")
field("feed.limit", "uint64", "Limit: last item that the sender will push")
field("feed.first", "uint64", "First: oldest item that the sender can push")
field("evidence.number", "uint64", "Evidence of a source: number")
field("evidence.hops", "uint8", "Evidence of a source: hops")
field("evidence.signed", "bool", "The number is signed")
field("evidence.signature", "bytes", "Signature of the number")
field("hello.number", "uint64", "Number, to be replied to")
field("hello.reply", "uint64", "Number of the Hello that is replied to")
field("hello.granted", "bytes", "Digest of what the receiver has granted")
field("hello.held", "bytes", "Digest of what the sender has granted")
field("hello.have", "bytes", "Grant of the sender, of feed")
field("hello.state", "bytes", "Grant of the receiver, of feed")
field("hello.next", "uint64", "Next item")
field("hello.limit", "uint64", "Last item granted")
field("hello.forgotten", "bool", "Forgotten: the sender has given up all that it has granted")
field("feed.backlink", "bytes", "Backlink")
field("feed.payload", "bytes", "Payload")
field("feed.ssb", "string", "SSB message")

-- Returns the values of a table as a list.
local function listed(values)
    local list = {}
    for _, each in pairs(values) do list[#list + 1] = each end
    return list
end

ndn.fields = listed(F)

local EXPERT = {
    malformed = ProtoExpert.new("ndn.malformed", "Malformed NDN packet", expert.group.MALFORMED,
        expert.severity.ERROR),
    ignored = ProtoExpert.new("ndn.ignored", "Element that is not recognised, and ignored",
        expert.group.UNDECODED, expert.severity.NOTE),
    cut = ProtoExpert.new("ndn.cut", "Cut off by the capture", expert.group.UNDECODED, expert.severity.NOTE),
}
ndn.experts = { EXPERT.malformed, EXPERT.ignored, EXPERT.cut }

local interface_of = Field.new("frame.interface_id")

------------------------------------------------------------------------------------------------------------------
-- TLV. Offsets count from 0, as in a Tvb; byte n of a packet is byte(s, n + 1).

local HUGE = 2 ^ 53

local function malformed(text)
    error({ malformed = text }, 0)
end

-- Returns why a packet is malformed, from what was raised; raises a mistake of this file again.
local function reason_of(problem)
    if type(problem) == "table" and problem.malformed then return problem.malformed end
    error(problem, 0)
end

local function hex(text)
    return (text:gsub(".", function(each) return string.format("%02x", byte(each)) end))
end

local OLD_FORMAT = "old packet format (Selectors)"
local CUT_SHORT = "an element runs past the end"

local function check_ignorable(kind, is_known)
    if kind <= 31 or kind % 2 == 1 then
        if is_known then malformed("element of type " .. kind .. " out of order or repeated") end
        malformed("unrecognised critical element of type " .. kind)
    end
end

-- Returns a variable-size number and the offset after it; nothing if the bytes up to limit end before it does.
local function number(s, at, limit)
    if at >= limit then return nil end
    local first = byte(s, at + 1)
    if first < 253 then return first, at + 1 end
    local size = first == 253 and 2 or first == 254 and 4 or 8
    if at + 1 + size > limit then return nil end
    local value, high = 0, 0
    for i = at + 2, at + 1 + size do
        if size == 8 and i < at + 6 then
            high = high * 256 + byte(s, i)
        else
            value = value * 256 + byte(s, i)
        end
    end
    if high > 0 then value = HUGE end
    if value < (size == 2 and 253 or size == 4 and 65536 or 4294967296) and high == 0 then
        malformed("number not in its shortest form")
    end
    return value, at + 1 + size
end

-- Returns an element's type and where its value begins and ends; nothing if its header is not all here.
local function header(s, at, limit)
    local kind, length, start
    limit = limit or #s
    kind, start = number(s, at, limit)
    if not kind then return nil end
    if kind > 4294967295 then malformed("type out of range") end
    length, start = number(s, start, limit)
    if not length then return nil end
    return kind, start, start + length
end

local function element(s, at, limit)
    local kind, start, stop = header(s, at, limit)
    if not kind or stop > limit then malformed(CUT_SHORT) end
    return kind, start, stop
end

local function to_uint64(bytes)
    return UInt64.decode(rep("\0", 8 - #bytes) .. bytes, false)
end

local function is_nni(size)
    return size == 1 or size == 2 or size == 4 or size == 8
end

local function nni(bytes)
    if not is_nni(#bytes) then malformed("NonNegativeInteger of " .. #bytes .. " bytes") end
    return to_uint64(bytes)
end

local function is_shortest(bytes)
    local size = #bytes
    return size == 1 or (is_nni(size) and sub(bytes, 1, size - (size == 2 and 1 or size == 4 and 2 or 4))
        ~= rep("\0", size == 2 and 1 or size == 4 and 2 or 4))
end

------------------------------------------------------------------------------------------------------------------
-- Names

local MARKERS = { [50] = "seg", [52] = "off", [54] = "v", [56] = "t", [58] = "seq" }
local DIGESTS = { [1] = "sha256digest", [2] = "params-sha256" }
local COMPONENTS = {
    [1] = "ImplicitSha256DigestComponent", [2] = "ParametersSha256DigestComponent", [8] = "GenericNameComponent",
    [32] = "KeywordNameComponent", [50] = "SegmentNameComponent", [52] = "ByteOffsetNameComponent",
    [54] = "VersionNameComponent", [56] = "TimestampNameComponent", [58] = "SequenceNumNameComponent",
}

local function escaped(c)
    return string.format("%%%02X", byte(c))
end

local function component_uri(kind, value)
    if DIGESTS[kind] then
        return DIGESTS[kind] .. "=" .. hex(value)
    end
    if MARKERS[kind] and is_shortest(value) then
        return MARKERS[kind] .. "=" .. tostring(to_uint64(value))
    end
    local text = value:gsub("[^A-Za-z0-9_.~-]", escaped)
    if not text:find("[^.]") then text = text .. "..." end
    return kind == 8 and text or (kind .. "=" .. text)
end

-- Returns the URIs of a name's components, and for each its type, start and end.
local function components(s, at, limit)
    local uris, places = {}, {}
    while at < limit do
        local kind, start, stop = element(s, at, limit)
        if kind < 1 or kind > 65535 then malformed("name component of type " .. kind) end
        if kind <= 2 and stop - start ~= 32 then malformed("digest component of " .. (stop - start) .. " bytes") end
        uris[#uris + 1] = component_uri(kind, sub(s, start + 1, stop))
        places[#places + 1] = { kind, at, stop }
        at = stop
    end
    return uris, places
end

local function uri_of(uris)
    return #uris == 0 and "/" or "/" .. table.concat(uris, "/")
end

-- For a narrow column: of a long component ".." and its last three bytes.
local function short_component(text)
    if #text <= 24 then return text end
    local marker, value = text:match("^(.*=)([^=]*)$")
    if not marker then marker, value = "", text end
    if marker == "sha256digest=" or marker == "params-sha256=" then
        return marker .. ".." .. sub(value, -6)
    end
    local at = #value
    for _ = 1, 3 do
        at = at - (sub(value, at - 2, at - 2) == "%" and 3 or 1)
    end
    return marker .. ".." .. sub(value, at + 1)
end

local function short_name(uris)
    local short = {}
    for i = 1, #uris do short[i] = short_component(uris[i]) end
    return uri_of(short)
end

local FORK = char(32, 4) .. "fork"
local KEY_HEADER = char(8, 32)

-- Calls found(end of what is before the number, number) for a name that ends with an item's number.
local function with_number(name, found)
    for _, size in ipairs({ 1, 2, 4, 8 }) do
        local at = #name - size - 2
        if at >= 0 and sub(name, at + 1, at + 2) == char(58, size) then
            local bytes = sub(name, at + 3)
            if is_shortest(bytes) and bytes:find("[^\0]") and found(at) then return to_uint64(bytes), at end
        end
    end
end

-- Returns the number of the item that a name is of, if it is an item's: key and number are components of their own.
local function split_item(name, places)
    local key, last = places[#places - 1], places[#places]
    if not key or key[1] ~= 8 or key[3] - key[2] ~= 34 or last[1] ~= 58 then return nil end
    local seq = with_number(name, function(at)
        return at == #name - (last[3] - last[2]) and sub(name, at - 5, at) ~= FORK
            and sub(name, at + 3) ~= rep("\255", 8)
    end)
    return seq
end

-- Returns where a feed is forked, if a name is that of the proof.
local function split_fork(name)
    local seq = with_number(name, function(at)
        return at >= 40 and sub(name, at - 5, at) == FORK and sub(name, at - 39, at - 38) == KEY_HEADER
    end)
    return seq
end

------------------------------------------------------------------------------------------------------------------
-- Elements: what each kind of packet may hold, in the order that it must have.
-- { type, title, reader, key of the field, ... }; `anywhere` and `repeated` as they say.

local function add(tree, key, range, value)
    if not tree then return nil end
    if value == nil then return tree:add(F[key], range) end
    return tree:add(F[key], range, value)
end

local read = {}
local walk

-- Each reader gets the packet p = { s, tvb }, the value's place, the tree (nil: check only), the entry of the
-- table, and the record r to fill; `at` is where the element itself begins.

function read.name(p, at, start, stop, tree, entry, r)
    if entry.nonempty and start == stop then malformed("empty Name") end
    local uris, places = components(p.s, start, stop)
    local uri = uri_of(uris)
    local item = add(tree, entry[4], p.tvb(at, stop - at), uri)
    if item then
        for i, place in ipairs(places) do
            item:add(p.tvb(place[2], place[3] - place[2]),
                (COMPONENTS[place[1]] or ("Component of type " .. place[1])) .. ": " .. uris[i])
        end
    end
    local bytes = sub(p.s, start + 1, stop)
    r[entry[4]] = { uri = uri, uris = uris, bytes = bytes, item = split_item(bytes, places) }
end

function read.names(p, at, start, stop, tree, entry)
    local below = tree and tree:add(p.tvb(at, stop - at), entry[2])
    while start < stop do
        local kind, first, last = element(p.s, start, stop)
        if kind == 7 then
            add(below, entry[4], p.tvb(start, last - start), uri_of((components(p.s, first, last))))
        else
            check_ignorable(kind)
        end
        start = last
    end
end

function read.component(p, at, start, stop, tree, entry)
    local uris = components(p.s, start, stop)
    if #uris ~= 1 then malformed("not one name component") end
    add(tree, entry[4], p.tvb(at, stop - at), uris[1])
end

function read.flag(p, at, start, stop, tree, entry, r)
    if start ~= stop then malformed(entry[2] .. " of " .. (stop - start) .. " bytes") end
    add(tree, entry[4], p.tvb(at, stop - at), true)
    r[entry[4]] = true
end

function read.number(p, _, start, stop, tree, entry, r)
    r[entry[4]] = nni(sub(p.s, start + 1, stop))
    if entry.silent then return end
    add(tree, entry[4], p.tvb(start, stop - start))
end

function read.fixed(p, _, start, stop, tree, entry, r)
    if stop - start ~= entry.size then malformed(entry[2] .. " of " .. (stop - start) .. " bytes") end
    r[entry[4]] = to_uint64(sub(p.s, start + 1, stop))
    add(tree, entry[4], p.tvb(start, stop - start))
end

function read.text(p, _, start, stop, tree, entry, r)
    local range = p.tvb(start, stop - start)
    add(tree, entry[4], range, tree and range:string(ENC_UTF_8))
    r[entry[4]] = stop - start
end

function read.bytes(p, _, start, stop, tree, entry, r)
    local size = stop - start
    if entry.least and (size < entry.least or size > entry.most) then
        malformed(entry[2] .. " of " .. size .. " bytes")
    end
    add(tree, entry[4], p.tvb(start, size))
    r[entry[4]] = size
end

local LAST_EVIDENCE = UInt64.max()

-- Returns the number and the hops of evidence of a source, and the length of the number.
local function evidence_of(bytes)
    local size = #bytes > 64 and #bytes - 64 or #bytes
    local first = byte(bytes, 1) or 0
    local hops = first % 128
    if not is_nni(size - 1) then
        malformed("evidence of " .. #bytes .. " bytes")
    end
    if first < 128 and #bytes > size then
        malformed("evidence with the signature of a number that is not signed")
    end
    local value = to_uint64(sub(bytes, 2, size))
    if value == LAST_EVIDENCE then malformed("evidence with a number that leaves no room for another") end
    return value, hops, size - 1
end

function read.evidence(p, _, start, stop, tree, entry, r)
    local value, hops, size = evidence_of(sub(p.s, start + 1, stop))
    r[entry[4]] = "(" .. tostring(value) .. ", " .. hops .. ")"
    if not tree then return end
    local below = tree:add(p.tvb(start, stop - start), entry[2])
    below:add(F["evidence.number"], p.tvb(start + 1, size))
    below:add(F["evidence.hops"], p.tvb(start, 1), hops)
    below:add(F["evidence.signed"], p.tvb(start, 1), byte(p.s, start + 1) >= 128)
    if stop > start + 1 + size then
        below:add(F["evidence.signature"], p.tvb(start + 1 + size, stop - start - 1 - size))
    end
end

-- What the sender of an LLI has.
function read.known(p, at, start, stop, tree, entry, r)
    if start < stop then return read.evidence(p, at, start, stop, tree, entry, r) end
    r[entry[4]] = "nothing"
    if tree then tree:add(p.tvb(at, stop - at), entry[2] .. ": nothing") end
end

-- Where a grant stands: the feed's reference, and elements behind it.
function read.standing(p, at, start, stop, tree, entry, r)
    if stop - start < 8 then malformed("a standing without a feed") end
    local below = tree and tree:add(p.tvb(at, stop - at), entry[2])
    add(below, entry[4], p.tvb(start, 8))
    local inside = {}
    walk(p, start + 8, stop, below, entry.holds, inside)
    local first, last = inside["hello.next"], inside["hello.limit"]
    if (first == nil) ~= (last == nil) then malformed("a standing with one of Next and Limit") end
    local text = "none"
    if first then
        text = first == last and "item " .. tostring(first) or "items " .. tostring(first) .. ".." .. tostring(last)
    end
    local words = hex(sub(p.s, start + 6, start + 8)) .. " " .. text .. (inside["known"] and " " .. inside["known"] or "")
    r[entry[4]] = r[entry[4]] or {}
    r[entry[4]][#r[entry[4]] + 1] = words
end

function read.digest(p, _, start, stop, tree, entry, r)
    if stop - start ~= 8 then malformed(entry[2] .. " of " .. (stop - start) .. " bytes") end
    add(tree, entry[4], p.tvb(start, 8))
    r[entry[4]] = hex(sub(p.s, stop - 2, stop))
end

-- A number in an element of its own inside this one.
function read.wrapped(p, at, start, stop, tree, entry, r)
    local value, place = nil, nil
    while start < stop do
        local kind, first, last = element(p.s, start, stop)
        if kind == entry.inner and not value then
            value, place = nni(sub(p.s, first + 1, last)), p.tvb(first, last - first)
        else
            check_ignorable(kind, kind == entry.inner)
        end
        start = last
    end
    r[entry[4]] = value or UInt64(0)
    add(tree, entry[4], place or p.tvb(at, stop - at), r[entry[4]])
end

function read.nested(p, at, start, stop, tree, entry, r)
    local below = tree and tree:add(p.tvb(at, stop - at), entry[2])
    walk(p, start, stop, below, entry.holds, r)
    r[entry[4]] = true
end

function read.skipped() end

-- The old format: its flags are shown as those of today.
function read.selectors(p, at, start, stop, tree, entry, r)
    read.nested(p, at, start, stop, tree, entry, r)
    r.is_old = true
    if not (r.max_suffix and r.max_suffix == UInt64(1)) then
        r.can_be_prefix = true
        if tree then tree:add(F.can_be_prefix, p.tvb(at, stop - at), true):set_generated() end
    end
end

local function index(entries)
    local by_type = {}
    for rank, entry in ipairs(entries) do
        entry.rank = rank
        by_type[entry[1]] = entry
        by_type[entry[4]] = entry
    end
    by_type.required = entries.required or {}
    return by_type
end

local VALIDITY = index({
    { 254, "NotBefore", "text", "signature.not_before" },
    { 255, "NotAfter", "text", "signature.not_after" },
})
local KEY_LOCATOR = index({
    { 7, "Name", "name", "signature.key_name" },
    { 29, "KeyDigest", "bytes", "signature.key_digest" },
})
local SIGNATURE_INFO = index({
    required = { "signature.type" },
    { 27, "SignatureType", "number", "signature.type" },
    { 28, "KeyLocator", "nested", "key_locator", holds = KEY_LOCATOR },
    { 38, "SignatureNonce", "bytes", "signature.nonce" },
    { 40, "SignatureTime", "number", "signature.time" },
    { 42, "SignatureSeqNum", "number", "signature.seq_num" },
    { 253, "ValidityPeriod", "nested", "validity", holds = VALIDITY },
})
local META_INFO = index({
    { 24, "ContentType", "number", "content_type" },
    { 25, "FreshnessPeriod", "number", "freshness" },
    { 26, "FinalBlockId", "component", "final_block" },
})
-- What Interests of the format before 0.3 ask for besides a name.
local SELECTORS = index({
    { 13, "MinSuffixComponents", "number", "min_suffix", silent = true },
    { 14, "MaxSuffixComponents", "number", "max_suffix", silent = true },
    { 28, "PublisherPublicKeyLocator", "skipped", "publisher" },
    { 16, "Exclude", "skipped", "exclude" },
    { 17, "ChildSelector", "number", "child_selector", silent = true },
    { 18, "MustBeFresh", "flag", "must_be_fresh" },
})
-- Runs a check that may find the packet malformed; returns whether it did not.
local function holds(check, ...)
    local ok, problem = pcall(check, ...)
    if not ok then reason_of(problem) end
    return ok
end

-- Types from 240 are free for any application: what forwarders do not heed is not ours.
local function is_credit(size, r)
    return is_nni(size) and r.name.item
end

local function is_empty(size)
    return size == 0
end

-- Tells whether an LLI's sender says what evidence it has.
local function is_known(size, r, bytes)
    return r["lli.credit"] and (size == 0 or holds(evidence_of, bytes))
end

local INTEREST = index({
    required = { "name" },
    { 7, "Name", "name", "name", nonempty = true },
    { 9, "Selectors", "selectors", "selectors", holds = SELECTORS, instead = 4 },  -- of the next two
    { 33, "CanBePrefix", "flag", "can_be_prefix" },
    { 18, "MustBeFresh", "flag", "must_be_fresh" },
    { 30, "ForwardingHint", "names", "forwarding_hint" },
    { 10, "Nonce", "fixed", "nonce", size = 4 },
    { 12, "InterestLifetime", "number", "lifetime" },
    { 34, "HopLimit", "fixed", "hop_limit", size = 1 },
    { 36, "ApplicationParameters", "bytes", "parameters" },
    { 44, "InterestSignatureInfo", "nested", "signature_info", holds = SIGNATURE_INFO },
    { 46, "InterestSignatureValue", "bytes", "signature.value" },
    { 240, "SendCredit", "number", "lli.credit", anywhere = true, heeded = is_credit },
    { 250, "Persistent", "flag", "persistent", anywhere = true, heeded = is_empty },
    { 252, "Known", "known", "known", anywhere = true, heeded = is_known },
})
local DATA = index({
    required = { "name", "signature_info", "signature.value" },
    { 7, "Name", "name", "name" },
    { 20, "MetaInfo", "nested", "meta_info", holds = META_INFO },
    { 21, "Content", "content", "content" },
    { 22, "SignatureInfo", "nested", "signature_info", holds = SIGNATURE_INFO },
    { 23, "SignatureValue", "bytes", "signature.value" },
})
local FEED_STATE = index({
    required = { "feed.tip", "feed.limit" },
    { 7, "Name", "name", "feed.name" },
    { 881, "Tip", "number", "feed.tip" },
    { 882, "Limit", "number", "feed.limit" },
    { 883, "First", "number", "feed.first" },
    { 884, "Evidence", "evidence", "feed.evidence" },
})
local STANDING = index({
    { 176, "Next", "number", "hello.next" },
    { 178, "Limit", "number", "hello.limit" },
    { 180, "Evidence", "evidence", "known" },
})
local HELLO = index({
    { 162, "Number", "number", "hello.number" },
    { 164, "Reply", "number", "hello.reply" },
    { 166, "Granted", "digest", "hello.granted" },
    { 168, "Held", "digest", "hello.held" },
    { 170, "Have", "standing", "hello.have", holds = STANDING, repeated = true },
    { 172, "State", "standing", "hello.state", holds = STANDING, repeated = true },
    { 174, "Forgotten", "flag", "hello.forgotten" },
})
local LP_PACKET = index({
    { 81, "Sequence", "fixed", "lp.sequence", size = 8 },
    { 82, "FragIndex", "number", "lp.frag_index" },
    { 83, "FragCount", "number", "lp.frag_count" },
    { 98, "PitToken", "bytes", "lp.pit_token", least = 1, most = 32 },
    { 800, "Nack", "wrapped", "lp.nack_reason", inner = 801 },
    { 812, "IncomingFaceId", "number", "lp.incoming_face" },
    { 816, "NextHopFaceId", "number", "lp.next_hop_face" },
    { 820, "CachePolicy", "wrapped", "lp.cache_policy", inner = 821 },
    { 832, "CongestionMark", "number", "lp.congestion_mark" },
    { 836, "Ack", "fixed", "lp.ack", size = 8, repeated = true },
    { 840, "TxSequence", "fixed", "lp.tx_sequence", size = 8 },
    { 844, "NonDiscovery", "flag", "lp.non_discovery" },
    { 848, "PrefixAnnouncement", "announcement", "lp.prefix_announcement" },
    { 880, "FeedState", "nested", "feed_state", holds = FEED_STATE },
    { 888, "Hello", "nested", "hello", holds = HELLO },
})

local function ignore(p, at, stop, tree, kind)
    if tree then
        local item = tree:add(p.tvb(at, stop - at), "Ignored element of type " .. kind)
        item:add_proto_expert_info(EXPERT.ignored)
    end
    p.ignored = (p.ignored or 0) + 1
end

-- Reads the elements from start to stop by a table; fills r.
function walk(p, start, stop, tree, entries, r)
    local last, is_first, is_second, at, seen = 0, true, false, start, {}
    if entries.required[1] == "name" and (start >= stop or byte(p.s, start + 1) ~= 7) then
        malformed("without Name")
    end
    while at < stop do
        local kind, first, after = element(p.s, at, stop)
        local entry = entries[kind]
        local fits = entry and (entry[3] ~= "selectors" or is_second) and (
            (entry[3] == "name" and is_first) or
            (entry[3] ~= "name" and entry.anywhere and not seen[kind]) or
            (entry[3] ~= "name" and not entry.anywhere and
                (entry.rank > last or (entry.repeated and entry.rank == last))))
        if fits and entry.heeded and not entry.heeded(after - first, r, sub(p.s, first + 1, after)) then
            fits = false
            seen[kind] = true
        end
        if fits then
            read[entry[3]](p, at, first, after, tree, entry, r)
            seen[kind], seen[entry[4]] = true, true
            if not entry.anywhere then last = entry.instead or entry.rank end
        else
            check_ignorable(kind, entries[kind])
            ignore(p, at, after, tree, kind)
        end
        at, is_first, is_second = after, false, is_first
    end
    for _, key in ipairs(entries.required) do
        if not seen[key] then malformed("without " .. entries[key][2]) end
    end
end

------------------------------------------------------------------------------------------------------------------
-- What Data of a feed hold

local NATIVE = index({
    required = { "feed.payload" },
    { 242, "Backlink", "bytes", "feed.backlink", least = 32, most = 32 },
    { 244, "Payload", "bytes", "feed.payload" },
})
local SSB = index({
    required = { "feed.ssb" },
    { 246, "SsbMessage", "text", "feed.ssb" },
})

-- Reads content by a table that leaves no room for other elements.
local function exact(p, start, stop, tree, entries, r)
    local probe = { s = p.s, tvb = p.tvb }
    walk(probe, start, stop, tree, entries, r)
    if probe.ignored then malformed("elements that do not belong there") end
end

local function derived(tree, key, range, value)
    if tree and value then tree:add(F[key], range, value):set_generated() end
end

-- Shows what a packet's name says of feeds; returns the item's number if it is an item's.
local function derive(tree, range, name)
    local item = name.item
    if item then
        derived(tree, "feed.name", range, uri_of({ unpack(name.uris, 1, #name.uris - 1) }))
        derived(tree, "feed.item", range, item)
    end
    derived(tree, "feed.fork", range, split_fork(name.bytes))
    return item
end

local function proof(p, start, stop, tree)
    local kind, first, last = element(p.s, start, stop)
    if kind ~= 248 or last ~= stop then malformed("not one ForkProof") end
    local halves, below = 0, tree and tree:add(p.tvb(start, stop - start), "ForkProof")
    while first < stop do
        local half, inner, after = element(p.s, first, stop)
        if half ~= 6 then malformed("not a Data packet") end
        local probe = { s = p.s, tvb = p.tvb, is_half = true }
        local range, r = p.tvb(first, after - first), {}
        local item = below and below:add(range, "Data")
        walk(probe, inner, after, item, DATA, r)
        derive(item, range, r.name)
        halves, first = halves + 1, after
    end
    if halves ~= 2 then malformed("a proof holds two Data packets") end
end

function read.content(p, at, start, stop, tree, entry, r)
    if not r.name then malformed("without Name") end
    r.content_size = stop - start
    local name = r.name.bytes
    if r.name.item then
        local is_ssb = byte(p.s, start + 1) == 246 and start < stop
        local entries = is_ssb and SSB or NATIVE
        local inside = {}
        if holds(exact, p, start, stop, nil, entries, inside) then
            exact(p, start, stop, tree and tree:add(p.tvb(at, stop - at), "Content"), entries, inside)
            r.ssb, r.native = inside["feed.ssb"], inside["feed.payload"]
            return
        end
    elseif not p.is_half and split_fork(name) and holds(proof, p, start, stop, nil) then
        proof(p, start, stop, tree and tree:add(p.tvb(at, stop - at), "Content"))
        r.is_proof = true
        return
    end
    add(tree, entry[4], p.tvb(start, stop - start))
end

function read.announcement(p, at, start, stop, tree, entry)
    local kind, first, last = element(p.s, start, stop)
    if kind ~= 6 or last ~= stop then malformed("a PrefixAnnouncement is a Data packet") end
    local inside = {}
    walk(p, first, last, nil, DATA, inside)
    add(tree, entry[4], p.tvb(at, stop - at), inside.name.uri)
end

------------------------------------------------------------------------------------------------------------------
-- Lines for the info column

local ONE = UInt64(1)

local function last_item(first, credit)
    local last = first + credit - ONE
    return last < first and UInt64.max() or last
end

local function interest_line(r)
    local words, credit = {}, r["lli.credit"]
    local uris = r.name.uris
    if r.persistent then words[1] = "persistent" end
    if not credit then
        words[#words + 1] = "Interest " .. short_name(uris)
    else
        local feed = { unpack(uris, 1, #uris - 1) }
        local what = " cancel"
        if credit ~= UInt64(0) then
            local first, last = tostring(r.item), tostring(last_item(r.item, credit))
            what = first == last and " item " .. first or " items " .. first .. ".." .. last
        end
        words[#words + 1] = "LLI " .. short_name(feed) .. what
    end
    if r.known then words[#words + 1] = "known " .. r.known end
    if r.can_be_prefix then words[#words + 1] = "CanBePrefix" end
    if r.must_be_fresh then words[#words + 1] = "MustBeFresh" end
    if r.is_old then words[#words + 1] = "[" .. OLD_FORMAT .. "]" end
    if r.parameters then words[#words + 1] = "parameters " .. r.parameters .. " bytes" end
    return table.concat(words, " ")
end

local function data_line(r)
    local what = (r.content_size or 0) .. " bytes"
    if r.ssb then what = "SSB message " .. r.ssb .. " bytes" end
    if r.native then what = "native item " .. r.native .. " bytes" end
    if r.is_proof then what = "fork proof" end
    return "Data " .. short_name(r.name.uris) .. " " .. what
end

local function state_line(r, is_bare)
    local text = "tip " .. tostring(r["feed.tip"]) .. " limit " .. tostring(r["feed.limit"])
    if r["feed.first"] then text = text .. " first " .. tostring(r["feed.first"]) end
    if r["feed.evidence"] then text = text .. " evidence " .. r["feed.evidence"] end
    if not is_bare then return "[" .. text .. "]" end
    if r["feed.name"] then text = short_name(r["feed.name"].uris) .. " " .. text end
    return "FeedState " .. text
end

local function hello_line(r)
    local words = { "Hello" }
    if r["hello.number"] then words[2] = "no. " .. tostring(r["hello.number"]) end
    if r["hello.reply"] then words[#words + 1] = "to no. " .. tostring(r["hello.reply"]) end
    if r["hello.granted"] then words[#words + 1] = "granted " .. r["hello.granted"] end
    if r["hello.held"] then words[#words + 1] = "held " .. r["hello.held"] end
    for _, word in ipairs({ "have", "state" }) do
        local standings = r["hello." .. word] or {}
        if #standings == 1 then words[#words + 1] = word .. " " .. standings[1] end
        if #standings > 1 then words[#words + 1] = #standings .. " " .. word .. "s" end
    end
    if r["hello.forgotten"] then words[#words + 1] = "forgotten" end
    return table.concat(words, " ")
end

------------------------------------------------------------------------------------------------------------------
-- Packets. Each returns its type and its line.

-- Reads a whole Interest or Data, of which s holds nothing else; raises what is malformed.
local function network(p, start, stop, tree)
    local kind, first, last = element(p.s, start, stop)
    if last ~= stop then malformed("bytes after the packet") end
    if kind ~= 5 and kind ~= 6 then malformed("neither Interest, Data nor LpPacket") end
    local range = p.tvb(start, stop - start)
    local item = tree:add(range, kind == 5 and "Interest" or "Data")
    local r = {}
    local ok, problem = pcall(walk, p, first, last, item, kind == 5 and INTEREST or DATA, r)
    if not ok then
        item:add_proto_expert_info(EXPERT.malformed, reason_of(problem))
        error(problem, 0)
    end
    if r.is_old then item:add(F.problem, range, OLD_FORMAT):set_generated() end
    r.item = derive(item, range, r.name)
    local credit = r["lli.credit"]
    if kind == 5 then
        if r.item and credit and credit ~= UInt64(0) then
            derived(item, "lli.first", range, r.item)
            derived(item, "lli.last", range, last_item(r.item, credit))
        end
        return credit and "LLI" or "Interest", interest_line(r)
    end
    return "Data", data_line(r)
end

-- Fragments so far, by link, direction and first sequence number; and whole packets, by frame and offset.
-- Wireshark reads frames in order once, and then as the user clicks: what was found the first time is kept.
local fragments, wholes = {}, {}
local MOST_FRAGMENTS = 1000

function ndn.init()
    fragments, wholes = {}, {}
end

local function join(p, pinfo, at, r, piece)
    local place = pinfo.number .. ":" .. at
    if wholes[place] or pinfo.visited then return wholes[place] end
    local count, number_of = r["lp.frag_count"]:tonumber(), r["lp.frag_index"]
    local at_index = number_of and number_of:tonumber() or 0
    if not r["lp.sequence"] or count > MOST_FRAGMENTS then return nil end
    local interface = interface_of()
    local key = table.concat({ interface and tostring(interface.value) or "", tostring(pinfo.src), tostring(pinfo.dst),
        pinfo.src_port, pinfo.dst_port, tostring(r["lp.sequence"] - UInt64(at_index)), count }, " ")
    local held = fragments[key] or { have = 0 }
    fragments[key] = held
    if not held[at_index] then
        held[at_index], held.have = piece, held.have + 1
    end
    if held.have == count then
        local pieces = {}
        for i = 0, count - 1 do pieces[i + 1] = held[i] end
        fragments[key], wholes[place] = nil, { table.concat(pieces), string.format("%d", count) }
    end
    return wholes[place]
end

local function lp_header(p, start, stop, tree, r)
    local last, at = 0, start
    while at < stop do
        local kind, first, after = element(p.s, at, stop)
        if kind == 80 then
            if after ~= stop then malformed("Fragment is an LpPacket's last field") end
            r.fragment = { first, after }
        else
            local entry = LP_PACKET[kind]
            if kind < last or (kind == last and not (entry and entry.repeated)) then
                malformed("LpPacket field of type " .. kind .. " out of order or repeated")
            end
            last = kind
            if entry then
                read[entry[3]](p, at, first, after, tree, entry, r)
            elseif kind >= 800 and kind <= 959 and kind % 4 == 0 then
                ignore(p, at, after, tree, kind)
            else
                malformed("unrecognised LpPacket field of type " .. kind)
            end
        end
        at = after
    end
    if (r["lp.frag_index"] or UInt64(0)) >= (r["lp.frag_count"] or ONE) then
        malformed("FragIndex is not below FragCount")
    end
end

local function packet(p, pinfo, start, stop, tree)
    local kind, first, last = element(p.s, start, stop)
    if last ~= stop then malformed("bytes after the packet") end
    if kind ~= 100 then return network(p, start, stop, tree) end
    local r, item = {}, tree:add(p.tvb(start, stop - start), "LpPacket")
    local ok, problem = pcall(lp_header, p, first, last, item, r)
    if not ok then
        item:add_proto_expert_info(EXPERT.malformed, reason_of(problem))
        error(problem, 0)
    end

    local words, sort = {}, nil
    local has_fragment = r.fragment and r.fragment[2] > r.fragment[1]
    local is_piece = r["lp.frag_count"] and r["lp.frag_count"] > ONE
    local is_nack = r["lp.nack_reason"] ~= nil
    local inner, line
    if is_nack then
        local reason = tostring(r["lp.nack_reason"])
        words[1] = "Nack" .. (reason == "0" and "" or " " .. (NACK_REASONS[tonumber(reason)] or reason))
    end
    if is_piece then
        local place = r.fragment or { last, last }
        local piece = sub(p.s, place[1] + 1, place[2])
        item:add(p.tvb(place[1], place[2] - place[1]), "Fragment of a packet")
        words[#words + 1] = "Fragment " .. tostring((r["lp.frag_index"] or UInt64(0)) + ONE) .. "/"
            .. tostring(r["lp.frag_count"])
        inner = "Fragment"
        local whole = join(p, pinfo, start, r, piece)
        if whole then
            local tvb = ByteArray.new(whole[1], true):tvb("Reassembled NDN packet")
            local good
            good, inner, line = pcall(network, { s = whole[1], tvb = tvb }, 0, #whole[1], tree)
            if not good then
                local why = reason_of(inner)
                line = "Malformed packet, " .. #whole[1] .. " bytes: " .. why
                tree:add(F.problem, tvb(), why):set_generated()
                inner = "Malformed"
            end
            words[#words] = line .. " [reassembled from " .. whole[2] .. " fragments]"
        end
    elseif has_fragment then
        local good
        good, inner, line = pcall(network, p, r.fragment[1], r.fragment[2], item)
        if not good then
            local why, size = reason_of(inner), r.fragment[2] - r.fragment[1]
            inner = "Malformed"
            line = "Malformed packet, " .. size .. " bytes: " .. why
            item:add(F.problem, p.tvb(r.fragment[1], size), why):set_generated()
            item:add_proto_expert_info(EXPERT.malformed, why)
        end
        words[#words + 1] = line
    end
    sort = is_nack and "Nack" or inner
        or (r.hello and "Hello" or r["feed.tip"] and "FeedState" or r["lp.ack"] and "Ack" or "Idle")
    local is_state = sort == "FeedState"
    local says = r["feed.tip"] or r.hello
    if not (is_piece or has_fragment or says or is_nack) then words[#words + 1] = sort end
    if r["feed.tip"] then words[#words + 1] = state_line(r, is_state) end
    if r.hello then
        words[#words + 1] = sort == "Hello" and hello_line(r) or "[" .. hello_line(r) .. "]"
    end
    local mark = r["lp.congestion_mark"]
    if mark and mark ~= UInt64(0) then words[#words + 1] = "[congestion mark " .. tostring(mark) .. "]" end
    return sort, table.concat(words, " ")
end

------------------------------------------------------------------------------------------------------------------
-- Where packets come from

local TCP, UDP = 2, 3 -- pinfo.port_type
local LARGEST = 65536 -- bytes of a packet in a stream; beyond this it is no NDN

local function show(p, pinfo, start, stop, root)
    local tree = root:add(ndn, p.tvb(start, stop - start))
    local ok, sort, line = pcall(packet, p, pinfo, start, stop, tree)
    if not ok then
        local why = reason_of(sort)
        tree:add_proto_expert_info(EXPERT.malformed, why)
        line = "Malformed packet, " .. (stop - start) .. " bytes: " .. why
        tree:add(F.problem, p.tvb(start, stop - start), why):set_generated()
        sort = "Malformed"
    end
    tree:append_text(", " .. line)
    tree:add(F.type, p.tvb(start, stop - start), sort):set_generated()
    return line
end

-- Returns what the beginning of a packet tells, of which the rest is in another IP fragment, or not captured.
local function cut(p, problem, root)
    local ok, line = pcall(function()
        local function opened(place)
            local kind, first, after = header(p.s, place)
            if not kind then malformed(CUT_SHORT) end
            return kind, first, after
        end
        local kind, at = opened(0)
        if kind == 100 then
            local field, first, after = opened(at)
            while field ~= 80 do
                field, first, after = opened(after)
            end
            kind, at = opened(first)
        end
        local named, first, after = opened(at)
        if named ~= 7 or after > #p.s or (kind ~= 5 and kind ~= 6) then malformed(CUT_SHORT) end
        local uris = components(p.s, first, after)
        local what = kind == 5 and "Interest" or "Data"
        local tree = root:add(ndn, p.tvb(0, #p.s))
        tree:add(F.type, p.tvb(0, #p.s), what):set_generated()
        tree:add(F.name, p.tvb(first, after - first), uri_of(uris))
        tree:add(F.problem, p.tvb(0, #p.s), problem):set_generated()
        tree:add_proto_expert_info(EXPERT.cut)
        return what .. " " .. short_name(uris) .. " [" .. problem .. "]"
    end)
    if ok then return line end
    reason_of(line)
end

local function is_packet(first)
    return first == 5 or first == 6 or first == 100
end

-- A stream: packets end to end, the last of which may go on in the next segment.
local function stream(p, pinfo, root)
    local at, lines = 0, {}
    while at < #p.s do
        if not is_packet(byte(p.s, at + 1)) then break end
        local ok, kind, _, stop = pcall(header, p.s, at)
        if not ok or (kind and stop - at > LARGEST) then break end
        if not kind or stop > #p.s then
            if pinfo.can_desegment > 0 and p.is_whole then
                pinfo.desegment_offset = at
                pinfo.desegment_len = kind and stop - #p.s or DESEGMENT_ONE_MORE_SEGMENT
                if #lines > 0 then pinfo.cols.info = table.concat(lines, "; ") end
                return #p.s
            end
            break
        end
        lines[#lines + 1] = show(p, pinfo, at, stop, root)
        at = stop
    end
    if at == 0 then return 0 end
    if at < #p.s then
        root:add(ndn, p.tvb(at, #p.s - at)):add_proto_expert_info(EXPERT.malformed, "not an NDN packet")
    end
    pinfo.cols.info = table.concat(lines, "; ")
    return #p.s
end

function ndn.dissector(tvb, pinfo, root)
    local size = tvb:len()
    if size == 0 then return 0 end
    local p = { s = tvb:raw(0, size), tvb = tvb, is_whole = tvb:reported_len() == size }
    if pinfo.port_type == TCP then
        local used = stream(p, pinfo, root)
        if used > 0 then pinfo.cols.protocol = "NDN" end
        return used
    end
    pinfo.cols.protocol = "NDN"
    local stop = size
    if pinfo.port_type ~= UDP then -- a frame: what follows the packet is padding
        local ok, kind, _, after = pcall(header, p.s, 0)
        if ok and kind and after <= size then stop = after end
    end
    local _, _, _, whole = pcall(header, p.s, 0)
    local line = (pinfo.fragmented or not p.is_whole) and whole and whole > size
        and cut(p, pinfo.fragmented and "IP fragment" or "cut by the capture", root)
    if line then
        pinfo.cols.info = line
        return size
    end
    pinfo.cols.info = show(p, pinfo, 0, stop, root)
    if not p.is_whole then
        root:add(ndn, tvb(0, 0)):add_proto_expert_info(EXPERT.cut)
    end
    return stop
end

-- A message of WebSocket, which Wireshark has unmasked and put together, is one packet.
local websocket = Proto("ndn_websocket", "Named Data Networking over WebSocket")

function websocket.dissector(tvb, pinfo, root)
    local size = tvb:len()
    if size == 0 then return 0 end
    local line = show({ s = tvb:raw(0, size), tvb = tvb }, pinfo, 0, size, root)
    -- Wireshark's line for the frame gives way to ours; those of messages before it in the segment stay.
    local is_first = tostring(pinfo.cols.info):find("^WebSocket")
    pinfo.cols.protocol = "NDN"
    pinfo.cols.info = (is_first and "" or "; ") .. line
    pinfo.cols.info:fence()
    return size
end

for _, port in ipairs({ 6363, 56363 }) do
    DissectorTable.get("udp.port"):add(port, ndn)
end
DissectorTable.get("tcp.port"):add(6363, ndn)
DissectorTable.get("ws.port"):add(9696, websocket)
DissectorTable.get("ethertype"):add(0x8624, ndn)
DissectorTable.get("ppp.protocol"):add(0x0077, ndn)

------------------------------------------------------------------------------------------------------------------
-- muxrpc, the calls of Secure Scuttlebutt's peers: a header of 9 bytes and a body. `feednet decrypt` writes the packets
-- of encrypted streams as exported PDUs for the dissector `muxrpc`. `ssb` reads streams that are not encrypted: each side
-- begins them with a mark and its public key.

local muxrpc = Proto("muxrpc", "muxrpc of Secure Scuttlebutt")
local ssb = Proto("ssb", "Secure Scuttlebutt without encryption")

local MUXRPC_HEADER, LARGEST_BODY = 9, 4194304
local MARK, HELLO = "SSB0", 36
local BODY_TYPES = { [0] = "binary", [1] = "text", [2] = "JSON" }
local GOODBYE = rep("\0", MUXRPC_HEADER)

local M = {
    flags = ProtoField.uint8("muxrpc.flags", "Flags", base.HEX),
    stream = ProtoField.bool("muxrpc.stream", "Stream", 8, nil, 0x08),
    last = ProtoField.bool("muxrpc.end", "End or error", 8, nil, 0x04),
    body_type = ProtoField.uint8("muxrpc.body_type", "Body type", base.DEC, BODY_TYPES, 0x03),
    length = ProtoField.uint32("muxrpc.length", "Length of the body"),
    request = ProtoField.int32("muxrpc.request", "Request"),
    kind = ProtoField.string("muxrpc.kind", "Kind"),
    method = ProtoField.string("muxrpc.method", "Method"),
    text = ProtoField.string("muxrpc.text", "Body"),
    body = ProtoField.bytes("muxrpc.body", "Body"),
    notes = ProtoField.uint32("muxrpc.notes", "Notes"),
    note = ProtoField.string("muxrpc.note", "Note"),
    author = ProtoField.string("muxrpc.author", "Author"),
    sequence = ProtoField.uint64("muxrpc.sequence", "Sequence number"),
    content = ProtoField.string("muxrpc.content", "Type of the content"),
}
muxrpc.fields = listed(M)
local NO_MUXRPC = ProtoExpert.new("muxrpc.malformed", "Malformed packet of muxrpc", expert.group.MALFORMED,
    expert.severity.ERROR)
muxrpc.experts = { NO_MUXRPC }
local HELLO_KEY = ProtoField.bytes("ssb.key", "Public key")
ssb.fields = { HELLO_KEY }

-- The methods of calls by connection and number, as they are in the first pass; and of packets, by frame and place.
local called, methods, is_plain = {}, {}, {}

function muxrpc.init()
    called, methods, is_plain = {}, {}, {}
end

local function ends(pinfo)
    return tostring(pinfo.src) .. " " .. pinfo.src_port, tostring(pinfo.dst) .. " " .. pinfo.dst_port
end

-- Returns the method that a packet is about, "" if its call was not seen.
local function method_of(pinfo, place, number, body)
    local at = pinfo.number .. " " .. place
    if methods[at] then return methods[at] end
    local source, target = ends(pinfo)
    local caller, callee = source, target
    if number < 0 then caller, callee = target, source end
    local key = caller .. " " .. callee .. " " .. math.abs(number)
    if number > 0 and body:find('^%s*{%s*"name"') then
        local words = body:match('^%s*{%s*"name"%s*:%s*%[(.-)%]') or body:match('^%s*{%s*"name"%s*:%s*(".-")') or ""
        local name = {}
        for word in words:gmatch('"(.-)"') do name[#name + 1] = word end
        called[key] = table.concat(name, ".")
    end
    methods[at] = called[key] or ""
    return methods[at]
end

local function short_ref(ref)
    return sub(ref, 1, 9) .. "…"
end

local function note_text(number)
    if number == -1 then return "not wanted" end
    return "at " .. math.floor(number / 2) .. (number % 2 == 0 and ", receives" or ", does not receive")
end

-- Shows what a body of JSON says, if it is of a kind that is known; returns its kind and a line.
local function show_value(body, range, method, tree)
    if body:find('"signature"%s*:%s*"') and body:find('"author"%s*:') then
        local author = body:match('"author"%s*:%s*"(.-)"') or ""
        local sequence = body:match('"sequence"%s*:%s*(%d+)')
        local content = body:match('"content"%s*:%s*{%s*"type"%s*:%s*"(.-)"')
            or (body:find('"content"%s*:%s*"') and "private") or ""
        tree:add(M.author, range, author):set_generated()
        if sequence and #sequence < 16 then
            tree:add(M.sequence, range, UInt64(tonumber(sequence))):set_generated()
        end
        if content ~= "" then tree:add(M.content, range, content):set_generated() end
        return "message", "message " .. short_ref(author) .. " " .. (sequence or "?")
            .. (content ~= "" and " " .. content or "")
    end
    if method == "ebt.replicate" or (method == "" and body:find('^%s*{%s*"@')) then
        local count, said = 0, {}
        for ref, number in body:gmatch('"(@[^"]*)"%s*:%s*(-?%d+)') do
            count = count + 1
            local text = ref .. " " .. note_text(tonumber(number))
            tree:add(M.note, range, text):set_generated()
            if count <= 3 then said[count] = short_ref(ref) .. " " .. note_text(tonumber(number)) end
        end
        tree:add(M.notes, range, count):set_generated()
        if count > 3 then said[4] = (count - 3) .. " more" end
        return "notes", "notes" .. (count > 0 and " [" .. table.concat(said, "] [") .. "]" or ", none")
    end
end

-- Shows a packet; returns its line.
local function show_muxrpc(tvb, pinfo, root)
    local size = tvb:len()
    local tree = root:add(muxrpc, tvb())
    if size < MUXRPC_HEADER then
        tree:add_proto_expert_info(NO_MUXRPC, "shorter than a header")
        return "malformed, " .. size .. " bytes"
    end
    local flags, length, number = tvb(0, 1):uint(), tvb(1, 4):uint(), tvb(5, 4):int()
    tree:add(M.flags, tvb(0, 1))
    tree:add(M.stream, tvb(0, 1))
    tree:add(M.last, tvb(0, 1))
    tree:add(M.body_type, tvb(0, 1))
    tree:add(M.length, tvb(1, 4))
    tree:add(M.request, tvb(5, 4))
    local kind, line
    if tvb:raw(0, MUXRPC_HEADER) == GOODBYE then
        kind, line = "end", "goodbye"
    elseif flags > 14 or flags % 4 == 3 or number == 0 or length > LARGEST_BODY then
        tree:add_proto_expert_info(NO_MUXRPC, "no header of muxrpc")
        kind, line = "malformed", "malformed, " .. size .. " bytes"
    end
    if kind then
        tree:append_text(", " .. line)
        tree:add(M.kind, tvb(0, MUXRPC_HEADER), kind):set_generated()
        return line
    end
    local there = math.min(length, size - MUXRPC_HEADER)
    local body = there > 0 and tvb:raw(MUXRPC_HEADER, there) or ""
    local range = there > 0 and tvb(MUXRPC_HEADER, there) or tvb(0, MUXRPC_HEADER)
    local method = method_of(pinfo, tvb:offset(), number, body)
    local is_end, body_type = math.floor(flags / 4) % 2 == 1, flags % 4
    if method ~= "" then tree:add(M.method, range, method):set_generated() end
    local about = (method ~= "" and method or "call") .. " " .. math.abs(number)
    if is_end then
        kind = "end"
        line = "end of " .. about .. ((body == "true" or body == "") and "" or ": " .. sub(body, 1, 80))
    elseif number > 0 and body:find('^%s*{%s*"name"') then
        kind, line = "request", "call " .. about .. " " .. (body:match('"type"%s*:%s*"(.-)"') or "")
    elseif body_type == 2 then
        kind, line = show_value(body, range, method, tree)
    end
    if not kind then
        kind = (method == "blobs.get" and "blob") or (method == "blobs.createWants" and "wants") or "answer"
        line = kind .. ", " .. about .. ", " .. length .. " bytes"
    end
    tree:append_text(", " .. line)
    tree:add(M.kind, range, kind):set_generated()
    if there < length then tree:append_text(" [" .. (length - there) .. " bytes of it are missing]") end
    if there > 0 then
        if body_type == 0 then
            tree:add(M.body, range)
        else
            tree:add(M.text, range, range:string(ENC_UTF_8))
        end
        -- Objects only: Wireshark's dissector calls a bare string or number malformed.
        if body_type == 2 and there == length and sub(body, 1, 1) == "{" then
            local _, json = pcall(Dissector.get, "json")
            if json then pcall(json.call, json, range:tvb(), pinfo, tree) end
        end
    end
    return line
end

function muxrpc.dissector(tvb, pinfo, root)
    if tvb:len() == 0 then return 0 end
    local line = show_muxrpc(tvb, pinfo, root)
    pinfo.cols.protocol = "muxrpc"
    pinfo.cols.info = line
    return tvb:len()
end

-- Returns how long what begins at a place of a plain stream is: a side's mark and key, or a packet; nil if that is not
-- there yet.
local function length_of(tvb, at)
    local there = tvb:len() - at
    if there >= #MARK and tvb:raw(at, #MARK) == MARK then return HELLO end
    if there < MUXRPC_HEADER then return nil end
    local flags, length = tvb(at, 1):uint(), tvb(at + 1, 4):uint()
    if flags > 14 or length > LARGEST_BODY then return there end
    return MUXRPC_HEADER + length
end

function ssb.dissector(tvb, pinfo, root)
    local size = tvb:len()
    local source, target = ends(pinfo)
    local side = source .. " " .. target
    if size >= #MARK and tvb:raw(0, #MARK) == MARK then is_plain[side] = true end
    if size == 0 or not is_plain[side] then return 0 end
    local at, lines = 0, {}
    while at < size do
        local length = length_of(tvb, at)
        if not length or at + length > size then
            if pinfo.can_desegment == 0 or tvb:reported_len() > size then break end
            pinfo.desegment_offset = at
            pinfo.desegment_len = length and at + length - size or DESEGMENT_ONE_MORE_SEGMENT
            break
        end
        local part = tvb(at, length):tvb()
        if length == HELLO and part:raw(0, #MARK) == MARK then
            root:add(ssb, part()):add(HELLO_KEY, part(#MARK, HELLO - #MARK))
            lines[#lines + 1] = "hello, without encryption"
        else
            lines[#lines + 1] = show_muxrpc(part, pinfo, root)
        end
        at = at + length
    end
    if #lines > 0 then
        pinfo.cols.protocol = "muxrpc"
        pinfo.cols.info = table.concat(lines, "; ")
    end
    return size
end

DissectorTable.get("tcp.port"):add(8008, ssb)

------------------------------------------------------------------------------------------------------------------
-- tinySSB over UDP 1558: packets of at most 120 bytes, a CRC-32 behind each. Only who knows a feed knows its entries by
-- their demultiplexers; here a packet is what its form says. captures/dissectors/tiny.py has the same rules and lines.

local tiny = Proto("tinyssb", "tinySSB")
local TINY_PACKET, TINY_DEMUX, TINY_CRC, TINY_INLINE, TINY_LONGEST = 120, 7, 4, 28, 16384
local bxor, band, rshift
if bit then
    bxor, band, rshift = bit.bxor, bit.band, bit.rshift
elseif bit32 then
    bxor, band, rshift = bit32.bxor, bit32.band, bit32.rshift
else
    bxor = load("return function(a, b) return a ~ b end")()
    band = load("return function(a, b) return a & b end")()
    rshift = load("return function(a, b) return a >> b end")()
end

local S = {
    demux = ProtoField.bytes("tinyssb.demultiplexer", "Demultiplexer"),
    kind = ProtoField.string("tinyssb.kind", "Kind"),
    type = ProtoField.uint8("tinyssb.type", "Type"),
    length = ProtoField.uint32("tinyssb.length", "Length of the content"),
    chunks = ProtoField.uint32("tinyssb.chunks", "Chunks of the side chain"),
    command = ProtoField.string("tinyssb.command", "tinyISP command"),
    signature = ProtoField.bytes("tinyssb.signature", "Signature"),
    content = ProtoField.bytes("tinyssb.content", "Content"),
    pointer = ProtoField.bytes("tinyssb.pointer", "Pointer to the next chunk"),
    offset = ProtoField.uint32("tinyssb.offset", "First feed"),
    wanted = ProtoField.uint32("tinyssb.wanted", "Wanted entry"),
    missing = ProtoField.string("tinyssb.missing", "Missing chunk"),
    key = ProtoField.bytes("tinyssb.key", "Key"),
    lowest = ProtoField.bytes("tinyssb.lowest", "Lowest key"),
    highest = ProtoField.bytes("tinyssb.highest", "Highest key"),
    xor = ProtoField.bytes("tinyssb.xor", "XOR of the keys"),
    count = ProtoField.uint8("tinyssb.count", "Keys"),
    crc = ProtoField.uint32("tinyssb.crc32", "CRC-32", base.HEX),
}
tiny.fields = listed(S)
local NO_TINY = ProtoExpert.new("tinyssb.malformed", "No packet of tinySSB", expert.group.MALFORMED, expert.severity.ERROR)
tiny.experts = { NO_TINY }

local crc_table = {}
for at = 0, 255 do
    local value = at
    for _ = 1, 8 do
        local is_odd = band(value, 1) == 1
        value = rshift(value, 1)
        if is_odd then value = bxor(value, 0xEDB88320) end
    end
    crc_table[at] = value
end

local function crc32(text)
    local value = 0xFFFFFFFF
    for at = 1, #text do
        value = bxor(rshift(value, 8), crc_table[band(bxor(value, byte(text, at)), 0xFF)])
    end
    return bxor(value, 0xFFFFFFFF) % 4294967296
end

-- Returns the number at a place in seven bits a byte, and the place behind it; nil if there is none.
local function tiny_varint(text, at, stop)
    local number, factor, count = 0, 1, 0
    while at <= stop and count < 5 do
        local value = byte(text, at)
        number = number + (value % 128) * factor
        at, factor, count = at + 1, factor * 128, count + 1
        if value < 128 then
            if value == 0 and count > 1 then return nil end
            return number, at
        end
    end
end

-- Returns a number or a list of them, and the place behind it; nil if there is neither.
local function tiny_numbers(text, at, stop, depth)
    local tag, start = tiny_varint(text, at, stop)
    if not tag then return nil end
    local kind, last = tag % 8, start + math.floor(tag / 8) - 1
    if last > stop then return nil end
    if kind == 2 and last >= start and last - start < 8 then
        local number = 0
        for place = last, start, -1 do number = number * 256 + byte(text, place) end
        return number, last + 1
    end
    if kind ~= 4 or depth == 0 then return nil end
    local parts = {}
    while start <= last do
        local part
        part, start = tiny_numbers(text, start, last, depth - 1)
        if not part then return nil end
        parts[#parts + 1] = part
    end
    return parts, last + 1
end

-- Returns the length of an entry's content, how much of it is in the entry, and where that begins (from 1 in its payload);
-- nil if a packet of 120 bytes is no entry.
local function tiny_entry(text)
    if not sub(text, 101):find("[^%z]") or byte(text, 8) > 1 then return nil end
    if byte(text, 8) == 0 then return 48, 48, 9 end
    local length, at = tiny_varint(text, 9, 8 + TINY_INLINE)
    if not length or length > TINY_LONGEST then return nil end
    local room = 9 + TINY_INLINE - at
    local has_chain = length > room
    local has_pointer = sub(text, 37, 56):find("[^%z]") ~= nil
    if has_chain ~= has_pointer then return nil end
    if not has_chain and sub(text, at + length, 8 + TINY_INLINE):find("[^%z]") then return nil end
    return length, math.min(room, length), at
end

local function tiny_command(text, length, inline, at)
    if byte(text, 8) == 1 and length > 0 and length % TINY_PACKET == 0 then return "tunnel" end
    local stop = at + inline - 1
    local _, start = tiny_varint(text, at, stop)
    if not start or sub(text, start, math.min(start + 3, stop)) ~= "\x18ISP" then return "" end
    local tag, first = tiny_varint(text, start + 4, stop)
    if not tag or tag % 8 ~= 0 then return "" end
    return sub(text, first, math.min(first + math.floor(tag / 8) - 1, stop))
end

-- Shows a packet; returns its line, or nil if it is none.
local function show_tiny(text, tvb, tree)
    local size = #text
    local function kind(what)
        tree:add(S.kind, tvb(0, size), what):set_generated()
        return "tinySSB " .. what
    end
    if size == TINY_PACKET then
        local length, inline, at = tiny_entry(text)
        if not length then
            tree:add(S.content, tvb(0, 100))
            tree:add(S.pointer, tvb(100, 20))
            return kind("chunk") .. (sub(text, 101):find("[^%z]") and "" or ", the last")
        end
        local chunks = math.ceil((length - inline) / 100)
        local command = tiny_command(text, length, inline, at)
        tree:add(S.demux, tvb(0, TINY_DEMUX))
        tree:add(S.type, tvb(7, 1))
        tree:add(S.length, tvb(8, 48), length)
        tree:add(S.chunks, tvb(8, 48), chunks):set_generated()
        if command ~= "" then tree:add(S.command, tvb(8, 48), command):set_generated() end
        tree:add(S.signature, tvb(56, 64))
        return kind("entry") .. " " .. hex(sub(text, 1, TINY_DEMUX)) .. " "
            .. (command ~= "" and command or "of " .. length .. " bytes")
            .. (chunks > 0 and ", " .. chunks .. " chunks" or "")
    end
    if size == 105 and sub(text, 8, 8) == "c" then
        tree:add(S.demux, tvb(0, TINY_DEMUX))
        for place, name in ipairs({ "lowest", "highest", "xor" }) do tree:add(S[name], tvb(32 * place - 24, 32)) end
        tree:add(S.count, tvb(104, 1))
        return kind("claim") .. " of " .. byte(text, 105) .. " keys, " .. hex(sub(text, 9, 12)) .. " to "
            .. hex(sub(text, 41, 44))
    end
    if size == 40 and sub(text, 8, 8) == "n" then
        tree:add(S.demux, tvb(0, TINY_DEMUX))
        tree:add(S.key, tvb(8, 32))
        return kind("novelty") .. " " .. hex(sub(text, 9, 12))
    end
    if size <= TINY_DEMUX or size >= TINY_PACKET then return nil end
    local list, stop = tiny_numbers(text, TINY_DEMUX + 1, size, 2)
    if type(list) ~= "table" or stop ~= size + 1 then return nil end
    local body = tvb(TINY_DEMUX, size - TINY_DEMUX)
    local are_numbers, are_triples = #list > 1, true
    for _, each in ipairs(list) do
        are_numbers = are_numbers and type(each) == "number"
        are_triples = are_triples and type(each) == "table" and #each == 3
        if are_triples then
            for _, number in ipairs(each) do are_triples = are_triples and type(number) == "number" end
        end
    end
    if are_numbers then
        tree:add(S.demux, tvb(0, TINY_DEMUX))
        tree:add(S.offset, body, list[1])
        for place = 2, #list do tree:add(S.wanted, body, list[place]) end
        return kind("want") .. " of " .. (#list - 1) .. " feeds from " .. string.format("%.0f", list[1])
    elseif are_triples then
        tree:add(S.demux, tvb(0, TINY_DEMUX))
        for _, each in ipairs(list) do
            tree:add(S.missing, body, string.format("%.0f.%.0f.%.0f", each[1], each[2], each[3]))
        end
        return kind("chunk vector") .. " of " .. #list .. " chunks"
    end
end

function tiny.dissector(tvb, pinfo, root)
    local size = tvb:len()
    if size == 0 then return 0 end
    pinfo.cols.protocol = "tinySSB"
    local tree = root:add(tiny, tvb())
    local is_whole = size > TINY_CRC and tvb:reported_len() == size
    local text = is_whole and tvb:raw(0, size - TINY_CRC) or ""
    local line
    if is_whole and crc32(text) == tvb(size - TINY_CRC, TINY_CRC):uint() then
        line = show_tiny(text, tvb, tree)
        tree:add(S.crc, tvb(size - TINY_CRC, TINY_CRC))
    end
    if not line then
        tree:add_proto_expert_info(NO_TINY, is_whole and "another CRC, or no packet of tinySSB" or "cut short")
        line = "no packet of tinySSB, " .. size .. " bytes"
    end
    tree:append_text(", " .. line)
    pinfo.cols.info = line
    return size
end

DissectorTable.get("udp.port"):add(1558, tiny)
