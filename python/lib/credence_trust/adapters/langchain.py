"""LangChain and LangGraph: tools under guard.

>>> node = ToolNode(guarded_all(guard, [get_rate]))          # doctest: +SKIP
>>> guard.check(graph.invoke({"messages": [...]}))           # doctest: +SKIP

Arguments are those of the model's tool call. The receipt stands for the content of the ``ToolMessage`` that the tool makes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from ..guard import Guard, Recording, ResultWithheld

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

__all__ = ["guarded", "guarded_all"]

CLIENT = "langchain"
OnWithheld = Literal["tell", "raise"]


def guarded(guard: Guard, tool: BaseTool, *, on_withheld: OnWithheld = "tell") -> BaseTool:
    """The same tool, under guard. It keeps its class, name and schema."""
    kind: Any = type(tool)

    # Every way to call a tool ends in `run` or `arun`.
    class Guarded(kind):  # type: ignore[misc]
        def run(self, tool_input: Any, *args: Any, **kwargs: Any) -> Any:
            with guard.record(self.name, _arguments(tool_input), client=CLIENT) as call:
                try:
                    output = super().run(tool_input, *args, **kwargs)
                except BaseException as error:
                    _raised(call, self.name, tool_input, error)
                    raise
                return _ended(call, output, on_withheld)

        async def arun(self, tool_input: Any, *args: Any, **kwargs: Any) -> Any:
            with guard.record(self.name, _arguments(tool_input), client=CLIENT) as call:
                try:
                    output = await super().arun(tool_input, *args, **kwargs)
                except BaseException as error:
                    _raised(call, self.name, tool_input, error)
                    raise
                return _ended(call, output, on_withheld)

    Guarded.__name__ = Guarded.__qualname__ = kind.__name__
    copy: Any = tool.model_copy()
    object.__setattr__(copy, "__class__", Guarded)
    return copy  # type: ignore[no-any-return]


def guarded_all(guard: Guard, tools: Iterable[BaseTool], *, on_withheld: OnWithheld = "tell") -> list[BaseTool]:
    """The same for several tools."""
    return [guarded(guard, tool, on_withheld=on_withheld) for tool in tools]


def _arguments(tool_input: Any) -> dict[str, Any]:
    return tool_input if isinstance(tool_input, dict) else {"input": tool_input}


def _raised(call: Recording, name: str, tool_input: Any, error: BaseException) -> None:
    """The error, as LangGraph tells it to the model. For arguments that do not fit it has an error of its own, told in two ways."""
    with contextlib.suppress(ImportError):
        from langgraph.prebuilt.tool_node import ToolInvocationError
        from pydantic import ValidationError

        if isinstance(error, ValidationError):
            details = [one for one in error.errors() if one["loc"]]
            invalid = ToolInvocationError(name, error, _arguments(tool_input), details)
            return call.raised(error, shown=repr(invalid), otherwise=invalid.message)
    call.raised(error, shown=repr(error))


def _message_in(output: Any) -> Any:
    """The message that a tool made for the model, where it made one: alone, or in a command to the graph."""
    from langchain_core.messages import ToolMessage

    if isinstance(output, ToolMessage):
        return output
    update = getattr(output, "update", None) if type(output).__module__.startswith("langgraph.") else None
    given = update.get("messages") if isinstance(update, dict) else update
    messages = [one for one in given if isinstance(one, ToolMessage)] if isinstance(given, list) else [given]
    return messages[0] if len(messages) == 1 and isinstance(messages[0], ToolMessage) else None


def _ended(call: Recording, output: Any, on_withheld: OnWithheld) -> Any:
    message = _message_in(output)
    if message is not None and message.status == "error":
        call.raised(RuntimeError("the tool reported an error"), shown=str(message.content))
        return output
    try:
        call.returned(output if message is None else message.content)
    except ResultWithheld as withheld:
        if on_withheld == "raise":
            raise
        if message is None:
            return str(withheld)
        return message.model_copy(update={"content": str(withheld), "status": "error", "artifact": None})
    return output
