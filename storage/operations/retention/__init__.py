"""What is deleted: old snapshots, changelogs and tags; orphans, after a quarantine."""
