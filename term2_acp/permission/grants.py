"""What answers leave behind, for how long: a session's access state, and a turn's answers.

- ``SessionAccess`` lives until the session is closed or reset. It is never stored, so a resumed session
  starts without it.
- ``TurnAnswers`` lives until the prompt settles: same tool, same option, same scope.

Neither ever covers a guarded target, and reading and editing never imply each other. Containment is by
whole path components, walking up from the target, so a lookup costs the depth of the path and not the
number of grants.
"""

from collections.abc import Iterator, Sequence

from attrs import Factory

from term2_acp.domain.classes import define
from term2_acp.domain.permission import Access, Action
from term2_acp.permission.choices import Choice, scope_of
from term2_acp.permission.ground import file_of

# Grants that the record of a decision names. Each call has such a record, and one answer about a patch of
# many files makes a grant for each of them; a person who answers one by one comes nowhere near.
MAX_WORDED = 200


@define
class SessionAccess:
    """The grants of one session. All paths are canonical; folders hold for everything below them."""

    allow_edit_files: set[str] = Factory(set)
    allow_edit_folders: set[str] = Factory(set)
    allow_read_folders: set[str] = Factory(set)

    def covers(self, action: Action) -> bool:
        """Whether a grant of this session lets the action happen without a question."""
        path = file_of(action)
        if path is None:
            return False
        if action.access is Access.EDIT:
            return path in self.allow_edit_files or _within(path, self.allow_edit_folders)
        return action.access in (Access.READ, Access.SEARCH) and _within(path, self.allow_read_folders)

    def record(self, choice: Choice, action: Action) -> None:
        """Keep what the person granted for an action that was shown; a once-only choice keeps nothing."""
        scope = scope_of(choice, action)
        if scope is None:
            return
        if choice is Choice.ALLOW_EDIT_FILE_SESSION:
            self.allow_edit_files.add(scope)
        elif choice is Choice.ALLOW_EDIT_FOLDER_SESSION:
            self.allow_edit_folders.add(scope)
        else:
            self.allow_read_folders.add(scope)

    def in_words(self) -> tuple[str, ...]:
        """The grants, sorted, for a record of a decision: ``edit FILE``, ``edit below FOLDER``, ``read below
        FOLDER``. Of more than ``MAX_WORDED``, how many there are besides comes last.
        """
        words = sorted(
            [
                *(f"edit {path}" for path in self.allow_edit_files),
                *(f"edit below {path}" for path in self.allow_edit_folders),
                *(f"read below {path}" for path in self.allow_read_folders),
            ]
        )
        more = len(words) - MAX_WORDED
        return tuple(words) if more <= 0 else (*words[:MAX_WORDED], f"and {more:,} more")

    def reset(self) -> None:
        """Forget every grant: the session closed, or asks anew from here."""
        self.allow_edit_files.clear()
        self.allow_edit_folders.clear()
        self.allow_read_folders.clear()


@define
class TurnAnswers:
    """The answers of one prompt that hold beyond one call, by tool, option and scope."""

    _given: set[tuple[str, Choice, str]] = Factory(set)

    def remember(self, tool: str, choice: Choice, action: Action) -> None:
        """Keep the answer to an ask. Once-only choices and refusals are never kept."""
        scope = scope_of(choice, action)
        if scope is not None:
            self._given.add((tool, choice, scope))

    def covering(self, tool: str, actions: Sequence[Action]) -> Choice | None:
        """The remembered choice that answers for all of the actions that can ask, or None.

        An action inside the workspace on an unguarded target needs no answer; any other must have had
        this very answer, for the same tool and scope.
        """
        if not self._given:
            return None
        if not self._given:
            return None
        asking = [action for action in actions if not _needs_no_answer(action)]
        for choice in Choice:
            if asking and all((tool, choice, scope_of(choice, action)) in self._given for action in asking):
                return choice
        return None

    def settle(self) -> None:
        """The prompt settled: forget everything."""
        self._given.clear()


def _needs_no_answer(action: Action) -> bool:
    return action.target is not None and action.target.inside and action.target.guarded is None


def _within(path: str, folders: set[str]) -> bool:
    return bool(folders) and any(folder in folders for folder in _upwards(path))


def _upwards(path: str) -> Iterator[str]:
    """The path and every folder above it, ``/`` last."""
    yield path
    while (cut := path.rfind("/")) > 0:
        path = path[:cut]
        yield path
    yield "/"
