"""`mysql-cdc`: the rows of a table of MySQL or MariaDB, then its changes from the binary log."""
