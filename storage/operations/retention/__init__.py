"""Retention: expiry of snapshots, changelogs and tags; removal and quarantine of orphans."""
