#!/usr/bin/env python3
"""A server that accepts anything, in every way in which some real reader is lenient. Standard library only.

Every call that it finds is executed: one line is appended to the file named by EFFECTS, before anything is answered. Over stdio, or over
HTTP with `--http` (prints `listening on PORT` on standard error). `--first` takes the first of two members of one name; the last
otherwise.

Arguments of a call that mean something:

    raw          what is written in place of the answer, as bytes given in Latin-1, with $ID for the request's id
    later        HTTP: the same, for the stream that a client asks for next
    status, headers   HTTP: of the answer
    kill, when   {kill: pid}, {when: before | effect | half | answered}: SIGKILL to that process at that moment; 0 is this one
    wait_us      so many microseconds between the effect and the answer
"""

import base64
import gzip
import json
import os
import re
import signal
import sys
import threading
import time
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

import lenient_json
from lenient_json import Members, decoder, values

FIRST = "--first" in sys.argv
EFFECTS = os.open(os.environ["EFFECTS"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
BREAKS = re.compile("[\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029]+")
LENGTH = re.compile(rb"(?i)\A[ \t\r\n]*content-length[ \t]*:[ \t]*(\d+)[^\n]*\n")
CALL = "tools/call"


def find(members, name):
    """The member of this name: the first or the last of several."""
    same = members.all(name)
    return None if not same else same[0] if FIRST else same[-1]


def plain(value):
    return lenient_json.plain(value, FIRST)


def relaxed(text):
    """JSON as people write it: comments, single quotes, a comma too many."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*|^\s*#[^\n]*", " ", text, flags=re.S)
    text = re.sub(r",(\s*[}\]])", r"\1", text)
    return text if '"' in text else text.replace("'", '"')


def whole(text):
    text = text.lstrip("\ufeff")
    for form in (text, relaxed(text)):
        try:
            return [decoder.decode(form.strip().strip("\0"))]
        except (ValueError, RecursionError):
            pass
    return list(values(text))


def calls(value, depth=0):
    """The calls in a value: itself, those of a list, those in a text that is JSON."""
    if isinstance(value, Members):
        method, params = find(value, "method"), find(value, "params")
        if isinstance(method, list) and method:
            method = method[0]
        if isinstance(method, str) and method.strip().strip("\0").casefold() == CALL:
            if isinstance(params, list) and not isinstance(params, Members) and params:
                params = Members(zip(("name", "arguments"), params))
            params = params if isinstance(params, Members) else Members()
            yield find(value, "id"), find(params, "name"), find(params, "arguments")
    elif isinstance(value, list) and depth < 8:
        for one in value:
            yield from calls(one, depth + 1)
    elif isinstance(value, str) and depth < 8 and value.lstrip().startswith(("{", "[")):
        for one in whole(value):
            yield from calls(one, depth + 1)


def requests(value):
    """What else asks for an answer."""
    for one in value if isinstance(value, list) and not isinstance(value, Members) else [value]:
        if isinstance(one, Members) and isinstance(find(one, "method"), str) and find(one, "id") is not None:
            if find(one, "method").strip().casefold() != CALL:
                yield find(one, "id"), find(one, "method"), find(one, "params")


def kill_at(arguments, moment):
    if isinstance(arguments, dict) and arguments.get("when") == moment and isinstance(arguments.get("kill"), int):
        os.kill(arguments["kill"] or os.getpid(), signal.SIGKILL)


def execute(number, tool, arguments):
    arguments = plain(arguments)
    kill_at(arguments, "before")
    done = {"id": plain(number), "tool": tool if isinstance(tool, str) else json.dumps(plain(tool)), "arguments": arguments}
    os.write(EFFECTS, json.dumps(done).encode() + b"\n")
    kill_at(arguments, "effect")
    arguments = arguments if isinstance(arguments, dict) else {}
    if isinstance(arguments.get("wait_us"), int):
        time.sleep(min(arguments["wait_us"], 1_000_000) / 1e6)
    return arguments


def raw_of(said, number):
    return said.replace("$ID", json.dumps(plain(number))).encode("latin-1", "replace")


def answer(number, tool, arguments):
    """The bytes that answer a call; none for one without an id."""
    if isinstance(arguments.get("raw"), str):
        return raw_of(arguments["raw"], number)
    if number is None:
        return b""
    said = {"done": str(arguments.get("nonce", ""))}
    result = {"content": [{"type": "text", "text": json.dumps(said)}], "structuredContent": said}
    return json.dumps({"jsonrpc": "2.0", "id": plain(number), "result": result}).encode() + b"\n"


def answer_other(number, method, params):
    params = plain(params) if isinstance(params, Members) else {}
    said = params.get("_meta", {}) if isinstance(params.get("_meta"), dict) else {}
    if isinstance(said.get("raw"), str):
        return raw_of(said["raw"], number)
    result = {}
    if method == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "lenient", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": "say", "inputSchema": {"type": "object"}}]}
    return json.dumps({"jsonrpc": "2.0", "id": plain(number), "result": result}).encode() + b"\n"


def write(data):
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def text_of(data):
    if b"\0" in data:
        for name in ("utf-16", "utf-16-le", "utf-16-be", "utf-32"):
            try:
                return data.decode(name)
            except UnicodeError:
                pass
    return data.decode("utf-8", "replace")


def take_text(text):
    found = whole(text)
    for value in found:
        for number, tool, arguments in calls(value):
            arguments = execute(number, tool, arguments)
            data = answer(number, tool, arguments)
            if arguments.get("when") == "half":
                write(data[: len(data) // 2])
            kill_at(arguments, "half")
            write(data)
            kill_at(arguments, "answered")
        for number, method, params in requests(value):
            write(answer_other(number, method, params))
    return bool(found)


def stdio():
    buffer, unfinished = b"", ""
    while True:
        framed = LENGTH.match(buffer)
        if framed:
            body = re.compile(rb"\r?\n\r?\n").search(buffer)
            if body and len(buffer) >= body.end() + int(framed[1]):
                take_text(text_of(buffer[body.end() : body.end() + int(framed[1])]))
                buffer = buffer[body.end() + int(framed[1]) :]
                continue
        elif b"\n" in buffer:
            line, buffer = buffer.split(b"\n", 1)
            for part in BREAKS.split(text_of(line)):
                # An object that was begun in an earlier line may end in this one.
                if not take_text(part) and part.strip():
                    unfinished = (unfinished + part)[-4096:]
                    unfinished = "" if take_text(unfinished) else unfinished
            continue
        more = os.read(0, 1 << 16)
        if not more:
            return
        buffer += more


later = []
changed = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body in one piece: two are 40 ms apart.
    wbufsize = 1 << 16

    def body(self):
        if "chunked" in (self.headers.get("transfer-encoding") or "").lower():
            parts = []
            while True:
                size = int(self.rfile.readline().split(b";")[0].strip() or b"0", 16)
                parts.append(self.rfile.read(size))
                self.rfile.readline()
                if size == 0:
                    return b"".join(parts)
        return self.rfile.read(int(self.headers.get("content-length") or 0))

    def texts(self, body):
        """The body as every lenient server might read it, and what the address says."""
        encoding = (self.headers.get("content-encoding") or "").lower()
        try:
            if "gzip" in encoding or body[:2] == b"\x1f\x8b":
                body = gzip.decompress(body)
            elif "deflate" in encoding:
                body = zlib.decompress(body, -15 if body[:1] not in b"\x78\x58" else 15)
        except (OSError, zlib.error, EOFError):
            pass
        kind = self.headers.get("content-type") or ""
        charset = re.search(r"charset\s*=\s*[\"']?([\w-]+)", kind, re.I)
        try:
            text = body.decode(charset[1], "replace") if charset else text_of(body)
        except (LookupError, UnicodeError):
            text = text_of(body)
        if "multipart" in kind or "urlencoded" in kind:
            for _, value in parse_qsl(text):
                yield value
            yield from re.findall(r"\r?\n\r?\n(.*?)\r?\n--", text, re.S)
        elif text:
            yield text
        for _, value in parse_qsl(urlsplit(self.path).query):
            yield value
            try:
                yield base64.b64decode(value, altchars=b"-_").decode()
            except (ValueError, UnicodeError):
                pass

    def handle_any(self):
        out, said, found = b"", {}, []
        for text in self.texts(self.body()):
            found += whole(text)
        named = self.headers.get("mcp-method", "").strip().casefold() == CALL
        for value in found:
            got = list(calls(value))
            if named and not got and isinstance(value, Members):
                params = find(value, "params")
                got = [(find(value, "id"), self.headers.get("mcp-name"), find(params, "arguments") if isinstance(params, Members) else None)]
            for number, tool, arguments in got:
                said = execute(number, tool, arguments)
                out += answer(number, tool, said)
                if isinstance(said.get("later"), str):
                    with changed:
                        later.append(raw_of(said["later"], number))
            for number, method, params in requests(value):
                out += answer_other(number, method, params)
        headers = said.get("headers") if isinstance(said.get("headers"), list) else [["Content-Type", "application/json"]]
        if self.command == "GET" and not out:
            with changed:
                out, headers = b"".join(later), [["Content-Type", "text/event-stream"]]
                later.clear()
        self.send_response(said["status"] if isinstance(said.get("status"), int) else 200 if out else 202)
        for name, value in headers:
            self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(out)))
        self.end_headers()
        kill_at(said, "half")
        if self.command != "HEAD":
            self.wfile.write(out)
            self.wfile.flush()
        kill_at(said, "answered")

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_HEAD = do_QUERY = handle_any

    def log_message(self, *_):
        pass


if "--http" in sys.argv:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(f"listening on {server.server_port}", file=sys.stderr, flush=True)
    server.serve_forever()
else:
    stdio()
