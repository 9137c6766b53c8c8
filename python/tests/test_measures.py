"""Speed and memory, of the release wheel alone: figures of a debug build say nothing. `LONG_TESTS=1 scripts/python --release`."""

from __future__ import annotations

import os
import resource
import statistics
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable

import pytest

from credence_trust import Guard, VerificationEngine

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif("wheels-release" not in os.environ.get("WHEEL_UNDER_TEST", ""), reason="only the release wheel is measured"),
    pytest.mark.skipif(sys.flags.dev_mode, reason="-X dev checks every allocation, which is most of what would be measured"),
]


def rows(fields: int, count: int = 200) -> list[dict[str, Any]]:
    return [{f"f{n}": (i * 7 + n) % 97 + 0.5 for n in range(fields)} for i in range(count)]


def seconds(engine: Any, made: list[dict[str, Any]], rounds: int) -> float:
    """The best of some rounds, for one call."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for row in made:
            engine.verify("t", row, 200.0, args={"q": 1})
        times.append((time.perf_counter() - start) / len(made))
    return min(times)


@pytest.mark.parametrize(("fields", "times"), [(2, 60), (10, 100), (50, 200)])
def test_many_times_the_speed_of_the_seeds_package(fields: int, times: int) -> None:
    from agentguard.verification import VerificationEngine as Theirs

    # The same rows, the same number of times, in turns.
    made, engines = rows(fields, 100), (VerificationEngine(), Theirs())
    turns = [[seconds(engine, made, 1) for engine in engines] for _ in range(4)]
    ours, theirs = (min(turn[n] for turn in turns) for n in range(2))
    print(f"{fields} fields: {ours * 1e6:.2f} µs, theirs {theirs * 1e6:.0f} µs: {theirs / ours:.0f} times")
    assert theirs / ours >= times


@pytest.mark.parametrize("mode", ["observe", "flag"])
def test_the_guard_adds_little(make_guard: Callable[..., Guard], mode: str) -> None:
    made = rows(10)

    def plain(n: int) -> dict[str, Any]:
        return made[n % len(made)]

    # What is odd in the rows is learned first: a warning is not what is measured.
    guarded = make_guard(mode).tool(plain)
    for n in range(2000):
        guarded(n)

    def p50(function: Callable[[int], Any]) -> float:
        times = []
        for n in range(5000):
            start = time.perf_counter_ns()
            function(n)
            times.append(time.perf_counter_ns() - start)
        return statistics.median(times) / 1000

    added = min(p50(guarded) for _ in range(5)) - p50(plain)
    print(f"the guard adds {added:.1f} µs in mode {mode}")
    assert added <= 25.0


def test_two_threads_do_more_than_one() -> None:
    made = rows(500, 50)
    engine = VerificationEngine()

    def work(tool: str) -> None:
        for _ in range(20):
            for row in made:
                engine.verify(tool, row, 200.0)

    def timed(threads: int) -> float:
        all_of_them = [threading.Thread(target=work, args=(f"tool{n}",)) for n in range(threads)]
        start = time.perf_counter()
        for one in all_of_them:
            one.start()
        for one in all_of_them:
            one.join()
        return threads / (time.perf_counter() - start)

    work("tool0"), work("tool1")
    ratio = statistics.median(timed(2) / timed(1) for _ in range(9))
    print(f"two threads do {ratio:.2f} times as much as one")
    assert ratio >= 1.4


def test_memory_stays_flat(tmp_path: Path) -> None:
    calls = 2_000_000
    with Guard("observe", agent="bot", name="flat", state=tmp_path) as guard:
        count = guard.wrap(lambda n: {"n": n % 100, "text": "same"}, name="count")

        def resident() -> float:
            return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20

        seen: list[float] = []
        for n in range(calls):
            count(n)
            if n % 10_000 == 0:
                seen.append(resident())
    # A single reading may fall on the moment in which what was gathered is being written.
    fifth = len(seen) // 5
    before, after = statistics.median(seen[fifth // 2 : fifth]), statistics.median(seen[-fifth:])
    print(f"{before:.1f} MiB before, {after:.1f} MiB after {calls} calls, {max(seen):.1f} MiB at the most")
    assert after - before < 16
    assert max(seen) - before < 128
