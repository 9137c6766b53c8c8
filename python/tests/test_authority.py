"""The client of an authority, against a real one on loopback, and against one that lies."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Callable

import pytest

from conftest import credence, receipts
from credence_trust import Authority, AuthorityError, Guard, NoValidAnswer
from credence_trust import authority as module

PAGE = "https://weather-bot.example/today"
OTHER_PAGE = "https://other-bot.example/today"


SIGNED: list[dict[str, Any]] = []


@pytest.fixture
def signed(service: Any) -> list[dict[str, Any]]:
    """Signals that a source of the authority signed."""
    return list(SIGNED)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """A real authority: its address, an admin token, its keys."""
    folder = tmp_path_factory.mktemp("authority")
    environment = {**os.environ, "CREDENCE_DATA": str(folder / "data"), "XDG_CONFIG_HOME": str(folder)}

    def credence(*args: str) -> str:
        done = subprocess.run(["credence", *args], env=environment, capture_output=True, timeout=60, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    credence("init", "--origin", "example.org/credence")
    for agent in ("weather-bot", "other-bot"):
        credence("agent", "add", agent, "--name", agent, "--alias", f"https://{agent}.example")
    credence("source", "add", "lab", "--weight", "1")
    credence("keys", "generate", "lab")
    for tag in ("rel_uptime", "asi01_goal_hijack", "asi02_tool_misuse"):
        arguments = ["signal", "sign", "--source", "lab", "--agent", "weather-bot", "--tag", tag, "--value", "80", "--stddev", "5"]
        SIGNED.append(json.loads(credence(*arguments)))
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(["credence", "serve", "--listen", "127.0.0.1:0"], env=environment, stdout=log, stderr=log)
    try:
        said, end = "", time.monotonic() + 60
        wanted = re.compile(r"keep it\s+(\S+).*url=\"(http://127\.0\.0\.1:\d+)\"", re.DOTALL)
        while (found := wanted.search(said)) is None:
            assert time.monotonic() < end and process.poll() is None, said
            time.sleep(0.05)
            said = (folder / "log").read_text()
        token, address = found.groups()
        keys = json.loads(module._opener.open(f"{address}/.well-known/jwks.json", timeout=10).read())
        yield address, token, keys
    finally:
        process.terminate()
        process.wait(20)


def test_a_signed_answer_is_checked_and_cached(service: tuple[str, str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    address, token, keys = service
    authority = Authority(address, keys=keys, token=token)
    trust = authority.trust("weather-bot", url=PAGE, context="purchase")
    assert (trust.entity, trust.url, trust.context, trust.verified) == ("weather-bot", PAGE, "purchase", True)
    assert trust.action in ("proceed", "caution", "decline") and trust.proceed == (trust.action == "proceed")
    assert trust.expires is not None and trust.hash is not None and trust.document["signals"] is not None
    monkeypatch.setattr(authority, "_request", lambda *_, **__: pytest.fail("it was asked again"))
    assert authority.trust("weather-bot", url=PAGE, context="purchase") is trust


def test_an_answer_that_expired_is_neither_kept_nor_believed(service: tuple[str, str, dict[str, Any]], liar: Any) -> None:
    address, _, keys = service
    authority = Authority(address, keys=keys)
    first = authority.trust("weather-bot", url=PAGE)
    assert first.expires is not None
    later = first.expires.timestamp() + 1
    # The machine slept: the clock on the wall went on, the other one did not.
    authority._now = lambda: later
    with pytest.raises(NoValidAnswer, match="expired"):
        authority.trust("weather-bot", url=PAGE)
    authority._now = time.time
    assert authority.trust("weather-bot", url=PAGE) is first, "the same answer while it holds"
    old = json.dumps(first.document).encode()
    replayed = Authority(liar(lambda _: (200, old, {})), keys=keys)
    assert replayed.trust("weather-bot", url=PAGE).verified
    replayed = Authority(replayed.url, keys=keys, on_failure="open")
    replayed._now = lambda: later
    trust = replayed.trust("weather-bot", url=PAGE)
    assert not trust.verified and "expired" in (trust.error or "")


def test_failing_open_is_not_going_ahead_with_an_unknown_agent(service: tuple[str, str, dict[str, Any]], liar: Any) -> None:
    address, _, keys = service
    trust = Authority(address, keys=keys, on_failure="open").trust("nobody-knows-it", url=PAGE)
    assert not trust.verified and trust.refused and not trust.proceed, trust
    for status, refused in [(404, True), (403, True), (429, False), (500, False), (503, False)]:
        trust = Authority(liar(lambda _, status=status: (status, b"{}", {})), keys=keys, on_failure="open").trust("weather-bot", url=PAGE)
        assert (trust.refused, trust.proceed) == (refused, not refused), status


def test_a_signed_signal_is_submitted(service: tuple[str, str, dict[str, Any]], signed: list[dict[str, Any]]) -> None:
    address, token, keys = service
    authority = Authority(address, keys=keys, token=token)
    one, *more = signed
    answer = authority.submit(one)
    assert "seq" in json.dumps(answer), answer
    answer = asyncio.run(authority.asubmit(more))
    assert "seq" in json.dumps(answer), answer
    # It counts within a second.
    end = time.monotonic() + 30
    while authority.score("weather-bot").sources == 0:
        assert time.monotonic() < end
        time.sleep(0.1)
    assert "lab" in json.dumps(authority.explain("weather-bot"))
    with pytest.raises(AuthorityError):
        authority.submit({**one, "value": 1.0})


def test_everything_else(service: tuple[str, str, dict[str, Any]]) -> None:
    address, token, keys = service
    authority = Authority(address, keys=[keys], token=token)
    score = asyncio.run(authority.ascore("weather-bot"))
    assert score.agent == "weather-bot" and score.sources >= 0
    assert authority.explain("weather-bot")["agent"] == "weather-bot"
    trust = asyncio.run(authority.atrust("weather-bot", url=PAGE))
    end = time.monotonic() + 30
    while True:
        try:
            outcome = authority.report_outcome("weather-bot", True, response=trust.hash)
            break
        except AuthorityError as error:
            # What just left is recorded within a second.
            assert error.status == 422 and time.monotonic() < end, error
            time.sleep(0.1)
    assert "seq" in outcome
    with pytest.raises(AuthorityError) as refused:
        authority.submit({"not": "a signal"})
    assert refused.value.status in (400, 422)
    with pytest.raises(AuthorityError) as unknown:
        authority.score("nobody")
    assert unknown.value.status == 404 and unknown.value.code == "unknown_agent"
    with pytest.raises(AuthorityError) as forbidden:
        Authority(address, keys=keys).report_outcome("weather-bot", True)
    assert forbidden.value.status == 401


def test_another_key_is_not_the_authority(service: tuple[str, str, dict[str, Any]]) -> None:
    address, _, _ = service
    wrong = "did:key:z6MkfK4yy49FbFdXoh2DECvaWGx2VXAzr796ELpF6Y7eRESL"
    with pytest.raises(NoValidAnswer, match="does not hold"):
        Authority(address, keys=wrong).trust("weather-bot", url=PAGE)
    trust = Authority(address, keys=wrong, on_failure="open").trust("weather-bot", url=PAGE)
    assert not trust.verified and trust.proceed and "does not hold" in (trust.error or "")


@pytest.fixture
def liar(service: tuple[str, str, dict[str, Any]]) -> Iterator[Callable[[Callable[[str], tuple[int, bytes, dict[str, str]]]], str]]:
    """An authority that answers what it is told to."""
    running: list[ThreadingHTTPServer] = []

    def start(answer: Callable[[str], tuple[int, bytes, dict[str, str]]]) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body, headers = answer(self.path)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        running.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield start
    for server in running:
        server.shutdown()
        server.server_close()


def saying(text: bytes) -> str:
    """Something that answers one request with these bytes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        with listener, listener.accept()[0] as connection:
            connection.recv(65536)
            connection.sendall(text)

    threading.Thread(target=answer, daemon=True).start()
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_a_genuine_answer_in_the_wrong_place_proves_nothing(service: tuple[str, str, dict[str, Any]], liar: Any) -> None:
    address, _, keys = service
    genuine = Authority(address, keys=keys)._request(
        "GET", "/v1/entities/other-bot/trust-signals", query={"url": OTHER_PAGE, "context": "inquiry"}
    )
    lies = Authority(liar(lambda _: (200, genuine, {})), keys=keys)
    with pytest.raises(NoValidAnswer, match="about 'other-bot'"):
        lies.trust("weather-bot", url=OTHER_PAGE, context="inquiry")
    with pytest.raises(NoValidAnswer, match="about the page"):
        lies.trust("other-bot", url="https://bank.example/", context="inquiry")
    with pytest.raises(NoValidAnswer, match="for the purpose"):
        lies.trust("other-bot", url=OTHER_PAGE, context="high-value")
    assert lies.trust("other-bot", url=OTHER_PAGE + "#part", context="inquiry").verified
    changed = genuine.replace(b'"other-bot"', b'"weather-bot"')
    with pytest.raises(NoValidAnswer):
        Authority(liar(lambda _: (200, changed, {})), keys=keys).trust("weather-bot", url=OTHER_PAGE, context="inquiry")


def test_strange_answers_are_failures_and_nothing_worse(service: tuple[str, str, dict[str, Any]], liar: Any) -> None:
    _, _, keys = service
    for answer in [
        (200, b"not json", {}),
        (200, b"[]", {}),
        (200, b"x" * (module.MAX_ANSWER_BYTES + 1), {}),
        (500, b"<html>", {}),
        (302, b"", {"Location": "http://127.0.0.1:1/"}),
    ]:
        with pytest.raises(NoValidAnswer):
            Authority(liar(lambda _, answer=answer: answer), keys=keys).trust("weather-bot", url=PAGE)
    for said in (b"not HTTP at all\r\n\r\n", b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort", b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 200 + b"\r\n"):
        with pytest.raises(NoValidAnswer):
            Authority(saying(said), keys=keys, timeout=5).trust("weather-bot", url=PAGE)
    with pytest.raises(NoValidAnswer, match="cannot be reached"):
        Authority("http://127.0.0.1:1", keys=keys, timeout=2).trust("weather-bot", url=PAGE)
    assert Authority("http://127.0.0.1:1", keys=keys, timeout=2, on_failure="open").trust("weather-bot", url=PAGE).proceed


def test_wrong_settings_are_refused_in_words(tmp_path: Path) -> None:
    for make, words in [
        (lambda: Authority("trust.example"), "not the http or https address"),
        (lambda: Authority("https://trust.example", keys="nonsense"), "did:key"),
        (lambda: Authority("https://trust.example", on_failure="maybe"), "'closed' or 'open'"),  # type: ignore[arg-type]
        (lambda: Authority("https://trust.example").trust("a", url=PAGE), "keys are needed"),
    ]:
        with pytest.raises(ValueError, match=words):
            make()
    file = tmp_path / "jwks.json"
    file.write_text('{"keys":[{"kty":"OKP","crv":"Ed25519","x":"DMKINWXmuDpex_-psG_fd0qILMLhG6Gqa8SzR7AXF6E"}]}')
    assert Authority("https://trust.example", keys=file).keys[0].startswith("did:key:z6Mk")


def test_an_authority_shows_that_in_process_receipts_are_self_reported(
    service: tuple[str, str, dict[str, Any]], make_guard: Callable[..., Guard], state: Path
) -> None:
    address, token, keys = service
    authority = Authority(address, keys=keys, token=token)

    def post(path: str, body: dict[str, Any]) -> Any:
        return json.loads(authority._request("POST", path, body=json.dumps(body).encode()))

    def get(path: str) -> bytes:
        return authority._request("GET", path)

    key = credence("guard", "key", "--state", str(state), "--provider", "own-lab")
    post("/v1/sources", {"source": "own-lab", "weight": 1, "methodology": "https://lab.example/how"})
    post("/v1/keys", {"source": "own-lab", "public_key": key["public_key"]})
    guard = make_guard("flag", agent="weather-bot", provider="own-lab", authority=address, token=token, report_every=1, send_receipts=True)
    for n in range(5):
        with guard.record("get_rate", {"n": n}) as call:
            call.returned({"rate": 1.25})
    guard.flush()
    (found, *_) = receipts(state, "--provider", "own-lab")
    end = time.monotonic() + 60
    while True:
        try:
            held = json.loads(get(f"/v1/receipts/{found['call']}"))
            break
        except AuthorityError as error:
            assert error.status == 404 and time.monotonic() < end, error
            time.sleep(0.2)
    assert held["receipt"]["vantage"] == "in_process" and held["self_reported"] is True
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    request["params"] = {"name": "check_receipt", "arguments": {"receipt": found["call"]}}
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": f"Bearer {token}"}
    asked = urllib.request.Request(f"{address}/mcp", data=json.dumps(request).encode(), headers=headers)
    with module._opener.open(asked, timeout=30) as answer:
        said = answer.read().decode()
    assert "self-reported" in said and '"self_reported":true' in said, said
    # In no summary: it is the agent's own word.
    guard.close()
    time.sleep(1.5)
    assert b'"totalChecks":0' in (stats := get("/v1/stats/weather-bot?window=7d").replace(b" ", b"")) or b"totalChecks" not in stats, stats
    page = urllib.request.Request(f"{address}/agents/weather-bot", headers={"Authorization": f"Bearer {token}"})
    with module._opener.open(page, timeout=30) as answer:
        shown = answer.read().decode()
    assert "self-reported" in shown and "the agent&#39;s own process" in shown, shown[shown.find("Receipts</h2>"):][:900]
