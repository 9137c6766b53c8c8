"""pydantic-ai, the real package, with a scripted model."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Callable

import pytest

pytest.importorskip("pydantic_ai")
from pydantic import BaseModel  # noqa: E402
from pydantic_ai import Agent  # noqa: E402
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart  # noqa: E402
from pydantic_ai.models.function import FunctionModel  # noqa: E402
from pydantic_ai.toolsets import FunctionToolset  # noqa: E402

from conftest import checked_by_program  # noqa: E402
from credence_trust import Guard, ResultWithheld, ToolProfile  # noqa: E402
from credence_trust.adapters.pydantic_ai import guarded  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")


class Rate(BaseModel):
    currency: str
    rate: float
    at: datetime


def get_rate(currency: str, base: str = "USD") -> Rate:
    """The rate of a currency."""
    return Rate(currency=currency, rate=1.25, at=datetime(2026, 1, 2, tzinfo=timezone.utc))


def note(text: str) -> str:
    """Keeps a note."""
    return f"kept: {text}"


def forget() -> None:
    """Returns nothing."""


def agent(guard: Guard, *script: Any, output_type: Any = str, **given: Any) -> Any:
    steps = iter(script)
    model = FunctionModel(lambda messages, info: ModelResponse(parts=[next(steps)]))
    return Agent(model, toolsets=[guarded(guard, FunctionToolset([get_rate, note, forget]), **given)], output_type=output_type)


RATE = ToolCallPart("get_rate", {"currency": "EUR"}, tool_call_id="c1")
NOTE = ToolCallPart("note", '{"text": "hello"}', tool_call_id="c2")


def test_a_run_is_held_against_its_receipts(guard: Guard, state: Path) -> None:
    result = agent(guard, RATE, NOTE, TextPart("done")).run_sync("go")
    assert result.output == "done"
    report = guard.check(result)
    assert report and report.statuses() == ["executed", "executed"] and not report.unclaimed
    assert guard.check(result.all_messages()).clean
    assert checked_by_program(guard, state, result) == ["executed", "executed"]

    text = result.all_messages_json().decode()
    altered = text.replace("1.25", "1.52")
    assert guard.check(altered).statuses() == ["altered", "executed"]
    assert checked_by_program(guard, state, altered) == ["altered", "executed"]
    invented = [*json.loads(text), *json.loads(text.replace('"c1"', '"c9"').replace("EUR", "CHF"))[:3]]
    assert guard.check(invented).statuses() == ["executed", "executed", "never_happened"]
    assert checked_by_program(guard, state, invented) == ["executed", "executed", "never_happened"]


def test_a_tool_that_returns_nothing_and_a_typed_answer(guard: Guard, state: Path) -> None:
    class Said(BaseModel):
        text: str

    forgot, said = ToolCallPart("forget", {}, tool_call_id="c1"), ToolCallPart("final_result", {"text": "done"}, tool_call_id="c2")
    result = agent(guard, forgot, said, output_type=Said).run_sync("go")
    assert result.output.text == "done"
    report = guard.check(result)
    assert report and report.statuses() == ["executed"], str(report)
    assert checked_by_program(guard, state, result) == ["executed"]
    told = json.loads(result.all_messages_json())
    next(part for one in told for part in one["parts"] if part["part_kind"] == "tool-return")["content"] = "forgotten"
    assert guard.check(told, ignored_tools=["final_result"]).statuses() == ["altered"]
    # Where only messages are given, the answer is a claim like any other.
    assert guard.check(result.all_messages()).statuses() == ["executed", "never_happened"]


def test_enforce_tells_the_model(make_guard: Callable[..., Guard]) -> None:
    guard = make_guard("enforce")
    profile = ToolProfile("get_rate", expected_latency_ms=(0, 1e9), required_fields=["nothing_like_it"], has_network_io=False)
    guard.describe("get_rate", profile=profile)
    result = agent(guard, RATE, TextPart("not available")).run_sync("go")
    assert "was executed" in result.all_messages_json().decode() and guard.calls == 1
    assert guard.check(result).statuses() == ["executed"]
    with pytest.raises(ResultWithheld):
        agent(guard, RATE, TextPart("never"), on_withheld="raise").run_sync("go")
