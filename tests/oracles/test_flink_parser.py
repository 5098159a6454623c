"""Statements of distributions are statements here if, and only if, Flink's parser takes them."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import pytest

from lakewright.storage.errors import InvalidStatement
from lakewright.storage.sql import parse_statements
from tests.oracles.fixtures import oracle_home
from tests.oracles.flink_parser import FlinkParser, flink_parser

pytestmark = pytest.mark.interop

# The statements of the design (FLIP-376), and the forms of its grammar.
OF_THE_DESIGN = (
    (
        "CREATE TABLE PaimonTable (user_id BIGINT, dt STRING, hh STRING, PRIMARY KEY (dt, hh, "
        "user_id) NOT ENFORCED) PARTITIONED BY (dt, hh) "
        "WITH ('bucket' = '2', 'bucket-key' = 'user_id')"
    ),
    (
        "CREATE TABLE KafkaTable (`ts` TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', `user_id` "
        "BIGINT) WITH ('key.fields' = 'user_id;item_id', 'properties.num.partitons' = '6')"
    ),
    "CREATE TABLE MyTable (uid BIGINT, name STRING)",
    "CREATE TABLE MyTable (uid BIGINT, name STRING) DISTRIBUTED BY (uid) INTO 6 BUCKETS",
    "CREATE TABLE MyTable (uid BIGINT, name STRING) DISTRIBUTED BY HASH(uid) INTO 6 BUCKETS",
    "CREATE TABLE MyTable (uid BIGINT, name STRING) DISTRIBUTED INTO 6 BUCKETS",
    "CREATE TABLE MyTable (uid BIGINT, name STRING) DISTRIBUTED BY RANGE(uid)",
    "ALTER TABLE MyTable ADD DISTRIBUTION BY (uid) INTO 6 BUCKETS",
    "ALTER TABLE MyTable ADD DISTRIBUTION INTO 6 BUCKETS",
    "ALTER TABLE MyTable MODIFY DISTRIBUTION BY (uid) INTO 6 BUCKETS",
    "ALTER TABLE MyTable MODIFY DISTRIBUTION INTO 6 BUCKETS",
    "ALTER TABLE MyTable DROP DISTRIBUTION",
    "ALTER TABLE IF EXISTS MyTable DROP DISTRIBUTION",
    "ALTER TABLE IF EXISTS MyTable RENAME TO YourTable",
    "ALTER TABLE MyTable RENAME uid TO id",
    "ALTER TABLE MyTable SET ('a' = 'b')",
    "ALTER TABLE MyTable RESET ('a')",
)
# What is refused here by these words, and by Flink in a later step than its parser.
LATER = (
    r"hold no rows|is not a type|is not understood|declared more than once|is a bucket key twice"
)
# What Flink refuses alone: clauses in another order.
FREE_ORDER = r"PARTITIONED BY .* DISTRIBUTED (BY|INTO)"
# Words that Flink reserves, and that are names here.
RESERVED = re.compile(
    "as|buckets|by|comment|create|distributed|distribution|excluding|exists|hash|if|including|int|"
    "into|like|not|options|partitioned|range|rename|string|table|to|with",
    re.IGNORECASE,
)

KEYS = ("(a)", "(a, b)", "(`a b`)", "HASH (a)", "HASH(a, b)", "RANGE (b)", "RANGE(a)")
COUNTS = ("", "INTO 1 BUCKETS", "INTO 6 BUCKETS")


@pytest.fixture(scope="module")
def flink() -> Iterator[FlinkParser]:
    jars = oracle_home() / "flink" / "jars"
    if not jars.is_dir():
        pytest.skip(f"Flink's parser is not in {jars}: `make test-flink` brings it, by Maven")
    with flink_parser(jars) as parser:
        yield parser


def ours(statement: str) -> str | None:
    try:
        parse_statements(statement)
    except InvalidStatement as error:
        return error.message
    return None


def clause(chance: random.Random) -> str:
    """A distribution behind its first word."""
    if chance.random() < 0.3:
        return f"INTO {chance.choice((1, 2, 6, 128))} BUCKETS"
    return f"BY {chance.choice(KEYS)} {chance.choice(COUNTS)}".strip()


def statement(chance: random.Random) -> str:
    """A statement with a distribution, or one that others may have."""
    if chance.random() < 0.4:
        exists = chance.choice(("", "IF EXISTS "))
        change = chance.choice(
            (f"ADD DISTRIBUTION {clause(chance)}", f"MODIFY DISTRIBUTION {clause(chance)}",
             "DROP DISTRIBUTION", "RENAME TO u", "SET ('k' = 'v')", "RESET ('k')",
             "RENAME a TO b")
        )  # fmt: skip
        return f"ALTER TABLE {exists}db.t {change}"
    like = " LIKE s (EXCLUDING DISTRIBUTION INCLUDING OPTIONS)"
    source = chance.choice(("", "", " LIKE s", like, " AS SELECT 1 AS a"))
    columns = "" if "AS SELECT" in source else " (a INT, b STRING, `a b` INT)"
    parts = [
        f"CREATE TABLE{chance.choice(('', ' IF NOT EXISTS'))} db.t{columns}",
        chance.choice(("", " COMMENT 'it''s'")),
        f" DISTRIBUTED {clause(chance)}" if chance.random() < 0.8 else "",
        chance.choice(("", " PARTITIONED BY (b)", " PARTITIONED BY (b, a)")),
        chance.choice(("", " WITH ('k' = 'v')")),
        source,
    ]
    return "".join(parts)


def damaged(text: str, chance: random.Random) -> str:
    """The statement with a word left out, doubled, exchanged or replaced, but for its query."""
    text, has_query, query = text.partition(" AS SELECT")
    words = re.findall(r"'(?:[^']|'')*'|`[^`]*`|\w+|\S", text)
    # Flink joins texts that follow each other.
    able = [at for at, each in enumerate(words) if at >= 2 and not each.startswith("'")]
    at, other = chance.choice(able), chance.choice(able)
    match chance.randrange(4):
        case 0:
            del words[at]
        case 1:
            words.insert(at, words[at])
        case 2:
            words[at], words[other] = words[other], words[at]
        case _:
            words[at] = chance.choice(
                ("BY", "INTO", "HASH", "RANGE", "BUCKETS", "(", ")", "0", "x")
            )
    return " ".join(words) + has_query + query


def refused_by(flink: FlinkParser, text: str) -> str | None:
    """What Flink says against a statement in which its reserved words are quoted where it stops."""
    refusal = flink.refusal(text)
    for _ in range(4):
        found = re.search(r"line 1, column (\d+)", refusal or "")
        word = found and re.compile(r"[ .]*(\w+)").match(text, int(found[1]) - 1)
        if not word or not RESERVED.fullmatch(word[1]):
            break
        text = f"{text[: word.start(1)]}`{word[1]}`{text[word.end(1) :]}"
        refusal = flink.refusal(text)
    return refusal


def disagreements(flink: FlinkParser, statements: list[str]) -> list[str]:
    found = []
    for text in statements:
        theirs, mine = flink.refusal(text), ours(text)
        if theirs is not None and mine is None:
            theirs = refused_by(flink, text)
        is_meant = re.search(LATER, mine) if mine else re.search(FREE_ORDER, text)
        if (theirs is None) is not (mine is None) and not is_meant:
            found.append(f"{text}\n  Flink: {theirs or 'yes'}\n  Lakewright: {mine or 'yes'}")
    return found


@pytest.mark.mission("BK7", "BK8", "BK9", "BK18", "BK19", "BK33", "SQ15")
@pytest.mark.parametrize("text", OF_THE_DESIGN)
def test_a_statement_of_the_design_is_one_here_and_in_flink(flink: FlinkParser, text: str) -> None:
    assert (flink.refusal(text), ours(text)) == (None, None)


@pytest.mark.mission("BK7", "BK8", "BK9", "BK12", "BK16", "BK33")
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.sampled(3)
def test_random_statements_are_taken_and_refused_as_by_flink(flink: FlinkParser, seed: int) -> None:
    chance = random.Random(seed)
    whole = [statement(chance) for _ in range(60)]
    assert [text for text in whole if flink.refusal(text) or ours(text)] == []
    wrong = [damaged(statement(chance), chance) for _ in range(120)]
    assert disagreements(flink, wrong) == []
    # Most are wrong indeed.
    assert sum(flink.refusal(text) is not None for text in wrong) > 80
