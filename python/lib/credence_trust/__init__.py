"""Receipts for tool calls, verdicts on tool results, and trust in agents.

- :class:`Guard`: put functions under guard; each call gets a receipt, each result a verdict.
- :mod:`credence_trust.verification`: is this tool result believable? The calls of ``agentguard.verification``, so that its users change
  an import.
- :mod:`credence_trust.adapters`: the guard for tools of agent frameworks.
- :class:`Authority`: ask a Credence authority whether an agent can be trusted, and check the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .guard import Guard, GuardUnavailable, ResultWithheld, Verdict
from .transcripts import CheckReport
from .verification import ToolProfile, VerificationEngine, VerificationResult

__all__ = [
    "Authority",
    "AuthorityError",
    "CheckReport",
    "Guard",
    "GuardUnavailable",
    "NoValidAnswer",
    "ResultWithheld",
    "Score",
    "ToolProfile",
    "Trust",
    "Verdict",
    "VerificationEngine",
    "VerificationResult",
    "__version__",
]

if TYPE_CHECKING:
    from .authority import Authority, AuthorityError, NoValidAnswer, Score, Trust

    __version__: str

_OF_AUTHORITY = ("Authority", "AuthorityError", "NoValidAnswer", "Score", "Trust")


def __getattr__(name: str) -> Any:
    # What costs time to import is imported when it is asked for.
    if name == "__version__":
        from importlib.metadata import version

        return version("credence-trust")
    if name in _OF_AUTHORITY:
        from . import authority

        return getattr(authority, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
