"""The connector `filesystem`: its options."""

from __future__ import annotations

from lakewright.connectors.factories import FORMAT, Context, DynamicTableFactory
from lakewright.connectors.filesystem.file_formats import file_format
from lakewright.connectors.filesystem.place import Place
from lakewright.connectors.filesystem.sink import FilesystemSink, SinkOptions
from lakewright.connectors.filesystem.source import FilesystemSource
from lakewright.connectors.options import Option, OptionKind
from lakewright.connectors.sinks import DynamicTableSink
from lakewright.connectors.sources import ScanTableSource
from lakewright.storage.errors import InvalidOption, UnsupportedError
from lakewright.storage.file_reader.location import is_hidden

_MONITOR = "source.monitor-interval"


class Filesystem(DynamicTableFactory):
    """Makes sources and sinks."""

    identifier = "filesystem"
    description = "folders of files, on every store"
    required_options = (
        Option(name="path", description="a folder, a file or a pattern: a path or a URI"),
    )
    optional_options = (
        Option(
            name=_MONITOR,
            kind=OptionKind.DURATION,
            description="new files are looked for, as often: the table has no end then",
        ),
        Option(
            name="partition.default-name",
            description="the value that names the folder of null",
            default="__DEFAULT_PARTITION__",
        ),
        Option(
            name="partition.path-only-value",
            kind=OptionKind.BOOLEAN,
            description="folders are named 2024-01-31, and not day=2024-01-31",
            default=False,
        ),
        Option(
            name="sink.rolling-policy.file-size",
            kind=OptionKind.SIZE,
            description="how large a file becomes, about",
            default=128 << 20,
        ),
        Option(name="sink.file-prefix", description="how names of files begin", default="part"),
        Option(
            name="sink.partition-commit.policy.kind",
            description="success-file puts _SUCCESS into each folder that was written",
            choices=("success-file",),
        ),
    )
    format_options = (FORMAT,)

    named_by = ("path",)

    def create_source(self, context: Context) -> ScanTableSource:
        place = Place.of(context)
        monitors = context.options[_MONITOR] is not None
        return FilesystemSource(place, file_format(context, place, writes=False), monitors=monitors)

    def create_sink(self, context: Context) -> DynamicTableSink:
        place, options = Place.of(context), context.options
        if place.is_pattern:
            raise UnsupportedError(
                f"{context.name} reads the pattern {place.path}, into which no file can be "
                "written; write the path of a folder"
            )
        prefix = options["sink.file-prefix"]
        if is_hidden(prefix) or "/" in prefix or not prefix:
            raise InvalidOption(
                f"sink.file-prefix of {context.name} is {prefix!r}; it begins the name of a file, "
                "with no / in it, and readers pass over names that begin with _ or .",
                option="sink.file-prefix",
            )
        return FilesystemSink(
            place,
            file_format(context, place, writes=True),
            SinkOptions(
                roll_bytes=options["sink.rolling-policy.file-size"],
                prefix=prefix,
                success_file=options["sink.partition-commit.policy.kind"] is not None,
            ),
        )
