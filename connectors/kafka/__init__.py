"""`kafka` and `upsert-kafka`: the messages of topics, as rows and as changes."""
