#!/usr/bin/env python3
"""A stdio server with one tool whose answers were written down before: the nth call gets the nth line. Standard library only.

Each line of the file REPLAY names is {"result": …, "wait_ms"?: …}; a call waits for so long before it is answered.
"""

import json
import os
import sys
import time


def main():
    with open(os.environ["REPLAY"], encoding="utf-8") as file:
        answers = iter([json.loads(line) for line in file])
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method") != "tools/call":
            continue
        answer = next(answers)
        if "wait_ms" in answer:
            time.sleep(answer["wait_ms"] / 1000)
        said = {"jsonrpc": "2.0", "id": message["id"], "result": answer["result"]}
        sys.stdout.write(json.dumps(said, separators=(",", ":"), ensure_ascii=False) + "\n")
        sys.stdout.flush()


main()
