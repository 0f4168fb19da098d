import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies.conf import conf_text, parse_conf, read_conf
from topologies.link import LINK_PARAMETERS
from topologies.model import Link, Medium, Topology, TopologyError

FULL = """\
# two sites
[nodes]
A: _ radius=0.5 angle=1.57 network=/world router=/a.Router nfd-log-level=DEBUG
b: _

c: cpu=0.5
[switches]
sw: _
[links]
; the fast one
A:b delay=10ms bw=100 loss=0.5 jitter=250us max_queue_size=50
  b:c   delay=1.5s use_tbf=True
c:a _
sw:b delay=2ms loss=4 loss_burst=3 loss_bad=50 jitter=1ms jitter_distribution=pareto
[faces]
a:b cost=42
b:c _
c:A cost=7.5
A:c cost=8
"""


def test_a_full_file():
    assert parse_conf(FULL, "full.conf") == Topology(
        ("A", "b", "c", "sw"),
        (
            Link("A", "b", 42, bw_mbit=100, delay_ms=10, loss_percent=0.5, jitter_ms=0.25, max_queue_size=50),
            Link("b", "c", delay_ms=1500),
            Link("c", "A", 7.5, 8),
            Link(
                "sw",
                "b",
                delay_ms=2,
                loss_percent=4,
                loss_burst=3,
                loss_bad_percent=50,
                jitter_ms=1,
                jitter_distribution="pareto",
            ),
        ),
        switches=("sw",),
        attributes={
            "A": {
                "radius": "0.5",
                "angle": "1.57",
                "network": "/world",
                "router": "/a.Router",
                "nfd-log-level": "DEBUG",
            },
            "c": {"cpu": "0.5"},
        },
    )


NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,5}", fullmatch=True)
WORDS = st.text("abcz/.,0189-", min_size=1, max_size=5)


@st.composite
def written_topologies(draw):
    """Topologies that a file can say."""
    nodes = draw(st.lists(NAMES, min_size=2, max_size=5, unique_by=str.lower))
    links = {}
    for _ in range(draw(st.integers(0, 6))):
        a, b = draw(st.permutations(nodes))[:2]
        there, back = draw(st.tuples(*[st.none() | st.floats(0, 1e6)] * 2))
        links[frozenset((a, b))] = Link(
            a,
            b,
            there,
            None if there is None or back == there else back,
            delay_ms=draw(st.floats(0, 1e6)),
            bw_mbit=draw(st.none() | st.floats(1e-7, 1e6)),
            loss_percent=draw(st.floats(0, 50)),
            loss_burst=draw(st.none() | st.floats(1, 9)),
            jitter_distribution=draw(st.sampled_from(LINK_PARAMETERS["jitter_distribution"].choices)),
            max_queue_size=draw(st.integers(1, 10**9)),
        )
    switches = draw(st.lists(st.sampled_from(nodes), unique=True))
    order = [node for node in nodes if node not in switches] + switches
    said = draw(st.dictionaries(st.sampled_from(nodes), st.dictionaries(NAMES, WORDS, min_size=1)))
    return Topology(tuple(order), tuple(links.values()), switches=tuple(switches), attributes=said)


@settings(max_examples=60)
@given(written_topologies())
def test_what_is_written_is_read(topology):
    assert parse_conf(conf_text(topology), "t.conf") == topology


@settings(max_examples=150)
@given(st.data())
def test_any_text_is_a_topology_or_one_line(data):
    lines = FULL.splitlines()
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(lines) - 1))
        cut = data.draw(st.integers(0, len(lines[at])))
        rest = lines[at][cut + data.draw(st.integers(0, 4)) :]
        lines[at] = lines[at][:cut] + data.draw(st.text(max_size=6)) + rest
    said, topology = "", None
    try:
        topology = parse_conf("\n".join(lines), "t.conf")
    except TopologyError as error:
        said = str(error)
    assert (topology is None) == said.startswith("t.conf")
    assert len(said.splitlines()) <= 1
    if topology is not None:
        assert parse_conf(conf_text(topology), "t.conf") == topology


def test_what_a_file_cannot_say():
    cell = Medium(name="cell", members=("a", "b"))
    with pytest.raises(TopologyError, match="medium cell: a Mini-NDN file has no broadcast media"):
        conf_text(Topology(("a", "b"), (), (cell,)))
    said = {"a": {"label": "Bad Name"}}
    with pytest.raises(TopologyError, match="node a: a Mini-NDN file cannot say 'label=Bad Name'"):
        conf_text(Topology(("a",), (), attributes=said))


@pytest.mark.parametrize(
    ("written", "milliseconds"),
    [("10ms", 10), ("0.5ms", 0.5), (".5ms", 0.5), ("250us", 0.25), ("2s", 2000), ("0ms", 0)],
)
def test_times(written, milliseconds):
    topology = parse_conf(f"[nodes]\na: _\nb: _\n[links]\na:b delay={written} jitter={written}\n", "t.conf")
    assert (topology.links[0].delay_ms, topology.links[0].jitter_ms) == (milliseconds, milliseconds)


TIME = "must be a number with ms, us or s, such as 10ms"
BW = "bw must be a number of Mbit/s above 0, without a unit"
LOSS = "loss must be a number from 0 to 100, in percent, without a sign"
LINK = "a link must be written `a:b key=value ...`"
KEYS = (
    "bw, delay, jitter, jitter_distribution, loss, loss_burst, loss_bad, loss_good, reorder, duplicate,"
    " max_queue_size, mtu"
)
QUEUE = "max_queue_size must be a whole number of packets, at least 1"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("delay=10xs", f"a:b delay=10xs: delay {TIME}"),
        ("delay=10", f"a:b delay=10: delay {TIME}"),
        ("delay=", f"a:b delay=: delay {TIME}"),
        ("delay=ms", f"a:b delay=ms: delay {TIME}"),
        ("delay=-1ms", f"a:b delay=-1ms: delay {TIME}"),
        ("delay=nanms", f"a:b delay=nanms: delay {TIME}"),
        ("delay=" + "9" * 400 + "s", "a:b delay=" + "9" * 400 + f"s: delay {TIME}"),
        ("delay=10mss", f"a:b delay=10mss: delay {TIME}"),
        ("jitter=1m", f"a:b jitter=1m: jitter {TIME}"),
        ("bw=10Mbit", f"a:b bw=10Mbit: {BW}"),
        ("bw=0", f"a:b bw=0: {BW}"),
        ("loss=1%", f"a:b loss=1%: {LOSS}"),
        ("loss=101", f"a:b loss=101: {LOSS}"),
        ("duplicate=101", f"a:b duplicate=101: {LOSS.replace('loss', 'duplicate')}"),
        ("max_queue_size=0", f"a:b max_queue_size=0: {QUEUE}"),
        ("max_queue_size=1.5", f"a:b max_queue_size=1.5: {QUEUE}"),
        ("mtu=9000", "a:b mtu=9000: mtu must be a whole number from 256 to 1,500"),
        ("max_queue_size=1_0", f"a:b max_queue_size=1_0: {QUEUE}"),
        (
            "dely=10ms",
            f"a:b dely=10ms: unknown; a link has {KEYS}",
        ),
        ("delay", f"a:b delay: unknown; a link has {KEYS}"),
        ("loss=1 loss=2", "a:b loss=2: loss is given twice"),
        (
            "jitter_distribution=gamma",
            "a:b jitter_distribution=gamma: jitter_distribution must be"
            " one of uniform, normal, pareto, paretonormal",
        ),
        (
            "loss_bad=50",
            "link a:b: loss_bad_percent says nothing without loss_burst, how long the link stays bad",
        ),
    ],
)
def test_words_of_a_link(words, message):
    with pytest.raises(TopologyError) as error:
        parse_conf(f"[nodes]\na: _\nb: _\n\n[links]\na:b {words}\n", "t.conf")
    assert str(error.value) == f"t.conf:6: [links] {message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "t.conf: no nodes; list them in a section [nodes], one `name: _` a line"),
        ("[links]\n", "t.conf: no nodes; list them in a section [nodes], one `name: _` a line"),
        ("a: _\n", "t.conf:1: a: _: a section must come first, such as [nodes]"),
        (
            "[node]\n",
            "t.conf:1: [node]: the section must be one of [nodes], [switches], [links], [faces]",
        ),
        (
            "\n[nodes\n",
            "t.conf:2: [nodes: the section must be one of [nodes], [switches], [links], [faces]",
        ),
        ("[nodes]\na\n", "t.conf:2: [nodes] a: a node must be written `name: _` or `name: key=value ...`"),
        (
            "[nodes]\na:b\n",
            "t.conf:2: [nodes] a:b: a node must be written `name: _` or `name: key=value ...`",
        ),
        ("[nodes]\na: _ fast\n", "t.conf:2: [nodes] a: fast: must be _ or key=value"),
        (
            "[nodes]\na: _\n1b: _\n",
            "t.conf:3: [nodes] node '1b': a name is a letter, then letters, digits, - or _",
        ),
        (
            "[stations]\nsta1: range=10\n",
            "t.conf:1: [stations]: wireless networks are not supported; give a file with [nodes] and [links]",
        ),
        (
            "[nodes]\na: _\n[accessPoints]\nap1: _\n",
            "t.conf:3: [accessPoints]: wireless networks are not supported;"
            " give a file with [nodes] and [links]",
        ),
        ("[nodes]\na: _\nA: _\n", "t.conf:3: [nodes] node A: is a to Mini-NDN, and named twice"),
        (
            "[nodes]\na: _\n[switches]\nA: _\n",
            "t.conf:4: [switches] node A: is a to Mini-NDN, and named twice",
        ),
        ("[nodes]\na: cpu=1 cpu=2\n", "t.conf:2: [nodes] a: cpu=2: cpu is given twice"),
        (
            "[nodes]\na: _\n[faces]\na:b cost=1\n",
            "t.conf:4: [faces] a:b: no link joins a and b; name one of [links]",
        ),
        (
            "[nodes]\na: _\n[faces]\na cost=1\n",
            "t.conf:4: [faces] a: a face must be written `a:b cost=NUMBER`, or `a:b _`",
        ),
        (
            "[nodes]\na: _\nb: _\n[links]\na:b _\n[faces]\na:b cost=low\n",
            "t.conf:7: [faces] a:b cost=low: cost must be a number from 0",
        ),
        (
            "[nodes]\na: _\nb: _\n[links]\na:b _\n[faces]\na:b price=3\n",
            "t.conf:7: [faces] a:b price=3: unknown; a face has cost",
        ),
        (
            "[nodes]\na: _\nb: _\n[links]\na:b _\n[faces]\na:b cost=3\na:b cost=4\n",
            "t.conf:8: [faces] a:b: its cost is given twice",
        ),
        (
            "[nodes]\na: _\n[links]\na delay=1ms\n",
            f"t.conf:4: [links] a: {LINK}",
        ),
        (
            "[nodes]\na: _\n[links]\na: delay=1ms\n",
            f"t.conf:4: [links] a:: {LINK}",
        ),
        ("[nodes]\na: _\n[links]\na:A _\n", "t.conf:4: [links] link a:a: connects a node to itself"),
        ("[links]\na:b _\na:z _\n[nodes]\na: _\nb: _\n", "t.conf:3: [links] link a:z: there is no node 'z'"),
        (
            "[nodes]\na: _\nb: _\n[links]\na:b _\n\nb:a _\n",
            "t.conf:7: [links] link b:a: b and a are already linked",
        ),
        (
            "[nodes]\na: _\nelevenchars: _\n[links]\na:elevenchars _\n",
            "t.conf:5: [links] node elevenchars: its interface name elevenchars-eth0 has 16 characters,"
            " Linux allows 15; shorten the node's name to 10 characters",
        ),
    ],
)
def test_files_that_cannot_be(text, message):
    with pytest.raises(TopologyError) as error:
        parse_conf(text, "t.conf")
    assert str(error.value) == message


def test_names_with_underscores_as_in_the_ndn_testbed():
    topology = parse_conf("[nodes]\nWU: _\nMUMBAI_AWS: _\n[links]\nWU:MUMBAI_AWS delay=122ms\n", "t.conf")
    assert topology.nodes == ("WU", "MUMBAI_AWS")
    assert [end.name for end in topology.link_ends] == ["WU-eth0", "MUMBAI_AWS-eth0"]


def test_reading_a_file(tmp_path):
    path = tmp_path / "two.conf"
    path.write_text("[nodes]\na: _\nb: _\n[links]\na:b bw=1\n")
    assert read_conf(path) == Topology(("a", "b"), (Link("a", "b", bw_mbit=1),))


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(TopologyError) as error:
        read_conf(tmp_path / "none.conf")
    assert str(error.value) == f"{tmp_path}/none.conf: cannot be read: No such file or directory"
    (tmp_path / "binary.conf").write_bytes(b"\xff\xfe")
    with pytest.raises(TopologyError) as error:
        read_conf(tmp_path / "binary.conf")
    assert str(error.value) == f"{tmp_path}/binary.conf: is not a text file in UTF-8"
