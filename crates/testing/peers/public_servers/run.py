"""Twenty public servers, called directly and through a guard in each mode, with the official SDKs as clients.

    run.py INSTALLED CREDENCE [--calls 300] [--seed 1] [--only PACKAGE…] [--work FOLDER]

Prints one JSON object per server: for each mode the calls, those flagged and withheld, the longest run of withheld results, the receipts,
and `changed`: lines that the client got other than the server wrote them. A tap on both sides of the guard writes down every line, so results
that differ from run to run (times, random numbers) are compared like all others. Taken off before the comparison: what the guard adds to
`_meta`. `announced` counts results with a note, or with members taken out that MCP does not know, of which `_meta` tells.
"""

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path

import servers

HERE = Path(__file__).parent
MODES = ["observe", "flag", "enforce"]
# What the guard adds is one object without objects in it.
ADDED = re.compile(rb'"_meta":\{"credence/guard":\{[^{}]*\}\},?|"credence/guard":\{[^{}]*\},?')


class Pages(BaseHTTPRequestHandler):
    """A site on loopback whose pages depend on their path alone."""

    def do_GET(self):
        rng = random.Random(self.path)
        found = self.path != "/missing"
        if self.path.endswith(".json"):
            kind, body = "application/json", json.dumps({"name": servers.words(rng), "count": rng.randint(1, 900), "tags": servers.words(rng).split()})
        else:
            paragraphs = "".join(f"<p>{servers.sentences(rng, 4)}</p>" for _ in range(rng.randint(1, 6)))
            title = servers.words(rng, 2, 4)
            kind, body = "text/html", f"<html><head><title>{title}</title></head><body><article><h1>{title}</h1>{paragraphs}</article></body></html>"
        body = body.encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def lines(path):
    return [line.strip() for line in path.read_bytes().split(b"\n") if line.strip()]


def parsed(line):
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def escaped(line):
    """The guard escapes two characters at which some readers split lines."""
    return line.replace("\u2028".encode(), b"\\u2028").replace("\u2029".encode(), b"\\u2029")


def members_missing(shown, written):
    """How many members of `written` are not in `shown`; `None` when they differ otherwise."""
    if isinstance(shown, dict) and isinstance(written, dict):
        if shown.keys() - written.keys():
            return None
        missing = [members_missing(shown[key], written[key]) for key in shown]
        return None if None in missing else sum(missing) + len(written) - len(shown)
    if isinstance(shown, list) and isinstance(written, list) and len(shown) == len(written):
        missing = [members_missing(one, other) for one, other in zip(shown, written)]
        return None if None in missing else sum(missing)
    return 0 if shown == written else None


def is_announced(shown, written):
    """Whether a result differs only by what the guard says in it: a note, members that MCP does not know taken out, or withheld."""
    shown, written = dict(shown.get("result") or {}), written.get("result") or {}
    meta = dict(shown.pop("_meta", None) or {})
    said = meta.pop("credence/guard", None) or {}
    if said.get("verdict") == "block" and said.get("mode") == "enforce":
        return True
    if meta:
        shown["_meta"] = meta
    shown["content"] = [part for part in shown.get("content", []) if not part.get("text", "").startswith("[credence]")]
    return members_missing(shown, written) == said.get("removed", 0)


def version(server, installed):
    if server.kind == "node":
        return json.loads((installed / "node/node_modules" / server.package / "package.json").read_text())["version"]
    pinned = (HERE / "requirements.txt").read_text().split()
    return next(one.split("==")[1] for one in pinned if one.split("==")[0] == server.package)


class Trial:
    """One server: its calls, and a folder for it that is made anew for every run."""

    def __init__(self, server, installed, credence, work, options, environment):
        self.server, self.installed, self.credence, self.work = server, installed, credence, work
        self.environment = environment
        self.folder = work / "folder"
        self.calls = work / "calls.jsonl"
        self.renew()
        rng = random.Random(f"{options.seed} {server.package}")
        folder = self.folder if server.calls is servers.fetch else str(self.folder)
        calls = [{"name": name, "arguments": arguments} for name, arguments in islice(server.calls(rng, folder), options.calls)]
        self.calls.write_text("".join(json.dumps(call) + "\n" for call in calls))
        self.count = len(calls)

    def renew(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.server.prepare(self.folder)

    def command(self):
        server = self.server
        filled = [argument.replace("FOLDER", str(self.folder)) for argument in server.arguments]
        if server.kind == "node":
            return ["node", str(self.installed / "node/node_modules" / server.package / server.program), *filled]
        return [str(self.installed / server.package / "bin" / server.program), *filled]

    def run(self, name, command):
        """Makes the calls; gives the results as the client read them."""
        self.renew()
        results = self.work / f"{name}.results"
        if self.server.kind == "node":
            client = ["node", str(HERE / "client.mjs"), str(self.installed / "node")]
        else:
            client = [str(self.installed / "mcp-server-sqlite/bin/python"), str(HERE / "client.py")]
        extra = {key: value.replace("FOLDER", str(self.folder)) for key, value in self.server.environment.items()}
        done = subprocess.run(
            [*client, str(self.calls), str(results), *command],
            cwd=self.folder, env=self.environment | extra, capture_output=True, text=True, timeout=900,
        )
        if done.returncode:
            raise RuntimeError(f"{self.server.package}, {name}: the client failed\n{done.stderr[-2000:]}")
        return [json.loads(line) for line in results.read_text().splitlines()]

    def guarded(self, mode, direct):
        outer, inner, state = (self.work / f"{mode}.{what}" for what in ["outer", "inner", "state"])
        tap = [sys.executable, str(HERE / "tap.py")]
        guard = [self.credence, "guard", "--mode", mode, "--agent", "public", "--name", "public", "--state", str(state), "--"]
        results = self.run(mode, [*tap, str(outer), *guard, *tap, str(inner), *self.command()])
        return self.measure(mode, results, direct, lines(outer), lines(inner), state)

    def measure(self, mode, results, direct, outer, inner, state):
        said = [(result.get("_meta") or {}).get("credence/guard") or {} for result in results]
        verdicts = [one.get("verdict") for one in said]
        judged = [verdict == "block" for verdict in verdicts]
        longest = run = 0
        for blocked in judged:
            run = run + 1 if blocked else 0
            longest = max(longest, run)

        # Each line is what the server wrote, byte for byte, unless the guard says in it what it did.
        by_id = {parsed(line).get("id"): line for line in inner if "method" not in parsed(line)}
        written, changed, announced = {escaped(line) for line in inner}, [], 0
        for line in outer:
            if ADDED.sub(b"", line) in written:
                continue
            if mode != "observe" and is_announced(parsed(line), parsed(by_id.get(parsed(line).get("id"), b""))):
                announced += 1
            else:
                changed.append(line)
        answered = {parsed(line).get("id") for line in outer}
        changed += [line for line in inner if "id" in parsed(line) and parsed(line)["id"] not in answered]

        for result in results:
            result.get("_meta", {}).pop("credence/guard", None)
            if not result.get("_meta", True):
                del result["_meta"]
        shown = subprocess.run(
            [self.credence, "guard", "review", "--json", "--list", "--state", str(state)], capture_output=True, text=True, env=self.environment
        )
        (self.work / f"{mode}.review.json").write_text(shown.stdout)
        return {
            "calls": len(results),
            "judged": sum(verdict is not None for verdict in verdicts),
            "unjudged_errors": sum(verdict is None and "unjudged" in one for verdict, one in zip(verdicts, said)),
            "flagged": verdicts.count("flag"),
            "blocked": verdicts.count("block"),
            "withheld": verdicts.count("block") if mode == "enforce" else 0,
            "longest": longest,
            "locked": bool(judged and all(judged[-20:])),
            "receipts": len({one["receipt"] for one in said if "receipt" in one}),
            "announced": announced,
            "changed": len(changed),
            "same_as_direct": sum(one == two for one, two in zip(results, direct)),
            "examples": [line[:300].decode(errors="replace") for line in changed[:2]],
            "which": [[at, verdict] for at, verdict in enumerate(verdicts) if verdict != "accept"],
        }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("installed", type=Path)
    parser.add_argument("credence")
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--work", type=Path)
    options = parser.parse_args()
    work = options.work or Path(tempfile.mkdtemp())
    pages = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    threading.Thread(target=pages.serve_forever, daemon=True).start()
    home = work / "home"
    home.mkdir(parents=True, exist_ok=True)
    # Nothing of the user's own configuration or state, and no proxy between a server and the site on loopback.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("CREDENCE_") and "proxy" not in key.lower()}
    environment |= {"HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1", "TZ": "UTC", "NO_COLOR": "1"}
    for variable in ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"]:
        environment.pop(variable, None)
    servers.ENVIRONMENT.update(environment)
    for server in servers.SERVERS:
        if options.only and server.package not in options.only:
            continue
        place = work / server.package.replace("/", "_").lstrip("@")
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        (place / "address").write_text(f"http://127.0.0.1:{pages.server_port}")
        trial = Trial(server, options.installed.resolve(), options.credence, place, options, environment)
        direct = trial.run("direct", trial.command())
        modes = {mode: trial.guarded(mode, direct) for mode in MODES}
        errors = sum(bool(result.get("isError") or result.get("error")) for result in direct)
        told = {"server": server.package, "version": version(server, options.installed), "errors": errors, "modes": modes}
        print(json.dumps(told), flush=True)
    if not options.work:
        shutil.rmtree(work, ignore_errors=True)


main()
