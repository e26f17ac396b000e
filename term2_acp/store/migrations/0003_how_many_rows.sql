-- How many rows the session had when it was last active. It may have more, and never fewer: where fewer can
-- be found, damage hides the rest, which SQLite does not always see. NULL where that is not known: in rows
-- that are older than this column, and of a session that is being deleted, which it is from its end.
ALTER TABLE activity ADD COLUMN records INTEGER;
