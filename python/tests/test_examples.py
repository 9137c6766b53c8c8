"""The examples and the code in README and documentation run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import PROJECT

EXAMPLES = sorted((PROJECT / "python" / "examples").glob("*.py"))


def run(path: Path, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OPENAI_API_KEY": "", "XDG_STATE_HOME": str(tmp_path)}
    return subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=120, env=environment, cwd=tmp_path)


def test_there_are_five() -> None:
    assert len(EXAMPLES) == 5


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_offline(example: Path, tmp_path: Path) -> None:
    done = run(example, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout


def blocks(page: str, heading: str) -> list[str]:
    text = (PROJECT / page).read_text()
    section = re.search(rf"^## {re.escape(heading)}$(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    assert section, f"{page} has no section '{heading}'"
    return re.findall(r"^```python\n(.*?)^```", section.group(1), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(
    ("page", "heading"),
    [("README.md", "From Python"), ("docs/python.md", "Put a guard on your tools"), ("docs/python.md", "The verification engine")],
)
def test_code_in_the_documentation_runs(page: str, heading: str, tmp_path: Path) -> None:
    code = blocks(page, heading)
    assert code
    script = tmp_path / "page.py"
    script.write_text("\n".join(code))
    done = run(script, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    for line, expected in re.findall(r"^print\((.*)\)\s+# (.*)$", script.read_text(), re.MULTILINE):
        assert expected.rstrip("…") in done.stdout, f"print({line}) is said to give {expected}: {done.stdout}"
