"""Google ADK: the tools of an agent under guard, as a plugin.

>>> runner = InMemoryRunner(agent=agent, plugins=[GuardPlugin(guard)])   # doctest: +SKIP
>>> guard.check(session.events)                                          # doctest: +SKIP
"""

from __future__ import annotations

from typing import Any, Literal

from ..guard import Guard, ResultWithheld
from ._under_way import UnderWay

__all__ = ["GuardPlugin"]

CLIENT = "google-adk"


def GuardPlugin(guard: Guard, *, name: str = "credence", on_withheld: Literal["tell", "raise"] = "tell") -> Any:  # noqa: N802 - a class to its users
    """A plugin for ``Runner(plugins=[…])``."""
    from google.adk.plugins.base_plugin import BasePlugin

    class Plugin(BasePlugin):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(name=name)
            self.under_way = UnderWay()

        async def before_tool_callback(self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any) -> None:
            self.under_way.begin(_key(tool, tool_context), guard.record(tool.name, tool_args, client=CLIENT), tool_context)

        async def after_tool_callback(self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any, result: Any) -> Any:
            call = self.under_way.end(_key(tool, tool_context))
            if call is None:
                return None
            try:
                call.returned(result)
            except ResultWithheld as withheld:
                if on_withheld == "raise":
                    raise
                return {"error": str(withheld)}
            return None

        async def on_tool_error_callback(self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any, error: Exception) -> None:
            call = self.under_way.end(_key(tool, tool_context))
            if call is not None:
                call.raised(error)

    return Plugin()


def _key(tool: Any, tool_context: Any) -> Any:
    return getattr(tool_context, "function_call_id", None) or (tool.name, id(tool_context))
