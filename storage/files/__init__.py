"""The only room that touches a disk: file systems, paths, and one store per kind of file."""
