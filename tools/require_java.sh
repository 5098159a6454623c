#!/bin/sh
# Silent when Spark will find Java 17 or newer; otherwise one line with the way out.
set -u

way_out="install a Java 17 or newer runtime (Debian/Ubuntu: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17), or set JAVA_HOME to one"

# Spark asks the same two places in the same order.
if [ -n "${JAVA_HOME:-}" ]; then
    java=$JAVA_HOME/bin/java
    place="JAVA_HOME=$JAVA_HOME"
else
    java=java
    place="PATH"
fi

if ! report=$("$java" -version 2>&1); then
    echo "no working Java under $place: $way_out" >&2
    exit 1
fi
# 'openjdk version "17.0.15" …', 'java version "1.8.0_392"', '… "22-ea" …'
version=$(printf '%s\n' "$report" | sed -n 's/^.* version "\([^"]*\)".*$/\1/p' | head -n 1)
major=$(printf '%s\n' "$version" | sed 's/^1\.//; s/[^0-9].*$//')
if [ "${major:-0}" -lt 17 ]; then
    echo "Java ${version:-of an unknown version} under $place is older than 17: $way_out" >&2
    exit 1
fi
