"""Functions under guard: a wrapper for each kind of function, which behaves as the function does."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Optional

from ._native import Items
from ._spans import TracedCall

if TYPE_CHECKING:
    from .guard import Guard

__all__ = ["Guarded", "parameters", "wrapped"]

MAX_HELD = 100_000
"""Items of a generator that ``enforce`` holds until they are judged."""

_LAZY = (types.CoroutineType, types.GeneratorType, types.AsyncGeneratorType)


class Guarded:
    """A tool under guard."""

    __slots__ = ("guard", "tool", "names", "skip", "stake", "client", "shown")

    def __init__(
        self,
        guard: Guard,
        tool: str,
        names: tuple[str, ...] = (),
        skip: bool = False,
        stake: Optional[str] = None,
        client: Optional[str] = None,
        shown: Optional[Callable[[Any], Optional[str]]] = None,
    ) -> None:
        self.tool = tool_name(tool)
        self.guard, self.names, self.skip = guard, names, skip
        self.stake, self.client, self.shown = stake, client, shown


def tool_name(name: str) -> str:
    """The name with ``?`` for half a surrogate pair, which cannot be written."""
    return name.encode("utf-8", "replace").decode()


class TooManyItems(RuntimeError):
    """A generator gave more than can be held."""

    def __init__(self) -> None:
        super().__init__(f"in mode enforce a generator's items are held until they are judged: there can be {MAX_HELD:,}, and it gave more")


def wrapped(guarded: Guarded, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function under guard."""
    target: Any = function
    while isinstance(target, functools.partial):
        target = target.func
    if not inspect.isroutine(target) and not inspect.isclass(target):
        target = getattr(type(target), "__call__", target)  # noqa: B004 - an object that can be called
    # What the function itself is, not what it wraps: `@contextmanager` makes a plain function of a generator function.
    if inspect.isasyncgenfunction(target):
        wrapper = _async_generator(guarded, function)
    elif inspect.isgeneratorfunction(target) and not _is_awaitable_generator(getattr(target, "__code__", None)):
        wrapper = _generator(guarded, function)
    elif inspect.iscoroutinefunction(target):
        wrapper = _coroutine(guarded, function)
    else:
        wrapper = _plain(guarded, function)
    return wrapper


def _is_awaitable_generator(code: Any) -> bool:
    """A function of ``types.coroutine``: its generators are awaited."""
    return bool(getattr(code, "co_flags", 0) & inspect.CO_ITERABLE_COROUTINE)


def _plain(guarded: Guarded, function: Callable[..., Any]) -> Callable[..., Any]:
    guard = guarded.guard

    def call(*args: Any, **kwargs: Any) -> Any:
        begun = guard._begin(guarded, args, kwargs)
        try:
            value = function(*args, **kwargs) if type(begun) is not TracedCall else _resume(begun, function, *args, **kwargs)
        except BaseException as error:
            guard._error(guarded, begun, error)
            raise
        if begun is None:
            return value
        # A plain function that gives a coroutine or a generator: the call ends when that does.
        return _lazily(guarded, begun, value) if type(value) in _LAZY else guard._finish(guarded, begun, value)

    return call


def _lazily(guarded: Guarded, begun: Any, value: Any) -> Any:
    if isinstance(value, types.AsyncGeneratorType):
        return _async_generator(guarded, lambda: value, begun)()
    if isinstance(value, types.GeneratorType) and not _is_awaitable_generator(value.gi_code):
        return _stream(guarded, begun, value)
    return _awaited(guarded, begun, value)


async def _awaited(guarded: Guarded, begun: Any, value: Any) -> Any:
    try:
        value = await _resume_async(begun, value)
    except BaseException as error:
        guarded.guard._error(guarded, begun, error)
        raise
    return guarded.guard._finish(guarded, begun, value)


def _coroutine(guarded: Guarded, function: Callable[..., Any]) -> Callable[..., Any]:
    guard = guarded.guard

    async def call(*args: Any, **kwargs: Any) -> Any:
        begun = guard._begin(guarded, args, kwargs)
        try:
            if type(begun) is TracedCall:
                value = await _resume_async(begun, function(*args, **kwargs))
            else:
                value = await function(*args, **kwargs)
        except BaseException as error:
            guard._error(guarded, begun, error)
            raise
        return value if begun is None else guard._finish(guarded, begun, value)

    return call


def _generator(guarded: Guarded, function: Callable[..., Any]) -> Callable[..., Any]:
    guard = guarded.guard

    def call(*args: Any, **kwargs: Any) -> Any:
        begun = guard._begin(guarded, args, kwargs)
        try:
            inner = function(*args, **kwargs)
        except BaseException as error:
            guard._error(guarded, begun, error)
            raise
        return (yield from _stream(guarded, begun, inner))

    return call


def _stream(guarded: Guarded, begun: Any, inner: Any) -> Any:
    """The items as they come, each committed to as it is then; in ``enforce`` all of them once they were judged."""
    guard = guarded.guard
    if begun is None:
        return (yield from inner)
    items = Items()
    held: Optional[list[Any]] = [] if begun.mode == "enforce" else None
    try:
        item = _resume(begun, next, inner)
        while True:
            items.push(item)
            if held is not None:
                _hold(held, item, inner.close)
                item = _resume(begun, next, inner)
                continue
            try:
                sent = yield item
            except GeneratorExit:
                _resume(begun, inner.close)
                raise
            except BaseException as thrown:
                item = _resume(begun, inner.throw, thrown)
            else:
                item = _resume(begun, inner.send, sent)
    except StopIteration as stop:
        returned = stop.value
    except GeneratorExit:
        # What was handed over is all that there is.
        guard._finish(guarded, begun, items)
        raise
    except TooManyItems as error:
        raise guard._withheld(guarded, begun, error) from None
    except BaseException as error:
        guard._error(guarded, begun, error)
        raise
    guard._finish(guarded, begun, items)
    if held is not None:
        yield from held
    return returned


_UNBEGUN = object()


def _async_generator(guarded: Guarded, function: Callable[..., Any], begun: Any = _UNBEGUN) -> Callable[..., Any]:
    guard, before = guarded.guard, begun

    async def call(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        begun = guard._begin(guarded, args, kwargs) if before is _UNBEGUN else before
        items = Items()
        held: Optional[list[Any]] = [] if begun is not None and begun.mode == "enforce" else None
        try:
            inner = function(*args, **kwargs)
            item = await _resume_async(begun, inner.asend(None))
            while True:
                if begun is not None:
                    items.push(item)
                if held is not None:
                    if len(held) >= MAX_HELD:
                        await inner.aclose()
                    _hold(held, item)
                    item = await _resume_async(begun, inner.asend(None))
                    continue
                try:
                    sent = yield item
                except GeneratorExit:
                    await _resume_async(begun, inner.aclose())
                    raise
                except BaseException as thrown:
                    item = await _resume_async(begun, inner.athrow(thrown))
                else:
                    item = await _resume_async(begun, inner.asend(sent))
        except StopAsyncIteration:
            pass
        except GeneratorExit:
            guard._finish(guarded, begun, items)
            raise
        except TooManyItems as error:
            raise guard._withheld(guarded, begun, error) from None
        except BaseException as error:
            guard._error(guarded, begun, error)
            raise
        guard._finish(guarded, begun, items)
        for item in held or ():
            yield item

    return call


def _hold(held: list[Any], item: Any, close: Callable[[], Any] = lambda: None) -> None:
    if len(held) >= MAX_HELD:
        close()
        raise TooManyItems
    held.append(item)


def _resume(begun: Any, step: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Runs code of the tool, with the call's span as the current one."""
    if type(begun) is not TracedCall:
        return step(*args, **kwargs)
    with begun.current():
        return step(*args, **kwargs)


async def _resume_async(begun: Any, step: Any) -> Any:
    if type(begun) is not TracedCall:
        return await step
    with begun.current():
        return await step


def parameters(function: Callable[..., Any]) -> tuple[tuple[str, ...], bool]:
    """The names of the positional parameters, and whether the first of them is the object that a method belongs to."""
    try:
        found = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return tuple(f"arg{n}" for n in range(16)), False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [parameter.name for parameter in found if parameter.kind in kinds]
    skip = bool(names) and names[0] in ("self", "cls") and not inspect.ismethod(function)
    return tuple(names[1:] if skip else names), skip
