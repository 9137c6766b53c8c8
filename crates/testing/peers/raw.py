#!/usr/bin/env python3
"""Speaks lines of JSON to a stdio server and writes every line that comes back, byte for byte.

    raw.py IN.jsonl -- COMMAND ARGS…

Each line of IN is sent as it is. After a request its answer is waited for before the next line. Lines that are no requests
(notifications, broken ones) are not waited for. At the end the input is closed and everything up to the end of the output is
written. The exit code is the server's; 124 when an answer or the end did not come within two minutes, and 1 when the output ended
before an answer.
"""

import json
import subprocess
import sys
import threading

TIMEOUT = 120.0  # Seconds.


def identity(value):
    """Ids as JSON-RPC tells them apart."""
    return json.dumps(value)


def main():
    args = sys.argv[1:]
    if len(args) < 3 or args[1] != "--":
        sys.exit(__doc__)
    with open(args[0], "rb") as file:
        lines = file.read().split(b"\n")
    if lines and not lines[-1]:
        lines.pop()

    server = subprocess.Popen(args[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    waiting, ended, changed = {}, [], threading.Condition()

    def receive():
        for line in server.stdout:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
            try:
                said = json.loads(line)
            except ValueError:
                continue
            frames = said if isinstance(said, list) else [said]
            with changed:
                for frame in frames:
                    if isinstance(frame, dict) and "method" not in frame and "id" in frame:
                        waiting.pop(identity(frame["id"]), None)
                changed.notify_all()
        with changed:
            ended.append(True)
            changed.notify_all()

    reader = threading.Thread(target=receive, daemon=True)
    reader.start()

    def wait():
        with changed:
            done = changed.wait_for(lambda: not waiting or ended, TIMEOUT)
            if not done:
                server.kill()
                print(f"raw.py: no answer to {', '.join(waiting)}", file=sys.stderr)
                sys.stdout.buffer.flush()
                sys.exit(124)
            return not ended or not waiting

    broken = False
    for line in lines:
        try:
            said = json.loads(line)
        except ValueError:
            said = None
        requests = [f for f in (said if isinstance(said, list) else [said]) if isinstance(f, dict) and "method" in f and "id" in f]
        with changed:
            for frame in requests:
                waiting[identity(frame["id"])] = True
        try:
            server.stdin.write(line + b"\n")
            server.stdin.flush()
        except BrokenPipeError:
            broken = True
            break
        if requests and not wait():
            broken = True
            break
    try:
        server.stdin.close()
    except BrokenPipeError:
        pass
    reader.join(TIMEOUT)
    if reader.is_alive():
        server.kill()
        print("raw.py: the server did not end", file=sys.stderr)
        sys.exit(124)
    try:
        code = server.wait(TIMEOUT)
    except subprocess.TimeoutExpired:
        server.kill()
        code = 124
    sys.stdout.buffer.flush()
    sys.exit(code if code else int(broken))


main()
