"""CrewAI: tools under guard.

>>> agent = Agent(role="clerk", tools=guarded_all(guard, [get_rate]), …)   # doctest: +SKIP

CrewAI gives the model ``str`` of what a tool returns; the receipt stands for the value and for that text.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal

from ..guard import Guard, Recording, ResultWithheld

if TYPE_CHECKING:
    from crewai.tools import BaseTool

__all__ = ["guarded", "guarded_all"]

CLIENT = "crewai"
OnWithheld = Literal["tell", "raise"]


def guarded(guard: Guard, tool: BaseTool, *, on_withheld: OnWithheld = "tell") -> BaseTool:
    """The same tool, under guard. It keeps its class, name and schema."""
    kind: Any = type(tool)
    name = tool.name

    def recorded(function: Callable[..., Any]) -> Callable[..., Any]:
        def ended(call: Recording, value: Any) -> Any:
            try:
                return call.returned(value, shown=str(value))
            except ResultWithheld as withheld:
                if on_withheld == "raise":
                    raise
                return str(withheld)

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with guard.record(name, _arguments(args, kwargs), client=CLIENT) as call:
                return ended(call, function(*args, **kwargs))

        @functools.wraps(function)
        async def run_async(*args: Any, **kwargs: Any) -> Any:
            with guard.record(name, _arguments(args, kwargs), client=CLIENT) as call:
                return ended(call, await function(*args, **kwargs))

        return run_async if inspect.iscoroutinefunction(function) else run

    # A tool made of a function calls it in several ways, all of which end there.
    function = getattr(tool, "func", None)
    if callable(function):
        made: BaseTool = tool.model_copy(update={"func": recorded(function)})
        return made

    class Guarded(kind):  # type: ignore[misc]
        def _run(self, *args: Any, **kwargs: Any) -> Any:
            return recorded(super()._run)(*args, **kwargs)

        async def _arun(self, *args: Any, **kwargs: Any) -> Any:
            return await recorded(super()._arun)(*args, **kwargs)

    Guarded.__name__ = Guarded.__qualname__ = kind.__name__
    copy: Any = tool.model_copy()
    object.__setattr__(copy, "__class__", Guarded)
    return copy  # type: ignore[no-any-return]


def _arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    return {**{f"arg{n}": value for n, value in enumerate(args)}, **kwargs}


def guarded_all(guard: Guard, tools: Iterable[BaseTool], *, on_withheld: OnWithheld = "tell") -> list[BaseTool]:
    """The same for several tools."""
    return [guarded(guard, tool, on_withheld=on_withheld) for tool in tools]
