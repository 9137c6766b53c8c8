"""CrewAI: tools under guard.

>>> agent = Agent(role="clerk", tools=guarded_all(guard, [get_rate]), …)   # doctest: +SKIP

Arguments are those that the model gave, before CrewAI fills in defaults. CrewAI gives the model ``str`` of what a tool returns; the receipt
stands for the value and for that text.
"""

from __future__ import annotations

import contextvars
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from ..guard import Guard, Recording, ResultWithheld

if TYPE_CHECKING:
    from crewai.tools import BaseTool

__all__ = ["guarded", "guarded_all"]

CLIENT = "crewai"
OnWithheld = Literal["tell", "raise"]

_given: contextvars.ContextVar[Any] = contextvars.ContextVar("credence_given", default=None)
"""What the model gave last, and what the tool's schema made of it."""


def guarded(guard: Guard, tool: BaseTool, *, on_withheld: OnWithheld = "tell") -> BaseTool:
    """The same tool, under guard. It keeps its class, name and schema."""
    kind: Any = type(tool)
    name = tool.name
    schema = getattr(tool, "args_schema", None)
    changed = {} if schema is None else {"args_schema": _noting(schema)}

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
        made: BaseTool = tool.model_copy(update={**changed, "func": recorded(function)})
        return made

    class Guarded(kind):  # type: ignore[misc]
        def _run(self, *args: Any, **kwargs: Any) -> Any:
            return recorded(super()._run)(*args, **kwargs)

        async def _arun(self, *args: Any, **kwargs: Any) -> Any:
            return await recorded(super()._arun)(*args, **kwargs)

    Guarded.__name__ = Guarded.__qualname__ = kind.__name__
    copy: Any = tool.model_copy(update=changed)
    object.__setattr__(copy, "__class__", Guarded)
    return copy  # type: ignore[no-any-return]


def _noting(schema: Any) -> Any:
    """The schema of a tool's arguments, which notes what it is given."""
    from pydantic import create_model

    class Noting(schema):  # type: ignore[misc]
        @classmethod
        def model_validate(cls, obj: Any, *args: Any, **kwargs: Any) -> Any:
            value = super().model_validate(obj, *args, **kwargs)
            _given.set((dict(obj), value.model_dump()) if isinstance(obj, Mapping) else None)
            return value

    # By its own name: that stands in what the model is told of the tool.
    return create_model(schema.__name__, __base__=Noting, __module__=schema.__module__, __doc__=schema.__doc__)


def _arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    noted = _given.get()
    _given.set(None)
    # Of another call, where they differ.
    if noted is not None and not args and noted[1] == kwargs:
        given: dict[str, Any] = noted[0]
        return given
    return {**{f"arg{n}": value for n, value in enumerate(args)}, **kwargs}


def guarded_all(guard: Guard, tools: Iterable[BaseTool], *, on_withheld: OnWithheld = "tell") -> list[BaseTool]:
    """The same for several tools."""
    return [guarded(guard, tool, on_withheld=on_withheld) for tool in tools]
