#!/usr/bin/env python3
"""Asks a host of programs (opportune host), in 30 lines: for shells and panels in other languages.

host.py apps                         what runs
host.py front make                   also suspend, resume, terminate
host.py keep make seconds=600 reason="a download"
host.py notify mail kind=letter      a message, to a program that cooperates
"""
import json
import os
import socket
import sys


def ask(request):
    """Sends one line and returns the answer to it; what the host refuses ends the program with its words."""
    path = os.environ.get("OPPORTUNE_SOCKET") or (
        "/run" if os.geteuid() == 0 else os.environ["XDG_RUNTIME_DIR"]) + "/opportune/host.sock"
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(path)
        connection.sendall(json.dumps(request).encode() + b"\n")
        answer = json.loads(connection.makefile().readline())
    return answer if answer["ok"] else sys.exit(answer["error"])


if len(sys.argv) < 2:
    sys.exit(__doc__)
request = {"request": sys.argv[1], **dict(word.split("=", 1) for word in sys.argv[3:])}
if len(sys.argv) > 2:
    request["name"] = sys.argv[2]
if "seconds" in request:
    request["seconds"] = float(request["seconds"])
for app in ask(request).get("apps", []):
    print(f"{app['id']}: {app['state']}, {len(app['pids'])} processes, {app['cpu_s']:.1f} s of CPU")
