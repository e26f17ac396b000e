"""The scripts that the end-to-end tests have the scripted model play, by the prompts that start them.

- ``hi``, and anything else that no other rule is for: a thought and a greeting, in pieces.
- ``wait``: a few words, and then nothing until the turn is cancelled.
- ``ask``: reads a file outside the workspace, which asks; then a word.
- ``edit``: makes a file in the workspace, which does not ask.
- ``plan``: shows a plan.
"""

import json

from tests.kit.home import Home

HELLO = "Hello from the script."
WAITING = "Waiting for you."
OUTSIDE = "outside words"

_TALK = f"""
[[rules]]
match = "^wait$"
[[rules.replies]]
steps = [{{ text = "{WAITING}" }}, {{ hang = true }}]

[[rules]]
match = "^ask$"
[[rules.replies]]
steps = [
    {{ text = "Let me look." }},
    {{ call = "read_file", arguments = {{ path = "@OUTSIDE@" }}, id = "same id each time" }},
]
[[rules.replies]]
steps = [{{ text = "Looked." }}]
"""

_WORK = """
[[rules]]
match = "^edit$"
[[rules.replies]]
steps = [{ call = "create_file", arguments = { path = "made.txt", content = "one\\ntwo\\n" }, id = "" }]
[[rules.replies]]
steps = [{ text = "Made." }]

[[rules]]
match = "^plan$"
[[rules.replies]]
[[rules.replies.steps]]
call = "update_plan"
[[rules.replies.steps.arguments.entries]]
content = "Look"
priority = "high"
status = "completed"
[[rules.replies.steps.arguments.entries]]
content = "Leap"
priority = "low"
status = "pending"
[[rules.replies]]
steps = [{ text = "Planned." }]
"""

_HELLO = f"""
[[rules]]
[[rules.replies]]
steps = [
    {{ thought = "A greeting is due.", chunk = 5 }},
    {{ text = "{HELLO}", chunk = 4 }},
    {{ usage = [12, 5] }},
]
"""

# A file that every system has, and that lies in no workspace.
WAITS = _TALK.replace("@OUTSIDE@", "/etc/hosts") + _HELLO


def outside(home: Home) -> str:
    """The file that ``ask`` reads under ``conformance``. Its folder may be granted: it holds no workspace."""
    return str(home.root / "elsewhere" / "outside.txt")


def conformance(home: Home) -> str:
    """All of the script, with a file to read that lies in the home's own folders."""
    path = home.root / "elsewhere" / "outside.txt"
    path.parent.mkdir(exist_ok=True)
    path.write_text(OUTSIDE + "\n")
    return _TALK.replace("@OUTSIDE@", str(path)) + _WORK + _HELLO


def calling(*calls: tuple[str, dict[str, object]], match: str = "^go$") -> str:
    """A script in which a prompt that matches makes these calls in one reply, and is then done."""
    steps = ", ".join(
        f"{{ call = {json.dumps(name)}, raw = {json.dumps(json.dumps(arguments))} }}"
        for name, arguments in calls
    )
    return f"""
[[rules]]
match = "{match}"
[[rules.replies]]
steps = [{steps}]
[[rules.replies]]
steps = [{{ text = "Done." }}]

[[rules]]
[[rules.replies]]
steps = [{{ text = "Hello." }}]
"""
