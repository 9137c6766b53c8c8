"""An agent without a framework: a loop, two tools, and a check of the transcript before the answer goes out."""

import json
import tempfile

from credence_trust import Guard

guard = Guard(mode="flag", agent="travel-desk", name="plain-loop", state=tempfile.mkdtemp())


@guard.tool
def get_weather(city: str) -> dict:
    return {"city": city, "temperature": 18, "wind": "NW"}


@guard.tool
def book_table(restaurant: str, people: int) -> str:
    return f"booked {restaurant} for {people}"


TOOLS = {"get_weather": get_weather, "book_table": book_table}
SCRIPT = [("get_weather", {"city": "Lisbon"}), ("book_table", {"restaurant": "Ramiro", "people": 2})]

messages = [{"role": "user", "content": "A table outside, if the weather is fine"}]
with guard.session("evening"):
    for number, (tool, arguments) in enumerate(SCRIPT):
        call = {"id": f"call_{number}", "type": "function", "function": {"name": tool, "arguments": json.dumps(arguments)}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(TOOLS[tool](**arguments))})
messages.append({"role": "assistant", "content": "18 degrees: the table at Ramiro is booked."})

report = guard.check(messages)
print(report)
assert report, "every claimed result is one that a tool gave"
