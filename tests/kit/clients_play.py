"""The script that real clients of ACP v1 are played, by the prompts that start it, and its workspace.

- ``work``: a thought, words, a file that is read, a plan, words, and what all of it used.
- ``change A B``: reads ``notes.txt`` and replaces A by B in it, in the workspace.
- ``outside``: makes a file outside of the workspace, which asks.
- ``run``: a command in the sandbox.
- ``wait``: a few words, and then nothing until the turn is cancelled.
- ``hi``, and anything else: a greeting.

What stands before these words does not matter: some clients write who says it.
"""

import json
from pathlib import Path

from tests.kit.home import PROVIDER, Home
from tests.kit.play import HELLO, WAITING

THOUGHT = "I should look."
LOOKING = "Looking."
SEEN = "Seen."
CHANGED = "Changed."
MADE = "Made."
RAN = "Ran."
SAID_BY_COMMAND = "said in the sandbox"
PLAN = ("Look", "Leap")
NOTES = "one in the file\n"
MODELS = (f"{PROVIDER}/small", f"{PROVIDER}/large")
USED = (120, 8)

_SCRIPT = f"""
[[rules]]
match = "work$"
[[rules.replies]]
steps = [
    {{ thought = "{THOUGHT}", chunk = 5 }},
    {{ text = "{LOOKING}", chunk = 3 }},
    {{ call = "read_file", arguments = {{ path = "notes.txt" }} }},
]
[[rules.replies]]
[[rules.replies.steps]]
call = "update_plan"
[[rules.replies.steps.arguments.entries]]
content = "{PLAN[0]}"
priority = "high"
status = "completed"
[[rules.replies.steps.arguments.entries]]
content = "{PLAN[1]}"
priority = "low"
status = "pending"
[[rules.replies]]
steps = [{{ text = "{SEEN}" }}, {{ usage = [{USED[0]}, {USED[1]}] }}]

[[rules]]
match = "change (.+) (.+)$"
[[rules.replies]]
steps = [{{ call = "read_file", arguments = {{ path = "notes.txt" }} }}]
[[rules.replies]]
[[rules.replies.steps]]
call = "search_replace"
arguments.path = "notes.txt"
[[rules.replies.steps.arguments.replacements]]
search_content = "$1"
replace_content = "$2"
[[rules.replies]]
steps = [{{ text = "{CHANGED}" }}]

[[rules]]
match = "outside$"
[[rules.replies]]
steps = [{{ call = "create_file", arguments = {{ path = "@OUTSIDE@", content = "made\\n" }} }}]
[[rules.replies]]
steps = [{{ text = "{MADE}" }}]

[[rules]]
match = "run$"
[[rules.replies]]
steps = [{{ call = "shell", arguments = {{ command = "echo {SAID_BY_COMMAND}" }} }}]
[[rules.replies]]
steps = [{{ text = "{RAN}" }}]

[[rules]]
match = "^wait$"
[[rules.replies]]
steps = [{{ text = "{WAITING}" }}, {{ hang = true }}]

[[rules]]
[[rules.replies]]
steps = [{{ text = "{HELLO}", chunk = 4 }}]
"""


def outside(home: Home) -> Path:
    """The file that ``outside`` makes."""
    return home.root / "elsewhere" / "made.txt"


def notes(home: Home) -> Path:
    """The file in the workspace."""
    return home.workspace / "notes.txt"


def stage(root: Path) -> Home:
    """A home in which all of that is played, with two models to choose from."""
    home = Home.make(root)
    outside(home).parent.mkdir()
    notes(home).write_text(NOTES)
    models = json.dumps([model.removeprefix(f"{PROVIDER}/") for model in MODELS])
    home.play(_SCRIPT.replace("@OUTSIDE@", str(outside(home))), f"models = {models}")
    return home
