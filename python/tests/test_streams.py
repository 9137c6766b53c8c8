"""The figures of mode `adaptive` are those of `credence verify`, digit for digit, on streams of real tool results."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from conftest import SHARED
from credence_trust.verification import VerificationEngine

STREAMS = sorted((SHARED / "data" / "streams").glob("*.jsonl"))


def test_the_streams_are_there() -> None:
    if not STREAMS:
        assert os.environ.get("SHARED_TESTS") != "required", f"no streams in {SHARED}"
        pytest.skip(f"SKIPPED: there is no {SHARED / 'data' / 'streams'}")


@pytest.mark.parametrize("stream", STREAMS, ids=lambda path: path.stem)
@pytest.mark.parametrize("mode", ["adaptive", "fixed"])
def test_verdicts_equal_those_of_the_program(stream: Path, mode: str) -> None:
    lines = stream.read_text().splitlines()
    done = subprocess.run(
        ["credence", "verify", "--mode", mode], input="\n".join(lines), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    verdicts = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(verdicts) == len(lines)
    engine = VerificationEngine(mode=mode)
    for line, expected in zip(lines, verdicts):
        trace = json.loads(line)
        result = engine.verify(
            trace["tool"],
            trace["result"],
            trace.get("execution_time_ms"),
            args=trace.get("args"),
            session_id=trace.get("session_id"),
            learn=trace.get("learn", True),
        )
        assert repr(result.posterior) == repr(expected["posterior"]), expected
        # Where several elements of a list differ, either side may name another of them.
        words = [re.sub(r" \(now [^)]*\)", "", text) for text in (result.explanation, expected["explanation"])]
        assert (result.verdict, words[0]) == (expected["verdict"], words[1])
        assert {name: one.score for name, one in result.signals.items()} == {
            name: one["score"] for name, one in expected["signals"].items()
        }
