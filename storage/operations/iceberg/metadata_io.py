"""pyiceberg's view of the folder of Iceberg metadata: each location is a name in that folder."""

from __future__ import annotations

from io import BytesIO

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream

from lakewright.storage.env import FileSystem


class _Input(InputFile):
    def __init__(self, fs: FileSystem, path: str, location: str) -> None:
        super().__init__(location)
        self._fs, self._path = fs, path

    def __len__(self) -> int:
        return len(self._fs.read_bytes(self._path))

    def exists(self) -> bool:
        return self._fs.exists(self._path)

    def open(self, seekable: bool = True) -> InputStream:
        return BytesIO(self._fs.read_bytes(self._path))


class _Stream(BytesIO):
    def __init__(self, output: _Output) -> None:
        super().__init__()
        self._output = output

    def close(self) -> None:
        if not self.closed:
            self._output.put(self.getvalue())
        super().close()


class _Output(OutputFile):
    def __init__(self, fs: FileSystem, path: str, location: str) -> None:
        super().__init__(location)
        self._fs, self._path, self._size = fs, path, 0

    def put(self, data: bytes) -> None:
        self._size = len(data)
        self._fs.write_bytes(self._path, data)

    def __len__(self) -> int:
        return self._size

    def exists(self) -> bool:
        return self._fs.exists(self._path)

    def to_input_file(self) -> InputFile:
        return _Input(self._fs, self._path, self.location)

    def create(self, overwrite: bool = False) -> OutputStream:
        return _Stream(self)


class MetadataIO(FileIO):
    """Reads and writes files of one folder through the table's file system.

    `written` collects the paths of new files.
    """

    def __init__(self, fs: FileSystem, folder: str) -> None:
        super().__init__()
        self._fs, self._folder = fs, folder
        self.written: list[str] = []

    def path(self, location: str) -> str:
        return f"{self._folder}/{location.rpartition('/')[2]}"

    def source(self, location: str) -> BytesIO:
        """A file as it is stored."""
        return BytesIO(self._fs.read_bytes(self.path(location)))

    def new_input(self, location: str) -> InputFile:
        return _Input(self._fs, self.path(location), location)

    def new_output(self, location: str) -> OutputFile:
        path = self.path(location)
        # A failed write may leave half a file.
        self.written.append(path)
        return _Output(self._fs, path, location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Never called: pyiceberg's interface asks for it, and one module alone deletes files."""
        raise NotImplementedError("files of Iceberg metadata are deleted where they are retired")
