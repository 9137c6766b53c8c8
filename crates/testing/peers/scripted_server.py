#!/usr/bin/env python3
"""A stdio server that answers with raw lines of the caller's choosing. Standard library only.

The arguments of a call are {"lines": ["…", …], "latin1"?: true}: each is written as it is, in UTF-8 or Latin-1, with $ID in it replaced
by the request's id as it came. Other requests have the same in their parameters; with {"next": […]} they say how calls without lines
are answered from then on. Over
HTTP (`--http`, prints `listening on PORT` on standard error) the arguments are {"type": …, "body": …, "encoding"?: …, "status"?: …},
and the body is written as bytes given in Latin-1; those of a GET are in its header `x-say`.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def raw_id(line):
    return json.dumps(json.loads(line)["id"])


def write(line, encoding):
    sys.stdout.buffer.write(line.encode(encoding) + b"\n")
    sys.stdout.buffer.flush()


def stdio():
    following = []
    for line in sys.stdin:
        if not line.startswith("{"):
            continue
        message = json.loads(line)
        params = message.get("params") or {}
        said = params["arguments"] if message.get("method") == "tools/call" else params
        following = said.get("next", following)
        lines = said.get("lines", following if message.get("method") == "tools/call" else [])
        if lines:
            for out in lines:
                write(out.replace("$ID", raw_id(line)), "latin-1" if said.get("latin1") else "utf-8")
        elif "id" in message:
            write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {}}), "utf-8")


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        line = self.rfile.read(int(self.headers["content-length"]))
        said = json.loads(line)["params"]["arguments"]
        self.answer(said, said["body"].replace("$ID", raw_id(line)).encode("latin-1"))

    def do_GET(self):
        said = json.loads(self.headers["x-say"])
        self.answer(said, said["body"].encode("latin-1"))

    def answer(self, said, body):
        self.send_response(said.get("status", 200))
        self.send_header("Content-Type", said["type"])
        self.send_header("Content-Length", str(len(body)))
        if "location" in said:
            self.send_header("Location", said["location"])
        if "encoding" in said:
            self.send_header("Content-Encoding", said["encoding"])
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if "--http" in sys.argv:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(f"listening on {server.server_port}", file=sys.stderr, flush=True)
    server.serve_forever()
else:
    stdio()
