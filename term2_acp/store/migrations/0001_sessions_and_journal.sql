-- One row a session. It is written once; only the title changes later.
-- `id`, `cwd` and `title` are bytes: UTF-8 in which a lone surrogate may stand, since a path on Linux
-- need not be UTF-8. `number` is never used twice: it also names the session's record in the lock file.
CREATE TABLE session (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    id         BLOB NOT NULL UNIQUE,
    cwd        BLOB NOT NULL,
    title      BLOB,
    created_at TEXT NOT NULL
);

CREATE INDEX session_by_cwd ON session (cwd);

-- When a session was last active (ISO 8601, UTC). A table of its own without any index, because it
-- changes with every append: each page that a commit touches costs about 10 us, and a list of ten
-- thousand sessions reads this whole table in about a millisecond.
CREATE TABLE activity (
    session    INTEGER PRIMARY KEY REFERENCES session (number),
    updated_at TEXT NOT NULL
);

-- What happened, in order. `place` is the session's number and the row's sequence number in one
-- integer (number << 32 | seq): a session's rows lie together, and an append touches one page, not
-- the page of a table and the page of an index. `version` is the version of the body's format.
CREATE TABLE journal (
    place   INTEGER PRIMARY KEY,
    version INTEGER NOT NULL,
    kind    TEXT NOT NULL,
    body    BLOB NOT NULL
);

-- The same, for people who look.
CREATE VIEW journal_by_session AS
SELECT place >> 32 AS session, place & 4294967295 AS seq, version, kind, CAST(body AS TEXT) AS body
FROM journal;
