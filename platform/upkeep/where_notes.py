"""Help about filters, for the commands that take one."""

WHERE_NOTES = """
EXPR compares columns with literals, as SQL does: = <> < <= > >=, [NOT] IN (…),
[NOT] BETWEEN … AND …, IS [NOT] NULL, [NOT] LIKE 'prefix%', AND, OR, NOT and parentheses.
Text is quoted as '…', where a backslash begins an escape as in Spark: write \\\\ for one.
A column name that is not a plain word is quoted as `…`. Other literals:
DATE '2024-01-31', TIMESTAMP '2024-01-31 13:45:00' (in UTC for a column with a time zone), X'ff'.
"""
