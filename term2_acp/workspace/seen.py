"""What the model has seen of each file: the digest of its content as it was read or written last.

A file may be changed only while that is what it holds. There is one allowance, for files that the editor has
a hand in. An editor saves a text its own way: it ends the last line, takes white space off the ends of
lines, and has one kind of line end in a file. So what went through an editor is known by its *gist* as well,
which such a saving leaves alone. An edit is worked out from what the file holds when it is made, so nobody's
work is lost by that; at most, a passage that ends in white space is not found.

Where the editor shows a text that is not saved, what is under it on the disk must be the same as well: else
a save would put that text over somebody's changes there.
"""

from attrs import field

from term2_acp.domain.classes import define
from term2_acp.workspace.content import FileContent
from term2_acp.workspace.refusals import ChangedSinceRead, NotRead
from term2_acp.workspace.replace import Edit

# Files whose digests a session remembers, about 300 bytes each. The one forgotten has to be read again.
MAX_SEEN = 10_000


@define(eq=False)
class Seen:
    """The contents that the model of one session has seen, by canonical path."""

    _contents: dict[str, FileContent] = field(factory=dict, init=False)
    _gone: set[str] = field(factory=set, init=False)  # of these paths, those whose file was removed

    def __len__(self) -> int:
        """How many files were seen."""
        return len(self._contents)

    def see(self, path: str, content: FileContent) -> None:
        """The model was given this content, or wrote it."""
        self._contents.pop(path, None)
        self._contents[path] = FileContent(b"", content.digest, content.on_disk, content.gist)
        self._gone.discard(path)
        if len(self._contents) > MAX_SEEN:
            oldest = next(iter(self._contents))
            del self._contents[oldest]
            self._gone.discard(oldest)

    def forget(self, path: str) -> None:
        """The file is not there any more. An editor may show it still (``knows``)."""
        if path in self._contents:
            self._gone.add(path)

    def wrote(self, edit: Edit) -> None:
        """An edit was made, so the model knows what its file holds now."""
        if edit.new is not None:
            self.see(edit.path, edit.new)
        else:
            self.forget(edit.path)

    def forget_all(self) -> None:
        """What was seen is in no history any more."""
        self._contents.clear()
        self._gone.clear()

    def knows(self, path: str, content: FileContent) -> bool:
        """Whether this is what was seen of the file last, as far as a saving leaves it alone."""
        seen = self._contents.get(path)
        return seen is not None and (
            seen.digest == content.digest or (seen.gist is not None and seen.gist == content.gist)
        )

    def require(self, path: str, content: FileContent) -> None:
        """Refuse what the model has not seen, for it must not change it.

        Raises:
            NotRead: the file was never read in this session.
            ChangedSinceRead: it was, and holds something else now.
        """
        seen = self._contents.get(path)
        if seen is None or path in self._gone:
            raise NotRead(f"{path} exists and was not read in this session. Read it first.")
        # What was saved stays as it is: nobody but a person has a hand in it from there on.
        same = self.knows(path, content) if seen.unsaved else seen.digest == content.digest
        if not same or (content.unsaved and seen.on_disk != content.on_disk):
            raise ChangedSinceRead(f"{path} changed since it was read. Read it again, then edit it.")
