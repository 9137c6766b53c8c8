"""MCP: the client session of the Python SDK under guard.

>>> async with ClientSession(read, write) as session:                  # doctest: +SKIP
...     session = guarded(guard, session)
...     result = await session.call_tool("get_rate", {"currency": "EUR"})

A guard of its own in front of the server (``credence guard -- COMMAND``) sees more, and its receipts are not self-reported. This one is
for servers that cannot be put behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ..guard import Guard, ResultWithheld

if TYPE_CHECKING:
    from mcp import ClientSession

__all__ = ["guarded"]

CLIENT = "mcp"
OnWithheld = Literal["tell", "raise"]
Session = TypeVar("Session", bound="ClientSession")


def guarded(guard: Guard, session: Session, *, on_withheld: OnWithheld = "tell") -> Session:
    """Puts the tool calls of a session under guard; gives the session back."""
    inner = session.call_tool

    async def call_tool(name: str, arguments: Any = None, *args: Any, **kwargs: Any) -> Any:
        with guard.record(name, dict(arguments or {}), client=CLIENT) as call:
            result = await inner(name, arguments, *args, **kwargs)
            try:
                call.returned(result.model_dump(mode="json", by_alias=True, exclude_none=True), is_mcp_result=True)
            except ResultWithheld as withheld:
                if on_withheld == "raise":
                    raise
                from mcp.types import CallToolResult, TextContent

                content = [TextContent(type="text", text=str(withheld))]
                # By the protocol's own names, which every version of the SDK reads.
                return CallToolResult.model_validate({"content": content, "isError": True})
            return result

    session.call_tool = call_tool  # type: ignore[method-assign]
    return session
