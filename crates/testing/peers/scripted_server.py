#!/usr/bin/env python3
"""A stdio server that answers with raw lines of the caller's choosing. Standard library only.

The arguments of a call are {"lines": ["…", …]}: each is written as it is, with $ID in it replaced by the request's id as it came. Over
HTTP (`--http`, prints `listening on PORT` on standard error) the arguments are {"type": …, "body": …, "encoding"?: …, "status"?: …},
and the body is written as bytes given in Latin-1.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def raw_id(line):
    return json.dumps(json.loads(line)["id"])


def stdio():
    for line in sys.stdin:
        if not line.startswith("{"):
            continue
        message = json.loads(line)
        if message.get("method") == "tools/call":
            for out in message["params"]["arguments"]["lines"]:
                sys.stdout.write(out.replace("$ID", raw_id(line)) + "\n")
        elif message.get("method") == "tasks/result":
            for out in message["params"]["lines"]:
                sys.stdout.write(out.replace("$ID", raw_id(line)) + "\n")
        elif "id" in message:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {}}) + "\n")
        sys.stdout.flush()


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        line = self.rfile.read(int(self.headers["content-length"]))
        said = json.loads(line)["params"]["arguments"]
        body = said["body"].replace("$ID", raw_id(line)).encode("latin-1")
        self.send_response(said.get("status", 200))
        self.send_header("Content-Type", said["type"])
        self.send_header("Content-Length", str(len(body)))
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
