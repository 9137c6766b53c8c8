"""A client of a Credence authority: should I go ahead with this agent?

>>> from credence_trust import Authority
>>> authority = Authority("https://trust.example", keys=["did:key:z6MkfK4yy49FbFdXoh2DECvaWGx2VXAzr796ELpF6Y7eRESL"])
>>> trust = authority.trust("atlas-travel", url="https://atlas-travel.example/book", context="purchase")  # doctest: +SKIP
>>> trust.action                                                                                         # doctest: +SKIP
'proceed'

An answer counts only if it is signed with one of the pinned keys, about the agent and the page that were asked for, and not expired. Every
method has an ``async`` twin: ``await authority.atrust(…)``. Nothing but the standard library is used.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Optional, Union

from ._native import check_response, parse_keys

__all__ = ["Authority", "AuthorityError", "NoValidAnswer", "Score", "Trust"]

MAX_ANSWER_BYTES = 4 * 1024 * 1024
MAX_CACHED = 1024


class AuthorityError(RuntimeError):
    """The authority refused, with its own words. ``status`` and ``code`` say which way."""

    def __init__(self, message: str, *, status: Optional[int] = None, code: Optional[str] = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class NoValidAnswer(AuthorityError):
    """There is no answer that holds: the authority cannot be reached, or what it said is not genuine, expired or about another agent."""


@dataclass(frozen=True)
class Trust:
    """What an authority says of an agent, for a page and a purpose."""

    entity: str
    url: str
    context: Optional[str]
    status: Optional[str]
    """The agent's standing, such as ``verified``."""
    action: Optional[Literal["proceed", "caution", "decline"]]
    """The recommendation."""
    expires: Optional[datetime]
    hash: Optional[str]
    """SHA-256 of what was signed; :meth:`Authority.report_outcome` cites it."""
    document: dict[str, Any] = field(repr=False, default_factory=dict)
    """The whole signed document."""
    verified: bool = True
    """False where there was no valid answer and the client fails open."""
    error: Optional[str] = None
    """Why there was none."""
    refused: bool = False
    """The authority answered, and said that there is no such agent or that it does not tell."""

    @property
    def proceed(self) -> bool:
        """Whether to go ahead: the recommendation is ``proceed``, or the authority gave no answer and the client fails open.

        An authority that answers that it does not know the agent has answered: that is no reason to go ahead.
        """
        return self.action == "proceed" or (not self.verified and not self.refused)


@dataclass(frozen=True)
class Score:
    """An agent's score."""

    agent: str
    score: Optional[int]
    """0 to 100, formula ``uts/1``; ``None`` where it is not published."""
    assured: Optional[int]
    """What the authority vouches for, 0 to 100, formula ``uts/2``."""
    tier: Optional[str]
    status: Optional[str]
    coverage: Optional[float]
    sources: int
    raw: dict[str, Any] = field(repr=False, default_factory=dict)
    """Everything, as the authority answered."""


class Authority:
    """An authority at ``url``, whose public keys are ``keys``: ``did:key:…``, base64url, JWK or JWKS (text, dictionary or file).

    ``on_failure``: without a valid answer ``"closed"`` raises :class:`NoValidAnswer`, ``"open"`` gives a :class:`Trust` that is not
    ``verified`` and says ``proceed``, unless the authority answered that it does not know the agent. ``token`` is a bearer token for what needs one. Answers are cached until they expire.
    A request that takes longer than ``timeout`` seconds is no answer.
    """

    def __init__(
        self,
        url: str,
        *,
        keys: Union[str, dict[str, Any], Path, list[Union[str, dict[str, Any], Path]], None] = None,
        token: Optional[str] = None,
        on_failure: Literal["closed", "open"] = "closed",
        timeout: float = 10.0,
    ) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"'{url}' is not the http or https address of an authority")
        if on_failure not in ("closed", "open"):
            raise ValueError(f"on_failure '{on_failure}': it is 'closed' or 'open'")
        self.url = url.rstrip("/")
        given = [] if keys is None else keys if isinstance(keys, list) else [keys]
        self.keys: list[str] = parse_keys([_key_text(one) for one in given])
        """The pinned keys, as ``did:key:…``."""
        self.token = token
        self.on_failure = on_failure
        self.timeout = timeout
        self._cache: OrderedDict[tuple[str, str, Optional[str]], tuple[float, Trust]] = OrderedDict()
        self._lock = threading.Lock()
        self._now = time.time

    # -- asking -----------------------------------------------------------------------------------------------------------------

    def trust(self, entity: str, *, url: str, context: Optional[str] = None) -> Trust:
        """Should I go ahead with this agent, on this page, for this purpose (``purchase``, ``inquiry``, ``high-value``)?"""
        if not self.keys:
            raise ValueError("keys are needed: an answer that is not checked against a pinned key proves nothing")
        place = (entity, url, context)
        with self._lock:
            kept = self._cache.get(place)
            # By both clocks: one stands still while a machine sleeps, the other can be set back.
            if kept is not None and kept[0] > time.monotonic() and self._is_current(kept[1]):
                self._cache.move_to_end(place)
                return kept[1]
        try:
            trust, seconds = self._ask(entity, url, context)
        except NoValidAnswer as error:
            if self.on_failure == "closed":
                raise
            # The request was understood and turned down. Too many requests (429) and a wrong gateway (5xx) are failures.
            refused = error.status is not None and 400 <= error.status < 500 and error.status not in (408, 429)
            return Trust(entity, url, context, None, None, None, None, verified=False, error=str(error), refused=refused)
        with self._lock:
            self._cache[place] = (time.monotonic() + seconds, trust)
            while len(self._cache) > MAX_CACHED:
                self._cache.popitem(last=False)
        return trust

    def _ask(self, entity: str, url: str, context: Optional[str]) -> tuple[Trust, float]:
        query = {"url": url} if context is None else {"url": url, "context": context}
        try:
            body = self._request("GET", f"/v1/entities/{_part(entity)}/trust-signals", query=query)
        except AuthorityError as error:
            raise NoValidAnswer(str(error), status=error.status, code=error.code) from error
        try:
            said = json.loads(check_response(body, self.keys, entity, url, self._now()))
        except ValueError as error:
            raise NoValidAnswer(f"the answer of {self.url} does not hold: {error}") from None
        if said["context"] != context:
            raise NoValidAnswer(f"the answer of {self.url} is for the purpose {said['context']!r}, not {context!r}")
        expires = datetime.fromisoformat(said["expires"].replace("Z", "+00:00"))
        trust = Trust(
            said["entity"], said["url"], said["context"], said["status"], said["action"], expires, said["hash"], json.loads(body)
        )
        return trust, said["seconds_left"]

    def score(self, entity: str) -> Score:
        """The agent's score, as the authority shows it. It is not signed: :meth:`trust` is."""
        raw = self._get(f"/v1/agents/{_part(entity)}/score")
        assured = raw.get("assured") or {}
        return Score(
            raw["agent"],
            raw.get("score"),
            assured.get("score"),
            raw.get("tier"),
            raw.get("status"),
            raw.get("coverage"),
            int(raw.get("sources") or 0),
            raw,
        )

    def explain(self, entity: str) -> dict[str, Any]:
        """What each source does to the score."""
        return self._get(f"/v1/agents/{_part(entity)}/explain")

    # -- telling ------------------------------------------------------------------------------------------------------------------

    def submit(self, signal: Union[dict[str, Any], list[dict[str, Any]], str, bytes]) -> dict[str, Any]:
        """Submit a signal that its source signed (``credence signal sign`` makes one), or several. Needs a token with scope ``ingest``."""
        body = signal if isinstance(signal, bytes) else signal.encode() if isinstance(signal, str) else json.dumps(signal).encode()
        return _object(self._request("POST", "/v1/signals", body=body))

    def report_outcome(self, entity: str, good: bool, *, response: Optional[str] = None, id: Optional[str] = None) -> dict[str, Any]:
        """Report what came of relying on an agent; ``response`` is the :attr:`Trust.hash` it was relied on for."""
        outcome = {"agent": entity, "good": good, "response": response, "id": id}
        body = json.dumps({name: value for name, value in outcome.items() if value is not None}).encode()
        return _object(self._request("POST", "/v1/outcomes", body=body))

    # -- the same, without waiting ----------------------------------------------------------------------------------------------

    async def atrust(self, entity: str, *, url: str, context: Optional[str] = None) -> Trust:
        """:meth:`trust`, for ``await``."""
        return await asyncio.to_thread(self.trust, entity, url=url, context=context)

    async def ascore(self, entity: str) -> Score:
        """:meth:`score`, for ``await``."""
        return await asyncio.to_thread(self.score, entity)

    async def aexplain(self, entity: str) -> dict[str, Any]:
        """:meth:`explain`, for ``await``."""
        return await asyncio.to_thread(self.explain, entity)

    async def asubmit(self, signal: Union[dict[str, Any], list[dict[str, Any]], str, bytes]) -> dict[str, Any]:
        """:meth:`submit`, for ``await``."""
        return await asyncio.to_thread(self.submit, signal)

    async def areport_outcome(
        self, entity: str, good: bool, *, response: Optional[str] = None, id: Optional[str] = None
    ) -> dict[str, Any]:
        """:meth:`report_outcome`, for ``await``."""
        return await asyncio.to_thread(self.report_outcome, entity, good, response=response, id=id)

    # -- inside -------------------------------------------------------------------------------------------------------------------

    def _is_current(self, trust: Trust) -> bool:
        return trust.expires is not None and trust.expires.timestamp() > self._now()

    def _get(self, path: str) -> dict[str, Any]:
        return _object(self._request("GET", path))

    def _request(self, method: str, path: str, *, query: Optional[dict[str, str]] = None, body: Optional[bytes] = None) -> bytes:
        address = self.url + path + ("?" + urllib.parse.urlencode(query) if query else "")
        headers = {"Accept": "application/json", "User-Agent": "credence-trust"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        request = urllib.request.Request(address, data=body, headers=headers, method=method)
        try:
            with _opener.open(request, timeout=self.timeout) as answer:
                return _bounded(answer)
        except urllib.error.HTTPError as error:
            with error:
                problem = _problem(error)
            detail = problem.get("detail") or problem.get("title") or error.reason
            raise AuthorityError(f"{self.url} answered {error.code}: {detail}", status=error.code, code=problem.get("code")) from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise AuthorityError(f"{self.url} cannot be reached: {error or type(error).__name__}") from None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A token is for the authority alone."""

    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: Any) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirects)


def _bounded(answer: Any) -> bytes:
    body: bytes = answer.read(MAX_ANSWER_BYTES + 1)
    if len(body) > MAX_ANSWER_BYTES:
        raise ValueError(f"the answer has more than {MAX_ANSWER_BYTES} bytes")
    return body


def _problem(error: urllib.error.HTTPError) -> dict[str, Any]:
    try:
        return _object(_bounded(error))
    except (AuthorityError, OSError, ValueError, http.client.HTTPException):
        return {}


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:
        raise AuthorityError("the answer is not JSON") from None
    if not isinstance(value, dict):
        raise AuthorityError("the answer is not an object")
    return value


def _part(entity: str) -> str:
    return urllib.parse.quote(entity, safe="")


def _key_text(key: Union[str, dict[str, Any], Path]) -> str:
    if isinstance(key, dict):
        return json.dumps(key)
    if isinstance(key, Path):
        return key.read_text()
    return key
