"""Runs a stdio server and writes down every line that it says, byte for byte: `tap.py LOG COMMAND…`."""

import subprocess
import sys
import threading

log = open(sys.argv[1], "wb", buffering=0)
server = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def forward():
    try:
        while chunk := sys.stdin.buffer.raw.read(1 << 16):
            server.stdin.write(chunk)
            server.stdin.flush()
        server.stdin.close()
    except BrokenPipeError:
        pass


threading.Thread(target=forward, daemon=True).start()
for line in server.stdout:
    log.write(line)
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
sys.exit(server.wait())
