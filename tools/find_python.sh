#!/bin/sh
# Prints the interpreter to build the environment with: $PYTHON if it is set, else the first that serves.
set -u

serves() {
    # Runs it, since a name on PATH may be a stand-in for a version that is not installed.
    "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

if [ -n "${PYTHON:-}" ]; then
    serves "$PYTHON" && printf '%s\n' "$PYTHON" && exit 0
    echo "PYTHON=$PYTHON is not a Python 3.11 or newer with its venv module: name another, or unset it" >&2
    exit 1
fi
for candidate in python3.13 python3.12 python3.11 python3 python; do
    serves "$candidate" && printf '%s\n' "$candidate" && exit 0
done
echo "no Python 3.11 or newer with its venv module found: install one (Debian/Ubuntu: apt-get install python3 python3-venv; macOS: brew install python@3.13), or name it with make PYTHON=/path/to/python3" >&2
exit 1
