"""Shrinks a failing story while the same invariant fails.

Delta debugging (Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input", 2002) over the
story's parts, in the passes of its family. First the frames' fates are pinned, if the family can: they are
made explicit, so that they can be removed one by one. Removing a part removes all references to it.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from testbed.verify.kit.family import Fails, Family, S
from testbed.verify.kit.story import changed_record, hints_of, is_record, usual_of, without

T = TypeVar("T")


def shrink(family: Family[S], story: S, *, plays: int = 600) -> S:
    """Return a smaller story that violates the same invariant as `story`, after at most `plays` plays.

    Raises ValueError if the story violates none.
    """
    first = family.play(story)
    if first.violation is None:
        raise ValueError("the story does not fail")
    kind = first.violation.kind
    budget = plays

    def fails(candidate: S) -> bool:
        nonlocal budget
        if budget <= 0 or not candidate.is_sound:
            return False
        budget -= 1
        violation = family.play(candidate).violation
        return violation is not None and violation.kind == kind

    if fails(pinned := family.pinned(story, first)):
        story = pinned
    while budget > 0:
        before = story
        for part in family.passes:
            story = part(story, fails)
        if story == before:
            break
    return story


def drop_elements_of(name: str) -> Callable[[Any, Fails[Any]], Any]:
    """Return a pass that removes elements of the named collection: of a tuple, or a dictionary's keys."""
    return partial(_leave_out, name=name)


def _leave_out(story: Any, fails: Fails[Any], name: str) -> Any:
    parts = getattr(story, name)
    if not parts:
        return story
    is_dict = isinstance(parts, dict)

    def with_only(kept: tuple[Any, ...]) -> Any:
        return replace(story, **{name: dict(kept) if is_dict else kept})

    return with_only(
        minimal_part(tuple(parts.items()) if is_dict else parts, lambda kept: fails(with_only(kept)))
    )


steps = drop_elements_of("steps")


def drop_nodes(story: S, fails: Fails[S]) -> S:
    """Remove nodes, with all references to them."""
    for name in story.columns:
        story = first_failing((without(story, name),), fails) or story
    return story


def reset_records(story: Any, fails: Fails[Any]) -> Any:
    """Reset special values of records to their defaults: all of a record, then one at a time."""
    for name in hints_of(type(story)):
        parts = getattr(story, name)
        for index, part in enumerate(parts if isinstance(parts, tuple) else ()):
            usual = usual_of(type(part)) if is_record(type(part)) else {}
            for change in (usual, *({each: value} for each, value in usual.items())) if usual else ():
                changed = changed_record(getattr(story, name)[index], change)
                candidate = replace(story, **{name: replaced(getattr(story, name), index, changed)})
                if candidate != story and fails(candidate):
                    story = candidate
    return story


def reset_links(story: Any, fails: Fails[Any]) -> Any:
    """Remove loss and reordering from the links of an emulated network."""
    for index, link in enumerate(story.links):
        plain = {"a": link["a"], "b": link["b"], "delay_ms": 5.0}
        if link != plain:
            story = (
                first_failing((replace(story, links=replaced(story.links, index, plain)),), fails) or story
            )
    return story


def round_times(story: S, fails: Fails[S]) -> S:
    """Round the times of steps."""
    for unit in (1000 * story.MS, 100 * story.MS, 10 * story.MS, story.MS):
        rounded = story.rounded(unit)
        if rounded == story or fails(rounded):
            return rounded
    return story


def emulated(*collections: str) -> tuple[Callable[[Any, Fails[Any]], Any], ...]:
    """Return the passes for stories of emulated networks, which have `links` and these collections."""
    return (steps, drop_nodes, *map(drop_elements_of, collections), reset_records, reset_links, round_times)


def first_failing(stories: Iterable[S], fails: Fails[S]) -> S | None:
    """Return the first of the stories that still fails; None if none does."""
    return next((story for story in stories if fails(story)), None)


def replaced(parts: tuple[T, ...], index: int, part: T) -> tuple[T, ...]:
    """Return `parts` with one element replaced."""
    return (*parts[:index], part, *parts[index + 1 :])


def minimal_part(parts: tuple[T, ...], fails: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    """Return a failing subset of `parts`, in order: drop halves, then quarters, then each."""
    size = max(len(parts) // 2, 1)
    while parts:
        at = 0
        while at < len(parts):
            left = parts[:at] + parts[at + size :]
            if fails(left):
                parts = left
            else:
                at += size
        if size == 1:
            break
        size //= 2
    return parts
