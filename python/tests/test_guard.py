"""The guard in process: a receipt for each call, before the value is returned, whatever kind of function it is."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import dataclasses
import functools
import gc
import inspect
import itertools
import json
import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
import types
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, AsyncIterator, Callable, Iterator, Optional, TypedDict

import pydantic
import pytest

from conftest import credence, receipts
from credence_trust import Guard, GuardUnavailable, ResultWithheld, ToolProfile, Verdict, schemas

MakeGuard = Callable[..., Guard]


def outcomes(state: Path) -> list[tuple[str, str]]:
    return [(one["tool"], one["outcome"]) for one in receipts(state)]


# -- kinds of functions -----------------------------------------------------------------------------------------------------------


def test_a_function_keeps_its_name_its_signature_and_its_value(guard: Guard, state: Path) -> None:
    value = {"temperature": 18}

    @guard.tool
    def get_weather(city: str, *, unit: str = "C") -> dict:  # type: ignore[type-arg]
        """Weather of a city."""
        return value

    assert get_weather("London", unit="F") is value
    assert get_weather.__name__ == "get_weather" and get_weather.__doc__ == "Weather of a city."
    assert list(inspect.signature(get_weather).parameters) == ["city", "unit"]
    guard.close()
    (receipt,) = receipts(state)
    assert (receipt["tool"], receipt["outcome"], receipt["vantage"], receipt["agent"]) == ("get_weather", "result", "in_process", "bot")
    assert receipt["verdict"] == "accept" and receipt["server"] == "tests" and receipt["execution_ms"] >= 0


def test_every_kind_of_function_gets_a_receipt(guard: Guard, state: Path) -> None:
    class Shop:
        @guard.tool
        def method(self, n: int) -> int:
            return n

        @guard.tool
        @classmethod
        def of_class(cls, n: int) -> int:
            return n

        @staticmethod
        @guard.tool
        def static(n: int) -> int:
            return n

        def __call__(self, n: int) -> int:
            return n

    @guard.tool(name="renamed")
    async def coroutine(n: int) -> int:
        await asyncio.sleep(0)
        return n

    @guard.tool
    def generator(n: int) -> Iterator[int]:
        yield from range(n)

    @guard.tool
    async def async_generator(n: int) -> AsyncIterator[int]:
        for i in range(n):
            yield i

    async def all_of(items: AsyncIterator[int]) -> list[int]:
        return [item async for item in items]

    shop = Shop()
    assert (shop.method(1), Shop.of_class(2), Shop.static(3)) == (1, 2, 3)
    assert guard.wrap(shop, name="object")(4) == 4
    assert guard.wrap(functools.partial(shop, 5), name="partial")() == 5
    assert guard.wrap(len)([1, 2]) == 2
    assert guard.wrap(lambda: asyncio.sleep(0, 6), name="lazy")
    assert asyncio.run(coroutine(7)) == 7 and inspect.iscoroutinefunction(coroutine)
    assert list(generator(3)) == [0, 1, 2]
    assert asyncio.run(all_of(async_generator(2))) == [0, 1]

    async def lazily() -> Any:
        return await guard.wrap(lambda: asyncio.sleep(0, "late"), name="lazy")()

    assert asyncio.run(lazily()) == "late"
    guard.close()
    tools = [tool for tool, _ in outcomes(state)]
    assert tools == ["method", "of_class", "static", "object", "partial", "len", "renamed", "generator", "async_generator", "lazy"]


def test_a_generator_that_is_not_used_up_has_a_receipt_of_what_it_gave(guard: Guard) -> None:
    @guard.tool
    def pages(n: int) -> Iterator[int]:
        for i in range(n):
            yield i

    running = pages(10)
    assert (next(running), next(running)) == (0, 1)
    running.close()
    assert guard.check(_transcript("pages", {"n": 10}, "[0, 1]")).statuses() == ["executed"]


def test_a_generator_can_be_sent_values_and_returns(guard: Guard) -> None:
    @guard.tool
    def talk() -> Any:
        got = yield "one"
        got = yield got
        return "end"

    running = talk()
    assert next(running) == "one" and running.send("two") == "two"
    with pytest.raises(StopIteration) as stop:
        running.send(None)
    assert stop.value.value == "end"


def test_a_function_is_what_it_is_and_not_what_it_wraps(guard: Guard, state: Path) -> None:
    @guard.tool
    @contextlib.contextmanager
    def opened(n: int) -> Iterator[int]:
        yield n

    with opened(3) as number:
        assert number == 3

    async def inner(n: int) -> int:
        return n

    @guard.tool(name="waits")
    @functools.wraps(inner)
    def waits(n: int) -> int:
        return asyncio.run(inner(n))

    assert waits(4) == 4

    def items(n: int) -> Iterator[int]:
        yield from range(n)

    @guard.tool(name="streams")
    @functools.wraps(items)
    def streams(n: int) -> Any:
        return items(n)

    assert list(streams(2)) == [0, 1]

    @guard.tool
    @types.coroutine
    def old_style() -> Any:
        yield from asyncio.sleep(0).__await__()
        return "awaited"

    async def main() -> Any:
        return await old_style()

    assert asyncio.run(main()) == "awaited"
    guard.close()
    assert outcomes(state) == [(tool, "result") for tool in ("opened", "waits", "streams", "old_style")]
    assert all(one["verdict"] == "accept" for one in receipts(state))


def test_a_generator_can_be_thrown_into(guard: Guard, state: Path) -> None:
    @guard.tool
    def talk() -> Any:
        heard = []
        while len(heard) < 2:
            try:
                heard.append((yield len(heard)))
            except KeyError as error:
                heard.append(str(error))
        return heard

    running = talk()
    assert next(running) == 0 and running.throw(KeyError("k")) == 1
    with pytest.raises(StopIteration) as stop:
        running.send("sent")
    assert stop.value.value == ["'k'", "sent"]

    @guard.tool
    async def talk_async() -> Any:
        heard: Any = None
        while heard != "end":
            try:
                heard = yield heard
            except KeyError as error:
                heard = str(error)

    async def main() -> list[Any]:
        running = talk_async()
        return [await running.asend(None), await running.asend("sent"), await running.athrow(KeyError("k")), await running.aclose()]

    assert asyncio.run(main()) == [None, "sent", "'k'", None]

    closed: list[str] = []

    @guard.tool
    def closes() -> Any:
        try:
            yield 1
        finally:
            closed.append("closed")

    running = closes()
    next(running)
    running.close()
    assert closed == ["closed"]

    @guard.tool
    def stubborn() -> Any:
        try:
            yield 1
        finally:
            raise OSError("while it closes")

    running = stubborn()
    next(running)
    with pytest.raises(OSError):
        running.close()
    guard.close()
    assert outcomes(state) == [("talk", "result"), ("talk_async", "result"), ("closes", "result"), ("stubborn", "tool_error")]


def test_items_are_committed_to_as_they_were_when_they_came(guard: Guard) -> None:
    @guard.tool
    def rows() -> Iterator[dict[str, int]]:
        row = {"n": 0}
        for n in range(3):
            row["n"] = n
            yield row

    assert [dict(row) for row in rows()] == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert guard.check(_transcript("rows", {}, '[{"n": 0}, {"n": 1}, {"n": 2}]')).statuses() == ["executed"]
    assert guard.check(_transcript("rows", {}, "[{'n': 0}, {'n': 1}, {'n': 2}]")).statuses() == ["executed"], "as Python prints it"
    assert guard.check(_transcript("rows", {}, '[{"n": 2}, {"n": 2}, {"n": 2}]')).statuses() == ["altered"]


def test_a_generator_with_many_items_is_bounded(
    guard: Guard, make_guard: MakeGuard, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pages() -> Iterator[str]:
        # A part is 64 bytes of text: more than a million of them.
        for n in range(80):
            yield f"{n}" * 500_000

    tracemalloc.start()
    assert sum(1 for _ in guard.wrap(pages)()) == 80
    assert tracemalloc.get_traced_memory()[1] < 10_000_000, "items are not kept as Python objects"
    tracemalloc.stop()
    guard.close()
    (receipt,) = receipts(state)
    assert receipt["signals"] == ["opaque_value"] and "more parts" in receipt["unjudged"]

    monkeypatch.setattr("credence_trust._calls.MAX_HELD", 100)
    enforcing = make_guard("enforce", name="enforcing")
    closed: list[int] = []

    def endless() -> Iterator[int]:
        try:
            yield from itertools.count()
        finally:
            closed.append(1)

    async def endless_async() -> AsyncIterator[int]:
        for n in itertools.count():
            yield n

    with pytest.raises(ResultWithheld, match="there can be 100"):
        next(enforcing.wrap(endless)())
    assert closed == [1]
    with pytest.raises(ResultWithheld, match="there can be 100"):
        asyncio.run(enforcing.wrap(endless_async)().__anext__())


def test_errors_are_receipts_too(guard: Guard, state: Path) -> None:
    @guard.tool
    def fails(n: int) -> int:
        raise ValueError(f"no {n}")

    @guard.tool
    async def fails_later() -> None:
        raise KeyError("x")

    @guard.tool
    def stops() -> Iterator[int]:
        yield 1
        raise OSError("gone")

    with pytest.raises(ValueError, match="no 1"):
        fails(1)
    with pytest.raises(KeyError):
        asyncio.run(fails_later())
    with pytest.raises(OSError):
        list(stops())
    with pytest.raises(TypeError):
        fails()
    guard.close()
    assert outcomes(state) == [(tool, "tool_error") for tool in ("fails", "fails_later", "stops", "fails")]
    assert all(one["unjudged"] == "the tool reported an error" for one in receipts(state))


def test_an_error_that_cannot_be_printed_stays_the_error_that_it_is(guard: Guard, state: Path) -> None:
    class Silent(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    class Leaves(Exception):
        def __str__(self) -> str:
            raise SystemExit(3)

    for kind in (Silent, Leaves):

        def fails() -> None:
            raise kind

        with pytest.raises(kind) as raised:
            guard.wrap(fails)()
        assert raised.value.__context__ is None
    guard.close()
    assert outcomes(state) == [("fails", "tool_error")] * 2


def test_a_cancelled_task_has_a_receipt(guard: Guard, state: Path) -> None:
    @guard.tool
    async def slow() -> None:
        await asyncio.Event().wait()

    async def cancel() -> None:
        task = asyncio.create_task(slow())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    guard.close()
    assert outcomes(state) == [("slow", "tool_error")]


# -- modes ------------------------------------------------------------------------------------------------------------------------

PROFILE = ToolProfile("lookup", expected_latency_ms=(0, 1e9), required_fields=["id", "price"], has_network_io=False)


def test_observe_records_and_says_nothing(make_guard: MakeGuard, state: Path, caplog: pytest.LogCaptureFixture) -> None:
    told: list[Any] = []
    guard = make_guard("observe", on_flag=lambda *one: told.append(one))
    lookup = guard.wrap(lambda: {"nothing": 1}, name="lookup", profile=PROFILE)
    assert lookup() == {"nothing": 1}
    assert not told and not caplog.records
    guard.close()
    assert receipts(state)[0]["verdict"] == "block"


def test_flag_returns_the_value_and_tells(make_guard: MakeGuard, caplog: pytest.LogCaptureFixture) -> None:
    told: list[tuple[str, Verdict]] = []
    guard = make_guard("flag", on_flag=lambda *one: told.append(one))
    lookup = guard.wrap(lambda: {"nothing": 1}, name="lookup", profile=PROFILE)
    assert lookup() == {"nothing": 1}
    ((tool, verdict),) = told
    assert tool == "lookup" and verdict.verdict == "block" and verdict.signals == ["schema_mismatch"]
    assert verdict.withheld is None and verdict.posterior is not None and verdict.posterior > 0.5
    assert "lookup" in caplog.text and verdict.receipt in caplog.text


def test_a_callback_that_fails_is_not_the_tools_failure(make_guard: MakeGuard, caplog: pytest.LogCaptureFixture) -> None:
    def fails(*_: Any) -> None:
        raise RuntimeError("callback")

    guard = make_guard("flag", on_flag=fails)
    assert guard.wrap(lambda: 1, name="lookup", profile=PROFILE)() == 1
    assert "on_flag failed" in caplog.text


def test_enforce_withholds_and_says_that_the_call_was_executed(make_guard: MakeGuard, state: Path) -> None:
    guard = make_guard("enforce")
    ran: list[int] = []
    lookup = guard.wrap(lambda: ran.append(1) or {"nothing": 1}, name="lookup", profile=PROFILE)
    with pytest.raises(ResultWithheld) as raised:
        lookup()
    error = raised.value
    assert ran == [1] and error.executed and error.tool == "lookup"
    assert "was executed" in str(error) and "Do not blindly retry" in str(error)
    assert error.verdict.verdict == "block" and error.receipt in str(error)
    good = guard.wrap(lambda: {"id": 1, "price": 2.5}, name="lookup", profile=PROFILE)
    assert good() == {"id": 1, "price": 2.5}
    guard.close()
    assert [one["verdict"] for one in receipts(state)] == ["block", "accept"]
    # What the model was told instead is known too.
    assert receipts(state)[0]["delivered"]["text"]


def test_a_withheld_result_can_be_pickled(make_guard: MakeGuard) -> None:
    guard = make_guard("enforce")
    with pytest.raises(ResultWithheld) as raised:
        guard.wrap(lambda: {"nothing": 1}, name="lookup", profile=PROFILE)()
    again = pickle.loads(pickle.dumps(raised.value))
    assert (str(again), again.tool, again.receipt, again.executed) == (str(raised.value), "lookup", raised.value.receipt, True)
    assert repr(again.verdict) == repr(raised.value.verdict) and again.verdict.signals == ["schema_mismatch"]


def test_enforce_holds_a_generator_until_it_was_judged(make_guard: MakeGuard) -> None:
    guard = make_guard("enforce")
    profile = ToolProfile("pages", expected_latency_ms=(0, 1e9), has_network_io=False, output_schema={"items": {"type": "integer"}})

    def pages(good: bool) -> Iterator[Any]:
        yield 1
        yield 2 if good else "two"

    guarded = guard.wrap(pages, profile=profile)
    assert list(guarded(True)) == [1, 2]
    running = guarded(False)
    with pytest.raises(ResultWithheld):
        next(running)


def test_results_that_are_not_accepted_wait_for_review(make_guard: MakeGuard, state: Path) -> None:
    guard = make_guard("enforce")
    with pytest.raises(ResultWithheld):
        guard.wrap(lambda: {"nothing": 1}, name="lookup", profile=PROFILE)()
    guard.close()
    (kept,) = credence("guard", "review", "--state", str(state))["items"]
    print(kept)
    assert kept["item"]["tool"] == "lookup" and kept["item"]["withheld"]


# -- what real results look like ------------------------------------------------------------------------------------------------------


class Weather(pydantic.BaseModel):
    temperature: float
    wind: Optional[str] = None


class Row(TypedDict):
    id: int


def flagged(guard: Guard, function: Callable[..., Any], **given: Any) -> bool:
    told: list[Verdict] = []
    guard.on_flag = lambda _, verdict: told.append(verdict)
    guard.wrap(function, name=f"tool{time.monotonic_ns()}", **given)()
    return any("schema_mismatch" in verdict.signals for verdict in told)


def test_hints_models_and_schemas_tell_what_a_result_looks_like(guard: Guard) -> None:
    def returns(value: Any, hint: Any) -> Callable[..., Any]:
        def function() -> Any:
            return value

        function.__annotations__["return"] = hint
        return function

    for value, hint, wrong in [
        (Weather(temperature=1.0), Weather, False),
        ({"temperature": 1.0}, Weather, True),
        ({"id": 1}, Row, False),
        ({"id": "1"}, Row, True),
        ([1, 2], list[int], False),
        (["1"], list[int], True),
        (None, Optional[int], False),
        (None, int, True),
        (1.5, float, False),
        (float("nan"), float, False),
        ({"anything": object()}, Any, False),
        ({"a": 1}, "NotDefinedAnywhere", False),
    ]:
        assert flagged(guard, returns(value, hint)) == wrong, (value, hint)
    assert not flagged(guard, returns(None, int), output_schema=False)
    assert flagged(guard, lambda: {"a": 1}, output_schema={"type": "object", "required": ["b"]})


class Folder(pydantic.BaseModel):
    name: str
    parent: Optional[Folder] = None
    children: list[Folder] = []
    beside: dict[str, Folder] = {}
    last: Optional[Folder] = None


def test_classes_that_contain_themselves_have_a_small_schema(guard: Guard) -> None:
    Folder.model_rebuild()
    schema = schemas.of_hint(Folder)
    assert len(json.dumps(schema)) < 1500 and schema["properties"]["children"]["items"] == {"type": "object"}
    # Ten to the tenth fields, without a class inside itself.
    nested: Any = int
    for n in range(10):
        nested = dataclasses.make_dataclass(f"Nested{n}", [(f"f{i}", nested) for i in range(10)])
    assert len(json.dumps(schemas.of_hint(nested))) < 500_000
    given = Folder(name="a", children=[Folder(name="b")])
    assert not flagged(guard, lambda: given, output_schema=schema)
    assert flagged(guard, lambda: {"name": 1}, output_schema=schema)


def test_a_schema_that_makes_no_sense_is_refused_at_once(guard: Guard) -> None:
    with pytest.raises(ValueError, match="output_schema"):
        guard.tool(output_schema={"type": "nonsense"})(lambda: 1)


# -- who calls ------------------------------------------------------------------------------------------------------------------------


def test_sessions_follow_threads_of_control(guard: Guard, state: Path) -> None:
    @guard.tool
    async def ask(n: int) -> int:
        await asyncio.sleep(0)
        return n

    async def talk(n: int) -> None:
        with guard.session(f"talk-{n}", agent=f"bot-{n}", stake="high"):
            for _ in range(5):
                await ask(n)

    async def main() -> None:
        await asyncio.gather(*(talk(n) for n in range(4)))

    asyncio.run(main())
    guard.wrap(lambda: 1, name="outside")()
    guard.close()
    found = receipts(state)
    assert len(found) == 21
    for one in found[:-1]:
        assert (one["session"].removeprefix("talk-"), one["stake"]) == (one["agent"].removeprefix("bot-"), "high")
    assert found[-1]["agent"] == "bot" and not found[-1]["session"].startswith("talk")


def test_a_wrong_caller_is_refused_where_the_session_begins(guard: Guard) -> None:
    for wrong in ({"agent": "not an id"}, {"stake": "huge"}):
        with pytest.raises(ValueError):
            guard.session("talk", **wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        guard.session(7)  # type: ignore[arg-type]
    assert guard.wrap(lambda: 1, name="one")() == 1


def test_sessions_in_threads(guard: Guard, state: Path) -> None:
    one = guard.wrap(lambda: 1, name="one")

    async def to_thread() -> None:
        await asyncio.to_thread(one)

    with guard.session("talk"):
        for target in (one, functools.partial(contextvars.copy_context().run, one)):
            thread = threading.Thread(target=target)
            thread.start()
            thread.join()
        asyncio.run(to_thread())
    guard.close()
    assert [found["session"] == "talk" for found in receipts(state)] == [False, True, True]


def test_arguments_are_committed_to_by_name(guard: Guard) -> None:
    @guard.tool
    def book(city: str, nights: int = 1, *rest: str, **more: Any) -> str:
        return "booked"

    book("Rome", 2, "a", "b", window=True)
    book(city="Rome")
    claims = [
        *_transcript("book", {"city": "Rome", "nights": 2, "*": ["a", "b"], "window": True}, "booked"),
        *_transcript("book", {"city": "Rome"}, "booked"),
        *_transcript("book", {"city": "Paris"}, "booked"),
    ]
    assert guard.check(claims).statuses() == ["executed", "executed", "never_happened"]


# -- transcripts ------------------------------------------------------------------------------------------------------------------------

_numbers = iter(range(10**9))


def _transcript(tool: str, arguments: dict[str, Any], result: str) -> list[dict[str, Any]]:
    number = f"call_{next(_numbers)}"
    function = {"name": tool, "arguments": json.dumps(arguments)}
    return [
        {"role": "assistant", "content": None, "tool_calls": [{"id": number, "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": number, "content": result},
    ]


def test_check_tells_executed_altered_and_invented_calls_apart(guard: Guard, state: Path) -> None:
    rates = guard.wrap(lambda currency: {"currency": currency, "rate": 1.25}, name="get_rate", output_schema=False)
    for currency in ("EUR", "CHF", "GBP"):
        rates(currency)
    claims = [
        *_transcript("get_rate", {"currency": "EUR"}, '{"currency": "EUR", "rate": 1.25}'),
        *_transcript("get_rate", {"currency": "CHF"}, "{'currency': 'CHF', 'rate': 1.25}"),
        *_transcript("get_rate", {"currency": "GBP"}, '{"currency": "GBP", "rate": 9.99}'),
        *_transcript("get_rate", {"currency": "JPY"}, '{"currency": "JPY", "rate": 0.01}'),
    ]
    report = guard.check(claims)
    assert report.statuses() == ["executed", "executed", "altered", "never_happened"] and not report
    assert "rate" in str(report) and "self-reported" in " ".join(report.isolation)
    assert guard.check(claims[:4]) and [one["tool"] for one in guard.check(claims[:4]).unclaimed] == ["get_rate"]
    # The same by the program.
    guard.close()
    done = credence("receipts", "check", "-", "--state", str(state), stdin=json.dumps(claims), fine=(2,))
    assert [claim["status"] for claim in done["claims"]] == report.statuses()
    assert any("inside the agent's own process" in line for line in done["isolation"])


def test_check_is_bounded_to_the_session_or_to_this_run(make_guard: MakeGuard) -> None:
    claim = _transcript("get_rate", {"currency": "EUR"}, '{"rate": 1.25}')
    before = make_guard()
    rate = before.wrap(lambda currency: {"rate": 1.25}, name="get_rate")
    with before.session("monday"):
        rate("EUR")
        assert before.check(claim).statuses() == ["executed"]
    with before.session("tuesday"):
        assert before.check(claim).statuses() == ["never_happened"], "it was in another session"
        assert before.check(claim, session="monday").statuses() == ["executed"]
    assert before.check(claim).statuses() == ["executed"], "of this run"
    before.close()
    later = make_guard()
    assert later.check(claim).statuses() == ["never_happened"], "of another run"
    assert later.check(claim, everything=True).statuses() == ["executed"]
    assert later.check(claim, since=datetime(2020, 1, 1, tzinfo=timezone.utc)).statuses() == ["executed"]
    assert later.check(claim, since=datetime(2120, 1, 1, tzinfo=timezone.utc)).statuses() == ["never_happened"]


def test_check_with_nothing_to_compare(guard: Guard) -> None:
    assert guard.check([]) and guard.check([{"role": "user", "content": "hello"}])
    with pytest.raises(ValueError):
        guard.check("not json at all {")


# -- a failing guard ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["observe", "flag"])
def test_a_guard_that_cannot_start_never_breaks_a_tool(
    make_guard: MakeGuard, tmp_path: Path, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    guard = make_guard(mode, state=tmp_path / "file" / "state")
    assert guard.wrap(lambda: 7, name="seven")() == 7
    assert guard.failures == 1 and "without receipts" in caplog.text
    with pytest.raises(GuardUnavailable):
        guard.check([])


def test_enforce_does_not_start_without_a_state(make_guard: MakeGuard, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(GuardUnavailable, match="state"):
        make_guard("enforce", state=tmp_path / "file" / "state")


def test_enforce_of_guard_toml_fails_closed(make_guard: MakeGuard, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    state, config = tmp_path / "file" / "state", tmp_path / "guard.toml"
    config.write_text('mode = "enforce"\n')
    with pytest.raises(GuardUnavailable):
        make_guard(None, state=state, config=config)
    config.write_text('[server.tests.tool.danger]\nmode = "enforce"\n')
    guard = make_guard(None, state=state, config=config)
    ran: list[int] = []
    assert guard.wrap(lambda: ran.append(1) or 1, name="harmless")() == 1
    with pytest.raises(GuardUnavailable, match="was not called"):
        guard.wrap(lambda: ran.append(2), name="danger")()
    assert ran == [1] and guard.failures == 1
    config.write_text("mode = ")
    with pytest.raises(GuardUnavailable):
        guard.wrap(lambda: ran.append(3), name="harmless")()


def test_warnings_of_the_guards_threads_come_at_once(state: Path) -> None:
    program = f"""
import logging, time
from pathlib import Path
from credence_trust import Guard
seen = []
class Handler(logging.Handler):
    def emit(self, record):
        seen.append(record.getMessage())
logging.getLogger("credence_trust").addHandler(Handler())
config = Path({str(state.parent / "guard.toml")!r})
config.write_text('[alerts]\\ncommand = ["/nonexistent/program"]\\non = ["block"]\\n')
config.chmod(0o600)
from credence_trust import ToolProfile
guard = Guard("observe", agent="bot", name="tests", state={str(state)!r}, config=str(config))
profile = ToolProfile("t", expected_latency_ms=(0, 1e9), required_fields=["id"], has_network_io=False)
guard.wrap(lambda: {{"x": 1}}, name="t", profile=profile)()
end = time.monotonic() + 20
while not seen and time.monotonic() < end:
    time.sleep(0.05)
print(seen)
"""
    done = subprocess.run([sys.executable, "-X", "dev", "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "nonexistent" in done.stdout, done.stdout + done.stderr


def _without_disk(mode: str, state: Path) -> subprocess.CompletedProcess[str]:
    program = f"""
import logging, resource, signal, sys
from credence_trust import Guard, GuardUnavailable, ResultWithheld
ran = []
guard = Guard({mode!r}, agent="bot", name="tests", state={str(state)!r})
tool = guard.wrap(lambda n: ran.append(n) or n, name="count")
tool(1)
guard.flush()
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
try:
    print("returned", tool(2))
except (GuardUnavailable, ResultWithheld) as error:
    print("raised", type(error).__name__)
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
print("ran", ran, "failures", guard.failures)
print("returned", tool(3))
"""
    return subprocess.run([sys.executable, "-X", "dev", "-c", program], capture_output=True, text=True, timeout=60)


def test_a_full_disk_never_breaks_a_tool_in_flag(state: Path) -> None:
    done = _without_disk("flag", state)
    assert done.stdout.splitlines() == ["returned 2", "ran [1, 2] failures 1", "returned 3"], done.stderr
    assert "without receipts" in done.stderr
    assert [one["tool"] for one in receipts(state)] == ["count", "count"]


def test_a_full_disk_ends_enforced_calls_before_the_tool_runs(state: Path) -> None:
    done = _without_disk("enforce", state)
    assert done.stdout.splitlines()[:2] == ["raised GuardUnavailable", "ran [1] failures 0"], done.stderr


# -- processes and threads ------------------------------------------------------------------------------------------------------------------


def test_threads_share_a_guard(guard: Guard, state: Path) -> None:
    add = guard.wrap(lambda a, b: a + b, name="add")

    def work(n: int) -> None:
        for i in range(50):
            assert add(n, i) == n + i

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert guard.calls == 400
    guard.close()
    assert len(receipts(state)) == 400


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_child_processes_write_their_own_receipts(method: str, state: Path) -> None:
    program = f"""
import multiprocessing, sys
from credence_trust import Guard
guard = Guard("flag", agent="bot", name="tests", state={str(state)!r})
@guard.tool
def double(n: int) -> int:
    return 2 * n
def main():
    double(0)
    with multiprocessing.get_context({method!r}).Pool(2) as pool:
        assert pool.map(double, range(1, 11), chunksize=1) == [2 * n for n in range(1, 11)]
        pool.close()
        pool.join()
    double(11)
if __name__ == "__main__":
    main()
"""
    script = state.parent / "program.py"
    script.write_text(program)
    done = subprocess.run([sys.executable, "-X", "dev", str(script)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert len(receipts(state)) == 12
    assert credence("receipts", "verify", "--state", str(state))


def test_a_fork_while_a_call_runs_leaves_the_call_to_the_parent(state: Path) -> None:
    program = f"""
import os, sys
from credence_trust import Guard, GuardUnavailable
guard = Guard(sys.argv[1], agent="bot", name="tests", state={str(state)!r})
@guard.tool
def forks() -> str:
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        assert status == 0, status
        return "parent"
    return "child"
@guard.tool
def other() -> int:
    return 1
def main():
    try:
        who = forks()
    except GuardUnavailable as error:
        assert "forked" in str(error)
        who = "child"
    if who == "child":
        other()
        guard.close()
        os._exit(0)
    assert who == "parent"
    other()
main()
"""
    for mode in ("flag", "enforce"):
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", program, mode], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
    assert sorted(outcomes(state)) == sorted([("forks", "result"), ("other", "result"), ("other", "result")] * 2)
    assert credence("receipts", "verify", "--state", str(state))


def test_a_child_does_not_hold_the_place_of_a_parent_that_died(state: Path) -> None:
    program = f"""
import os, signal, sys
from credence_trust import Guard
guard = Guard("flag", agent="bot", name="tests", state={str(state)!r})
guard.wrap(lambda: 1, name="one")()
read, write = os.pipe()
child = os.fork()
if child == 0:
    os.close(write)
    signal.alarm(60)
    sys.stdin.read()
    os._exit(0)
print(child, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    process = subprocess.Popen([sys.executable, "-W", "ignore", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdin is not None
    assert int(process.stdout.readline()) and process.wait(60) == -signal.SIGKILL
    with Guard("flag", agent="bot", name="tests", state=state) as next_one:
        assert next_one.place is not None and next_one.place.name == "1", "the parent's place is free, though its child lives"
        next_one.flush()
    process.stdin.close()
    process.stdout.close()
    assert outcomes(state) == [("one", "result")]


def test_a_process_that_is_killed_leaves_its_receipts(state: Path) -> None:
    program = f"""
import os, signal
from credence_trust import Guard
guard = Guard("flag", agent="bot", name="tests", state={str(state)!r})
for n in range(20):
    guard.wrap(lambda n: n, name="count")(n)
guard.wrap(lambda: os.kill(os.getpid(), signal.SIGKILL), name="die")()
"""
    done = subprocess.run([sys.executable, "-c", program], timeout=60)
    assert done.returncode == -signal.SIGKILL
    with Guard("flag", agent="bot", name="tests", state=state):
        pass
    found = outcomes(state)
    assert found[:20] == [("count", "result")] * 20 and found[20:] == [("die", "unanswered")]


def test_two_guards_of_one_name_share_a_folder(make_guard: MakeGuard, state: Path) -> None:
    one, two = make_guard(), make_guard()
    assert one.place != two.place
    one.wrap(lambda: 1, name="a")()
    two.wrap(lambda: 2, name="b")()
    claims = [*_transcript("a", {}, "1"), *_transcript("b", {}, "2")]
    two.flush()
    assert one.check(claims).statuses() == ["executed", "executed"]


def test_a_closed_guard_still_writes(guard: Guard, state: Path) -> None:
    guard.close()
    assert guard.wrap(lambda: 1, name="late")() == 1
    guard.close()
    assert outcomes(state) == [("late", "result")]


def test_what_was_learned_is_known_to_the_next_process(make_guard: MakeGuard) -> None:
    guard = make_guard()
    order = guard.wrap(lambda n: {"id": n, "status": "paid"}, name="get_order")
    for n in range(100):
        order(n)
    guard.close()
    told: list[Verdict] = []
    again = make_guard(on_flag=lambda _, verdict: told.append(verdict))
    again.wrap(lambda n: ["something else"], name="get_order")(5)
    assert told and told[0].verdict in ("flag", "block")


# -- what an operator sees --------------------------------------------------------------------------------------------------------------------


def test_the_program_knows_these_guards(guard: Guard, state: Path) -> None:
    guard.wrap(lambda: 1, name="one")()
    guard.flush()
    status = credence("guard", "status", "--state", str(state))
    assert "one" in json.dumps(status)
    assert credence("receipts", "list", "--state", str(state))


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """A tracer, and what it exported."""
    # A framework's test switches OpenTelemetry off for its own package.
    monkeypatch.delenv("OTEL_SDK_DISABLED", raising=False)
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider.get_tracer("test"), exporter


def test_spans_tell_what_was_thought(make_guard: MakeGuard, traced: Any) -> None:
    tracer, exporter = traced
    guard = make_guard("enforce", tracer=tracer)
    guard.wrap(lambda: {"id": 1, "price": 1}, name="lookup", profile=PROFILE)()
    with pytest.raises(ResultWithheld):
        guard.wrap(lambda: {}, name="lookup", profile=PROFILE)()

    async def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError):
        asyncio.run(guard.wrap(fails)())
    one, two, three = exporter.get_finished_spans()
    assert one.name == "execute_tool lookup" and one.attributes["credence.verdict"] == "accept"
    assert one.attributes["gen_ai.tool.name"] == "lookup" and one.attributes["credence.call"] and one.status.is_ok
    assert two.attributes["credence.withheld"] and two.attributes["credence.signals"] == ("schema_mismatch",)
    assert three.attributes["error.type"] == "ValueError" and not three.status.is_ok


def test_every_call_has_a_span_of_its_own_below_the_callers(make_guard: MakeGuard, traced: Any, state: Path) -> None:
    tracer, exporter = traced
    guard = make_guard("flag", tracer=tracer)

    def inside(name: str) -> None:
        with tracer.start_as_current_span(name):
            pass

    def plain() -> int:
        inside("in plain")
        return 1

    def items() -> Iterator[int]:
        inside("in items")
        yield 1
        yield 2

    async def items_async() -> AsyncIterator[int]:
        inside("in items_async")
        yield 1

    async def coroutine() -> int:
        inside("in coroutine")
        return 1

    async def all_of(given: Any) -> list[Any]:
        return [item async for item in given]

    with tracer.start_as_current_span("caller") as caller:
        guard.wrap(plain)()
        for _ in guard.wrap(items)():
            inside("beside items")
        asyncio.run(all_of(guard.wrap(items_async)()))
        asyncio.run(guard.wrap(coroutine)())
        with guard.record("recorded", {}) as call:
            inside("in recorded")
            call.returned(1)
        with pytest.raises(ZeroDivisionError), guard.record("failed", {}):
            1 / 0
        beside = guard.record("beside", {})
        inside("not in beside")
        beside.returned(1)
        abandoned = guard.record("abandoned", {})
        del abandoned
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert not spans["caller"].attributes, "nothing is written onto the caller's span"
    for name in ("plain", "items", "items_async", "coroutine", "recorded", "failed", "beside", "abandoned"):
        span = spans[f"execute_tool {name}"]
        assert span.parent is not None and span.parent.span_id == caller.get_span_context().span_id, name
        assert name == "abandoned" or span.attributes["credence.call"], name
        if f"in {name}" in spans:
            assert spans[f"in {name}"].parent.span_id == span.context.span_id, name
    assert spans["beside items"].parent.span_id == spans["not in beside"].parent.span_id == caller.get_span_context().span_id


def test_a_tracer_that_fails_is_not_the_tools_failure(make_guard: MakeGuard, caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def start_span(self, name: str) -> Any:
            raise RuntimeError("no spans today")

    guard = make_guard("flag", tracer=Broken())
    assert guard.wrap(lambda: 7, name="seven")() == 7 and guard.calls == 1
    assert "the tracer failed" in caplog.text


def test_guard_toml_decides_where_no_mode_is_given(make_guard: MakeGuard, tmp_path: Path) -> None:
    config = tmp_path / "guard.toml"
    config.write_text('mode = "observe"\n\n[server.tests.tool.danger]\nmode = "enforce"\n')
    guard = make_guard(None, config=config)
    assert guard.wrap(lambda: {}, name="lookup", profile=PROFILE)() == {}
    with pytest.raises(ResultWithheld):
        guard.wrap(lambda: {"x": 1}, name="danger", profile=PROFILE)()


def test_wrong_settings_are_refused_in_words(make_guard: MakeGuard) -> None:
    for settings, words in [
        ({"mode": "strict"}, "'observe', 'flag' or 'enforce'"),
        ({"agent": "not an id"}, "agent 'not an id'"),
        ({"name": "a/b"}, "a/b"),
        ({"stake": "huge"}, "huge"),
        ({"verify": "maybe"}, "'adaptive' or 'fixed'"),
        ({"authority": "nonsense"}, "authority 'nonsense'"),
    ]:
        with pytest.raises(ValueError, match=words):
            make_guard(**settings)


def test_guards_do_not_leak(make_guard: MakeGuard) -> None:
    guard = make_guard()
    tool = guard.wrap(lambda n: {"n": n}, name="count")

    class Value:
        pass

    kept = Value()
    before = sys.getrefcount(kept)
    give = guard.wrap(lambda: kept, name="give")
    for _ in range(50):
        give()
    gc.collect()
    assert sys.getrefcount(kept) == before
    for n in range(200):
        tool(n)
    gc.collect()
    objects = len(gc.get_objects())
    for n in range(500):
        tool(n)
    gc.collect()
    assert len(gc.get_objects()) - objects < 50


def test_python_memory_does_not_grow_with_calls(make_guard: MakeGuard) -> None:
    guard = make_guard("observe")

    @dataclasses.dataclass
    class Row:
        n: int
        tags: Any

    row = guard.wrap(lambda n: Row(n % 7, {"a", "b"}), name="row")
    fails = guard.wrap(lambda: 1 / 0, name="fails")
    items = guard.wrap(lambda n: (one for one in range(n % 5)), name="items")

    def round_of_calls() -> None:
        for n in range(100):
            row(n)
            list(items(n))
            with contextlib.suppress(ZeroDivisionError):
                fails()
            with guard.record("recorded", {"n": n % 3}) as call:
                call.returned({"n": n % 3})

    round_of_calls()
    gc.collect()
    tracemalloc.start()
    round_of_calls()
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(3):
        round_of_calls()
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 20_000, f"{grown} bytes of 1,200 calls"
