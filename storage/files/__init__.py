"""The only room that touches a disk: file systems, paths, and one store per kind of file.

New store: a subclass of `ObjectFiles` if it has conditional creates; `RenamingFiles` serves every
other one. Also: `file_systems.py`, `clients.py`, `client_logs.py`, `store_failures.py`,
`external_files.py`, an extra, a server in `tests/support/stores/servers.py`.
New database of a catalog: a class in `databases.py`, the expiry of a lock in `row_lock.py`. Names
kept elsewhere: a class of `Names`, as in `hive_names.py`; a server that makes snapshots and schemas
itself: a `TableServer`, as in `rest_table.py`.
New file format: `spec/file_format.py`, its files here, a case in `data_files.py`; `grep ORC`.
"""
