"""Counts references in an interpreter built to count them all: `python3-dbg counts.py` with the package on the path.

A program of its own and not a test of pytest's: that interpreter has no packages. Prints what every kind of call leaves behind; ends
with 1 where it is anything.
"""

from __future__ import annotations

import asyncio
import atexit
import dataclasses
import datetime
import gc
import logging
import sys
import tempfile
from decimal import Decimal
from typing import Any, Callable

from credence_trust import Guard, VerificationEngine

CALLS = 500
ROUNDS = 4


@dataclasses.dataclass
class Point:
    x: int
    y: float


class Odd:
    """A value without a form."""

    def __repr__(self) -> str:
        return "odd"


def kinds_of_calls(guard: Guard) -> dict[str, Callable[[], Any]]:
    engine = VerificationEngine()
    adaptive = VerificationEngine(mode="adaptive")
    values: dict[str, Any] = {
        "an object": {"a": 1, "b": [1.5, True, None], "c": "text"},
        "a text": "text",
        "a dataclass": Point(1, 2.0),
        "other types": {"when": datetime.datetime(2026, 1, 2), "price": Decimal("1.5"), "raw": b"abc", "set": {1, 2}, 7: (1, 2)},
        "a long integer": {"n": 10**30},
        "a value without a form": Odd(),
    }
    calls: dict[str, Callable[[], Any]] = {
        f"guarded, {name}": guard.wrap(lambda value=value: value, name=f"tool{n}") for n, (name, value) in enumerate(values.items())
    }

    def raising() -> None:
        raise ValueError("no such order")

    guarded_raising = guard.wrap(raising, name="raising")

    def raised() -> None:
        try:
            guarded_raising()
        except ValueError:
            pass

    async def waits() -> dict[str, int]:
        await asyncio.sleep(0)
        return {"n": 1}

    def gives() -> Any:
        yield from ({"n": n} for n in range(3))

    guarded_waits, guarded_gives = guard.wrap(waits, name="waits"), guard.wrap(gives, name="gives")
    loop = asyncio.new_event_loop()
    calls["guarded, an error"] = raised
    calls["guarded, a coroutine"] = lambda: loop.run_until_complete(guarded_waits())
    calls["guarded, a generator"] = lambda: list(guarded_gives())

    def in_session() -> None:
        with guard.session("one"):
            calls["guarded, an object"]()

    calls["guarded, in a session"] = in_session
    for name, one in (("fixed", engine), ("adaptive", adaptive)):
        calls[f"verified, {name}"] = lambda one=one: one.verify("t", values["other types"], 200.0, args={"q": 1}).signals
        calls[f"verified, {name}, and read"] = lambda one=one: one.verify("t", values["an object"], 200.0).to_dict()
    atexit.register(loop.close)
    calls["verified, JSON"] = lambda: engine.verify_json("t", b'{"a":1}', 200.0).explanation
    return calls


def left_behind(call: Callable[[], Any]) -> int:
    """References more after a round than before it: the least of some rounds, as threads come and go."""
    for _ in range(CALLS):
        call()
    least = sys.maxsize
    for _ in range(ROUNDS):
        gc.collect()
        before = sys.gettotalrefcount()  # type: ignore[attr-defined]
        for _ in range(CALLS):
            call()
        gc.collect()
        least = min(least, sys.gettotalrefcount() - before)  # type: ignore[attr-defined]
    return least


def main() -> int:
    logging.disable()
    leaks = 0
    with tempfile.TemporaryDirectory() as state:
        guard = Guard("flag", agent="bot", name="counts", state=state)
        for name, call in kinds_of_calls(guard).items():
            left = left_behind(call)
            # A leak leaves at least one for every call.
            leaks += left >= CALLS // 10
            print(f"{name}: {left} references more after {CALLS} calls")
        guard.close()
    return int(leaks > 0)


if __name__ == "__main__":
    sys.exit(main())
