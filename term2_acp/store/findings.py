"""What a look at the whole store (``store.verify``) found, as values.

*Damage* is what a sound store cannot have. The rest is told as well: rows of a newer term2, calls that were
cut off and that the next opening of their session closes, and files that belong to nobody.
"""

from enum import StrEnum

from attrs import field

from term2_acp.domain.classes import define, frozen

# Findings that are kept; of more there is only the number. A person reads the first of them.
MAX_FINDINGS = 1000


class Kind(StrEnum):
    """What may be found."""

    DATABASE = "database"
    UNREADABLE = "unreadable"
    NEWER = "newer"
    MISSING = "missing"
    OUT_OF_ORDER = "out_of_order"
    UNSETTLED = "unsettled"
    NO_SESSION = "no_session"
    NOT_LISTED = "not_listed"
    STRAY_FILES = "stray_files"


DAMAGE = frozenset(
    {Kind.DATABASE, Kind.UNREADABLE, Kind.MISSING, Kind.OUT_OF_ORDER, Kind.NO_SESSION, Kind.NOT_LISTED}
)
"""What a sound store cannot have."""


@frozen
class Finding:
    """One thing that is wrong or worth a word. ``seq`` is the row in the journal of the session."""

    kind: Kind
    session: str | None
    seq: int | None
    reason: str


@define(eq=False)
class Verified:
    """What there is. ``found``: there is a database. ``counts`` has every kind that was found."""

    found: bool = False
    sessions: int = 0
    records: int = 0
    findings: list[Finding] = field(factory=list)
    counts: dict[Kind, int] = field(factory=dict)

    @property
    def sound(self) -> bool:
        """Whether nothing is damaged."""
        return not DAMAGE & self.counts.keys()

    @property
    def omitted(self) -> int:
        """How much more was found than is kept."""
        return sum(self.counts.values()) - len(self.findings)

    def add(self, kind: Kind, session: str | None, seq: int | None, reason: str) -> None:
        """Note something that was found."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(Finding(kind, session, seq, reason))
