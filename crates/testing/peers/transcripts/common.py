"""What the programs here share: `python with_….py FOLDER COMMAND…` runs a framework's agent with a scripted model against the MCP server
that COMMAND starts, and writes the transcript that the framework keeps, in each of its forms, into FOLDER."""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

FOLDER, COMMAND = Path(sys.argv[1]), sys.argv[2:]
SCENARIO = json.loads(Path(__file__).with_name("scenario.json").read_text())
QUESTION, TURNS, ANSWER = SCENARIO["question"], SCENARIO["turns"], SCENARIO["answer"]


def write(name, value):
    """Writes JSON, or a text that is JSON already."""
    text = value if isinstance(value, str) else json.dumps(value, indent=1, ensure_ascii=False)
    (FOLDER / name).write_text(text.rstrip("\n") + "\n")


class Service:
    """A model's HTTP API on loopback: `reply(turn)` gives the body of each response in turn; `requests` are the bodies that came."""

    def __init__(self, reply):
        requests = self.requests = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                requests.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
                body = json.dumps(reply(len(requests) - 1)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
