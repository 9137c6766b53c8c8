"""A guard inside the program: a receipt for every call of a tool, and a verdict on every result.

>>> from credence_trust import Guard
>>> guard = Guard(mode="flag", agent="my-bot", state=_folder)
>>> @guard.tool
... def get_weather(city: str) -> dict:
...     return {"city": city, "temperature": 18}
>>> get_weather("London")
{'city': 'London', 'temperature': 18}
>>> guard.calls
1
"""

from __future__ import annotations

import atexit
import contextlib
import contextvars
import functools
import json
import logging
import os
import re
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, Optional, TypeVar, Union, overload

from . import _calls
from ._calls import Guarded
from ._native import GuardCore, GuardUnavailable, Items, RemoteCore, Verdict, check_caller, configured_mode, release_locks_in_child, take_warnings
from ._spans import TracedCall, tracer_of
from .transcripts import CheckReport, to_json
from .verification import ToolProfile

__all__ = ["Guard", "GuardUnavailable", "Recording", "ResultWithheld", "Verdict"]

logger = logging.getLogger("credence_trust")

Mode = Literal["observe", "flag", "enforce"]
Stake = Literal["low", "medium", "high", "critical"]
F = TypeVar("F", bound=Callable[..., Any])

_RETRY_SECONDS = 5.0
"""How long a guard whose state cannot be opened waits before it tries again."""
_MAX_TOOLS = 10_000
"""Tools whose mode is remembered."""


class ResultWithheld(RuntimeError):
    """A result was not believed, or could not be recorded, and mode is ``enforce``. The call itself was executed.

    ``str()`` of it is what a model should be told.
    """

    def __init__(self, tool: str, verdict: Verdict, message: Optional[str] = None) -> None:
        super().__init__(message or verdict.withheld or "the result is withheld")
        self.tool = tool
        """The tool."""
        self.verdict = verdict
        """What was thought of the result."""
        self.receipt = verdict.receipt
        """The id of the call's receipt."""
        self.executed = True
        """The call was executed: calling again may do it twice."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.tool, self.verdict, str(self))


class _Caller(NamedTuple):
    session: Optional[str] = None
    agent: Optional[str] = None
    stake: Optional[str] = None


class Guard:
    """Writes receipts for calls of Python functions, and judges what they return.

    ``mode``: ``"observe"`` records, ``"flag"`` also reports results that are not believed, ``"enforce"`` raises :class:`ResultWithheld` in
    their place. Without it, ``guard.toml`` decides. ``agent`` is the agent's id. ``name`` is the folder of this program's receipts below
    ``state``; by default the name of the script. ``on_flag`` is called with the tool's name and a :class:`Verdict` for each result that is
    not accepted or has no receipt. ``tracer`` is an OpenTelemetry tracer (or ``True`` for the default one). ``remote`` is the socket of a
    ``credence guard --serve`` (``"unix:/run/credence/report.sock"``), which then keeps receipts and keys.

    A guard that cannot write never breaks a tool in ``observe`` and ``flag``; it logs a warning. In ``enforce``, also where only
    ``guard.toml`` says so, it raises :class:`GuardUnavailable` before the tool runs.

    The other settings:

    - ``state``: the folder of all guards; by default ``CREDENCE_GUARD_STATE``, or ``~/.local/state/credence/guard``. ``provider``: the id of
      who runs this guard, in receipts and summaries. ``key_file``: the guard's key, by default in ``state``.
    - ``session``: of calls outside :meth:`session`; by default a new one for each guard. ``stake``: ``"low"`` to ``"critical"``, what a wrong
      result costs, for tools that say nothing of their own.
    - ``verify``: ``"adaptive"`` learns each tool's own results, ``"fixed"`` uses the seed's eight signals alone.
    - ``config``: another ``guard.toml`` than the user's. ``content_injection``: whether results are searched for text that instructs the
      model, and ``canaries``: the share of accepted results of which a made-up variant is judged, too, to test the verifier; both are
      otherwise as ``guard.toml`` says.
    - ``authority``: the address of a Credence authority that gets summaries, with ``token``, every ``report_every`` seconds; with
      ``send_receipts`` also the receipts, and with ``send_salts`` what opens their commitments.

    With ``remote`` only ``mode``, ``agent``, ``session``, ``stake``, ``on_flag`` and ``tracer`` count: its operator decides the rest.
    """

    def __init__(
        self,
        mode: Optional[Mode] = None,
        *,
        agent: Optional[str] = None,
        name: Optional[str] = None,
        state: Optional[Union[str, os.PathLike[str]]] = None,
        provider: str = "guard",
        key_file: Optional[Union[str, os.PathLike[str]]] = None,
        session: Optional[str] = None,
        stake: Optional[Stake] = None,
        verify: Literal["adaptive", "fixed"] = "adaptive",
        config: Optional[Union[str, os.PathLike[str]]] = None,
        content_injection: Optional[bool] = None,
        canaries: Optional[float] = None,
        authority: Optional[str] = None,
        token: Optional[str] = None,
        report_every: float = 60.0,
        send_receipts: bool = False,
        send_salts: bool = False,
        on_flag: Optional[Callable[[str, Verdict], Any]] = None,
        tracer: Any = None,
        remote: Optional[str] = None,
    ) -> None:
        given_state = state if state is not None else os.environ.get("CREDENCE_GUARD_STATE")
        self._settings: dict[str, Any] = {
            "mode": mode,
            "agent": agent,
            "session": session,
            "stake": stake,
            "state": None if given_state is None else os.fspath(given_state),
            "provider": provider,
            "key_file": None if key_file is None else os.fspath(key_file),
            "verify": verify,
            "config": None if config is None else os.fspath(config),
            "content_injection": content_injection,
            "canaries": canaries,
            "authority": authority,
            "token": token,
            "report_every": report_every,
            "send_receipts": send_receipts,
            "send_salts": send_salts,
        }
        self.name = name if name is not None else _program_name()
        self.on_flag = on_flag
        self._mode = mode
        self._tracer = tracer_of(tracer)
        self._caller: contextvars.ContextVar[_Caller] = contextvars.ContextVar("credence_caller", default=_Caller())
        self._profiles: dict[str, tuple[str, str]] = {}
        self._lock = threading.Lock()
        self._socket = None if remote is None else _socket(remote)
        self._core: Optional[Union[GuardCore, RemoteCore]] = None
        self._modes: dict[str, str] = {}
        self._since = time.time()
        self._retry_at = 0.0
        self._closed = False
        self._said: set[str] = set()
        self.failures = 0
        """Calls that ran without a receipt because the guard could not write one."""
        try:
            self._core = self._start()
        except GuardUnavailable as error:
            if self._is_enforced(None):
                raise
            self._failed(error)
        _guards.add(self)

    # -- tools ------------------------------------------------------------------------------------------------------------------

    @overload
    def tool(self, function: F) -> F: ...
    @overload
    def tool(
        self,
        function: None = None,
        *,
        name: Optional[str] = None,
        profile: Optional[ToolProfile] = None,
        output_schema: Union[dict[str, Any], bool, None] = None,
        stake: Optional[Stake] = None,
    ) -> Callable[[F], F]: ...

    def tool(
        self,
        function: Optional[Callable[..., Any]] = None,
        *,
        name: Optional[str] = None,
        profile: Optional[ToolProfile] = None,
        output_schema: Union[dict[str, Any], bool, None] = None,
        stake: Optional[Stake] = None,
    ) -> Any:
        """Put a function under guard: a plain one, ``async``, a generator, a method. Its behaviour does not change.

        ``output_schema`` is a JSON Schema of what it returns; by default its type hints tell (``False``: they do not). A generator's
        result is the list of its items: each is passed on as it comes, in ``enforce`` all of them (up to 100,000) once the list was judged.

        >>> @guard.tool(output_schema={"type": "object", "required": ["rate"]})
        ... def get_rate(currency: str) -> dict:
        ...     return {"currency": currency, "rate": 1.25}
        >>> get_rate("EUR")
        {'currency': 'EUR', 'rate': 1.25}
        """

        def decorate(function: Any) -> Any:
            if isinstance(function, (staticmethod, classmethod)):
                return type(function)(decorate(function.__func__))
            return self.wrap(function, name=name, profile=profile, output_schema=output_schema, stake=stake)

        return decorate if function is None else decorate(function)

    def wrap(
        self,
        function: Callable[..., Any],
        *,
        name: Optional[str] = None,
        profile: Optional[ToolProfile] = None,
        output_schema: Union[dict[str, Any], bool, None] = None,
        stake: Optional[Stake] = None,
        client: Optional[str] = None,
        shown: Optional[Callable[[Any], Optional[str]]] = None,
    ) -> Callable[..., Any]:
        """The same for any callable. ``shown`` tells which text a model gets of a result, where that is not its ``str``.

        >>> to_upper = guard.wrap(str.upper, name="to_upper")
        >>> to_upper("abc")
        'ABC'
        """
        tool = _calls.tool_name(name or getattr(function, "__name__", None) or type(function).__name__)
        self.describe(tool, function, profile=profile, output_schema=output_schema)
        names, skip = _calls.parameters(function)
        wrapper = _calls.wrapped(Guarded(self, tool, names, skip, stake, client, shown), function)
        with contextlib.suppress(Exception):
            functools.update_wrapper(wrapper, function)
        wrapper.__credence_guard__ = self  # type: ignore[attr-defined]
        wrapper.__credence_tool__ = tool  # type: ignore[attr-defined]
        return wrapper

    def describe(
        self,
        tool: str,
        function: Optional[Callable[..., Any]] = None,
        *,
        profile: Optional[ToolProfile] = None,
        output_schema: Union[dict[str, Any], bool, None] = None,
    ) -> None:
        """Say what real results of a tool look like: by a profile, a JSON Schema, or the hints of a function."""
        if profile is not None:
            described = ("register", profile.to_json())
        else:
            if output_schema is None or output_schema is True:
                from . import schemas

                output_schema = schemas.of_return(function) if function is not None else None
            if not isinstance(output_schema, dict):
                return
            described = ("register_schema", json.dumps(output_schema))
        # A guard of another process is told by its operator what results look like, not by the agent.
        if isinstance(self._core, GuardCore):
            getattr(self._core, described[0])(tool, described[1])
        self._profiles[tool] = described

    def record(self, tool: str, arguments: dict[str, Any], *, client: Optional[str] = None, stake: Optional[Stake] = None) -> Recording:
        """Begin a call that this program makes in its own way. Adapters of frameworks are made of it.

        >>> with guard.record("get_rate", {"currency": "EUR"}) as call:
        ...     _ = call.returned({"rate": 1.25})
        """
        return Recording(Guarded(self, tool, stake=stake, client=client), arguments)

    # -- who calls --------------------------------------------------------------------------------------------------------------

    def session(
        self, session: str, *, agent: Optional[str] = None, stake: Optional[Stake] = None
    ) -> contextlib.AbstractContextManager[Guard]:
        """Calls inside belong to this session.

        It follows tasks and :func:`asyncio.to_thread`, as context variables do. A :class:`threading.Thread` begins without it: open the
        session there, or start the thread with ``contextvars.copy_context().run``.

        >>> with guard.session("conversation-1", agent="my-bot"):
        ...     guard.wrap(len)([1, 2])
        2
        """
        check_caller(session, agent, stake)
        return self._in_session(session, agent, stake)

    @contextlib.contextmanager
    def _in_session(self, session: str, agent: Optional[str], stake: Optional[str]) -> Iterator[Guard]:
        outer = self._caller.get()
        token = self._caller.set(_Caller(session, agent or outer.agent, stake or outer.stake))
        try:
            yield self
        finally:
            self._caller.reset(token)

    # -- what is known ----------------------------------------------------------------------------------------------------------

    def check(
        self,
        messages: Any,
        *,
        session: Optional[str] = None,
        agent: Optional[str] = None,
        since: Optional[datetime] = None,
        ignored_tools: Optional[list[str]] = None,
        ignored_members: Optional[list[str]] = None,
        all_guards: bool = False,
        everything: bool = False,
    ) -> CheckReport:
        """Compare what a transcript says of tools with the receipts, before the answer goes to the user.

        ``messages`` are a framework's own objects, their JSON, or text. Every claimed result is *executed*, *altered* or *never happened*;
        ``bool(report)`` is whether all is well.

        Receipts of this guard's name count: those of ``session`` and from ``since`` on, where given; else those of the session that the
        program is in; else those since this guard began. So a result of last week does not stand for a call of today. ``everything=True``
        compares with all that are kept, ``all_guards=True`` also with those of other names. Without receipts to compare with, in every mode,
        :class:`GuardUnavailable` is raised.

        >>> rate = guard.wrap(lambda currency: {"rate": 1.25}, name="get_rate")
        >>> with guard.session("conversation-2"):
        ...     _ = rate("EUR")
        ...     report = guard.check([
        ...         {"role": "assistant", "content": None, "tool_calls": [
        ...             {"id": "c1", "type": "function", "function": {"name": "get_rate", "arguments": '{"currency": "EUR"}'}}]},
        ...         {"role": "tool", "tool_call_id": "c1", "content": '{"rate": 9.99}'},
        ...     ])
        >>> bool(report), report.statuses()
        (False, ['altered'])
        """
        core = self._running()
        if core is None:
            why = "the guard's state cannot be opened" if self._socket is None else "the guard cannot be reached"
            raise GuardUnavailable(f"there are no receipts to compare with: {why}")
        from_time = None if since is None else since.timestamp()
        if session is None and since is None and not everything:
            session = self._caller.get().session or self._settings["session"]
            from_time = self._since if session is None else None
        bounds: dict[str, Any] = {
            "session": session,
            "agent": agent,
            "since": from_time,
            "ignored_tools": ignored_tools or [],
            "ignored_members": ignored_members or [],
        }
        if isinstance(core, GuardCore):
            bounds["own"] = not all_guards
        return CheckReport(json.loads(core.check(to_json(messages), **bounds)))

    @property
    def calls(self) -> int:
        """Calls recorded by this process."""
        return self._core.calls if isinstance(self._core, GuardCore) else 0

    @property
    def place(self) -> Optional[Path]:
        """The folder of this guard's state."""
        return Path(self._core.place) if isinstance(self._core, GuardCore) else None

    def flush(self) -> None:
        """Move all receipts into the ledger and sign a checkpoint over them. They are safe without it."""
        if isinstance(self._core, GuardCore):
            self._core.flush()
        _pass_warnings()

    def close(self) -> None:
        """End the guard. Python does it by itself at exit."""
        with self._lock:
            core, self._closed = self._core, True
        if isinstance(core, GuardCore):
            try:
                core.close()
            except GuardUnavailable as error:
                logger.warning("the guard did not end well: %s", error)
        _pass_warnings()

    def __enter__(self) -> Guard:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- inside -----------------------------------------------------------------------------------------------------------------

    def _start(self) -> Union[GuardCore, RemoteCore]:
        if self._socket is not None:
            remote = RemoteCore(self._socket, self._mode)
            self._modes[""] = remote.mode_of("")
            return remote
        core = GuardCore(self.name, **self._settings)
        for tool, (method, text) in self._profiles.items():
            getattr(core, method)(tool, text)
        _close_with_worker(self)
        return core

    def _running(self) -> Optional[Union[GuardCore, RemoteCore]]:
        core = self._core
        if core is not None:
            return core
        with self._lock:
            if self._core is None and time.monotonic() >= self._retry_at:
                try:
                    self._core = self._start()
                    self._said.clear()
                except GuardUnavailable as error:
                    self._failed(error)
            return self._core

    def _is_enforced(self, tool: Optional[str]) -> bool:
        """Whether a call must not be made without a receipt, as far as it is known while the guard cannot be asked."""
        if self._mode == "enforce":
            return True
        if self._socket is not None:
            # What the guard there said last.
            return self._modes.get(tool or "", self._modes.get("")) == "enforce"
        core = self._core
        if isinstance(core, GuardCore) and tool is not None:
            return core.mode_of(tool) == "enforce"
        try:
            return configured_mode(self.name, tool, self._mode, self._settings["config"]) == "enforce"
        except ValueError:
            # A guard.toml that cannot be read any more may have said so.
            return True

    def _failed(self, error: BaseException) -> None:
        self._retry_at = time.monotonic() + _RETRY_SECONDS
        text = str(error)
        if text not in self._said and len(self._said) < 100:
            self._said.add(text)
            logger.warning("calls run without receipts: %s", text)

    def _forked(self) -> None:
        """In a child: the parent's guard is left alone, and another one begins with the first call."""
        core, self._core = self._core, None
        if core is not None:
            core.leave_to_parent()
        self._lock = threading.Lock()
        self._retry_at = 0.0

    def _begin(self, guarded: Guarded, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The call, with its intent in the journal; ``None`` where it goes without."""
        if self._tracer is None:
            return self._begin_native(guarded, args, kwargs, None)
        call = TracedCall(self._tracer, guarded.tool, self.name)
        try:
            call.begun = self._begin_native(guarded, args, kwargs, call.traceparent())
        except BaseException as error:
            call.end(error=error)
            raise
        return call

    def _begin_native(self, guarded: Guarded, args: tuple[Any, ...], kwargs: dict[str, Any], traceparent: Optional[str]) -> Any:
        core = self._core or self._running()
        if core is None:
            if self._is_enforced(guarded.tool):
                raise GuardUnavailable("the guard's state cannot be opened, and mode is enforce: the tool was not called")
            self.failures += 1
            return None
        caller = self._caller.get()
        if self._socket is not None:
            settings = self._settings
            caller = _Caller(
                caller.session or settings["session"], caller.agent or settings["agent"], caller.stake or settings["stake"]
            )
        try:
            begun = core.begin(
                guarded.tool,
                guarded.names,
                args[1:] if guarded.skip else args,
                kwargs,
                caller.session,
                caller.agent,
                caller.stake or guarded.stake,
                guarded.client,
                traceparent,
            )
        except GuardUnavailable as error:
            if self._is_enforced(guarded.tool):
                raise
            self.failures += 1
            self._failed(error)
            return None
        if self._socket is not None and (guarded.tool in self._modes or len(self._modes) < _MAX_TOOLS):
            self._modes[guarded.tool] = begun.mode
        return begun

    def _finish(self, guarded: Guarded, call: Any, value: Any, shown: Optional[str] = None, is_mcp_result: bool = False) -> Any:
        """The value, once its receipt is written."""
        traced, begun = (call, call.begun) if type(call) is TracedCall else (None, call)
        if begun is None:
            if traced is not None:
                traced.end()
            return value
        if shown is None and guarded.shown is not None and type(value) is not Items:
            try:
                shown = guarded.shown(value)
            except Exception:  # noqa: BLE001 - the text is lost, the result is not
                logger.exception("shown failed for %s", guarded.tool)
        verdict = begun.finish(value, shown, False, is_mcp_result)
        if verdict is None:
            self._left_to_parent(traced, begun)
            return value
        try:
            if not verdict.quiet:
                self._tell(guarded, verdict)
        except ResultWithheld as withheld:
            if traced is not None:
                traced.end(verdict, withheld)
            raise
        if traced is not None:
            traced.end(verdict)
        return value

    def _error(
        self, guarded: Guarded, call: Any, error: BaseException, shown: Optional[str] = None, otherwise: Optional[str] = None
    ) -> Optional[Verdict]:
        """The receipt of a call that raised."""
        traced, begun = (call, call.begun) if type(call) is TracedCall else (None, call)
        verdict: Optional[Verdict] = None
        if begun is not None:
            message, kind = _text_of(error), type(error).__name__
            told = shown if shown is not None else message or kind
            verdict = begun.finish(told, otherwise if otherwise is not None else f"{kind}: {message}", True)
            if verdict is None:
                if traced is not None:
                    traced.forget()
            elif not verdict.quiet:
                self._tell(guarded, verdict, raising=False)
        if traced is not None:
            traced.end(verdict, error)
        return verdict

    def _withheld(self, guarded: Guarded, call: Any, error: BaseException) -> Exception:
        """What is raised in place of a result that cannot be judged."""
        verdict = self._error(guarded, call, error)
        if verdict is None:
            return GuardUnavailable(str(error))
        return ResultWithheld(guarded.tool, verdict, f"[credence] The call was executed, and its result is withheld: {error}.")

    @staticmethod
    def _left_to_parent(traced: Optional[TracedCall], begun: Any) -> None:
        """The process was forked while the call ran: its receipt is the parent's, and so is its verdict."""
        if traced is not None:
            traced.forget()
        if begun.mode == "enforce":
            raise GuardUnavailable("the process was forked while the call ran: its result is judged in the parent process alone")

    def _tell(self, guarded: Guarded, verdict: Verdict, raising: bool = True) -> None:
        if verdict.no_receipt is not None:
            self.failures += 1
            self._failed(RuntimeError(verdict.no_receipt))
        if verdict.mode != "observe" or verdict.no_receipt is not None:
            if verdict.verdict in ("flag", "block"):
                logger.warning("%s: %s (receipt %s)", guarded.tool, verdict.explanation, verdict.receipt)
            if self.on_flag is not None:
                try:
                    self.on_flag(guarded.tool, verdict)
                except Exception:  # noqa: BLE001 - a callback that fails is not the tool's failure
                    logger.exception("on_flag failed for %s", guarded.tool)
        _pass_warnings()
        if raising and verdict.withheld is not None:
            raise ResultWithheld(guarded.tool, verdict)


class Recording:
    """A call under way: :meth:`Guard.record` begins it, :meth:`returned` or :meth:`raised` ends it."""

    def __init__(self, guarded: Guarded, arguments: dict[str, Any]) -> None:
        self._guarded = guarded
        self._begun = guarded.guard._begin(guarded, (), arguments)
        self._current: Any = None

    def returned(self, value: Any, *, shown: Optional[str] = None, is_mcp_result: bool = False) -> Any:
        """Write the receipt; gives the value back. ``shown`` is the text that the model gets of it.

        In mode ``enforce`` a value that is not believed raises :class:`ResultWithheld`.
        """
        begun, self._begun = self._begun, None
        if begun is None:
            return value
        return self._guarded.guard._finish(self._guarded, begun, value, shown, is_mcp_result)

    def raised(self, error: BaseException, *, shown: Optional[str] = None, otherwise: Optional[str] = None) -> None:
        """Write the receipt of a call that failed; ``shown`` is what the model is told of it, ``otherwise`` how it may be told instead."""
        begun, self._begun = self._begun, None
        self._guarded.guard._error(self._guarded, begun, error, shown, otherwise)

    def __enter__(self) -> Recording:
        if type(self._begun) is TracedCall:
            self._current = self._begun.current()
            self._current.__enter__()
        return self

    def __exit__(self, _: object, error: Optional[BaseException], __: object) -> None:
        if self._current is not None:
            self._current.__exit__(None, None, None)
        if error is not None and self._begun is not None:
            self.raised(error)


def _socket(remote: str) -> str:
    path = remote.removeprefix("unix:")
    if not remote.startswith("unix:") or not path:
        raise ValueError(f"remote '{remote}': it is 'unix:' and the path of a socket")
    return path


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 - an error that cannot be printed; what its text raises must not take its place
        return ""


def _program_name() -> str:
    stem = Path(sys.argv[0] if sys.argv else "").stem
    if stem in ("", "-c", "-m", "__main__"):
        stem = "python"
    return re.sub(r"[^A-Za-z0-9._-]", "-", stem).lstrip(".")[:64] or "python"


def _pass_warnings() -> None:
    """Warnings of the guard's threads, to the log. Called by the native part as soon as there is one."""
    for text in take_warnings():
        logger.warning("%s", text)


# -- processes ----------------------------------------------------------------------------------------------------------------------

_guards: weakref.WeakSet[Guard] = weakref.WeakSet()


def _after_fork() -> None:
    release_locks_in_child()
    for guard in list(_guards):
        guard._forked()


def _at_exit() -> None:
    for guard in list(_guards):
        guard.close()


def _close_with_worker(guard: Guard) -> None:
    """A worker of :mod:`multiprocessing` ends without :mod:`atexit`."""
    process = sys.modules.get("multiprocessing.process")
    if process is None or process.parent_process() is None:
        return
    from multiprocessing import util

    reference = weakref.ref(guard)

    def close() -> None:
        found = reference()
        if found is not None:
            found.close()

    util.Finalize(None, close, exitpriority=10)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)

