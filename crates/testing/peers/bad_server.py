#!/usr/bin/env python3
"""A stdio server that misbehaves on request: the name of the tool says how. Standard library only.

    crash            exits with code 3 during the call
    hang             never answers
    garbage          lines that are no JSON, and bytes that are no text, then the answer
    unknown_id       answers to ids that nobody asked, then the right one
    twice            the same answer two times
    huge             {bytes, id_first}: a text of so many bytes; the id at the end of the object, or at its beginning
    flood            {n}: so many notifications, then the answer
    batch            the answer and a notification as one array
    split            the answer in small pieces
    no_newline_exit  the answer without a line end, then exit
    duplicate_keys   the member `result` two times, the last one true
    stderr           writes to stderr, then answers
    error            a JSON-RPC error
    requests         asks the client for a ping and its roots first; answers when both were answered
    cancel_me        answers only once it was cancelled, with an error that nobody waits for
    spaces           an answer with spaces, escapes and odd numbers as no writer would write it
    no_result        neither result nor error
    null_id          an error with a null id, then the answer
    string_id        the answer under its id as a string (number) or number (string), then the right one
    not_object       a number, a string, null and an array as frames, then the answer
    blank            empty lines and a line ended by CR LF
    deep             {n}: an answer nested so deep
    echo             the arguments as structuredContent
    weather          {city}: as the other servers
"""

import json
import os
import sys
import threading

from_client = {}
changed = threading.Condition()
lock = threading.Lock()


def write(data, piece=1 << 20):
    with lock:
        view = memoryview(data)
        while view:
            view = view[os.write(1, view[:piece]) :]


def line(value):
    write(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode() + b"\n")


def weather(city):
    code = 7
    for byte in city.encode():
        code = (code * 31 + byte) % 65521
    return {
        "temperature": (code % 400) / 10 - 5,
        "humidity": 20 + code % 80,
        "conditions": ["sunny", "cloudy", "rain", "snow", "fog"][code % 5],
    }


WEATHER = {
    "type": "object",
    "properties": {"temperature": {"type": "number"}, "humidity": {"type": "number"}, "conditions": {"type": "string"}},
    "required": ["temperature", "humidity", "conditions"],
}
NAMES = [row.split()[0] for row in __doc__.splitlines() if row.startswith("    ") and row[4] != " "]


def tools():
    listed = [{"name": name, "inputSchema": {"type": "object"}} for name in NAMES]
    for tool in listed:
        if tool["name"] == "weather":
            tool.update(inputSchema={"type": "object", "properties": {"city": {"type": "string"}}}, outputSchema=WEATHER)
    return listed


def text(said, **more):
    return {"content": [{"type": "text", "text": said}], **more}


def answer(number, result):
    return {"jsonrpc": "2.0", "id": number, "result": result}


def note(n, method="notifications/message"):
    return {"jsonrpc": "2.0", "method": method, "params": {"level": "info", "data": f"line {n}"}}


def ask(number, method):
    """A request to the client; its answer comes by the main loop."""
    line({"jsonrpc": "2.0", "id": number, "method": method})
    with changed:
        changed.wait_for(lambda: number in from_client, 60)
        return from_client.pop(number, None)


def call(number, name, args):
    if name == "crash":
        os._exit(3)
    elif name == "hang":
        pass
    elif name == "garbage":
        write(b"Starting up...\n{not json}\n\xff\xfe\x00\x01\x80\n[1,2\n{\"jsonrpc\":\"2.0\"\n")
        line(answer(number, text("after garbage")))
    elif name == "unknown_id":
        line(answer(987654, text("nobody asked")))
        line(answer("nobody", text("nobody asked")))
        line({"jsonrpc": "2.0", "id": 987655, "error": {"code": -32000, "message": "nobody asked"}})
        line(answer(number, text("the right one")))
    elif name == "twice":
        line(answer(number, text("once")))
        line(answer(number, text("twice")))
    elif name == "huge":
        body = json.dumps(text("x" * int(args.get("bytes", 1 << 20))), separators=(",", ":")).encode()
        id_part = b'"id":' + json.dumps(number).encode()
        if args.get("id_first"):
            write(b'{"jsonrpc":"2.0",' + id_part + b',"result":' + body + b"}\n")
        else:
            write(b'{"jsonrpc":"2.0","result":' + body + b"," + id_part + b"}\n")
    elif name == "flood":
        for n in range(int(args.get("n", 1000))):
            line(note(n))
        line(answer(number, text("after the flood")))
    elif name == "batch":
        line([note(1), answer(number, text("in a batch"))])
    elif name == "split":
        data = json.dumps(answer(number, text("in pieces é 東京 😀")), ensure_ascii=False).encode() + b"\n"
        write(data, 3)
    elif name == "no_newline_exit":
        write(json.dumps(answer(number, text("no line end"))).encode())
        os._exit(0)
    elif name == "duplicate_keys":
        first, last = (json.dumps(text(said), separators=(",", ":")) for said in ("the first", "the last"))
        write(f'{{"jsonrpc":"2.0","id":{json.dumps(number)},"result":{first},"result":{last}}}\n'.encode())
    elif name == "stderr":
        os.write(2, b"a line on stderr\n\xff not text\n")
        line(answer(number, text("also on stderr")))
    elif name == "error":
        line({"jsonrpc": "2.0", "id": number, "error": {"code": -32050, "message": "it broke", "data": {"why": [1.0, 1e2]}}})
    elif name == "requests":
        # The same id as the call: the two directions number on their own.
        said = [ask(number, "ping"), ask("roots-1", "roots/list")]
        line(answer(number, text(json.dumps(said, sort_keys=True))))
    elif name == "cancel_me":
        with changed:
            changed.wait_for(lambda: ("cancelled", json.dumps(number)) in from_client, 60)
        line({"jsonrpc": "2.0", "id": number, "error": {"code": 0, "message": "Request cancelled"}})
    elif name == "spaces":
        start = f'  {{ "result" : {{ "structuredContent" : {{ "n" : 12345678901234567890 , "f" : 1.0 , "e" : 1E+2 , "z" : -0 }} ,'
        rest = f' "content" : [ {{ "type" : "text" , "text" : "\\u00e9\\/ \\ud83d\\ude00 é" }} ] }} , "id" : {json.dumps(number)} , "jsonrpc" : "2.0" }}\t\n'
        write((start + rest).encode())
    elif name == "no_result":
        line({"jsonrpc": "2.0", "id": number})
    elif name == "null_id":
        line({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}})
        line(answer(number, text("after a null id")))
    elif name == "string_id":
        other = str(number) if not isinstance(number, str) else int(number) if number.isdigit() else 0
        line(answer(other, text("the wrong type of id")))
        line(answer(number, text("the right type of id")))
    elif name == "not_object":
        write(b'7\n"text"\nnull\n[]\ntrue\n')
        line(answer(number, text("an object at last")))
    elif name == "blank":
        write(b"\n\n   \n" + json.dumps(answer(number, text("with CR LF"))).encode() + b"\r\n\n")
    elif name == "deep":
        n = int(args.get("n", 1000))
        write(f'{{"jsonrpc":"2.0","id":{json.dumps(number)},"result":{{"content":[],"structuredContent":{{"deep":{"[" * n}{"]" * n}}}}}}}\n'.encode())
    elif name == "echo":
        line(answer(number, text(json.dumps(args, ensure_ascii=False), structuredContent=args)))
    elif name == "weather":
        said = weather(str(args.get("city", "")))
        line(answer(number, text(json.dumps(said), structuredContent=said)))
    else:
        line({"jsonrpc": "2.0", "id": number, "error": {"code": -32602, "message": f"Unknown tool: {name}"}})


def handle(frame):
    if not isinstance(frame, dict):
        return line({"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "Invalid Request"}})
    method, number, params = frame.get("method"), frame.get("id"), frame.get("params") or {}
    if method is None:
        with changed:
            from_client[number] = frame.get("result", frame.get("error"))
            changed.notify_all()
    elif method == "notifications/cancelled":
        with changed:
            from_client[("cancelled", json.dumps(params.get("requestId")))] = True
            changed.notify_all()
    elif "id" not in frame:
        pass
    elif method == "initialize":
        line(
            answer(
                number,
                {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}, "logging": {}},
                    "serverInfo": {"name": "bad-server", "version": "1.0.0"},
                },
            )
        )
    elif method == "ping":
        line(answer(number, {}))
    elif method == "tools/list":
        line(answer(number, {"tools": tools()}))
    elif method == "tools/call":
        name, args = params.get("name"), params.get("arguments") or {}
        if name in ("hang", "requests", "cancel_me", "split"):
            threading.Thread(target=call, args=(number, name, args), daemon=True).start()
        else:
            call(number, name, args)
    else:
        line({"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": f"Method not found: {method}"}})


for raw in sys.stdin.buffer:
    if not raw.strip():
        continue
    try:
        said = json.loads(raw)
    except ValueError:
        line({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}})
        continue
    handle(said)
