"""The package itself: types, documentation, size, time to import."""

from __future__ import annotations

import doctest
import importlib
import inspect
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

import credence_trust
import credence_trust.verification
from conftest import PROJECT
from credence_trust import Guard

PYTHON = PROJECT / "python"
EXAMPLES = {
    "credence_trust.verification": 3,
    "credence_trust.guard": 12,
    "credence_trust.authority": 2,
    "credence_trust.values": 2,
    "credence_trust.schemas": 1,
}
"""Modules, and how many lines of examples at least run in each."""


def test_the_installed_package_is_tested() -> None:
    assert not Path(credence_trust.__file__).is_relative_to(PYTHON)
    assert (Path(credence_trust.__file__).parent / "py.typed").exists()
    assert (Path(credence_trust.__file__).parent / "_native.pyi").exists()


@pytest.mark.parametrize("tool", [["mypy"], ["pyright", "--pythonpath", sys.executable]], ids=lambda tool: tool[0])
def test_types_are_checked(tool: list[str]) -> None:
    done = subprocess.run(tool, cwd=PYTHON, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_stubs_are_what_is_there(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mypy.stubtest", "credence_trust._native", "--mypy-config-file", str(PYTHON / "pyproject.toml")]
    # From elsewhere than the sources, which have no native part.
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_in_docstrings_run(name: str, state: Path) -> None:
    module = importlib.import_module(name)
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner()
    with Guard("flag", agent="bot", name="doctest", state=state) as guard:
        for found in finder.find(module, extraglobs={"_folder": state, "guard": guard}):
            runner.run(found)
    results = runner.summarize()
    assert results.failed == 0 and results.attempted >= EXAMPLES[name], results


def test_what_people_call_first_has_an_example() -> None:
    from credence_trust.verification import VerificationEngine

    for one in (Guard.tool, Guard.wrap, Guard.session, Guard.check, Guard.record, credence_trust.verification):
        assert ">>>" in (inspect.getdoc(one) or ""), one
    # Native functions are not found by doctest.
    text = inspect.getdoc(VerificationEngine.verify) or ""
    test = doctest.DocTestParser().get_doctest(text, {"VerificationEngine": VerificationEngine}, "verify", None, None)
    assert test.examples and doctest.DocTestRunner().run(test).failed == 0


def test_everything_public_says_what_it_is() -> None:
    for found in pkgutil.walk_packages(credence_trust.__path__, "credence_trust."):
        module = importlib.import_module(found.name)
        if found.name.endswith("_native"):
            continue
        assert module.__doc__, found.name
        for name in getattr(module, "__all__", ()):
            one = getattr(module, name)
            if inspect.isclass(one) or inspect.isroutine(one):
                assert inspect.getdoc(one), f"{found.name}.{name}"
    for name, member in vars(Guard).items():
        assert name.startswith("_") or inspect.getdoc(member), f"Guard.{name}"
    for one in (Guard, credence_trust.Authority):
        said = inspect.getdoc(one) or ""
        unsaid = [name for name in inspect.signature(one).parameters if f"``{name}``" not in said]
        assert not unsaid, f"{one.__name__} does not say what {unsaid} mean"


def test_the_program_is_inside() -> None:
    done = subprocess.run(["credence", "--version"], capture_output=True, text=True)
    assert done.stdout.strip() == f"credence {credence_trust.__version__}"


def test_warnings_are_errors_and_nothing_is_left_open(tmp_path: Path) -> None:
    program = f"""
import asyncio
from credence_trust import Guard, VerificationEngine
guard = Guard("flag", agent="bot", name="t", state={str(tmp_path / "s")!r})
@guard.tool
async def one(n: int) -> int:
    return n
asyncio.run(one(1))
assert VerificationEngine().verify("t", {{"a": 1}}).verdict == "accept"
"""
    done = subprocess.run([sys.executable, "-X", "dev", "-W", "error", "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_no_framework_is_imported_unasked() -> None:
    program = "import sys, credence_trust; print([n for n in ('numpy', 'pandas', 'pydantic', 'opentelemetry', 'agents', 'asyncio') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done


@pytest.mark.skipif("wheels-release" not in os.environ.get("WHEEL_UNDER_TEST", ""), reason="only the release wheel is measured")
def test_the_wheel_is_small_and_quick(tmp_path: Path) -> None:
    wheel = Path(os.environ["WHEEL_UNDER_TEST"])
    assert wheel.stat().st_size < 25 * 1024 * 1024, f"{wheel.stat().st_size / 2**20:.1f} MiB"
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    # A machine without a compiler, and without anything else.
    subprocess.run([venv / "bin" / "pip", "install", "-q", "--no-index", str(wheel)], check=True, env={"PATH": str(venv / "bin")})
    program = "import time; t = time.perf_counter(); import credence_trust; print(time.perf_counter() - t)"
    times = [float(subprocess.run([venv / "bin" / "python", "-c", program], capture_output=True, text=True).stdout) for _ in range(10)]
    assert min(times) < 0.060, times
    assert subprocess.run([venv / "bin" / "credence", "--version"], env={"PATH": ""}).returncode == 0


def test_the_demo_is_one_command(tmp_path: Path) -> None:
    """`uvx --from WHEEL credence serve --demo`: an environment with nothing but the wheel, then the program."""
    wheel = os.environ.get("WHEEL_UNDER_TEST", "")
    if not wheel.endswith(".whl"):
        pytest.skip("no wheel is under test")
    uvx = shutil.which("uvx")
    if uvx is not None:
        command = [uvx, "--offline", "--python", sys.executable, "--from", wheel, "credence"]
    else:
        venv = tmp_path / "venv"
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        subprocess.run([venv / "bin" / "pip", "install", "-q", "--no-index", wheel], check=True)
        command = [str(venv / "bin" / "credence")]
    log = tmp_path / "log"
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "TMPDIR": str(tmp_path)}
    with log.open("w") as out:
        process = subprocess.Popen([*command, "serve", "--demo", "--listen", "127.0.0.1:0"], stdout=out, stderr=out, env=environment, cwd=tmp_path)
    try:
        end = time.monotonic() + 120
        while (found := re.search(r"http://127\.0\.0\.1:\d+", log.read_text())) is None:
            assert process.poll() is None and time.monotonic() < end, log.read_text()
            time.sleep(0.1)
        asked = urllib.request.Request(found.group(0) + "/", headers={"Accept": "text/html"})
        with urllib.request.urlopen(asked, timeout=30) as page:
            assert page.status == 200 and b"<table" in page.read()
    finally:
        process.terminate()
        process.wait(30)
