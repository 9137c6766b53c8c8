"""What the Python peers share: the data the servers answer with, the steps a client takes."""

import asyncio
import json
import os
import socket
import sys
import time

# How long to look for something, in seconds: far longer than it takes.
PATIENCE = 30

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
BIG_NUMBER = '{"n":12345678901234567890,"f":1.0,"e":1e2}'


def weather(city):
    code = 7
    for byte in city.encode():
        code = (code * 31 + byte) % 65521
    return {
        "temperature": (code % 400) / 10 - 5,
        "humidity": float(20 + code % 80),
        "conditions": ["sunny", "cloudy", "rain", "snow", "fog"][code % 5],
    }


# Arguments of a `slow` that takes longer than anyone waits: it ends because it is cancelled.
ENDLESS = {"ms": 100_000, "steps": 2000}

# Cancelled calls of `slow`, over all sessions; the tool `cancelled` waits for one, says how many, and starts again at 0.
cancellations = 0


async def until(holds, seconds=PATIENCE):
    """Looks until `holds()`; gives whether it did in time."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        await asyncio.sleep(0.01)
    return True


async def slow(ms, steps, progress):
    global cancellations
    try:
        for step in range(1, steps + 1):
            await asyncio.sleep(ms / steps / 1000)
            await progress(step, steps, f"step {step} of {steps}")
    except asyncio.CancelledError:
        cancellations += 1
        raise
    return f"done after {steps} steps"


async def cancelled():
    global cancellations
    await until(lambda: cancellations)
    said, cancellations = f"cancelled: {cancellations}", 0
    return said


def options():
    """`--http PORT`, `--json` (answers as JSON instead of an event stream), `--stateless`."""
    args = sys.argv[1:]
    port = int(args[args.index("--http") + 1]) if "--http" in args else None
    return port, "--json" in args, "--stateless" in args


def serve(app, port):
    import uvicorn

    sock = socket.create_server(("127.0.0.1", port))
    print(f"listening on {sock.getsockname()[1]}", file=sys.stderr, flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)).run(sockets=[sock])


def client_arguments():
    """`[FLAGS] (--stdio COMMAND ARGS… | --url URL)`: the flags, the command, the address."""
    args, flags = sys.argv[1:], []
    while args:
        arg = args.pop(0)
        if arg == "--stdio" and args:
            return flags, args, None
        if arg == "--url" and args:
            return flags, None, args[0]
        flags.append(arg)
    print("usage: client (--stdio COMMAND ARGS… | --url URL)", file=sys.stderr)
    sys.exit(2)


class Tap:
    """A stream of frames that shows each of them to someone before it is read."""

    def __init__(self, stream, seen):
        self.stream, self.seen = stream, seen

    def __getattr__(self, name):
        return getattr(self.stream, name)

    async def __aenter__(self):
        await self.stream.__aenter__()
        return self

    async def __aexit__(self, *how):
        return await self.stream.__aexit__(*how)

    def __aiter__(self):
        return self

    async def __anext__(self):
        item = await self.stream.__anext__()
        self.seen(item)
        return item

    async def receive(self):
        item = await self.stream.receive()
        self.seen(item)
        return item


def plain(value):
    """Any result as JSON, without what the guard added."""
    if hasattr(value, "model_dump"):
        value = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        value = dict(value)
        if isinstance(value.get("_meta"), dict):
            value["_meta"] = {k: v for k, v in value["_meta"].items() if k not in ("credence/guard", "progressToken")}
            if not value["_meta"]:
                del value["_meta"]
    return value


class Steps:
    """Everything that a client receives, in steps."""

    def __init__(self):
        self.steps, self.received, self.guard, self.progress = [], {}, [], False

    def note(self, kind, value):
        self.received.setdefault(kind, []).append(plain(value))

    def seen(self, item):
        """Every frame that arrives. Progress is taken here: an SDK may drop what comes together with the answer."""
        message = getattr(item, "message", None)
        frame = plain(getattr(message, "root", message)) if message is not None else {}
        result = getattr(getattr(message, "root", message), "result", None)
        meta = result.get("_meta") if isinstance(result, dict) else None
        if isinstance(meta, dict) and "credence/guard" in meta:
            self.guard.append(meta["credence/guard"])
        if self.progress and isinstance(frame, dict) and frame.get("method") == "notifications/progress":
            self.note("progress", {k: v for k, v in frame["params"].items() if k != "progressToken"})

    async def run(self, step, work):
        self.received, self.guard, self.progress = {}, [], False
        entry = {"step": step}
        try:
            entry.update(ok=True, value=plain(await work()))
        except Exception as error:
            entry.update(ok=False, error=failure(error))
        except BaseException as error:
            # The connection went away under the step.
            self.steps.append({**entry, "ok": False, "error": failure(error), "guard": self.guard})
            raise
        # What came before the answer is handled by then: a message passes a few tasks, each of which needs a turn.
        for _ in range(20):
            await asyncio.sleep(0)
        if self.received:
            entry["received"] = self.received
        entry["guard"] = self.guard
        self.steps.append(entry)
        return entry

    def print(self):
        print(json.dumps(self.steps, indent=1, ensure_ascii=False), flush=True)


def failure(error):
    while getattr(error, "exceptions", None):
        error = error.exceptions[0]
    said = {"message": str(error)}
    data = getattr(error, "error", None)
    if data is not None and hasattr(data, "code"):
        said = plain(data)
    return said


async def deadline(steps, work, seconds=240):
    """Runs a client to its end; prints; exits."""
    code = 0
    try:
        await asyncio.wait_for(work(), seconds)
    except BaseException as error:
        print(f"client: {type(error).__name__}: {failure(error)['message'][:300]}", file=sys.stderr)
        code = 3
    if not steps.steps or not steps.steps[0]["ok"]:
        code = code or 1
    steps.print()
    sys.stdout.flush()
    os._exit(code)


CHATTY = ("progress", "cancel", "cancelled", "log", "ask", "think", "announce")


async def own(steps, sdk, flags):
    """The sequence against our own servers. `sdk` hides what differs between the two SDKs. With `--plain`, without the steps
    that need messages from the server during a call (a server with `--json` has none)."""
    call = sdk.call

    async def run(step, work):
        if "--plain" not in flags or step not in CHATTY:
            await steps.run(step, work)

    await run("list tools", sdk.list_tools)
    await run("list resources", sdk.list_resources)
    await run("list templates", sdk.list_templates)
    await run("list prompts", sdk.list_prompts)
    await run("read resource", lambda: sdk.read("peer://note"))
    await run("read template", lambda: sdk.read("peer://city/Oslo"))
    await run("read unknown", lambda: sdk.read("peer://nothing"))
    await run("get prompt", lambda: sdk.prompt("greet", {"name": "Ada"}))
    await run("log level", lambda: sdk.log_level("info"))
    await run("ping", sdk.ping)
    for city in ["London", "Paris", "Zürich", "東京"]:
        await run(f"weather {city}", lambda: call("get_weather", {"city": city}))
    await run("echo", lambda: call("echo", {"text": 'hello \u0000 \u2028 "quoted" \\ / \U0001f600'}))
    await run("echo with meta", lambda: call("echo", {"text": "traced"}, meta={"example.org/trace": "abc"}))

    async def nothing(*_):
        pass

    async def progress():
        steps.progress = True
        return await call("slow", {"ms": 60, "steps": 3}, progress_callback=nothing)

    await run("progress", progress)
    await run("without progress", lambda: call("slow", {"ms": 30, "steps": 2}))
    await run("cancel", sdk.cancel)
    await run("cancelled", lambda: call("cancelled"))
    await run("fail", lambda: call("fail"))
    await run("big number", lambda: call("big_number"))
    await run("image", lambda: call("image"))

    async def log():
        result = await call("log", {"text": "a line"})
        await until(lambda: "log" in steps.received)
        return result

    await run("log", log)
    await run("ask", lambda: call("ask"))
    await run("think", lambda: call("think"))
    await run("announce", sdk.announce)

    async def parallel():
        results = await asyncio.gather(*(call("get_weather", {"city": city}) for city in ["Rome", "Cairo", "Lima", "Quito"]))
        return [plain(result) for result in results]

    await run("parallel", parallel)
    await run("unknown tool", lambda: call("no_such_tool"))
    await run("bad arguments", lambda: call("get_weather", {"city": 7}))
    await run("unknown method", sdk.unknown)
