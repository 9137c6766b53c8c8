"""OpenTelemetry: each call has a span of its own. Nothing is written onto the caller's."""

from __future__ import annotations

import contextlib
import logging
from typing import Any, Optional

from ._native import Verdict

__all__ = ["TracedCall", "tracer_of"]

logger = logging.getLogger("credence_trust")


def tracer_of(given: Any) -> Any:
    """The tracer that a program means: ``True`` is the default one."""
    if given is None or given is False:
        return None
    if given is True:
        from opentelemetry import trace

        return trace.get_tracer("credence_trust")
    return given


class TracedCall:
    """A call under way with its span. A tracer that fails is not the tool's failure."""

    __slots__ = ("begun", "_span", "_tool", "_server")

    def __init__(self, tracer: Any, tool: str, server: str) -> None:
        self.begun: Any = None
        """The call as the guard knows it; ``None`` where it has no receipt."""
        self._tool, self._server = tool, server
        self._span: Any = None
        with _told():
            self._span = tracer.start_span(f"execute_tool {tool}")

    @property
    def mode(self) -> str:
        """The mode that held for the tool when the call began."""
        return "observe" if self.begun is None else str(self.begun.mode)

    def current(self) -> Any:
        """Makes the span the current one, so that spans inside belong to it."""
        if self._span is not None:
            with _told():
                from opentelemetry import trace

                return trace.use_span(self._span, end_on_exit=False, record_exception=False, set_status_on_exception=False)
        return contextlib.nullcontext()

    def traceparent(self) -> Optional[str]:
        """The span, as the W3C writes it."""
        if self._span is None:
            return None
        with _told():
            context = self._span.get_span_context()
            if context.is_valid:
                return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"
        return None

    def end(self, verdict: Optional[Verdict] = None, error: Optional[BaseException] = None) -> None:
        """Ends the span with what is known of the call."""
        span, self._span = self._span, None
        if span is None:
            return
        with _told():
            attributes: dict[str, Any] = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": self._tool,
                "credence.server": self._server,
                "error.type": None if error is None else type(error).__name__,
            }
            if verdict is not None:
                attributes["credence.call"] = verdict.receipt
                attributes["credence.mode"] = verdict.mode
                attributes["credence.withheld"] = verdict.withheld is not None
                attributes["credence.signals"] = verdict.signals
                attributes["credence.verdict"] = verdict.verdict
                attributes["credence.posterior"] = verdict.posterior
            span.set_attributes({name: value for name, value in attributes.items() if value is not None})
            if error is not None:
                from opentelemetry.trace import Status, StatusCode

                span.record_exception(error)
                span.set_status(Status(StatusCode.ERROR, type(error).__name__))
        with _told():
            span.end()

    def forget(self) -> None:
        """Leaves the span to the parent process."""
        self._span = None

    def __del__(self) -> None:
        self.end()


@contextlib.contextmanager
def _told() -> Any:
    try:
        yield
    except Exception:  # noqa: BLE001 - whatever a tracer raises
        logger.exception("the tracer failed")
