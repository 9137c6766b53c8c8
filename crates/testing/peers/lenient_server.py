#!/usr/bin/env python3
"""A tool server that reads whatever some reader reads. Standard library only.

`lenient_server.py FILE [--http]`: appends a line to FILE for each call that it executes. It splits lines at carriage returns and line
separators, takes NaN, several values on a line, two members of one name (a call in either counts), member names in any case, calls
without an id, broken UTF-8, UTF-16 and gzip. A call of the tool `never` is executed and not answered.
"""

import gzip
import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from lenient_json import Members, plain, values

FILE = sys.argv[1]


def objects(text):
    """Every object or list in a text, wherever it begins."""
    return values(text, r"[\[{]")


def messages(data):
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    text = data.decode("utf-16-le" if data[1:2] == b"\0" else "utf-8", "replace")
    parts = [part for part in re.split("[\r\n\u2028\u2029\x85\x0b\x0c]", text) if part.strip()]
    whole = list(objects(text))
    found = whole if len(whole) > len(parts) or len(parts) == 1 else [value for part in parts for value in objects(part)]
    queue = list(found or whole)
    while queue:
        value = queue.pop(0)
        if isinstance(value, Members):
            yield value
        elif isinstance(value, list):
            queue[:0] = value


def answers(data):
    for message in messages(data):
        methods = [str(method).strip(" \0").lower() for method in message.all("method")]
        ident = message.last("id")
        if "tools/call" in methods:
            params = message.last("params", Members())
            params = params if isinstance(params, Members) else Members()
            with open(FILE, "a") as file:
                file.write(json.dumps(plain(params)) + "\n")
            if params.last("name") == "never":
                continue
            result = {"content": [], "structuredContent": plain(params.last("arguments") or Members())}
            yield {"jsonrpc": "2.0", "id": ident, "result": result}
        elif ident is not None and methods:
            yield {"jsonrpc": "2.0", "id": ident, "result": {}}


def stdio():
    for line in sys.stdin.buffer:
        for answer in answers(line):
            sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        found = list(answers(self.rfile.read(int(self.headers["content-length"] or 0))))
        body = json.dumps(found[0] if found else {}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_DELETE = do_PUT = do_GET = do_POST

    def log_message(self, *_):
        pass


if "--http" in sys.argv:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(f"listening on {server.server_port}", file=sys.stderr, flush=True)
    server.serve_forever()
else:
    stdio()
