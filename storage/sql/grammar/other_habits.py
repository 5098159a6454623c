"""Statements of other systems, each with what does the same here."""

from __future__ import annotations

from collections.abc import Mapping

# By the words that they begin with; longer ones stand before shorter ones.
INSTEAD: Mapping[str, str] = {
    "UPSERT": "INSERT INTO a primary-key table replaces rows by their key",
    "REPLACE INTO": "INSERT INTO a primary-key table replaces rows by their key",
    "REPLACE TABLE": "write DROP TABLE IF EXISTS t, then CREATE TABLE t",
    # Upkeep.
    "OPTIMIZE": "write ALTER TABLE t COMPACT 'major'; `lakewright sort-compact t --by c` is ZORDER",
    "VACUUM": "write CALL sys.expire_snapshots('t') and CALL sys.remove_orphan_files('t')",
    "RESTORE": "write CALL sys.rollback_to(`table` => 't', snapshot_id => 1)",
    "REFRESH": "every statement reads the latest snapshot, so nothing needs a refresh",
    "REINDEX": "tables have no indexes to rebuild",
    "CACHE": "nothing is cached between statements",
    "UNCACHE": "nothing is cached between statements",
    "SUMMARIZE": "write ANALYZE TABLE t COMPUTE STATISTICS, then DESCRIBE EXTENDED t column",
    # Loading.
    "COPY": "`lakewright read t --output FILE` writes files, and a declared table reads them; or "
    "take files over: ALTER TABLE t ADD PARTITION (…) LOCATION '…'",
    "LOAD": "take the files over: ALTER TABLE t ADD PARTITION (…) LOCATION '…'",
    "IMPORT": "take the files over: ALTER TABLE t ADD PARTITION (…) LOCATION '…'",
    "EXPORT": "run `lakewright read t --output FILE`",
    "UNLOAD": "run `lakewright read t --output FILE`",
    "ATTACH": "the warehouse is the catalog: name it by `lakewright --warehouse`",
    "DETACH": "the warehouse is the catalog: name it by `lakewright --warehouse`",
    "INSTALL": "no extension is loaded",
    "ADD JAR": "no library is loaded",
    # Sessions and transactions.
    "BEGIN": "each statement is a commit of its own",
    "START TRANSACTION": "each statement is a commit of its own",
    "COMMIT": "each statement is a commit of its own",
    "ROLLBACK": "each statement is a commit of its own; CALL sys.rollback_to goes back, and "
    "`lakewright undo` takes a run back",
    "EXECUTE": "write the statements one after the other, each with its ;",
    "PREPARE": "write the statement with its values",
    "PRAGMA": "write SET 'name' = 'value', or SHOW TABLES and DESCRIBE t",
    "USE CATALOG": "the warehouse is the catalog; write USE database",
    "LIST": "write SHOW TABLES",
    "GRANT": "the store decides who reads and writes (docs/how-to/access.md)",
    "REVOKE": "the store decides who reads and writes (docs/how-to/access.md)",
    "COMMENT": "write ALTER TABLE t ALTER COLUMN c COMMENT '…'",
    "FROM": "write SELECT * FROM t",
    "TABLE": "write SELECT * FROM t",
    "HELP": "`lakewright help sql` describes the command, and \\? the shell",
    # Definitions.
    "CREATE OR REPLACE TABLE": "write DROP TABLE IF EXISTS t, then CREATE TABLE t",
    "CREATE CATALOG": "the warehouse is the catalog: name it by `lakewright --warehouse`",
    "CREATE FUNCTION": "no functions are kept; those of the engine can be called",
    "CREATE INDEX": "write options of the table: WITH ('file-index.bloom-filter.columns' = 'c')",
    "CREATE UNIQUE": "a primary key tells rows apart: ALTER TABLE t ADD PRIMARY KEY (c) NOT "
    "ENFORCED",
    "CREATE MATERIALIZED": "declare a derived table, which is an asset; or CREATE TABLE t AS "
    "SELECT …",
    "CREATE SEQUENCE": "the writer numbers the rows",
    "ALTER DATABASE": "a database has no properties; tables have options: ALTER TABLE t SET (…)",
    "ALTER SCHEMA": "a database has no properties; tables have options: ALTER TABLE t SET (…)",
    "ALTER VIEW": "catalogs of folders and of databases keep no views",
    "DROP VIEW": "catalogs of folders and of databases keep no views",
    "DROP CATALOG": "the warehouse is the catalog; write DROP DATABASE d CASCADE",
    "DROP FUNCTION": "no functions are kept",
    "DROP INDEX": "write ALTER TABLE t RESET ('file-index.bloom-filter.columns')",
    # Looking.
    "SHOW CATALOGS": "the warehouse is the catalog; write SHOW DATABASES",
    "SHOW VIEWS": "catalogs of folders and of databases keep no views; write SHOW TABLES",
    "SHOW FUNCTIONS": "no functions are kept; those of the engine can be called",
    "SHOW TBLPROPERTIES": "write SELECT * FROM `t$options`",
    "SHOW CREATE DATABASE": "write SHOW DATABASES",
    "SHOW CREATE VIEW": "write SHOW CREATE TABLE t",
    "SHOW STATS": "write DESCRIBE EXTENDED t",
    "SHOW SNAPSHOTS": "write SELECT * FROM `t$snapshots`",
    "SHOW BRANCHES": "write SELECT * FROM `t$branches`",
    "SHOW TAGS": "write SELECT * FROM `t$tags`",
    "SHOW PROCEDURES": "write CALL sys.name(…); a wrong name lists them",
    "SHOW JOBS": "`lakewright ledger` lists what was done",
    "SHOW CURRENT": "write SET, which shows the settings of the session",
    "SHOW ALL": "write SET, which shows the settings of the session",
    "DESCRIBE HISTORY": "write SELECT * FROM `t$snapshots`",
    "DESC HISTORY": "write SELECT * FROM `t$snapshots`",
    "DESCRIBE DATABASE": "write SHOW TABLES IN d",
    "DESCRIBE SCHEMA": "write SHOW TABLES IN d",
    "DESCRIBE FUNCTION": "no functions are kept",
    "EXPLAIN ANALYZE": "write EXPLAIN and the query, which shows the files that it would open",
}
