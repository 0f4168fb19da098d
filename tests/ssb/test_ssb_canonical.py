import json
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from patience import PATIENCE_S

from ssb.canonical import InvalidJson, parse, stringify

HERE = Path(__file__).parent
CANON = json.loads((HERE.parent / "data" / "canon_v8.json").read_text())
V8 = json.loads((HERE / "v8_pairs.json").read_text())

TEXTS = st.text(st.characters())  # with lone surrogates
KEYS = TEXTS | st.integers(-1, 2**33).map(str) | st.sampled_from(["01", "00", "1.0", "", "__proto__"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=20,
)


@pytest.mark.parametrize("name", CANON)
def test_canon_v8(name):
    assert stringify(parse(CANON[name]["in"])) == CANON[name]["canon"]


@pytest.mark.parametrize(("bits", "text"), V8["numbers"])
def test_number_as_v8_writes_it(bits, text):
    (number,) = struct.unpack(">d", bytes.fromhex(bits))
    assert stringify(number) == text
    assert parse(text) == number


@pytest.mark.parametrize(("text", "indented", "compact"), V8["texts"])
def test_text_as_v8_reads_and_writes_it(text, indented, compact):
    assert stringify(parse(text)) == indented
    assert stringify(parse(text), indent=0) == compact


@pytest.mark.parametrize("text", V8["refused"])
def test_what_v8_refuses_is_refused(text):
    with pytest.raises(InvalidJson):
        parse(text)


@pytest.mark.skipif(not shutil.which("node"), reason="checks our table against node, which is not here")
def test_table_is_what_node_says(tmp_path):
    script = tmp_path / "make_v8_pairs.js"
    script.write_bytes((HERE / "make_v8_pairs.js").read_bytes())
    subprocess.run(["node", str(script)], check=True, timeout=PATIENCE_S)
    assert json.loads((tmp_path / "v8_pairs.json").read_text()) == V8


@given(value=VALUES)
def test_text_is_stable(value):
    text = stringify(value)
    assert stringify(parse(text)) == text
    assert stringify(parse(stringify(value, indent=0))) == text
    assert stringify(parse(text), indent=0) == stringify(value, indent=0)
    text.encode()  # no lone surrogate is left


@given(number=st.floats(allow_nan=False, allow_infinity=False))
def test_number_survives(number):
    assert float(stringify(number)) == number


@given(number=st.integers(-(2**1030), 2**1030))
def test_integer_becomes_the_nearest_double(number):
    try:
        assert stringify(number) == stringify(float(number))
    except OverflowError:
        assert stringify(number) == "null"


@given(text=TEXTS)
def test_string_survives(text):
    joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    assert parse(stringify(text)) == joined


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan"), 10**400])
def test_number_beyond_doubles_is_null(number):
    assert stringify([number], indent=0) == "[null]"


@given(text=st.text() | st.text('{}[]:,"\\u0123456789eE+-. \nnulltruefalse', max_size=30))
def test_any_text_is_a_value_or_refused(text):
    try:
        value = parse(text)
    except InvalidJson:
        return
    assert stringify(parse(stringify(value))) == stringify(value)


def test_deep_nesting():
    deep = "[" * 100 + "]" * 100
    assert stringify(parse(deep), indent=0) == deep
    with pytest.raises(InvalidJson, match="nested too deeply"):
        parse("[" * 200_000 + "]" * 200_000)
    value: list = []
    for _ in range(200_000):
        value = [value]
    with pytest.raises(InvalidJson, match="nested too deeply"):
        stringify(value)
    while value:  # one level at a time, for the interpreter's own recursion when it frees a list
        value = value[0]


@pytest.mark.parametrize("value", [b"bytes", {1, 2}, (1,), object()])
def test_what_is_no_json_value(value):
    with pytest.raises(TypeError, match="not a JSON value"):
        stringify([value])


def test_keys_must_be_text():
    with pytest.raises(TypeError):
        stringify({1: 2})
