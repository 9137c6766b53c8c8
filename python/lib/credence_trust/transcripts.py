"""Transcripts: a framework's own messages, as JSON that receipts are compared with.

:func:`to_json` takes messages of OpenAI (chat completions and Responses), the OpenAI Agents SDK (a run result or its items), Anthropic,
Bedrock, Gemini and Google ADK (contents, events), LangChain and LangGraph (messages, or a state with ``messages``), pydantic-ai (messages or
a run result), MCP, OpenTelemetry, plain dictionaries, and JSON text.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Optional, Union, cast

__all__ = ["CheckReport", "to_json"]


class CheckReport:
    """What the receipts say of a transcript. True where all is well."""

    def __init__(self, report: dict[str, Any]) -> None:
        self.report = report
        """Everything, as ``credence receipts check --json`` prints it."""

    @property
    def clean(self) -> bool:
        """Every claimed result is what a tool gave, and nothing could hide another claim."""
        return bool(self.report["clean"])

    @property
    def claims(self) -> list[dict[str, Any]]:
        """Claim by claim: ``tool``, ``status``, ``receipt``, ``differs``."""
        return list(self.report["claims"])

    @property
    def unclaimed(self) -> list[dict[str, Any]]:
        """Receipts of calls that the transcript does not show."""
        return list(self.report["unclaimed"])

    @property
    def isolation(self) -> list[str]:
        """Who could have forged the receipts, in words."""
        return list(self.report["isolation"])

    @property
    def problems(self) -> list[str]:
        """What could not be read."""
        unrecognised = [str(one) for one in self.report["unrecognised"]]
        return [*self.report["problems"], *self.report["transcript_problems"], *unrecognised]

    def statuses(self) -> list[str]:
        """The status of each claim, in order."""
        return [claim["status"] for claim in self.claims]

    def __bool__(self) -> bool:
        return self.clean

    def __str__(self) -> str:
        lines = []
        for claim in self.claims:
            differs = "; ".join(claim.get("differs", []))
            lines.append(f"{claim['status']}: {claim.get('tool')} at {claim['at']}" + (f" ({differs})" if differs else ""))
        return "\n".join([*lines, *self.problems])

    def __repr__(self) -> str:
        return f"CheckReport(clean={self.clean}, statuses={self.statuses()})"


def to_json(messages: Any) -> str:
    """The transcript as JSON text."""
    if isinstance(messages, str):
        return messages
    if isinstance(messages, (bytes, bytearray)):
        return bytes(messages).decode("utf-8", "replace")
    return json.dumps(_transcript(messages), default=_plain, ensure_ascii=False)


def _transcript(messages: Any) -> Any:
    kind = type(messages).__module__.split(".")[0]
    # A run result of the OpenAI Agents SDK: what went to the model, and what came of it.
    if kind == "agents" and hasattr(messages, "to_input_list"):
        handoffs = {_call_id(one) for one in messages.new_items if _is_handoff(one)} - {None}
        return [one for one in messages.to_input_list() if not (isinstance(one, Mapping) and one.get("call_id") in handoffs)]
    # A run result of pydantic-ai.
    if kind == "pydantic_ai" and hasattr(messages, "all_messages_json"):
        return _without_output(json.loads(messages.all_messages_json()), getattr(messages, "_output_tool_name", None))
    # The state of a LangGraph graph.
    if isinstance(messages, Mapping) and "messages" in messages and not _is_plain(messages):
        messages = messages["messages"]
    if isinstance(messages, (list, tuple)):
        if messages and type(messages[0]).__module__.startswith("pydantic_ai"):
            from pydantic_ai.messages import ModelMessagesTypeAdapter

            return json.loads(ModelMessagesTypeAdapter.dump_json(list(messages)))
        return [_message(one) for one in messages if not _is_handoff(one)]
    return _message(messages)


def _without_output(messages: list[dict[str, Any]], tool: Optional[str]) -> list[dict[str, Any]]:
    """The messages of pydantic-ai without the call by which the model gave its typed output: no tool is called."""
    if tool is None:
        return messages
    return [{**one, "parts": [part for part in one["parts"] if part.get("tool_name") != tool]} for one in messages]


def _is_handoff(item: Any) -> bool:
    """Whether a run item of the OpenAI Agents SDK hands over to another agent: written as a call, and no tool is called."""
    return type(item).__module__.startswith("agents.") and type(item).__name__ in ("HandoffCallItem", "HandoffOutputItem")


def _call_id(item: Any) -> Any:
    raw = getattr(item, "raw_item", None)
    return raw.get("call_id") if isinstance(raw, Mapping) else getattr(raw, "call_id", None)


def _message(message: Any) -> Any:
    module = type(message).__module__
    if module.startswith("langchain_core.messages"):
        from langchain_core.messages import messages_to_dict

        told: dict[str, Any] = messages_to_dict([message])[0]
        # For the program alone: a model is not told of it.
        told["data"].pop("artifact", None)
        return told
    # An event of Google ADK: its content is what the model saw.
    if module.startswith("google.adk") and hasattr(message, "content"):
        return _plain(message.content) if message.content is not None else {"parts": []}
    if module.startswith("agents.") and hasattr(message, "to_input_item"):
        return message.to_input_item()
    return message


def _is_plain(value: Any) -> bool:
    messages = value.get("messages")
    return isinstance(messages, list) and all(isinstance(one, Mapping) for one in messages)


def _plain(value: Any) -> Union[dict[str, Any], list[Any], str]:
    """An object that :mod:`json` does not know."""
    dump: Any = getattr(value, "model_dump", None)
    if callable(dump):
        dumped: Any = dump(mode="json", exclude_none=True)
        return cast("dict[str, Any]", dumped)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, Mapping):
        return dict(value)
    to_dict: Any = getattr(value, "to_dict", None)
    if callable(to_dict):
        made: Any = to_dict()
        return cast("dict[str, Any]", made)
    from ._native import canonical_form

    form: Any = json.loads(canonical_form(value)[0])
    return form if isinstance(form, (dict, list)) else str(form)
