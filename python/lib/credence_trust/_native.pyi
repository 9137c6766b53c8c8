from typing import Any, Optional, Union, final

from typing_extensions import Self, disjoint_base

from .verification import SignalResult, VerificationTier

__all__ = [
    "Begun",
    "Engine",
    "GuardCore",
    "GuardUnavailable",
    "Items",
    "RemoteBegun",
    "RemoteCore",
    "Verdict",
    "VerificationResult",
    "canonical_form",
    "check_caller",
    "check_response",
    "configured_mode",
    "is_canonical",
    "parse_keys",
    "printed",
    "release_locks_in_child",
    "take_warnings",
    "verdict_from_json",
]

@disjoint_base
class Engine:
    def __new__(cls, mode: str, snapshot: Optional[bytes] = None) -> Self: ...
    @property
    def mode(self) -> str: ...
    def _register(self, tool: str, profile: str) -> None: ...
    def _forget(self, tool: str) -> None: ...
    def _calibrate(
        self,
        tool: Optional[str],
        prior: Optional[float],
        flag_threshold: Optional[float],
        block_threshold: Optional[float],
        max_false_block_rate: Optional[float],
        ratios: dict[str, float],
    ) -> None: ...
    def _calibration(self, tool: Optional[str] = None) -> str: ...
    def verify(
        self,
        tool_name: str,
        result: Any = None,
        execution_time_ms: Optional[float] = None,
        *,
        args: Any = None,
        user_query: Optional[str] = None,
        session_id: Optional[str] = None,
        call_stack_verified: bool = False,
        response: Any = None,
        learn: bool = True,
        is_error: bool = False,
        from_tool: bool = False,
        at: Optional[float] = None,
    ) -> VerificationResult: ...
    def verify_json(
        self,
        tool_name: str,
        result: Union[bytes, str],
        execution_time_ms: Optional[float] = None,
        *,
        args: Optional[Union[bytes, str]] = None,
        session_id: Optional[str] = None,
        learn: bool = True,
        is_error: bool = False,
        from_tool: bool = False,
        at: Optional[float] = None,
    ) -> VerificationResult: ...
    def record_feedback(self, tool_name: str, confidence_score: float, was_hallucination: bool) -> None: ...
    def confirm(self, tool_name: str, result: Any, *, args: Any = None, session_id: Optional[str] = None) -> None: ...
    def reject(self, tool_name: str, result: Any, *, args: Any = None, session_id: Optional[str] = None) -> None: ...
    def snapshot(self) -> bytes: ...
    def memory(self) -> dict[str, int]: ...
    def inspect(self, tool_name: str) -> Optional[dict[str, Any]]: ...

@final
class VerificationResult:
    @property
    def verdict(self) -> str: ...
    @property
    def confidence(self) -> float: ...
    @property
    def posterior(self) -> float: ...
    @property
    def prior(self) -> float: ...
    @property
    def signals(self) -> dict[str, SignalResult]: ...
    @property
    def tier_reached(self) -> VerificationTier: ...
    @property
    def explanation(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def is_hallucinated(self) -> bool: ...
    def to_dict(self) -> dict[str, Any]: ...

class GuardUnavailable(RuntimeError): ...

@final
class Begun:
    @property
    def receipt(self) -> str: ...
    @property
    def mode(self) -> str: ...
    def finish(
        self, value: Any, shown: Optional[str] = None, is_error: bool = False, is_mcp_result: bool = False
    ) -> Optional[Verdict]: ...

@final
class GuardCore:
    def __new__(
        cls,
        name: str,
        *,
        mode: Optional[str] = None,
        agent: Optional[str] = None,
        session: Optional[str] = None,
        stake: Optional[str] = None,
        state: Optional[str] = None,
        provider: str = "guard",
        key_file: Optional[str] = None,
        verify: str = "adaptive",
        config: Optional[str] = None,
        content_injection: Optional[bool] = None,
        canaries: Optional[float] = None,
        authority: Optional[str] = None,
        token: Optional[str] = None,
        report_every: float = 60.0,
        send_receipts: bool = False,
        send_salts: bool = False,
    ) -> GuardCore: ...
    def mode_of(self, tool: str) -> str: ...
    @property
    def place(self) -> str: ...
    @property
    def calls(self) -> int: ...
    def register(self, tool: str, profile: str) -> None: ...
    def register_schema(self, tool: str, schema: str) -> None: ...
    def begin(
        self,
        tool: str,
        names: tuple[str, ...],
        args: tuple[Any, ...],
        kwargs: Optional[dict[str, Any]],
        session: Optional[str] = None,
        agent: Optional[str] = None,
        stake: Optional[str] = None,
        client: Optional[str] = None,
        traceparent: Optional[str] = None,
    ) -> Begun: ...
    def check(
        self,
        messages: Union[bytes, str],
        *,
        session: Optional[str] = None,
        agent: Optional[str] = None,
        since: Optional[float] = None,
        ignored_tools: list[str] = ...,
        ignored_members: list[str] = ...,
        own: bool = True,
    ) -> str: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...
    def leave_to_parent(self) -> None: ...

@final
class RemoteBegun:
    @property
    def receipt(self) -> str: ...
    @property
    def mode(self) -> str: ...
    def finish(
        self, value: Any, shown: Optional[str] = None, is_error: bool = False, is_mcp_result: bool = False
    ) -> Optional[Verdict]: ...

@final
class RemoteCore:
    def __new__(cls, socket: str, mode: Optional[str] = None) -> RemoteCore: ...
    def mode_of(self, tool: str) -> str: ...
    def begin(
        self,
        tool: str,
        names: tuple[str, ...],
        args: tuple[Any, ...],
        kwargs: Optional[dict[str, Any]],
        session: Optional[str] = None,
        agent: Optional[str] = None,
        stake: Optional[str] = None,
        client: Optional[str] = None,
        traceparent: Optional[str] = None,
    ) -> RemoteBegun: ...
    def check(
        self,
        messages: str,
        *,
        session: Optional[str] = None,
        agent: Optional[str] = None,
        since: Optional[float] = None,
        ignored_tools: list[str] = ...,
        ignored_members: list[str] = ...,
    ) -> str: ...
    def leave_to_parent(self) -> None: ...

@final
class Verdict:
    @property
    def verdict(self) -> Optional[str]: ...
    @property
    def posterior(self) -> Optional[float]: ...
    @property
    def receipt(self) -> str: ...
    @property
    def mode(self) -> str: ...
    @property
    def signals(self) -> list[str]: ...
    @property
    def explanation(self) -> Optional[str]: ...
    @property
    def unjudged(self) -> Optional[str]: ...
    @property
    def no_receipt(self) -> Optional[str]: ...
    @property
    def withheld(self) -> Optional[str]: ...
    @property
    def quiet(self) -> bool: ...

@final
class Items:
    def __new__(cls) -> Self: ...
    def push(self, item: Any) -> None: ...

def release_locks_in_child() -> None: ...
def verdict_from_json(text: str) -> Verdict: ...
def check_caller(session: Optional[str], agent: Optional[str] = None, stake: Optional[str] = None) -> None: ...
def configured_mode(
    name: str, tool: Optional[str] = None, mode: Optional[str] = None, config: Optional[str] = None
) -> str: ...
def take_warnings() -> list[str]: ...
def canonical_form(value: Any) -> tuple[str, bool]: ...
def is_canonical(text: str) -> bool: ...
def printed(value: Any) -> Optional[str]: ...
def parse_keys(texts: list[str]) -> list[str]: ...
def check_response(document: bytes, keys: list[str], entity: str, url: str, now: float) -> str: ...
