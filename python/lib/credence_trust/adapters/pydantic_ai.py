"""pydantic-ai: toolsets under guard.

>>> agent = Agent(model, toolsets=[guarded(guard, FunctionToolset([get_rate]))])   # doctest: +SKIP
>>> guard.check(agent.run_sync("…"))                                               # doctest: +SKIP

Arguments are those of the model's tool call. In mode ``enforce`` the model is told of a withheld result by ``ModelRetry`` never: a retry
would call the tool a second time. It gets the explanation as the tool's result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from ..guard import Guard, ResultWithheld

if TYPE_CHECKING:
    from pydantic_ai.toolsets import AbstractToolset

__all__ = ["guarded"]

CLIENT = "pydantic-ai"
OnWithheld = Literal["tell", "raise"]


def guarded(guard: Guard, toolset: AbstractToolset[Any], *, on_withheld: OnWithheld = "tell") -> AbstractToolset[Any]:
    """The same toolset, under guard."""
    from pydantic_ai.toolsets import WrapperToolset

    class GuardedToolset(WrapperToolset[Any]):  # type: ignore[misc]
        async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
            with guard.record(name, _arguments(ctx, tool_args), client=CLIENT) as call:
                value = await super().call_tool(name, tool_args, ctx, tool)
                try:
                    return call.returned(value, shown=_shown(value))
                except ResultWithheld as withheld:
                    if on_withheld == "raise":
                        raise
                    return str(withheld)

    return GuardedToolset(toolset)


def _arguments(ctx: Any, validated: dict[str, Any]) -> dict[str, Any]:
    """As the model gave them; validated ones have defaults filled in."""
    for message in reversed(ctx.messages):
        for part in message.parts:
            if getattr(part, "part_kind", None) == "tool-call" and part.tool_call_id == ctx.tool_call_id:
                given = part.args_as_dict()
                return given if isinstance(given, dict) else validated
    return validated


def _shown(value: Any) -> Any:
    """The JSON that stands in the messages."""
    if isinstance(value, str):
        return None
    from pydantic_core import to_json

    try:
        return to_json(value).decode()
    except Exception:  # noqa: BLE001 - a value that the framework cannot write either
        return None
