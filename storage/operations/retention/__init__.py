"""Retention: expiry of snapshots, changelogs and tags; removal of orphans."""
