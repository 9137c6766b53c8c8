"""What the tests share. `LONG_TESTS=1` adds those marked `long`."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from credence_trust import Guard
from credence_trust.transcripts import to_json

PROJECT = Path(__file__).resolve().parents[2]
SHARED = PROJECT.parent / "shared"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("LONG_TESTS"):
        return
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(pytest.mark.skip(reason="LONG_TESTS is not set"))


@pytest.fixture(autouse=True)
def _nothing_of_this_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No guard.toml and no state of the person who runs the tests."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state-home"))
    for name in [name for name in os.environ if name.startswith("CREDENCE_GUARD")]:
        monkeypatch.delenv(name)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def make_guard(state: Path) -> Iterator[Callable[..., Guard]]:
    made: list[Guard] = []

    def make(mode: Any = "flag", **settings: Any) -> Guard:
        made.append(Guard(mode, **{"agent": "bot", "name": "tests", "state": state, **settings}))
        return made[-1]

    yield make
    for guard in made:
        guard.close()


@pytest.fixture
def guard(make_guard: Callable[..., Guard]) -> Guard:
    return make_guard()


def credence(*args: str, stdin: str | None = None, fine: tuple[int, ...] = (0,)) -> Any:
    """What the `credence` program says, as JSON."""
    done = subprocess.run(["credence", *args, "--json"], input=stdin, capture_output=True, text=True, timeout=120)
    assert done.returncode in fine, done.stderr + done.stdout
    return json.loads(done.stdout)


def checked_by_program(guard: Guard, state: Path, messages: Any) -> list[str]:
    """What `credence receipts check` says of a framework's own messages, claim by claim."""
    guard.flush()
    done = subprocess.run(
        ["credence", "receipts", "check", "-", "--state", str(state), "--json"],
        input=to_json(messages), capture_output=True, text=True, timeout=120,
    )
    assert done.returncode in (0, 2), done.stderr + done.stdout
    statuses = [claim["status"] for claim in json.loads(done.stdout)["claims"]]
    # Scripts go by the exit code: it has to say the same.
    assert (done.returncode == 0) == all(status == "executed" for status in statuses), (done.returncode, statuses)
    return statuses


def receipts(state: Path, *args: str) -> list[dict[str, Any]]:
    """The receipts of a state folder, oldest first, as the program shows them."""
    done = subprocess.run(["credence", "receipts", "export", "--state", str(state), *args], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return [json.loads(line)["receipt"] for line in done.stdout.splitlines()]
