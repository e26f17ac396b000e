"""The commands that a prompt may begin with: ``/name``, and words behind it.

Rules:

- Only the beginning of a prompt's first text counts, white space apart, and a name is a whole word in its own
  letters. What else begins with a slash (``/usr/bin``, ``/Help``) is no command, and goes to the model.
- A command is answered by term2 alone, and no model is told of it. ``/plan`` with something to plan is the
  exception: the model is told that, without the command.
- The prompt is shown and kept as it was typed.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from attrs import evolve

from term2_acp.domain.content import ContentBlock, Text
from term2_acp.domain.events import UserMessage

# Named tuples: every session that is opened waits for these classes, and one of attrs takes a millisecond.


class CommandInfo(NamedTuple):
    """A command as a person is shown it. ``hint`` says what may follow; None: nothing does."""

    name: str
    description: str
    hint: str | None = None


PLAN = "plan"
COMPACT = "compact"
MODEL = "model"
USAGE = "usage"
PERMISSIONS = "permissions"
HELP = "help"

COMMANDS = (
    CommandInfo(PLAN, "Plan without changing anything", "what to plan"),
    CommandInfo(COMPACT, "Summarize the conversation, to make room for more", "what the summary must keep"),
    CommandInfo(MODEL, "Show the models of this session, or choose one", "provider/model"),
    CommandInfo(USAGE, "Show what this session took: tokens, cost and context"),
    CommandInfo(PERMISSIONS, "Show what may happen without asking, or forget it", "reset"),
    CommandInfo(HELP, "Show the commands"),
)

_NAMES = "|".join(command.name for command in COMMANDS)
_COMMAND = rf"\s*/({_NAMES})(?:\s+|\Z)"  # compiled with the first prompt


class Command(NamedTuple):
    """A command that a prompt begins with. ``words`` is what follows it, without white space around.

    ``length`` is where they begin. With ``to_model`` the prompt goes on to the model from there.
    """

    name: str
    words: str
    length: int
    to_model: bool = False

    def marked(self, prompt: UserMessage) -> UserMessage:
        """The prompt, so that no model is told of what is not for it."""
        return evolve(prompt, to_model=self.to_model, command_length=self.length if self.to_model else 0)


def command_of(content: Sequence[ContentBlock]) -> Command | None:
    """The command that a prompt begins with, if it does."""
    texts = [block.text for block in content if isinstance(block, Text)]
    text = texts[0] if texts else ""
    found = re.match(_COMMAND, text)
    if found is None:
        return None
    words = text[found.end() :].strip()
    # What is attached may be all that there is to plan. A blank text is nothing, and servers refuse one.
    attached = len(content) > len(texts) or any(more.strip() for more in texts[1:])
    to_model = found[1] == PLAN and (bool(words) or attached)
    return Command(found[1], words, found.end(), to_model)
