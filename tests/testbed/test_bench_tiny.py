"""The study of tinyISP's claims, with few messages: each claim that docs/tiny.md calls true shows already."""

import pytest
from click.testing import CliRunner

from ssb.tiny.node import Node
from testbed.bench.tiny import studies
from testbed.bench.tiny.__main__ import bench
from testbed.bench.tiny.nodes import NodeWithoutPriority
from testbed.bench.tiny.refusal import refusal


def figures(study: str, messages: int = 400) -> dict[str, dict[str, float]]:
    return {row.what: row.figures for row in studies.OF_MESSAGES[study](messages)}


def test_a_line_that_hops_holds_no_more_than_is_agreed_and_one_that_does_not_grows() -> None:
    found = figures("storage")
    hopping, growing = found["provider, feeds of 10 entries"], found["provider, a feed that never hops"]
    assert hopping["kB after 400"] < 2 * hopping["kB after 100"] < hopping["bound, kB"]
    for who in ("most", "sender", "reader"):
        assert hopping[f"{who}, kB"] < hopping["bound, kB"] / 10, "at its highest point, after any packet"
    # Each message is an entry and a chunk in the line of the sender and in that of the reader.
    assert growing["kB after 400"] - growing["kB after 200"] == pytest.approx(0.48 * 200)
    pub = found["a pub that keeps everything"]
    assert pub["kB after 400"] == pytest.approx(0.12 * 400)


def test_a_farewell_leaves_root_feeds_only() -> None:
    found = figures("farewell", 160)
    assert found["with farewells"]["feeds left"] == 1 + 8
    assert found["clients vanish, contracts stay"]["feeds left"] > 1 + 8 + 8 * 4
    assert (
        found["with farewells"]["kB after 8 clients"]
        < found["clients vanish, contracts stay"]["kB after 2 clients"]
    )


def test_control_feeds_overtake_data() -> None:
    times = [studies._request_s(make, 1) for make in (Node, NodeWithoutPriority)]
    assert times[0] < times[1] / 1.5


def test_a_vector_is_as_long_for_many_contacts_as_for_few() -> None:
    few, many = studies._bundled(1), studies._bundled(6)
    assert few["want vector, bytes"] == many["want vector, bytes"] == 18


def test_the_command_prints_a_study() -> None:
    done = CliRunner().invoke(bench, ["overhead", "--messages", "20"])
    assert done.exit_code == 0, done.output
    assert "tinyISP, 27 bytes" in done.output


def test_an_option_without_an_effect_is_refused() -> None:
    done = CliRunner().invoke(bench, ["bundling", "priority", "--messages", "20"])
    assert done.exit_code == 2
    assert "--messages has no effect on bundling and priority; leave it out." in done.output


def test_a_feed_that_is_withheld_costs_less_than_a_signature() -> None:
    found = {row.what: row.figures["packets a second"] for row in refusal()}
    assert found["entries of a feed that is withheld"] > 2 * found["forged entries"]
