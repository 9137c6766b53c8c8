"""A tool that breaks: in mode enforce the model gets an explanation in place of a result that is not believed."""

import tempfile

from credence_trust import Guard, ResultWithheld, ToolProfile

guard = Guard(mode="enforce", agent="clerk", name="enforce", state=tempfile.mkdtemp())
real_orders = ToolProfile("get_order", expected_latency_ms=(0, 60_000), required_fields=["id", "status", "total"], has_network_io=False)
backend = {"healthy": True}


@guard.tool(profile=real_orders)
def get_order(id: int) -> dict:
    if backend["healthy"]:
        return {"id": id, "status": "paid", "total": 12.5}
    return {"mock": "TODO"}


print(get_order(1))
backend["healthy"] = False
try:
    get_order(2)
except ResultWithheld as withheld:
    print(withheld)
    assert withheld.executed and withheld.verdict.verdict == "block"
else:
    raise AssertionError("a made-up order reached the model")
