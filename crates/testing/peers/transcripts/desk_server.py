#!/usr/bin/env python3
"""An MCP server over stdio with made-up tools of a help desk, whose answers never change. Standard library only.

The transcripts of testdata/transcripts tell calls of these tools. Each answer has a form of its own: JSON in a text, structured content,
an image, an error, two texts.
"""

import json
import sys

# A PNG of one pixel.
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def text(words):
    return {"type": "text", "text": words}


def find_ticket(arguments):
    number = arguments["number"]
    written = '{"number": %d, "title": "kestrel lamp flickers", "hours": 2.50, "tags": ["light", "shop"]}' % number
    return {"content": [text(written)]}


def price(arguments):
    total = {"item": arguments["item"], "total": 43.25 * arguments["amount"], "stock": {"depot": "heron yard", "left": 12}}
    return {"content": [text(json.dumps(total))], "structuredContent": total}


def draw(arguments):
    return {"content": [text("osprey chart of " + arguments["of"]), {"type": "image", "data": PIXEL, "mimeType": "image/png"}]}


def close_ticket(arguments):
    return {"content": [text("ticket %d is not open: egret rule" % arguments["number"])], "isError": True}


def list_notes(_):
    return {"content": [text("merlin called at noon"), text("the bulb was changed")]}


def tool(name, description, **properties):
    schema = {"type": "object", "properties": {key: {"type": kind} for key, kind in properties.items()}, "required": list(properties)}
    return {"name": name, "description": description, "inputSchema": schema}


TOOLS = [
    tool("find_ticket", "Finds a ticket by its number", number="integer"),
    tool("price", "The price of some of an item", item="string", amount="integer"),
    tool("draw", "Draws a chart", of="string"),
    tool("close_ticket", "Closes a ticket", number="integer"),
    tool("list_notes", "Lists the notes of a day", day="string"),
]
ANSWERS = {"find_ticket": find_ticket, "price": price, "draw": draw, "close_ticket": close_ticket, "list_notes": list_notes}


def answer(method, params):
    if method == "initialize":
        info = {"name": "desk", "version": "1.0.0"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        return ANSWERS[params["name"]](params.get("arguments") or {})
    return {} if method == "ping" else None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = answer(message["method"], message.get("params") or {})
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    if result is None:
        reply["error"] = {"code": -32601, "message": "no such method"}
    else:
        reply["result"] = result
    print(json.dumps(reply), flush=True)
