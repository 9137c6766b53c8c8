"""The form of values that are not JSON: documented, stable, without changing the value, and never an exception."""

from __future__ import annotations

import copy
import enum
import itertools
import json
import os
import pickle
import string
import subprocess
import sys
import time as clock
from collections import OrderedDict, deque, namedtuple
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any
from uuid import UUID

import attrs
import numpy
import pandas
import pydantic
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from conftest import receipts
from credence_trust import Guard
from credence_trust._native import canonical_form, is_canonical, printed


@dataclass
class Point:
    x: int
    y: Any


@attrs.define
class Attrs:
    x: int


class Model(pydantic.BaseModel):
    name: str
    at: datetime


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Own:
    def __credence__(self) -> Any:
        return {"own": True}


Pair = namedtuple("Pair", "a b")

FORMS = [
    (None, "null"),
    (True, "true"),
    (12345678901234567890123, "12345678901234567890123"),
    (-(2**63) - 1, "-9223372036854775809"),
    (18.0, "18"),
    (-0.0, "0"),
    (0.1, "0.1"),
    (1e22, "1e+22"),
    (float("nan"), '"NaN"'),
    (float("-inf"), '"-Infinity"'),
    ("é", '"é"'),
    ("half \ud83d", '"half \ufffd\ufffd\ufffd"'),
    ({"b": 1, "a": [1, (2, 3)]}, '{"a":[1,[2,3]],"b":1}'),
    ({1: "i", "1": "s", None: 0, True: 1, (1, 2): 2}, '{"1":"s","1\'":1,"[1,2]":2,"null":0}'),
    ({3, 1, 2}, "[1,2,3]"),
    (frozenset({"b", "a"}), '["a","b"]'),
    (range(3), "[0,1,2]"),
    (deque([1]), "[1]"),
    (Pair(1, 2), "[1,2]"),
    (OrderedDict(z=1, a=2), '{"a":2,"z":1}'),
    (MappingProxyType({"a": 1}), '{"a":1}'),
    (Point(1, Point(2, None)), '{"x":1,"y":{"x":2,"y":null}}'),
    (Attrs(4), '{"x":4}'),
    (Model(name="n", at=datetime(2026, 1, 2, tzinfo=timezone.utc)), '{"at":"2026-01-02T00:00:00+00:00","name":"n"}'),
    (Colour.RED, '"red"'),
    (Level.HIGH, "3"),
    (datetime(2026, 1, 2, 3, 4, 5, 6), '"2026-01-02T03:04:05.000006"'),
    (date(2026, 1, 2), '"2026-01-02"'),
    (time(1, 2), '"01:02:00"'),
    (timedelta(minutes=1.5), "90"),
    (Decimal("1.10"), '"1.10"'),
    (Fraction(1, 3), '"1/3"'),
    (1 + 2j, '"(1+2j)"'),
    (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
    (PurePosixPath("/a/b"), '"/a/b"'),
    (b"\x00\xff", '"AP8="'),
    (bytearray(b"a"), '"YQ=="'),
    (memoryview(b"a"), '"YQ=="'),
    (ValueError("no"), '{"message":"no","type":"ValueError"}'),
    (numpy.float32(0.5), "0.5"),
    (numpy.int64(7), "7"),
    (numpy.array([[1, 2], [3, 4]]), "[[1,2],[3,4]]"),
    (pandas.Timestamp("2026-01-02"), '"2026-01-02T00:00:00"'),
    (pandas.NaT, "null"),
    (pandas.Series([1.5, None], name="s"), '{"data":[1.5,null],"index":[0,1],"name":"s"}'),
    (pandas.DataFrame({"a": [1], "b": ["x"]}), '{"columns":["a","b"],"data":[[1,"x"]],"index":[0]}'),
    (Own(), '{"own":true}'),
]


@pytest.mark.parametrize(("value", "form"), FORMS, ids=lambda one: type(one).__name__)
def test_each_type_has_the_form_that_is_documented(value: Any, form: str) -> None:
    written, opaque = canonical_form(value)
    assert (written, opaque) == (form, False)
    assert is_canonical(written)


def test_large_arrays_and_integers_are_bounded() -> None:
    written, opaque = canonical_form(numpy.zeros(200_001))
    assert not opaque and json.loads(written)["shape"] == [200_001] and len(written) < 200
    assert canonical_form(10**5000)[0].startswith('"0x')


def test_what_has_no_form_is_opaque_and_stable() -> None:
    class Strange:
        pass

    class Worse:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    one, opaque = canonical_form(Strange())
    assert opaque and canonical_form(Strange())[0] == one, "the address in memory does not count"
    assert json.loads(one)["type"].endswith("Strange")
    worse, opaque = canonical_form({"inside": Worse()})
    assert opaque and json.loads(worse)["inside"]["repr_sha256"] == ""
    assert canonical_form(iter([1]))[1] and canonical_form(lambda: 1)[1]


def test_generators_inside_are_not_used_up() -> None:
    inside = (n for n in range(3))
    canonical_form({"inside": inside})
    assert list(inside) == [0, 1, 2]


def test_values_without_an_end() -> None:
    endless: list[Any] = []
    endless.append(endless)
    written, opaque = canonical_form(endless)
    assert opaque and is_canonical(written) and canonical_form(endless)[0] == written
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    assert canonical_form(deep)[1]


def test_a_hostile_value_raises_nothing(guard: Guard) -> None:
    class Hostile(dict):  # type: ignore[type-arg]
        def items(self) -> Any:
            raise RuntimeError("no")

        def __iter__(self) -> Any:
            raise RuntimeError("no")

    class Lies:
        @property
        def __class__(self) -> Any:
            raise RuntimeError("no")

        def __getattribute__(self, name: str) -> Any:
            raise RuntimeError("no")

        def __eq__(self, other: object) -> bool:
            raise RuntimeError("no")

        __hash__ = None  # type: ignore[assignment]

    for value in (Hostile(a=1), Lies(), {"a": Lies()}):
        assert guard.wrap(lambda: value, name="give")() is value


# -- values that have no end, or too many parts ------------------------------------------------------------------------------------------


@dataclass
class Person:
    name: str
    parent: Any = None
    children: Any = ()


def family(depth: int, width: int) -> Person:
    """Parents know their children, and children their parents."""
    person = Person("x" * depth)
    if depth:
        person.children = [family(depth - 1, width) for _ in range(width)]
        for child in person.children:
            child.parent = person
    return person


def quickly(function: Any, *args: Any) -> Any:
    start = clock.monotonic()
    result = function(*args)
    assert clock.monotonic() - start < 20.0, "it takes too long"
    return result


def test_a_tree_whose_nodes_know_their_parents_does_not_hang_a_tool(guard: Guard) -> None:
    root = family(4, 4)
    assert quickly(guard.wrap(lambda: root, name="family")) is root
    written, opaque = canonical_form(root)
    assert opaque and json.loads(written)["children"][0]["parent"] == {"cycle": 3, "type": f"{__name__}.Person"}
    assert canonical_form(copy.deepcopy(root))[0] == written
    # As it is seen from a leaf, it is another value.
    assert canonical_form(root.children[0])[0] != canonical_form(root.children[0].children[0])[0]


def test_a_value_that_contains_itself_in_many_ways() -> None:
    everyone: list[Any] = []
    for n in range(12):
        everyone.append(Person(str(n), children=everyone))
    written, opaque = quickly(canonical_form, everyone)
    assert opaque and is_canonical(written)
    mine: dict[str, Any] = {}
    mine["me"] = mine
    assert json.loads(canonical_form(mine)[0]) == {"me": {"cycle": 1, "type": "builtins.dict"}}


def test_a_value_of_two_to_the_sixty_parts_ends(guard: Guard) -> None:
    shared: Any = ["x"]
    for _ in range(59):
        shared = [shared, shared]
    assert quickly(guard.wrap(lambda: shared, name="shared")) is shared
    written, opaque = quickly(canonical_form, shared)
    assert opaque and json.loads(written)["first_parts"] == 1_000_000
    much = ["x" * 100_000] * 10_000
    written, opaque = quickly(canonical_form, much)
    assert opaque and len(written) < 200 and written == canonical_form(list(much))[0]
    # The same text, once: all of it.
    assert canonical_form(much[:10]) == ('["' + '","'.join(much[:10]) + '"]', False)


def test_a_result_with_too_many_parts_is_not_judged(make_guard: Any, state: Path) -> None:
    told: list[Any] = []
    guard = make_guard("flag", on_flag=lambda *one: told.append(one))
    guard.wrap(lambda: [0] * 1_000_001, name="many", output_schema={"type": "array"})()
    guard.close()
    (receipt,) = receipts(state)
    assert "more parts" in receipt["unjudged"] and "opaque_value" in receipt["signals"] and not told


def test_deep_values_are_committed_to() -> None:
    def deep(levels: int, end: Any) -> Any:
        for _ in range(levels):
            end = [end]
        return end

    assert canonical_form(deep(100, 1))[0] != canonical_form(deep(100, 2))[0]
    assert canonical_form(deep(100, 1))[1] and is_canonical(canonical_form(deep(100, 1))[0])
    assert quickly(canonical_form, deep(100_000, 1))[1]


def test_ranges_and_mappings_without_an_end() -> None:
    class Endless(Mapping):  # type: ignore[type-arg]
        def __getitem__(self, key: Any) -> Any:
            return key

        def __iter__(self) -> Any:
            return itertools.count()

        def __len__(self) -> int:
            return 3

    assert canonical_form(range(10**15))[0] == '{"start":0,"step":1,"stop":1000000000000000,"type":"range"}'
    assert json.loads(quickly(canonical_form, Endless())[0])["first_parts"] == 1_000_000


class Misbehaving(set):  # type: ignore[type-arg]
    def __iter__(self) -> Any:
        raise RuntimeError("no")

    def __len__(self) -> int:
        raise RuntimeError("no")


class MisbehavingFrozen(frozenset):  # type: ignore[type-arg]
    def __iter__(self) -> Any:
        raise RuntimeError("no")


def test_sets_that_misbehave_or_change_meanwhile(guard: Guard) -> None:
    assert canonical_form(Misbehaving({2, 1}))[0] == "[1,2]" == canonical_form(MisbehavingFrozen({2, 1}))[0]

    class Adds:
        def __init__(self, to: Any) -> None:
            self.to = to

        def __credence__(self) -> Any:
            if isinstance(self.to, set):
                self.to.add(len(self.to))
            elif isinstance(self.to, dict):
                self.to[len(self.to)] = 1
            else:
                self.to.append(1)
            return "added"

    members: set[Any] = set()
    members.update(Adds(members) for _ in range(5))
    assert canonical_form(members)[0] == str(["added"] * 5).replace("'", '"').replace(" ", "")
    named: dict[Any, Any] = {}
    named.update({str(n): Adds(named) for n in range(5)})
    canonical_form(named)
    listed: list[Any] = []
    listed.extend(Adds(listed) for _ in range(5))
    canonical_form(listed)
    assert guard.wrap(lambda **given: 1, name="given")(**{"a": Adds(named)}) == 1


def test_half_surrogates_anywhere(guard: Guard, state: Path) -> None:
    half = "\udcff"

    def fails() -> None:
        raise ValueError(half)

    with pytest.raises(ValueError) as raised:
        guard.wrap(fails, name=f"to{half}ol")()
    assert raised.value.args == (half,)
    assert guard.wrap(lambda **given: half, name="echo", shown=lambda value: half)(**{half: half}) == half
    with pytest.raises(ValueError):
        guard.session(half)
    guard.close()
    assert [one["tool"] for one in receipts(state)] == ["to?ol", "echo"]


# -- numpy and pandas -------------------------------------------------------------------------------------------------------------------------


def test_large_arrays_are_committed_to_by_their_elements() -> None:
    def texts(last: str) -> Any:
        return numpy.array([f"{n}" for n in range(150_000)] + [last], dtype=object)

    # Equal texts at other addresses are the same value.
    assert canonical_form(texts("end"))[0] == canonical_form(texts("".join(["e", "nd"])))[0]
    assert canonical_form(texts("end"))[0] != canonical_form(texts("END"))[0]
    padded = numpy.zeros(150_000, dtype=numpy.dtype([("a", "i1"), ("b", "i8")], align=True))
    assert canonical_form(padded)[0] == canonical_form(padded.copy())[0]
    assert json.loads(canonical_form(numpy.zeros((400, 400)))[0])["shape"] == [400, 400]
    assert canonical_form(numpy.longdouble("1.5"))[0] == '"1.5"'


def test_large_tables_are_digests() -> None:
    def table(last: Any) -> Any:
        return pandas.DataFrame({"n": range(60_000), "text": [str(n) for n in range(59_999)] + [last]})

    written, opaque = quickly(canonical_form, table("end"))
    form = json.loads(written)
    assert not opaque and len(written) < 1000 and form["shape"] == [60_000, 2] and form["columns"] == ["n", "text"]
    assert canonical_form(table("end"))[0] == written != canonical_form(table("END"))[0]
    assert form["sha256"][0] == json.loads(canonical_form(table("END"))[0])["sha256"][0]
    for large in (table("x")["text"], table("x")["n"]):
        longer = pandas.concat([large] * 3)
        assert len(canonical_form(longer)[0]) < 500 and canonical_form(longer) == canonical_form(longer.copy())
        assert canonical_form(longer)[0] != canonical_form(longer[::-1])[0]
    assert len(quickly(canonical_form, pandas.Index(range(10**6)))[0]) < 500


# -- arbitrary values -------------------------------------------------------------------------------------------------------------------------


class Text(str):
    pass


class Number(int):
    pass


class Members(set):  # type: ignore[type-arg]
    pass


class Listed(list):  # type: ignore[type-arg]
    pass


class Named(dict):  # type: ignore[type-arg]
    pass


class Optional_(pydantic.BaseModel):
    value: Any = None
    more: list[Any] = []


def cyclic(items: list[Any]) -> Any:
    items.append({"all": items, "some": items[:1]})
    return items


any_text = some.text(some.characters())
scalars = (
    some.none()
    | some.booleans()
    | some.integers()
    | some.floats()
    | any_text
    | some.binary()
    | some.decimals()
    | some.fractions()
    | some.datetimes()
    | some.dates()
    | some.times()
    | some.timedeltas()
    | some.uuids()
    | some.complex_numbers()
    | some.builds(Point, some.integers(), any_text)
    | some.builds(Attrs, some.integers())
    | some.sampled_from([Colour.RED, Level.HIGH, numpy.float32(0.1), numpy.int8(3), pandas.NaT, pandas.NA, numpy.datetime64("2026-01-02")])
    | some.builds(Text, any_text)
    | some.builds(Number, some.integers())
    | some.builds(ValueError, any_text)
    | some.builds(lambda items: numpy.array(items, dtype=float), some.lists(some.floats(), max_size=5))
    | some.builds(lambda items: numpy.array(items, dtype=object), some.lists(some.text(), max_size=5))
    | some.builds(lambda items: pandas.Series(items, dtype=object), some.lists(some.none() | some.text() | some.floats(), max_size=5))
    | some.builds(lambda items: pandas.DataFrame({"a": items, "b": items[::-1]}), some.lists(some.integers(-9, 9), max_size=5))
    | some.builds(Members, some.sets(some.integers()))
)
names = any_text | some.integers() | some.none() | some.booleans() | some.floats(allow_nan=False) | some.tuples(some.integers(), some.text())


def within(inner: Any) -> Any:
    return (
        some.lists(inner)
        | some.dictionaries(names, inner)
        | some.tuples(inner, inner)
        | some.sets(some.integers() | some.text() | some.frozensets(some.text()))
        | some.builds(Point, some.integers(), inner)
        | some.builds(Listed, some.lists(inner))
        | some.builds(Named, some.dictionaries(some.text(), inner))
        | some.builds(Optional_, value=inner, more=some.lists(inner, max_size=2))
        | some.builds(deque, some.lists(inner))
        | some.builds(cyclic, some.lists(inner, max_size=3))
    )


picklable = some.recursive(scalars, within, max_leaves=20)
anything = some.recursive(scalars | some.functions() | some.builds(object), within, max_leaves=20)


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(anything)
def test_arbitrary_values_pass_unchanged_with_a_stable_form(guard: Guard, value: Any) -> None:
    before = repr(value)
    one, opaque = canonical_form(value)
    assert (one, opaque) == canonical_form(value)
    assert is_canonical(one)
    assert guard.wrap(lambda x: x, name="echo")(value) is value
    assert repr(value) == before
    if not opaque:
        assert canonical_form(copy.deepcopy(value))[0] == one
    # What JSON has too is that JSON.
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return
    if isinstance(value, (str, int)) and not isinstance(value, bool) and abs(value if isinstance(value, int) else 0) < 2**53:
        assert json.loads(one) == json.loads(text) or "\\ud" in text


plain = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text() | some.text(string.printable),
    lambda inner: some.lists(inner) | some.dictionaries(names, inner) | some.tuples(inner, inner),
    max_leaves=20,
)


@settings(max_examples=300, deadline=None)
@given(plain | anything)
def test_what_is_printed_without_python_is_what_python_prints(value: Any) -> None:
    assert printed(value) in (None, repr(value))


def test_common_values_are_printed_without_python() -> None:
    for value in [{"a": 1.5, "b": [True, None, -0.0, 1e15, 0.0001], "c d": {"e": "text"}}, [], {}, 7, 2.0]:
        assert printed(value) == str(value)


def test_names_whose_text_is_code_are_not_printed(guard: Guard, state: Path) -> None:
    class Name(str):
        def __repr__(self) -> str:
            raise AssertionError("code of somebody else")

    assert printed({Name("a"): 1}) is None
    assert guard.wrap(lambda: {Name("a"): 1}, name="named")() == {"a": 1}


FORMS_OF = """
import pickle, sys
sys.path.insert(0, sys.argv[1])
from credence_trust._native import canonical_form
for value in pickle.loads(sys.stdin.buffer.read()):
    print(canonical_form(value)[0].encode().hex())
"""


@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(some.lists(picklable, min_size=25, max_size=40))
def test_forms_are_the_same_in_every_process(values: list[Any]) -> None:
    forms = [canonical_form(value)[0] for value in values]
    for seed in ("1",):
        done = subprocess.run(
            [sys.executable, "-c", FORMS_OF, str(Path(__file__).parent)],
            input=pickle.dumps(values),
            capture_output=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
            timeout=120,
        )
        assert done.returncode == 0, done.stderr.decode()
        assert [bytes.fromhex(line).decode() for line in done.stdout.decode().splitlines()] == forms


def test_numbers_that_are_equal_have_equal_forms() -> None:
    assert canonical_form(1.0)[0] == canonical_form(1)[0]
    assert canonical_form(2**53 + 1)[0] != canonical_form(float(2**53))[0]
