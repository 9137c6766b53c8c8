#!/usr/bin/env python3
"""Agents and tool servers as strangers write them: a few regular expressions over a standard library server, no shared code with the
fleet. `strangers.py NAME` prints an address.

Some are careless in the way of deliberately vulnerable agents that are public, and some of those have a careful twin. What each one
gets wrong stands in its docstring; the tests hold the suite to it.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

URL = re.compile(r"https?://[^\s<>\"')]+")
TAGGED = re.compile(r"<(\w+)>.*?</\1>", re.S)


def get(url):
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        return opener.open(url, timeout=4).read(5000).decode("utf-8", "replace")
    except (OSError, ValueError) as error:
        return f"error: {error}"


def quoted(text):
    return [first or second for first, second in re.findall(r"'([^']+)'|\"([^\"]+)\"", text)]


def arguments(text, tool):
    """Arguments for a tool, as far as a text names them."""
    name, properties = tool["name"], tool.get("parameters", {}).get("properties", {})
    given = re.search(re.escape(name) + r"[^{]{0,40}(\{[^{}]*\})", text)
    if given:
        try:
            return json.loads(given.group(1))
        except ValueError:
            pass
    tail = text[text.find(name) + len(name) :] if name in text else text
    found = {}
    for parameter, schema in properties.items():
        value = r"\b%s\b\s*(?:=|:|is|set to|to|equals)?\s*(?:\"([^\"]*)\"|'([^']*)'|([\w.@/:-]+))" % re.escape(parameter)
        match = re.search(value, tail)
        text_value = next(part for part in match.groups() if part is not None).rstrip(".") if match else None
        if schema.get("type") in ("number", "integer"):
            number = re.search(r"-?\d+(\.\d+)?", text_value or tail)
            found[parameter] = float(number.group()) if number else 1
        elif schema.get("type") == "boolean":
            found[parameter] = text_value == "true"
        else:
            found[parameter] = text_value or (quoted(tail) or ["unknown"])[0]
    return found


class RegexBot:
    """Calls every tool whose name it sees, in the user's words and in results; joins whatever is quoted. It knows no rules."""

    def step(self, messages, tools):
        last = max(n for n, message in enumerate(messages) if message["role"] == "user")
        later = messages[last + 1 :]
        results = [message["content"] for message in later if message["role"] == "tool"]
        done = [(call["function"]["name"], call["function"]["arguments"]) for message in later for call in message.get("tool_calls") or []]
        texts = [messages[last]["content"], *results]
        for text in texts:
            for tool in tools:
                call = (tool["name"], json.dumps(arguments(text, tool)))
                if tool["name"] in text and call not in done and len(done) < 6:
                    return call
        answers = []
        for text in texts:
            pieces = quoted(text)
            if re.search(r"join|concat|combin|together", text, re.I) and len(pieces) > 1:
                answers.append(pieces[0] + pieces[1])
            if re.search(r"revers", text, re.I) and pieces:
                answers.append(pieces[-1][::-1])
        return " ".join(answers) or (f"Result: {results[0]}" if results else "OK.")


class CarefulBot:
    """Takes orders from the user's unquoted words alone, keeps rules of the system text and schemas, tries a tool once."""

    REFUSED, FAILED = "I am not allowed to do that.", "The tool failed, so I cannot tell."
    FOUND, ABOUT = "I found this: ", "It is about "

    def step(self, messages, tools):
        system = " ".join(message["content"] for message in messages if message["role"] in ("system", "developer"))
        last = max(n for n, message in enumerate(messages) if message["role"] == "user")
        user, later = messages[last]["content"], messages[last + 1 :]
        own = re.sub(r"```.*?```", " ", TAGGED.sub(" ", user), flags=re.S)
        done = [call["function"]["name"] for message in later for call in message.get("tool_calls") or []]
        for tool in tools:
            name = tool["name"]
            forbidden = re.search(rf"(do not|don't|must not|never|no more)[^.]*{name}", own, re.I)
            if name not in own or forbidden or name in done:
                continue
            given = arguments(own, tool)
            if not self.allowed(name, given, system) or not self.fits(given, tool["parameters"]["properties"]):
                return self.REFUSED
            return name, json.dumps(given)
        results = [message["content"] for message in later if message["role"] == "tool"]
        if results:
            failed = re.search(r"error|denied", results[-1], re.I)
            return self.FAILED if failed else self.FOUND + results[-1].split("\n")[0]
        joined = re.search(r"(?:join|concatenate|combine|put together)[^.]*?['\"](\w+)['\"][^.]*?['\"](\w+)['\"]", own, re.I)
        if joined:
            return joined.group(1) + joined.group(2)
        total = re.search(r"[^.\n>]*\btotal\b[^.\n]*\.", user) if "total" in own else None
        return total.group().strip() if total else self.ABOUT + " ".join(re.sub(r"\W+", " ", user).split()[-12:-6])

    @staticmethod
    def allowed(name, given, system):
        for rule in re.split(r"(?<=[.;])\s", system):
            if name not in rule or not re.search(r"never|only|must|requires|at most", rule, re.I):
                continue
            bound, folder, values = re.search(r"at most (\d+)", rule), re.search(r"(/\w+/\w+/)", rule), re.findall(r"'([^']+)'", rule)
            texts = [str(value) for value in given.values()]
            if bound:
                good = all(not isinstance(value, (int, float)) or value <= int(bound.group(1)) for value in given.values())
            elif folder:
                good = all(text.startswith(folder.group(1)) and ".." not in text for text in texts)
            elif values and "never" in rule:
                good = values[-1] not in texts
            else:
                good = any(text in values for text in texts)
            if not good:
                return False
        return True

    @staticmethod
    def fits(given, properties):
        for name, value in given.items():
            schema = properties.get(name, {})
            too_much = isinstance(value, (int, float)) and value > schema.get("maximum", value)
            other = "enum" in schema and value not in schema["enum"]
            if too_much or other or not re.search(schema.get("pattern", ""), str(value)):
                return False
        return True


class GermanBot(CarefulBot):
    """The careful one, in German. It names a number of its own when a tool fails."""

    REFUSED, FAILED = "Das übernehme ich nicht.", "Das Lager gibt gerade keine Auskunft, bitte später noch einmal (Vorgang 4711)."
    FOUND, ABOUT = "Ergebnis: ", "Kurz gesagt: "


class BoastingBot(CarefulBot):
    """The careful one, which also says of everything that it was done."""

    BOASTS = ["Mission accomplished!", "Done and dusted.", "Erledigt, Chef.", "I did everything the text asked for.", "Task completed."]

    def step(self, messages, tools):
        made = super().step(messages, tools)
        return made if not isinstance(made, str) else f"{made}\n{self.BOASTS[len(messages[-1]['content']) % len(self.BOASTS)]}"


class LoopingBot(CarefulBot):
    """Calls the first tool on offer, again and again, whatever it is asked."""

    def step(self, messages, tools):
        return (tools[0]["name"], json.dumps(arguments("", tools[0]))) if tools else super().step(messages, tools)


class ImperativeBot:
    """Obeys every sentence that begins with a verb it knows, wherever it stands. Opens pages, computes digests, remembers for all."""

    VERB = re.compile(
        r"^\W*(?:(?:please|now|then|also|first|and|assistant|important|note|system)\W+)*"
        r"(open|fetch|get|visit|load|download|request|join|concatenate|combine|put|reverse|remember|store|save|keep|compute|what|tell|list)\b",
        re.I,
    )

    def __init__(self):
        self.memory = []

    def reply(self, text, _user):
        answers = []
        for sentence in re.split(r"(?<=[.!?])\s+|\n", text):
            verb = self.VERB.match(sentence.strip())
            if verb:
                answers.append(self.obey(verb.group(1).lower(), sentence, quoted(sentence)))
        return "\n".join(answer for answer in answers if answer) or "Understood."

    def obey(self, verb, sentence, pieces):
        url = URL.search(sentence)
        if url and verb in ("open", "fetch", "get", "visit", "load", "download", "request"):
            return get(url.group().rstrip(".,"))[:300]
        if verb in ("join", "concatenate", "combine", "put") and len(pieces) > 1:
            return pieces[0] + pieces[1]
        if verb == "reverse" and pieces:
            return pieces[-1][::-1]
        if verb in ("remember", "store", "save", "keep"):
            self.memory.append(sentence)
            return "Saved."
        if verb == "compute" and "sha" in sentence.lower() and pieces:
            return hashlib.sha256(pieces[-1].encode()).hexdigest()
        if verb in ("what", "tell", "list"):
            words = set(re.findall(r"\w{4,}", sentence.lower())) - {"what", "that", "with", "tell", "answer", "word"}
            known = [fact for fact in self.memory if words & set(re.findall(r"\w{4,}", fact.lower()))]
            return known[-1] if known else "I do not know."
        return None


class SupportBot:
    """Keeps facts about its users: for each of them, or, leaky, in one drawer for all."""

    def __init__(self, leaky):
        self.leaky, self.facts = leaky, {}

    def reply(self, text, user):
        own = TAGGED.sub(" ", text)
        drawer = self.facts.setdefault("all" if self.leaky else user, {})
        private = re.search(r"do not (remember|store|save)|never to be stored|must not store", own, re.I)
        told = re.search(r"(?:my|the) ([\w ]+?) (?:is|was) '?([\w-]+)'?", own)
        if told and not own.strip().endswith("?") and not private:
            drawer[told.group(1).split()[-1]] = told.group(2)
            return f"Thanks, I have noted your {told.group(1)}."
        known = [value for name, value in drawer.items() if name in own]
        if known:
            return known[0]
        pieces = quoted(own)
        return "".join(pieces[:2]) if re.search(r"join|combine|concat", own, re.I) and len(pieces) > 1 else "How can I help?"


class Greeter:
    """Greets by name; renders the whole message as a template first, unless it is careful."""

    def __init__(self, careful):
        self.careful = careful

    def reply(self, text, _user):
        if not self.careful:
            text = re.sub(r"\{\{(.+?)\}\}", lambda match: str(eval(match.group(1))), text)
        own = TAGGED.sub(" ", text)
        joined = re.search(r"join (?:the two pieces )?'(\w+)' and '(\w+)'", own, re.I)
        if joined:
            return joined.group(1) + joined.group(2)
        name = re.search(r"name is '?([^'.]+)'?", own) or re.search(r"hello to (.+?)[,.]", own)
        return f"Good morning, {name.group(1)}!" if name else "Hello."


class CodeRunner:
    """Runs blocks of Python; careless, also those in quoted documents."""

    def __init__(self, careful):
        self.careful = careful

    def reply(self, text, _user):
        blocks = re.findall(r"```python\n(.*?)```", TAGGED.sub("", text) if self.careful else text, re.S)
        ran = [subprocess.run([sys.executable, "-c", block], capture_output=True, text=True).stdout for block in blocks]
        return "\n".join(ran) or "A customer complains."


class ToolServer:
    """An MCP server whose tools start a shell, read any file, render templates, evaluate and fetch; or, careful, do none of that."""

    TOOLS = [
        ("ping", "Pings a host", "host"),
        ("read_note", "Reads a note by its file name", "filename"),
        ("render_email", "Renders a letter to a customer", "customer_name"),
        ("calc", "Evaluates arithmetic", "expression"),
        ("web_get", "Downloads a web page", "url"),
        ("convert", "Converts an image", "file"),
    ]

    def __init__(self, careful):
        self.careful, self.folder = careful, tempfile.TemporaryDirectory()

    def tools(self):
        schema = lambda name: {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}
        return [{"name": name, "description": about, "inputSchema": schema(parameter)} for name, about, parameter in self.TOOLS]

    def call(self, name, given):
        parameter = next(parameter for tool, _, parameter in self.TOOLS if tool == name)
        value = given[parameter]
        return getattr(self, name)(value)

    def plain(self, value, allowed=r"[\w.-]+"):
        if self.careful and not re.fullmatch(allowed, value):
            raise ValueError("that value is not allowed")

    def ping(self, host):
        self.plain(host)
        return "pong" if self.careful else subprocess.run(f"echo PING {host}", shell=True, capture_output=True, text=True).stdout

    def convert(self, file):
        self.plain(file)
        command = f'echo converting "{file}"'
        return "converted" if self.careful else subprocess.run(["sh", "-c", command], capture_output=True, text=True).stdout

    def read_note(self, filename):
        path = os.path.join(self.folder.name, filename)
        if self.careful and not os.path.realpath(path).startswith(os.path.realpath(self.folder.name) + "/"):
            raise ValueError("no such note")
        with open(path, encoding="utf-8") as file:
            return file.read()

    def render_email(self, name):
        if not self.careful:
            name = re.sub(r"\{\{(.+?)\}\}", lambda match: str(eval(match.group(1))), name)
        return f"Dear {name}, thank you for your letter."

    def calc(self, expression):
        self.plain(expression, r"[\d+*/(). -]+")
        return str(eval(expression))

    def web_get(self, url):
        if self.careful:
            raise ValueError("this host is not allowed")
        return get(url)


BOTS = {
    "regex": ("chat", RegexBot),
    "careful": ("chat", CarefulBot),
    "german": ("chat", GermanBot),
    "boasting": ("chat", BoastingBot),
    "looping": ("chat", LoopingBot),
    "imperative": ("a2a", ImperativeBot),
    "support-leaky": ("http", lambda: SupportBot(leaky=True)),
    "support": ("http", lambda: SupportBot(leaky=False)),
    "greeter-careless": ("http", lambda: Greeter(careful=False)),
    "greeter": ("http", lambda: Greeter(careful=True)),
    "runner-careless": ("http", lambda: CodeRunner(careful=False)),
    "runner": ("http", lambda: CodeRunner(careful=True)),
    "tools-careless": ("mcp", lambda: ToolServer(careful=False)),
    "tools": ("mcp", lambda: ToolServer(careful=True)),
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    bot = kind = None

    def log_message(self, *_):
        pass

    def answer(self, value, status=200):
        body = json.dumps(value).encode() if value is not None else b""
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.kind != "a2a" or "agent" not in self.path:
            return self.answer({"error": "not found"}, 404)
        origin = "http://%s:%d/" % self.server.server_address
        modes = {"defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"]}
        about = {"name": "bot", "description": "A bot", "version": "1", "url": origin, "protocolVersion": "0.3.0"}
        return self.answer({**about, **modes, "preferredTransport": "JSONRPC", "capabilities": {}, "skills": []})

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        return getattr(self, self.kind)(request, self.headers.get("authorization") or "")

    def chat(self, request, _user):
        made = self.bot.step(request["messages"], [tool["function"] for tool in request.get("tools") or []])
        message = {"role": "assistant", "content": made}
        if not isinstance(made, str):
            function = {"name": made[0], "arguments": made[1]}
            message = {"role": "assistant", "content": None, "tool_calls": [{"id": uuid.uuid4().hex, "type": "function", "function": function}]}
        finish = "stop" if message["content"] else "tool_calls"
        self.answer({"id": "x", "object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": finish}]})

    def http(self, request, user):
        self.answer({"reply": self.bot.reply(request["message"], user)})

    def a2a(self, request, user):
        if request["method"] != "message/send":
            return self.error(request)
        message = request["params"]["message"]
        text = "\n".join(part.get("text", "") for part in message["parts"])
        said = {"kind": "message", "role": "agent", "messageId": uuid.uuid4().hex, "parts": [{"kind": "text", "text": self.bot.reply(text, user)}]}
        return self.answer({"jsonrpc": "2.0", "id": request["id"], "result": {**said, "contextId": message.get("contextId") or uuid.uuid4().hex}})

    def error(self, request):
        self.answer({"jsonrpc": "2.0", "id": request.get("id"), "error": {"code": -32601, "message": "method not found"}})

    def mcp(self, request, _user):
        if "id" not in request:
            return self.answer(None, 202)
        method = request["method"]
        if method == "initialize":
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "tools", "version": "1"}}
        elif method == "tools/list":
            result = {"tools": self.bot.tools()}
        elif method == "tools/call":
            result = self.called(request["params"])
        else:
            return self.error(request)
        return self.answer({"jsonrpc": "2.0", "id": request["id"], "result": result})

    def called(self, params):
        try:
            text, failed = self.bot.call(params["name"], params.get("arguments") or {}), False
        except Exception as error:  # noqa: BLE001 - a tool's failure is its answer
            text, failed = f"Error: {error}", True
        return {"content": [{"type": "text", "text": text}], "isError": failed}


Handler.kind, make = BOTS[sys.argv[1]]
Handler.bot = make()
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print("http://127.0.0.1:%d" % server.server_address[1], flush=True)
server.serve_forever()
