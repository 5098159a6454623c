"""`filesystem`: folders of files of any format as tables, read and written on every store."""
