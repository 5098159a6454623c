"""What keeps files alive: snapshots, tags, branches, consumers; rollback to one of them."""
