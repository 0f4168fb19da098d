"""A story: a small world and its events, made from a seed, serialisable as JSON.

A family derives a frozen dataclass from `Story`. It holds numbers, texts, bytes, messages of SSB, records
(dataclasses and named tuples), and collections: tuples, frozen sets, dictionaries. A field's type determines
its parser.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from types import UnionType
from typing import (
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Self,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from base.units import MS
from ssb.message import Message

T = TypeVar("T")


class Step(NamedTuple):
    """A timed event, in the story's unit: its action and arguments."""

    at: int
    do: str
    what: tuple[Any, ...]


@dataclass(frozen=True)
class Story:
    """A world and its events. Its only randomness follows from `seed`.

    Attributes:
        seed: of luck, nonces and keys.
        steps: in order.
        MS: a millisecond in the story's unit of time.
        PAIRS: a step that breaks something for good -> the step that repairs it, both of the same nodes.
    """

    MS: ClassVar[int] = MS
    PAIRS: ClassVar[Mapping[str, str]] = {}

    seed: int
    steps: tuple[Step, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the nodes in a chart."""
        return ()

    @property
    def last(self) -> int:
        """Time of the last event, in the story's unit."""
        return max((step.at for step in self.steps), default=0)

    @property
    def span(self) -> int:
        """Time span of the steps, in the story's unit."""
        return self.last + 1

    @property
    def is_sound(self) -> bool:
        """Whether all damage by steps is repaired later, so that all can be well in the end."""
        mended: dict[tuple[str, tuple[Any, ...]], int] = {}
        for step in self.steps:
            mended[step.do, step.what[:2]] = max(step.at, mended.get((step.do, step.what[:2]), 0))
        return all(
            mended.get((self.PAIRS[step.do], step.what[:2]), -1) >= step.at
            for step in self.steps
            if step.do in self.PAIRS
        )

    def latest(self, step: Step) -> int:
        """Return the latest allowed time of a step."""
        return self.span

    def rounded(self, unit: int) -> Self:
        """Return the story with steps at multiples of `unit`."""
        return replace(self, steps=tuple(step._replace(at=step.at // unit * unit) for step in self.steps))

    def preface(self) -> Iterator[str]:
        """Yield the world's description as lines for a chart, without default values."""
        yield f"seed {self.seed}; times in ms"
        for name in hints_of(type(self)):
            if (value := getattr(self, name)) and name not in ("seed", "steps"):
                text = _shown(value)
                yield f"{name}: {text if len(text) < _LONGEST else text[:_LONGEST] + ' ...'}"

    def to_json(self) -> dict[str, Any]:
        """Return the story as JSON values."""
        value: dict[str, Any] = _plain(self)
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Parse the output of to_json(); raise ValueError, KeyError or TypeError for anything else."""
        story: Self = _read(cls, value)
        return story


_LONGEST = 150


def _shown(value: Any) -> str:
    if is_record(type(value)):
        usual = usual_of(type(value))
        parts = {name: getattr(value, name) for name in hints_of(type(value))}
        value = {name: part for name, part in parts.items() if name not in usual or part != usual[name]}
    if isinstance(value, dict):
        return " ".join(f"{name} {_shown(part)}" for name, part in value.items())
    is_list = isinstance(value, tuple | frozenset)
    return f"({', '.join(map(_shown, value))})" if is_list else str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Message):
        return value.text
    if isinstance(value, bytes):
        return value.hex()
    if is_record(type(value)):
        return {name: _plain(getattr(value, name)) for name in hints_of(type(value))}
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, frozenset):
        return sorted(value)
    return [_plain(part) for part in value] if isinstance(value, tuple | list) else value


def is_record(kind: type) -> bool:
    """Return whether a type's values have named and typed fields."""
    return (is_dataclass(kind) and not issubclass(kind, Message)) or hasattr(kind, "_fields")


def hints_of(kind: type) -> dict[str, Any]:
    """Return the types of a record's fields, by name."""
    hints = get_type_hints(kind)
    names = [each.name for each in fields(kind)] if is_dataclass(kind) else [*kind._fields]  # type: ignore[attr-defined]
    return {name: hints[name] for name in names}


def changed_record(record: Any, change: Mapping[str, Any]) -> Any:
    """Return a record with changed fields."""
    return replace(record, **change) if is_dataclass(record) else record._replace(**change)  # type: ignore[type-var]


def usual_of(kind: type) -> dict[str, Any]:
    """Return the defaults of a record's fields, by name."""
    if not is_dataclass(kind):
        return dict(kind._field_defaults)  # type: ignore[attr-defined]
    return {each.name: each.default for each in fields(kind) if each.default is not MISSING}


_READERS: dict[Any, Callable[[Any], Any]] = {
    bytes: bytes.fromhex,
    Message: Message.from_text,
    float: float,
    Any: lambda value: tuple(map(_READERS[Any], value)) if isinstance(value, list | tuple) else value,
}


def _read(hint: Any, value: Any) -> Any:
    """Parse a JSON value by its type."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint in _READERS:
        return _READERS[hint](value)
    if origin in (Union, UnionType):
        readable = [each for each in inner if each is not type(None)]
        return None if value is None else _read(readable[0] if len(readable) == 1 else Any, value)
    if origin is Literal:
        return inner[inner.index(value)]
    if origin is dict:
        return {_key(inner[0], key): _read(inner[1], part) for key, part in value.items()}
    if origin is frozenset or (origin is tuple and inner[-1] is Ellipsis):
        return origin(_read(inner[0], part) for part in value)
    if origin is tuple:
        return tuple(_read(each, part) for each, part in zip(inner, value, strict=True))
    if is_record(hint):
        hints = hints_of(hint)
        return hint(**{name: _read(hints[name], part) for name, part in value.items()})
    if not isinstance(value, hint):
        raise TypeError(f"{value!r} is no {hint.__name__}")
    return value


def _key(hint: Any, key: str) -> Any:
    return int(key) if hint is int else key


def without(story: T, name: str) -> T:
    """Return a story without a node and without all references to it.

    Collections lose the name, and each record, pair or dictionary that mentions it.
    """
    changes = {each: _kept(hint, getattr(story, each), name) for each, hint in hints_of(type(story)).items()}
    return replace(story, **changes)  # type: ignore[type-var]


def _kept(hint: Any, value: Any, name: str) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is frozenset or (origin is tuple and inner[-1] is Ellipsis):
        return origin(_kept(inner[0], part, name) for part in value if not _mentions(inner[0], part, name))
    if origin is dict:
        return {
            key: _kept(inner[1], part, name)
            for key, part in value.items()
            if key != name and not _mentions(inner[1], part, name)
        }
    return value


def _mentions(hint: Any, value: Any, name: str) -> bool:
    """Return whether an element of a collection contains a name; inner collections lose the name instead."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is not Any and (origin is frozenset or (origin is tuple and inner[-1] is Ellipsis)):
        return inner[0] is Any and name in value
    if is_record(type(value)):
        hints = hints_of(type(value))
        return any(_mentions(hints[each], getattr(value, each), name) for each in hints)
    if isinstance(value, dict):
        return name in value.values()
    return name in value if isinstance(value, tuple) else bool(value == name)
