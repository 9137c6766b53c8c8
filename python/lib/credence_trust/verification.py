"""Is this tool result believable? The verification engine, under the names of ``agentguard.verification``.

>>> from credence_trust.verification import VerificationEngine
>>> engine = VerificationEngine()
>>> _ = engine.register_tool_profile("get_weather",
...     expected_latency_ms=(100, 5000), required_fields=["temperature", "humidity"], has_network_io=True)
>>> result = engine.verify("get_weather",
...     args={"city": "London"}, result={"temperature": 18, "humidity": 65}, execution_time_ms=350.0)
>>> result.verdict, round(result.confidence, 3), result.tier_reached.name
('accept', 0.127, 'TIER_1')

``VerificationEngine(mode="adaptive")`` learns each tool's own traffic, and is far better at telling genuine results from made-up ones.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any, Optional, Union

from ._native import Engine, VerificationResult

__all__ = [
    "GLOBAL_LIKELIHOOD_RATIOS",
    "SignalResult",
    "ToolProfile",
    "VerificationEngine",
    "VerificationResult",
    "VerificationTier",
]

GLOBAL_LIKELIHOOD_RATIOS: dict[str, float] = {
    "schema_mismatch": 12.0,
    "latency_anomaly": 3.5,
    "pattern_mismatch": 6.0,
    "length_anomaly": 2.0,
    "spc_anomaly": 3.0,
    "session_inconsistency": 4.0,
    "historical_inconsistency": 4.5,
    "value_plausibility": 3.0,
}
"""P(signal fires | hallucination) / P(signal fires | genuine), before any calibration."""

_OTHER_NAMES = {"cross_session_anomaly": "historical_inconsistency"}


@dataclass
class SignalResult:
    """What one signal said."""

    fired: bool
    """It speaks for a hallucination."""
    score: float
    """How strongly, 0 to 1."""
    detail: str
    """What it saw, where it fired."""
    likelihood_ratio: float = 1.0
    """The ratio it was counted with."""


class VerificationTier(int, Enum):
    """How far the engine went."""

    TIER_0 = 0
    """Schema, pattern, latency and length decided alone, to block."""
    TIER_1 = 1
    """All checks ran."""
    TIER_2 = 2
    """Never reached; there for programs that name it."""


@dataclass
class ToolProfile:
    """What real responses of a tool look like."""

    tool_name: str
    expected_latency_ms: tuple[float, float] = (50.0, 30_000.0)
    required_fields: list[str] = field(default_factory=list)
    forbidden_fields: list[str] = field(default_factory=list)
    response_patterns: list[str] = field(default_factory=list)
    min_response_length: Optional[int] = None
    max_response_length: Optional[int] = None
    has_network_io: bool = True
    output_schema: Optional[Any] = None
    """A JSON Schema of real responses."""

    def to_json(self) -> str:
        """As `credence verify --profiles` reads it."""
        fields = asdict(self)
        del fields["tool_name"]
        fields["expected_latency_ms"] = list(self.expected_latency_ms)
        return json.dumps({name: value for name, value in fields.items() if value is not None})


class VerificationEngine(Engine):
    """Judges tool results: accept, flag or block, with the probability that the result was fabricated.

    ``prior``, ``accept_threshold`` and ``flag_threshold`` are the seed's: below ``accept_threshold`` a result is accepted, from
    ``flag_threshold`` on it is blocked. ``mode`` is ``"fixed"`` (the seed's eight signals with fixed likelihood ratios) or ``"adaptive"``
    (the same table corrected by each tool's own traffic, and what is learned of the tool's results). One engine may be used by many threads.
    """

    DEFAULT_PRIOR = 0.15

    def __new__(
        cls,
        prior: float = DEFAULT_PRIOR,
        accept_threshold: float = 0.2,
        flag_threshold: float = 0.5,
        *,
        mode: str = "fixed",
        snapshot: Optional[bytes] = None,
    ) -> VerificationEngine:
        return super().__new__(cls, mode, snapshot)

    def __init__(
        self,
        prior: float = DEFAULT_PRIOR,
        accept_threshold: float = 0.2,
        flag_threshold: float = 0.5,
        *,
        mode: str = "fixed",
        snapshot: Optional[bytes] = None,
    ) -> None:
        self.prior = prior
        self.accept_threshold = accept_threshold
        self.flag_threshold = flag_threshold
        self._profiles: dict[str, ToolProfile] = {}

        # A default is not set: feedback goes on moving what is not set by hand.
        def unless(value: float, default: float) -> Optional[float]:
            return None if value == default else value

        self._calibrate(
            None, unless(prior, self.DEFAULT_PRIOR), unless(accept_threshold, 0.2), unless(flag_threshold, 0.5), None, {}
        )

    @classmethod
    def restore(cls, snapshot: bytes, *, mode: str = "fixed") -> VerificationEngine:
        """An engine that goes on from :meth:`snapshot`. Profiles and calibrations are set again."""
        return cls(mode=mode, snapshot=snapshot)

    def register_tool_profile(
        self,
        tool_name: str,
        *,
        expected_latency_ms: tuple[float, float] = (50.0, 30_000.0),
        required_fields: Optional[list[str]] = None,
        forbidden_fields: Optional[list[str]] = None,
        response_patterns: Optional[list[str]] = None,
        min_response_length: Optional[int] = None,
        max_response_length: Optional[int] = None,
        has_network_io: bool = True,
        output_schema: Optional[Any] = None,
    ) -> VerificationEngine:
        """Say what real responses of a tool look like. Replaces a former profile; gives the engine back.

        ``output_schema`` is a JSON Schema. Fields may be paths, such as ``items[].price``.
        """
        least, most = expected_latency_ms
        profile = ToolProfile(
            tool_name,
            (float(least), float(most)),
            list(required_fields or []),
            list(forbidden_fields or []),
            list(response_patterns or []),
            min_response_length,
            max_response_length,
            has_network_io,
            output_schema,
        )
        self._register(tool_name, profile.to_json())
        self._profiles[tool_name] = profile
        return self

    def register_tool(self, tool_name: str, **profile: Any) -> VerificationEngine:
        """The same as :meth:`register_tool_profile`; unknown keywords are ignored, as they always were."""
        known = {name: value for name, value in profile.items() if name in ToolProfile.__dataclass_fields__}
        return self.register_tool_profile(tool_name, **known)

    def unregister_tool(self, tool_name: str) -> None:
        """Forget a tool's profile and what was learned of it."""
        self._forget(tool_name)
        self._profiles.pop(tool_name, None)

    def get_profile(self, tool_name: str) -> Optional[ToolProfile]:
        """The profile of a tool, or ``None``."""
        return self._profiles.get(tool_name)

    def calibrate(
        self,
        tool_name: Optional[str] = None,
        *,
        accept_threshold: Optional[float] = None,
        block_threshold: Optional[float] = None,
        prior: Optional[float] = None,
        likelihood_ratios: Optional[dict[str, float]] = None,
        max_false_block_rate: Optional[float] = None,
    ) -> VerificationEngine:
        """Set thresholds, prior and likelihood ratios for a tool, or for all. What is left out stays as it is; gives the engine back.

        ``max_false_block_rate`` is for mode ``adaptive``: the share of genuine results that may be blocked.
        """
        ratios = {_OTHER_NAMES.get(name, name): ratio for name, ratio in (likelihood_ratios or {}).items()}
        self._calibrate(tool_name, prior, accept_threshold, block_threshold, max_false_block_rate, ratios)
        if tool_name is None:
            self.accept_threshold = self.accept_threshold if accept_threshold is None else accept_threshold
            self.flag_threshold = self.flag_threshold if block_threshold is None else block_threshold
            self.prior = self.prior if prior is None else prior
        return self

    def get_calibration(self, tool_name: Optional[str] = None) -> dict[str, Any]:
        """What holds for a tool, or for all: thresholds, prior, likelihood ratios, and what feedback made of them."""
        of_all = json.loads(self._calibration())["set"]
        known = json.loads(self._calibration(tool_name))
        own = known["set"]
        ratios = {**GLOBAL_LIKELIHOOD_RATIOS, **of_all.get("likelihood_ratios", {}), **own.get("likelihood_ratios", {})}
        feedback = known["feedback"]
        result: dict[str, Any] = {
            "accept_threshold": own.get("flag_threshold", self.accept_threshold),
            "block_threshold": own.get("block_threshold", self.flag_threshold),
            "prior": self.prior if feedback is None else feedback["prior"],
            "likelihood_ratios": ratios,
        }
        if tool_name is not None and feedback is not None:
            result["tool_name"] = tool_name
            result["tool_threshold"] = feedback["block_threshold"]
            result["hallucination_rate"] = feedback["rate"]
            result["total_feedback"] = feedback["count"]
            seen = self.inspect(tool_name)
            if seen is not None:
                latency = seen["latency"]
                result["baseline_calls"] = seen["results"]
                result["baseline_latency"] = {"count": latency["count"], "mean": latency["mean"], "std": latency["stddev"]}
        return result

    def verify_legacy(
        self, tool_name: str, execution_time_ms: float, response: Any, *, call_stack_verified: bool = False
    ) -> VerificationResult:
        """:meth:`verify` with the argument order of the old detector."""
        return self.verify(tool_name, response, execution_time_ms, call_stack_verified=call_stack_verified)


def posterior(prior: float, signals: dict[str, Union[SignalResult, tuple[bool, float, float]]]) -> float:
    """P(hallucination) from a prior and signals, by the seed's formula.

    >>> round(posterior(0.15, {"schema_mismatch": (True, 0.5, 12.0)}), 4)
    0.5342
    """
    from math import exp, log

    odds = log(prior / (1.0 - prior))
    for one in signals.values():
        fired, score, ratio = (one.fired, one.score, one.likelihood_ratio) if isinstance(one, SignalResult) else one
        odds += log(1.0 + (ratio - 1.0) * score) if fired else -log(max(ratio * 0.1, 1.01))
    return exp(odds) / (1.0 + exp(odds))
