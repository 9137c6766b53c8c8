"""Several conversations at once: async tools, a session each, and a stream."""

import asyncio
import tempfile

from credence_trust import Guard

guard = Guard(mode="observe", agent="support", name="concurrent", state=tempfile.mkdtemp())


@guard.tool
async def search(query: str) -> list:
    await asyncio.sleep(0.01)
    return [{"title": f"about {query}", "score": 0.9}]


@guard.tool
async def stream(lines: int):
    for n in range(lines):
        yield f"line {n}"


async def conversation(n: int) -> None:
    with guard.session(f"conversation-{n}"):
        await search(f"question {n}")
        assert [line async for line in stream(3)] == ["line 0", "line 1", "line 2"]


async def main() -> None:
    await asyncio.gather(*(conversation(n) for n in range(5)))


asyncio.run(main())
print(guard.calls, "calls recorded in", guard.place)
assert guard.calls == 10
