-- When a row was written: milliseconds since 1970, UTC. NULL in rows that are older than this column.
-- It is the time of the record and not of what it is about, which may be some milliseconds older.
ALTER TABLE journal ADD COLUMN at INTEGER;

DROP VIEW journal_by_session;

CREATE VIEW journal_by_session AS
SELECT place >> 32 AS session, place & 4294967295 AS seq, at, version, kind, CAST(body AS TEXT) AS body
FROM journal;
