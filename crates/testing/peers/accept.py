#!/usr/bin/env python3
"""Runs a command for each connection to a Unix socket, as systemd does for `Accept=yes`. Standard library only.

`accept.py SOCKET OWNER USER COMMAND…`: the socket belongs to the user id OWNER, who alone may connect; COMMAND runs as the user id USER
with the connection as its standard input and output. Needs root. Prints `listening` on standard error.
"""

import os
import socket
import subprocess
import sys

path, owner, user, command = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
os.chown(path, owner, owner)
os.chmod(path, 0o600)
listener.listen()
print("listening", file=sys.stderr, flush=True)
while True:
    connection, _ = listener.accept()
    become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--"]
    subprocess.Popen(become + command, stdin=connection, stdout=connection)
    connection.close()
