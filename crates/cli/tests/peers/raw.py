#!/usr/bin/env python3
"""Speaks lines of JSON to a stdio server and writes every line that comes back, byte for byte.

    raw.py [--pipeline N] [--timeout SECONDS] [--linger SECONDS] [--keep-open] IN.jsonl -- COMMAND ARGS…

Each line of IN is sent as it is. After a request its answer is waited for before the next line, with --pipeline N for as long
as N are unanswered. Lines that are no requests (notifications, broken ones) are not waited for. `#sleep MS` waits; `#eof`
closes the server's input at once. At the end the input is closed and everything up to the end of the output is written; with
--linger, for so long at most after the last answer; with --keep-open the input stays open until then. The exit code is the
server's; 124 when an answer or the end did not come within --timeout (20 s), and 1 when the output ended before an answer.
"""

import json
import subprocess
import sys
import threading
import time


def identity(value):
    """Ids as JSON-RPC tells them apart."""
    return json.dumps(value)


def main():
    args = sys.argv[1:]
    pipeline, timeout, linger, keep_open = 1, 20.0, None, False
    while args and args[0].startswith("--"):
        flag = args.pop(0)
        if flag == "--pipeline":
            pipeline = int(args.pop(0))
        elif flag == "--timeout":
            timeout = float(args.pop(0))
        elif flag == "--linger":
            linger = float(args.pop(0))
        elif flag == "--keep-open":
            keep_open = True
        else:
            sys.exit(f"raw.py: unknown flag {flag}")
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

    def wait(fewer_than):
        with changed:
            done = changed.wait_for(lambda: len(waiting) < fewer_than or ended, timeout)
            if not done:
                server.kill()
                print(f"raw.py: no answer to {', '.join(waiting)}", file=sys.stderr)
                sys.stdout.buffer.flush()
                sys.exit(124)
            return not ended or len(waiting) < fewer_than

    broken = False
    for line in lines:
        if line.startswith(b"#sleep "):
            time.sleep(float(line.split()[1]) / 1000)
            continue
        if line.startswith(b"#eof"):
            server.stdin.close()
            break
        try:
            said = json.loads(line)
        except ValueError:
            said = None
        requests = [f for f in (said if isinstance(said, list) else [said]) if isinstance(f, dict) and "method" in f and "id" in f]
        if requests and not wait(pipeline):
            broken = True
            break
        with changed:
            for frame in requests:
                waiting[identity(frame["id"])] = True
        try:
            server.stdin.write(line + b"\n")
            server.stdin.flush()
        except BrokenPipeError:
            broken = True
            break
        if requests and pipeline == 1 and not wait(1):
            broken = True
            break
    if not server.stdin.closed and not broken:
        broken = not wait(1)
    if keep_open:
        time.sleep(linger or 0)
    if not server.stdin.closed:
        try:
            server.stdin.close()
        except BrokenPipeError:
            pass
    reader.join(linger if linger is not None else timeout)
    if reader.is_alive():
        server.kill()
        if linger is None:
            print("raw.py: the server did not end", file=sys.stderr)
            sys.exit(124)
        sys.exit(0)
    try:
        code = server.wait(timeout)
    except subprocess.TimeoutExpired:
        server.kill()
        code = 124
    sys.stdout.buffer.flush()
    sys.exit(code if code else int(broken))


main()
