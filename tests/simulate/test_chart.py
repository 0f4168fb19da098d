"""The sequence chart of a small story, to the letter."""

from base.units import MS
from testbed.verify.kit.chart import draw
from testbed.verify.kit.outcome import Outcome, Row, Violation
from testbed.verify.push.stories.story import Feed, Link, Node, Story, Subscriber

STORY = Story(
    seed=7,
    nodes=(Node("a"), Node("b", push=False), Node("c", cache_items=2)),
    links=(Link("a", "b"), Link("b", "c")),
    feeds=(Feed("native", 0, ("a",)),),
    subscribers=(Subscriber("s0", "c", 0, credit=2, pause=20_000),),
    steps=(),
    calm=0,
)

CHART = """\
seed 7, next hops downhill; times in ms
node b: without controlled push
node c: caches 2 items
feed 0: native, published at a
s0 at c: feed 0, credit 2, lifetime 10000 ms, takes 1 every 20 ms

            a                   b                   c
     0.000  * publishes 3 of feed 0                 |
            |                   |                   * s0 subscribes after 0
     5.000  |                   |<---- LLI 1+2 -----|
            |                   |-- item 1 (lost) -x|
            |                   |------------------>|  item 1 tip 3/2 (again)
    10.000  |--------------- item 1 --------------->|
    11.500  --- calm ---        |                   |

VIOLATED  granted at b: why
"""


def test_a_chart() -> None:
    outcome = Outcome(
        violation=Violation("granted", "b", "why"),
        rows=[
            Row(0, "a", None, "publishes 3 of feed 0"),
            Row(0, "c", None, "s0 subscribes after 0"),
            Row(5 * MS, "c", "b", "LLI 1+2"),
            Row(5 * MS, "b", "c", "item 1 (lost)", lost=True),
            Row(5 * MS, "b", "c", "item 1 tip 3/2 (again)"),
            Row(10 * MS, "a", "c", "item 1"),
            Row(11_500_000, "", None, "calm"),
        ],
    )
    assert draw(STORY, outcome) == CHART
