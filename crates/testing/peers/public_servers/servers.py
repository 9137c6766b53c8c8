"""The public servers and what is asked of each: `SERVERS` gives a command and a generator of calls for every one.

A generator gets a random number generator, which a seed determines, and the folder that the server may use; it yields calls without end. The
calls are those of an agent at work: repeated ones, changes of files, some that fail.
"""

import random
import subprocess
from dataclasses import dataclass, field
from typing import Callable

WORDS = """amber basin cedar delta ember fjord grove harbor island juniper kettle lantern meadow nectar orchard pebble quarry river
saddle timber umbra valley willow yarrow zephyr anchor bridge copper drift engine fabric glacier hammer ivory jacket""".split()
ZONES = "Europe/Oslo America/New_York Asia/Tokyo Europe/London Australia/Sydney America/Sao_Paulo Asia/Kolkata Africa/Nairobi".split()


def words(rng, least=2, most=8):
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(least, most)))


def sentences(rng, count=3):
    return " ".join(words(rng, 4, 10).capitalize() + "." for _ in range(count))


def number(rng):
    return rng.choice([rng.randint(-50, 500), round(rng.uniform(-1000, 1000), 2), rng.randint(1, 9)])


def clock(rng):
    return f"{rng.randint(0, 23):02}:{rng.randint(0, 59):02}"


def moment(rng):
    return f"2026-{rng.randint(1, 12):02}-{rng.randint(1, 28):02} {clock(rng)}:00"


def everything(rng, _):
    while True:
        yield rng.choice([
            ("echo", {"message": words(rng)}),
            ("get-sum", {"a": number(rng), "b": number(rng)}),
            ("get-structured-content", {"location": rng.choice(["New York", "Chicago", "Los Angeles"])}),
            ("get-annotated-message", {"messageType": rng.choice(["error", "success", "debug"]), "includeImage": rng.random() < 0.3}),
            ("get-tiny-image", {}),
            ("get-resource-links", {"count": rng.randint(1, 6)}),
            ("get-resource-reference", {"resourceType": rng.choice(["Text", "Blob"]), "resourceId": rng.randint(1, 20)}),
            ("gzip-file-as-resource", {"name": rng.choice(WORDS) + ".gz", "data": "data:text/plain," + rng.choice(WORDS), "outputType": "resource"}),
        ])


def filesystem(rng, folder):
    known = []
    while True:
        path = f"{folder}/{rng.choice(WORDS)}.txt"
        if len(known) < 3 or rng.random() < 0.2:
            text = "\n".join(words(rng) for _ in range(rng.randint(1, 12))) + "\n"
            known.append(path)
            yield "write_file", {"path": path, "content": text}
            continue
        path = rng.choice(known)
        yield rng.choice([
            ("read_text_file", {"path": path}),
            ("read_text_file", {"path": path, "head": rng.randint(1, 4)}),
            ("read_multiple_files", {"paths": [rng.choice(known) for _ in range(rng.randint(1, 3))]}),
            ("list_directory", {"path": folder}),
            ("list_directory_with_sizes", {"path": folder, "sortBy": rng.choice(["name", "size"])}),
            ("directory_tree", {"path": folder}),
            ("search_files", {"path": folder, "pattern": f"**/{rng.choice('abcdefgh')}*"}),
            ("get_file_info", {"path": path}),
            ("list_allowed_directories", {}),
            ("read_text_file", {"path": f"{folder}/missing-{rng.choice(WORDS)}.txt"}),
        ])


def memory(rng, _):
    names = []
    while True:
        if len(names) < 4 or rng.random() < 0.12:
            name = f"{rng.choice(WORDS)}-{rng.randint(1, 99)}"
            names.append(name)
            entity = {"name": name, "entityType": rng.choice(["person", "place", "project"]), "observations": [words(rng)]}
            yield "create_entities", {"entities": [entity]}
            continue
        one, other = rng.choice(names), rng.choice(names)
        yield rng.choice([
            ("create_relations", {"relations": [{"from": one, "to": other, "relationType": rng.choice(["knows", "owns", "uses"])}]}),
            ("add_observations", {"observations": [{"entityName": one, "contents": [words(rng)]}]}),
            ("search_nodes", {"query": rng.choice(WORDS)}),
            ("open_nodes", {"names": [one, other]}),
            ("open_nodes", {"names": [one]}),
            ("read_graph", {}),
        ])


def sequential_thinking(rng, _):
    while True:
        total = rng.randint(3, 9)
        for at in range(1, total + 1):
            thought = {"thought": sentences(rng, 2), "thoughtNumber": at, "totalThoughts": total, "nextThoughtNeeded": at < total}
            if at > 2 and rng.random() < 0.15:
                thought |= {"isRevision": True, "revisesThought": at - 1}
            if at > 2 and rng.random() < 0.1:
                thought |= {"branchFromThought": at - 1, "branchId": rng.choice(WORDS)}
            yield "sequentialthinking", thought


def calculator_npm(rng, _):
    while True:
        operation = rng.choice(["add", "sub", "mul", "div", "mod", "sqrt"])
        if operation == "sqrt":
            yield operation, {"a": rng.randint(0, 10_000)}
        else:
            yield operation, {"a": number(rng), "b": rng.choice([number(rng) or 1, rng.randint(1, 9)])}


def time_npm(rng, _):
    while True:
        yield rng.choice([
            ("current_time", {"format": rng.choice(["YYYY-MM-DD HH:mm:ss", "YYYY-MM-DD", "h:mm A"]), "timezone": rng.choice(ZONES)}),
            ("relative_time", {"time": moment(rng)}),
            ("days_in_month", {"date": moment(rng)[:10]}),
            ("get_timestamp", {"time": moment(rng)}),
            ("convert_time", {"sourceTimezone": rng.choice(ZONES), "targetTimezone": rng.choice(ZONES), "time": moment(rng)}),
            ("get_week_year", {"date": moment(rng)[:10]}),
        ])


def think(rng, _):
    while True:
        yield "think", {"thought": sentences(rng, rng.randint(1, 6))}


def filesystem_npm(rng, _):
    known = []
    while True:
        if len(known) < 3 or rng.random() < 0.2:
            known.append(f"{rng.choice(WORDS)}/{rng.choice(WORDS)}.md")
            text = "\n".join(words(rng) for _ in range(rng.randint(1, 12))) + "\n"
            yield "write_content", {"items": [{"path": known[-1], "content": text}]}
            continue
        path = rng.choice(known)
        yield rng.choice([
            ("read_content", {"paths": [path]}),
            ("read_content", {"paths": [path, rng.choice(known)]}),
            ("read_content", {"paths": [f"missing-{rng.choice(WORDS)}.md"]}),
            ("list_files", {"path": ".", "recursive": True}),
            ("list_files", {"path": path.split("/")[0], "include_stats": True}),
            ("stat_items", {"paths": [path]}),
            ("search_files", {"path": ".", "regex": rng.choice(WORDS), "file_pattern": "*.md"}),
            ("create_directories", {"paths": [f"{rng.choice(WORDS)}/{rng.choice(WORDS)}"]}),
            ("replace_content", {"paths": [path], "operations": [{"search": rng.choice(WORDS), "replace": rng.choice(WORDS)}]}),
        ])


def memory_bank(rng, _):
    known = []
    while True:
        project, name = rng.choice(["alpha", "beta", "gamma"]), f"{rng.choice(WORDS)}.md"
        if len(known) < 3 or rng.random() < 0.2:
            known.append((project, name))
            yield "memory_bank_write", {"projectName": project, "fileName": name, "content": f"# {words(rng)}\n\n{sentences(rng)}\n"}
            continue
        seen_project, seen = rng.choice(known)
        yield rng.choice([
            ("list_projects", {}),
            ("list_project_files", {"projectName": seen_project}),
            ("memory_bank_read", {"projectName": seen_project, "fileName": seen}),
            ("memory_bank_read", {"projectName": seen_project, "fileName": seen}),
            ("memory_bank_update", {"projectName": seen_project, "fileName": seen, "content": f"# {words(rng)}\n\n{sentences(rng)}\n"}),
            ("memory_bank_read", {"projectName": seen_project, "fileName": "missing.md"}),
        ])


def commands(rng, folder):
    while True:
        yield "run_command", {"workdir": folder, "command": rng.choice([
            f"echo {words(rng)}",
            f"printf '%s\\n' {words(rng, 3, 9)} | sort",
            f"expr {rng.randint(1, 999)} + {rng.randint(1, 999)}",
            f"seq 1 {rng.randint(2, 30)}",
            f"echo {words(rng)} >> {rng.choice(WORDS)}.log",
            "ls",
            "wc -l *",
            f"cat {rng.choice(WORDS)}.log",
            "uname -s",
            "date +%Y",
        ])}


def task_manager(rng, _):
    requests, tasks = 0, 0
    while True:
        requests += 1
        count = rng.randint(2, 4)
        plan = [{"title": words(rng, 2, 4), "description": sentences(rng, 1)} for _ in range(count)]
        yield "request_planning", {"originalRequest": sentences(rng, 1), "tasks": plan}
        request = f"req-{requests}"
        for _ in range(count):
            tasks += 1
            task = f"task-{tasks}"
            yield "get_next_task", {"requestId": request}
            if rng.random() < 0.4:
                yield "open_task_details", {"taskId": task}
            yield "mark_task_done", {"requestId": request, "taskId": task, "completedDetails": words(rng)}
            yield "approve_task_completion", {"requestId": request, "taskId": task}
            if rng.random() < 0.2:
                yield "list_requests", {}
        yield "get_next_task", {"requestId": request}
        yield "approve_request_completion", {"requestId": request}


def time_pypi(rng, _):
    while True:
        yield rng.choice([
            ("get_current_time", {"timezone": rng.choice(ZONES)}),
            ("convert_time", {"source_timezone": rng.choice(ZONES), "time": clock(rng), "target_timezone": rng.choice(ZONES)}),
            ("convert_time", {"source_timezone": rng.choice(ZONES), "time": clock(rng), "target_timezone": rng.choice(ZONES)}),
            ("get_current_time", {"timezone": rng.choice(ZONES)}),
            ("get_current_time", {"timezone": "Europe/" + rng.choice(["Oslo", "Paris", "Atlantis"])}),
        ])


def git(rng, folder):
    """Files that differ from the last commit are there from the beginning; each commit takes some of them."""
    branches = 0
    while True:
        branches += 1
        files = [f"{rng.choice(WORDS)}.txt" for _ in range(2)]
        choices = [
            ("git_status", {}),
            ("git_log", {"max_count": rng.randint(1, 8)}),
            ("git_diff_unstaged", {}),
            ("git_diff_staged", {}),
            ("git_diff", {"target": f"HEAD~{rng.randint(1, 3)}"}),
            ("git_show", {"revision": f"HEAD~{rng.randint(0, 4)}"}),
            ("git_branch", {"branch_type": "local"}),
            ("git_add", {"files": files}),
            ("git_commit", {"message": words(rng)}),
            ("git_reset", {}),
            ("git_create_branch", {"branch_name": f"{rng.choice(WORDS)}-{branches}"}),
            ("git_show", {"revision": "no-such-revision"}),
        ]
        name, arguments = rng.choices(choices, weights=[6, 4, 3, 3, 3, 5, 2, 4, 2, 1, 1, 1])[0]
        yield name, {"repo_path": folder} | arguments


def fetch(rng, folder):
    address = (folder.parent / "address").read_text()
    while True:
        url = address + rng.choice([f"/page/{rng.choice(WORDS)}", f"/page/{rng.choice(WORDS)}", f"/data/{rng.choice(WORDS)}.json", "/missing"])
        arguments = {"url": url}
        # Simplifying a page starts another process, which takes half a second.
        if rng.random() < 0.9:
            arguments |= {"raw": True}
        if rng.random() < 0.3:
            arguments |= {"max_length": rng.choice([200, 500, 1000])}
        yield "fetch", arguments


def calculator_pypi(rng, _):
    while True:
        a, b, c = (rng.randint(1, 200) for _ in range(3))
        yield "calculate", {"expression": rng.choice([
            f"{a} + {b}", f"{a} * {b} - {c}", f"({a} + {b}) / {c}", f"sqrt({a})", f"{a % 12} ** {b % 5}", f"sin({a / 100})", f"{a} % {b}", f"{a} / 0",
        ])}


def random_numbers(rng, _):
    while True:
        low = rng.randint(-50, 50)
        items = [rng.choice(WORDS) for _ in range(rng.randint(3, 8))]
        yield rng.choice([
            ("random_int", {"low": low, "high": low + rng.randint(1, 100)}),
            ("random_float", {"low": 0.0, "high": rng.choice([1.0, 10.0])}),
            ("random_choices", {"population": items, "k": rng.randint(1, 4)}),
            ("random_shuffle", {"items": items}),
            ("random_sample", {"population": items, "k": rng.randint(1, 3)}),
            ("secure_token_hex", {"nbytes": rng.choice([8, 16, 32])}),
            ("secure_random_int", {"upper_bound": rng.randint(2, 1000)}),
        ])


def units(rng, _):
    kinds = {
        "convert_temperature": ["celsius", "fahrenheit", "kelvin"],
        "convert_length": ["meter", "foot", "inch", "kilometer", "mile", "yard"],
        "convert_mass": ["gram", "kilogram", "pound", "ounce", "tonne"],
        "convert_speed": ["kilometers per hour", "miles per hour", "knots", "meters per second"],
        "convert_time": ["seconds", "minutes", "hours", "days", "weeks"],
        "convert_computer_data": ["bytes", "kilobytes", "megabytes", "gigabytes"],
    }
    while True:
        tool = rng.choice(list(kinds))
        value = round(rng.uniform(1, 1000), rng.choice([0, 1, 2]))
        yield tool, {"value": value, "from_unit": rng.choice(kinds[tool]), "to_unit": rng.choice(kinds[tool])}
        if rng.random() < 0.05:
            yield "list_supported_units", {"unit_type": rng.choice(["length", "mass", "speed"])}


def excel(rng, folder):
    path = f"{folder}/book.xlsx"
    yield "create_workbook", {"path": path, "sheets": ["Data", "Notes"]}
    header = ["item", "count", "price"]
    row = 2
    yield "write_range", {"path": path, "sheet": "Data", "at": "A1", "rows": [header]}
    while True:
        where = {"path": path, "sheet": "Data"}
        rows = [[rng.choice(WORDS), rng.randint(1, 90), round(rng.uniform(1, 99), 2)] for _ in range(rng.randint(1, 4))]
        choice = rng.random()
        if choice < 0.3:
            yield "write_range", where | {"at": f"A{row}", "rows": rows}
            row += len(rows)
        elif choice < 0.6:
            first = rng.randint(1, row)
            yield "read_range", where | {"range": f"A{first}:C{first + rng.randint(0, 8)}"}
        elif choice < 0.7:
            yield "describe_sheet", where
        elif choice < 0.8:
            yield "find_cells", {"path": path, "query": rng.choice(WORDS)}
        elif choice < 0.86:
            yield "describe_workbook", {"path": path}
        elif choice < 0.92:
            yield "set_note", where | {"cell": f"A{rng.randint(1, row)}", "text": words(rng)}
        elif choice < 0.97:
            yield "replace_cells", {"path": path, "query": rng.choice(WORDS), "replacement": rng.choice(WORDS)}
        else:
            yield "read_range", {"path": path, "sheet": "Missing", "range": "A1:B2"}


def sqlite(rng, _):
    yield "create_table", {"query": "CREATE TABLE parts (id INTEGER PRIMARY KEY, name TEXT, weight REAL, stock INTEGER)"}
    while True:
        part, weight, stock = rng.choice(WORDS), round(rng.uniform(0.1, 40), 2), rng.randint(0, 500)
        yield rng.choice([
            ("write_query", {"query": f"INSERT INTO parts (name, weight, stock) VALUES ('{part}', {weight}, {stock})"}),
            ("write_query", {"query": f"INSERT INTO parts (name, weight, stock) VALUES ('{part}', {weight}, {stock})"}),
            ("write_query", {"query": f"UPDATE parts SET stock = {stock} WHERE name = '{part}'"}),
            ("read_query", {"query": f"SELECT * FROM parts WHERE name = '{part}'"}),
            ("read_query", {"query": f"SELECT name, stock FROM parts WHERE stock > {stock} ORDER BY stock LIMIT 10"}),
            ("read_query", {"query": "SELECT count(*) AS parts, avg(weight) AS weight FROM parts"}),
            ("list_tables", {}),
            ("describe_table", {"table_name": "parts"}),
            ("append_insight", {"insight": sentences(rng, 1)}),
            ("read_query", {"query": f"SELECT {part} FROM nowhere"}),
        ])


def text_editor(rng, folder):
    while True:
        start = rng.randint(1, 4)
        ranges = rng.choice([[{"start": 1, "end": None}], [{"start": start, "end": start + rng.randint(0, 4)}]])
        name = "missing" if rng.random() < 0.04 else rng.choice(WORDS[:24])
        yield "get_text_file_contents", {"files": [{"file_path": f"{folder}/{name}.txt", "ranges": ranges}]}


def texts(folder):
    """A folder of texts, always the same."""
    rng = random.Random(7)
    for name in WORDS[:24]:
        (folder / f"{name}.txt").write_text("\n".join(words(rng) for _ in range(rng.randint(2, 12))) + "\n")


def repository(folder):
    """A repository of twelve commits and some files that are not committed; its dates do not change."""
    rng = random.Random(7)

    def run(*args, date="2026-01-01T12:00:00"):
        names = {f"GIT_{who}_{what}": "tester" for who in ["AUTHOR", "COMMITTER"] for what in ["NAME", "EMAIL"]}
        dates = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
        subprocess.run(["git", "-C", str(folder), *args], check=True, capture_output=True, env=ENVIRONMENT | names | dates)

    run("init", "-b", "main")
    run("config", "user.name", "tester")
    run("config", "user.email", "tester")
    for day in range(1, 13):
        for _ in range(3):
            (folder / f"{rng.choice(WORDS)}.txt").write_text("\n".join(words(rng) for _ in range(rng.randint(2, 9))) + "\n")
        run("add", "-A")
        run("commit", "-m", words(rng), date=f"2026-01-{day:02}T12:00:00")
    for word in WORDS:
        (folder / f"{word}.txt").write_text("\n".join(words(rng) for _ in range(3)) + "\n")


def nothing(_):
    pass


@dataclass
class Server:
    package: str
    # `node` and a file of the package, or `python` and a program in the environment of the package's name.
    kind: str
    program: str
    calls: Callable
    arguments: list = field(default_factory=list)
    environment: dict = field(default_factory=dict)
    prepare: Callable = nothing


ENVIRONMENT = {}
OFFICIAL = "@modelcontextprotocol/server-"
SERVERS = [
    Server(OFFICIAL + "everything", "node", "dist/index.js", everything, ["stdio"]),
    Server(OFFICIAL + "filesystem", "node", "dist/index.js", filesystem, ["FOLDER"]),
    Server(OFFICIAL + "memory", "node", "dist/index.js", memory, environment={"MEMORY_FILE_PATH": "FOLDER/memory.jsonl"}),
    Server(OFFICIAL + "sequential-thinking", "node", "dist/index.js", sequential_thinking),
    Server("@wrtnlabs/calculator-mcp", "node", "bin/index.js", calculator_npm),
    Server("time-mcp", "node", "dist/index.js", time_npm),
    Server("think-mcp", "node", "build/index.js", think),
    Server("@shtse8/filesystem-mcp", "node", "build/index.js", filesystem_npm),
    Server("@allpepper/memory-bank-mcp", "node", "dist/main/index.js", memory_bank, environment={"MEMORY_BANK_ROOT": "FOLDER"}),
    Server("mcp-server-commands", "node", "build/index.js", commands),
    Server("@kazuph/mcp-taskmanager", "node", "dist/index.js", task_manager, environment={"TASK_MANAGER_FILE_PATH": "FOLDER/tasks.json"}),
    Server("mcp-server-time", "python", "mcp-server-time", time_pypi, ["--local-timezone", "Europe/Oslo"]),
    Server("mcp-server-git", "python", "mcp-server-git", git, prepare=repository),
    Server("mcp-server-fetch", "python", "mcp-server-fetch", fetch, ["--ignore-robots-txt", "--allow-private-ips"]),
    Server("mcp-server-calculator", "python", "mcp-server-calculator", calculator_pypi),
    Server("random-number-mcp", "python", "random-number-mcp", random_numbers),
    Server("unit-converter-mcp", "python", "unit-converter-mcp", units),
    Server("excel-mcp-server", "python", "excel-mcp-server", excel, ["stdio"]),
    Server("mcp-server-sqlite", "python", "mcp-server-sqlite", sqlite, ["--db-path", "FOLDER/parts.db"]),
    Server("mcp-text-editor", "python", "mcp-text-editor", text_editor, prepare=texts),
]
