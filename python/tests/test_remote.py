"""A guard of another process: it keeps receipts and keys, this one reports."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import receipts
from credence_trust import Guard, GuardUnavailable, ResultWithheld
from test_guard import _transcript


class Served:
    def __init__(self, folder: Path, *args: str) -> None:
        self.socket, self.state = folder / "report.sock", folder / "served"
        self.process = subprocess.Popen(
            ["credence", "guard", "--serve", str(self.socket), "--name", "served", "--state", str(self.state), *args],
            stderr=subprocess.DEVNULL,
        )
        end = time.monotonic() + 30
        while not self.socket.exists():
            assert time.monotonic() < end and self.process.poll() is None
            time.sleep(0.02)

    def stop(self) -> None:
        self.process.terminate()
        assert self.process.wait(20) == 0


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    one = Served(tmp_path, "--mode", "flag")
    yield one
    one.process.kill()
    one.process.wait(20)


def test_reported_calls_have_receipts_there(served: Served, tmp_path: Path) -> None:
    guard = Guard(agent="bot", remote=f"unix:{served.socket}")
    rate = guard.wrap(lambda currency: {"currency": currency, "rate": 1.25}, name="get_rate")
    with guard.session("talk"):
        assert rate("EUR") == {"currency": "EUR", "rate": 1.25}
    with pytest.raises(ZeroDivisionError):
        guard.wrap(lambda: 1 / 0, name="fails")()
    assert guard.check(_transcript("get_rate", {"currency": "EUR"}, "{'currency': 'EUR', 'rate': 1.25}")).statuses() == ["executed"]
    assert guard.check(_transcript("get_rate", {"currency": "EUR"}, '{"currency": "EUR", "rate": 9}')).statuses() == ["altered"]
    report = guard.check(_transcript("get_rate", {"currency": "CHF"}, '{"rate": 9}'))
    assert report.statuses() == ["never_happened"]
    assert stat.S_IMODE(served.socket.stat().st_mode) == 0o660
    served.stop()
    found = receipts(served.state)
    assert [(one["tool"], one["outcome"], one["vantage"], one["uid"]) for one in found] == [
        ("get_rate", "result", "reported", os.getuid()),
        ("fails", "tool_error", "reported", os.getuid()),
    ]
    assert found[0]["session"] == "talk" and found[0]["agent"] == "bot"
    assert not served.socket.exists()


def test_a_program_that_dies_leaves_its_call_unanswered(served: Served) -> None:
    program = f"""
import os
from credence_trust import Guard
guard = Guard(agent="bot", remote="unix:{served.socket}")
guard.wrap(lambda: os._exit(3), name="die")()
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 3
    end = time.monotonic() + 30
    while not (found := _listed(served.state)):
        assert time.monotonic() < end
        time.sleep(0.05)
    assert "die" in found
    served.stop()
    assert [(one["tool"], one["outcome"]) for one in receipts(served.state)] == [("die", "unanswered")]


def _listed(state: Path) -> str:
    done = subprocess.run(["credence", "receipts", "list", "--state", str(state), "--json"], capture_output=True, text=True, timeout=60)
    return done.stdout if "unanswered" in done.stdout else ""


def test_without_the_other_process(served: Served, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    flag = Guard("flag", agent="bot", remote=f"unix:{served.socket}")
    enforce = Guard("enforce", agent="bot", remote=f"unix:{served.socket}")
    ran: list[int] = []
    counted = enforce.wrap(lambda: ran.append(1) or 1, name="count")
    assert counted() == 1 and ran == [1]
    served.stop()
    assert flag.wrap(lambda: 7, name="seven")() == 7 and flag.failures == 1 and "without receipts" in caplog.text
    with pytest.raises(GuardUnavailable):
        counted()
    assert ran == [1], "the tool did not run"
    with pytest.raises(GuardUnavailable):
        Guard("enforce", remote=f"unix:{tmp_path}/nobody.sock")
    with pytest.raises(ValueError, match="'unix:'"):
        Guard(remote="tcp:1")


def test_the_other_process_decides_what_is_withheld(tmp_path: Path) -> None:
    profiles = tmp_path / "profiles.toml"
    profiles.write_text('[get_rate]\nexpected_latency_ms = [0, 1e9]\nhas_network_io = false\nrequired_fields = ["rate"]\n')
    served = Served(tmp_path, "--mode", "enforce", "--profiles", str(profiles))
    try:
        guard = Guard(agent="bot", remote=f"unix:{served.socket}")
        assert guard.wrap(lambda: {"rate": 1}, name="get_rate")() == {"rate": 1}
        with pytest.raises(ResultWithheld, match="was executed"):
            guard.wrap(lambda: {"nothing": 1}, name="get_rate")()
    finally:
        served.process.kill()
        served.process.wait(20)


PROFILES = '[get_rate]\nexpected_latency_ms = [0, 1e9]\nhas_network_io = false\nrequired_fields = ["rate"]\n'


def test_a_program_that_asks_for_enforce_gets_it_from_a_guard_that_flags(tmp_path: Path) -> None:
    profiles = tmp_path / "profiles.toml"
    profiles.write_text(PROFILES)
    served = Served(tmp_path, "--mode", "flag", "--profiles", str(profiles))
    try:
        address = f"unix:{served.socket}"
        flag, enforce = Guard("flag", agent="bot", remote=address), Guard("enforce", agent="bot", remote=address)
        assert flag.wrap(lambda: {"nothing": 1}, name="get_rate")() == {"nothing": 1}
        with pytest.raises(ResultWithheld, match="was executed") as raised:
            enforce.wrap(lambda: {"nothing": 2}, name="get_rate")()
        # What the model is told instead is in the receipt.
        assert enforce.check(_transcript("get_rate", {}, str(raised.value))).statuses() == ["executed"]

        def items() -> Iterator[dict[str, int]]:
            yield {"nothing": 3}

        with pytest.raises(ResultWithheld):
            next(enforce.wrap(items, name="get_rate")())
    finally:
        served.process.kill()
        served.process.wait(20)


def test_the_mode_that_was_known_last_holds_when_the_guard_is_gone(tmp_path: Path) -> None:
    config = tmp_path / "guard.toml"
    config.write_text('mode = "observe"\n\n[server.served.tool.danger]\nmode = "enforce"\n')
    config.chmod(0o600)
    served = Served(tmp_path, "--config", str(config))
    guard = Guard(agent="bot", remote=f"unix:{served.socket}")
    ran: list[str] = []
    danger, harmless = (guard.wrap(lambda name=name: ran.append(name), name=name) for name in ("danger", "harmless"))
    danger(), harmless()
    served.stop()
    harmless()
    with pytest.raises(GuardUnavailable):
        danger()
    assert ran == ["danger", "harmless", "harmless"] and guard.failures == 1


def test_a_fork_while_a_call_runs_leaves_the_connection_to_the_parent(served: Served) -> None:
    program = f"""
import os, signal, sys
from credence_trust import Guard
guard = Guard(agent="bot", remote="unix:{served.socket}")
@guard.tool
def forks() -> str:
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return "parent"
    return "child"
@guard.tool
def other() -> int:
    return 1
if forks() == "child":
    other()
    os._exit(0)
other()
# The child of a call that dies with this process lives on, and the guard hears of it all the same.
@guard.tool
def dies() -> None:
    child = os.fork()
    if child:
        print(child, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    signal.alarm(60)
    sys.stdin.read()
    os._exit(0)
dies()
"""
    process = subprocess.Popen([sys.executable, "-W", "ignore", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    assert int(process.stdout.readline()) and process.wait(60) == -signal.SIGKILL
    end = time.monotonic() + 30
    while not _listed(served.state):
        assert time.monotonic() < end, "the child keeps the connection of its parent open"
        time.sleep(0.05)
    process.stdin.close()
    process.stdout.close()
    served.stop()
    found = [(one["tool"], one["outcome"]) for one in receipts(served.state)]
    assert sorted(found) == [("dies", "unanswered"), ("forks", "result"), ("other", "result"), ("other", "result")]


def test_traces_go_to_the_other_process(served: Served) -> None:
    from opentelemetry.sdk.trace import TracerProvider

    guard = Guard(agent="bot", remote=f"unix:{served.socket}", tracer=TracerProvider().get_tracer("test"))
    assert guard.wrap(lambda: 1, name="one")() == 1 and guard.failures == 0


OTHER_USER = 64_003


@pytest.mark.skipif(os.getuid() != 0 or shutil.which("setpriv") is None, reason="only root can run programs of two users")
def test_a_program_of_another_user(tmp_path: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix="credence-"))
    served = None
    try:
        folder.chmod(0o755)
        served = Served(folder, "--mode", "flag")
        program = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from credence_trust import Guard
guard = Guard(agent="bot", remote="unix:{served.socket}")
guard.wrap(lambda: {{"rate": 2.5}}, name="get_rate")()
print(guard.failures)
for open_it in ({str(served.state)!r} + "/provider.jwk", {str(served.state)!r} + "/served/1/receipts/journal"):
    try:
        open(open_it)
        print("opened", open_it)
    except PermissionError:
        print("closed")
"""
        (folder / "program.py").write_text(program)
        paths = os.pathsep.join(path for path in sys.path if path)
        command = ["setpriv", f"--reuid={OTHER_USER}", f"--regid={OTHER_USER}", "--clear-groups", "--", sys.executable, str(folder / "program.py")]
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": paths, "HOME": str(folder), "CREDENCE_GUARD_STATE": str(folder / "none")}
        if subprocess.run([*command[:-1], "-c", "import credence_trust"], env=environment, capture_output=True).returncode:
            pytest.skip("the package is installed where another user cannot read it")

        def as_other() -> list[str]:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, done.stderr
            return done.stdout.split()

        assert as_other()[0] == "1", "mode 0660: the socket is not for everyone"
        os.chown(served.socket, -1, OTHER_USER)
        assert as_other() == ["0", "closed", "closed"]
        own = Guard(agent="bot", remote=f"unix:{served.socket}")
        claim = _transcript("get_rate", {}, '{"rate": 2.5}')
        assert own.check(claim, everything=True).statuses() == ["never_happened"], "the receipt is another user's"
        served.stop()
        assert [(one["tool"], one["uid"]) for one in receipts(served.state)] == [("get_rate", OTHER_USER)]
    finally:
        if served is not None:
            served.process.kill()
            served.process.wait(20)
        shutil.rmtree(folder)
