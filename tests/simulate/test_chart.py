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
seed 7; times in ms
nodes: (name a, name b push False, name c cache_items 2)
links: (a a b b, a b b c)
feeds: (format native pool 0 devices (a))
subscribers: (name s0 node c feed 0 credit 2 pause 20000)
routing: downhill

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
