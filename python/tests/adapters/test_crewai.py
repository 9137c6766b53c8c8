"""CrewAI, the real package, with a crew whose model is scripted."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Callable

import pytest

# Nothing leaves the machine.
os.environ.update(CREWAI_DISABLE_TELEMETRY="true", CREWAI_DISABLE_TRACKING="true", OTEL_SDK_DISABLED="true", CREWAI_TRACING_ENABLED="false")
pytest.importorskip("crewai")
from crewai import Agent, BaseLLM, Crew, Task  # noqa: E402
from crewai.tools import BaseTool, tool  # noqa: E402
from pydantic import BaseModel  # noqa: E402

from conftest import checked_by_program, receipts  # noqa: E402
from credence_trust import Guard, ResultWithheld, ToolProfile  # noqa: E402
from credence_trust.adapters.crewai import guarded, guarded_all  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")


@tool("get_rate")
def get_rate(currency: str) -> dict:  # type: ignore[type-arg]
    """The rate of a currency."""
    return {"currency": currency, "rate": 1.25}


class Search(BaseModel):
    """What to look for."""

    text: str
    pages: int = 2


class Find(BaseTool):
    name: str = "find"
    description: str = "Finds something."
    args_schema: type[BaseModel] = Search

    def _run(self, text: str, pages: int = 2) -> str:
        return f"{text} on {pages} pages"


class Note(BaseTool):
    name: str = "note"
    description: str = "Keeps a note."

    def _run(self, text: str) -> str:
        return f"kept: {text}"


def messages(name: str, arguments: dict[str, Any], result: str, number: str) -> list[dict[str, Any]]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return [
        {"role": "assistant", "content": None, "tool_calls": [{"id": number, "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": number, "content": result},
    ]


class Scripted(BaseLLM):
    """A model that says what it is told to, and keeps what it was told."""

    steps: list[str] = []
    seen: list[str] = []

    def call(self, messages: Any, *args: Any, **kwargs: Any) -> str:
        self.seen.append(json.dumps(messages, default=str))
        return self.steps.pop(0)

    def supports_function_calling(self) -> bool:
        return False

    def supports_stop_words(self) -> bool:
        return False


def test_a_crew_is_held_against_its_receipts(guard: Guard, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    steps = [
        'Thought: look it up\nAction: get_rate\nAction Input: {"currency": "EUR"}',
        'Thought: keep it\nAction: note\nAction Input: {"text": "hello"}',
        "Thought: I now know the final answer\nFinal Answer: 1.25",
    ]
    llm = Scripted(model="scripted", steps=steps)
    agent = Agent(role="clerk", goal="tell rates", backstory="a clerk", tools=guarded_all(guard, [get_rate, Note()]), llm=llm, verbose=False)
    task = Task(description="What is the rate of the euro?", expected_output="a number", agent=agent)
    assert "1.25" in str(Crew(agents=[agent], tasks=[task], verbose=False).kickoff())
    # What the model read is what the receipts stand for.
    first, second = "{'currency': 'EUR', 'rate': 1.25}", "kept: hello"
    assert "'rate': 1.25" in llm.seen[1] and second in llm.seen[2]
    told = [*messages("get_rate", {"currency": "EUR"}, first, "c1"), *messages("note", {"text": "hello"}, second, "c2")]
    report = guard.check(told)
    assert report and report.statuses() == ["executed", "executed"] and not report.unclaimed, str(report)
    assert checked_by_program(guard, state, told) == ["executed", "executed"]
    altered = json.loads(json.dumps(told).replace("1.25", "1.52"))
    assert checked_by_program(guard, state, altered) == ["altered", "executed"]
    invented = [*told, *messages("get_rate", {"currency": "CHF"}, "{'rate': 0.9}", "c3")]
    assert checked_by_program(guard, state, invented) == ["executed", "executed", "never_happened"]
    guard.close()
    assert [one["client"] for one in receipts(state)] == ["crewai", "crewai"]


def test_calls_are_held_against_their_receipts(guard: Guard) -> None:
    rate, note = guarded_all(guard, [get_rate, Note()])
    # As the executor of an agent calls them: through the structured tool, with the text of the value for the model.
    first = str(rate.to_structured_tool().invoke({"currency": "EUR"}))
    second = str(note.run(text="hello"))
    assert first == "{'currency': 'EUR', 'rate': 1.25}" and second == "kept: hello"
    told = [*messages("get_rate", {"currency": "EUR"}, first, "c1"), *messages("note", {"text": "hello"}, second, "c2")]
    report = guard.check(told)
    assert report and report.statuses() == ["executed", "executed"] and not report.unclaimed, str(report)
    assert guard.check(json.loads(json.dumps(told).replace("1.25", "1.52"))).statuses() == ["altered", "executed"]
    invented = [*told, *messages("get_rate", {"currency": "CHF"}, "{'rate': 0.9}", "c3")]
    assert guard.check(invented).statuses()[-1] == "never_happened"


def test_arguments_are_those_that_the_model_gave(guard: Guard) -> None:
    find = guarded(guard, Find())
    said = str(find.to_structured_tool().invoke({"text": "euro"}))
    assert said == "euro on 2 pages"
    report = guard.check(messages("find", {"text": "euro"}, said, "c1"))
    assert report and report.statuses() == ["executed"], str(report)
    assert guard.check(messages("find", {"text": "euro", "pages": 2}, said, "c1")).statuses() != ["executed"]
    assert guard.check(messages("find", {"text": "krone"}, said, "c1")).statuses() != ["executed"]
    # Not asked for by a model: what the last one gave does not stand for it.
    find.args_schema.model_validate({"text": "euro"})
    said = find._run(text="krone", pages=1)
    assert guard.check(messages("find", {"text": "krone", "pages": 1}, said, "c2")).statuses() == ["executed"]


def test_a_tool_keeps_what_a_model_sees_of_it(guard: Guard) -> None:
    for tool in (get_rate, Find()):
        same = guarded(guard, tool)
        assert (same.name, same.description) == (tool.name, tool.description) and isinstance(same, type(tool))
        assert same.args_schema.model_json_schema() == tool.args_schema.model_json_schema()


def test_enforce_tells_the_model(make_guard: Callable[..., Guard]) -> None:
    guard = make_guard("enforce")
    profile = ToolProfile("get_rate", expected_latency_ms=(0, 1e9), required_fields=["nothing_like_it"], has_network_io=False)
    guard.describe("get_rate", profile=profile)
    assert "was executed" in str(guarded(guard, get_rate).run(currency="EUR"))
    with pytest.raises(ResultWithheld):
        guarded(guard, get_rate, on_withheld="raise").run(currency="EUR")
