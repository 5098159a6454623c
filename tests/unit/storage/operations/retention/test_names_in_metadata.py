"""Names that metadata gives lead nowhere but into the folder that the format sets."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.codec.commit_json import decode_message, encode_message
from lakewright.storage.errors import CorruptionError, InvalidOption, StorageError
from lakewright.storage.spec.file_names import UnsafeName, place_below, plain_name
from tests.support.tables.builders import content, events, new_table, remove_orphans, rows
from tests.support.tables.environment import FixedEnv
from tests.support.tables.foreign_metadata import (
    Json,
    Record,
    change_json,
    change_records,
    root_of,
    table_of_everything,
)
from tests.support.tally import tally

# Below the warehouse, three folders up from a manifest and four from a data file.
VICTIM = "victim/precious"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made once, and copied for each name."""
    opened = Catalog.open(str(tmp_path_factory.mktemp("template")), env=FixedEnv())
    return root_of(table_of_everything(opened))


@pytest.fixture
def victim(unchecked_catalog: Catalog) -> Path:
    path = Path(unchecked_catalog.root) / VICTIM
    path.parent.mkdir(parents=True)
    path.write_bytes(b"not the table's")
    return path


def outside(table: Table) -> dict[str, bytes]:
    """Everything in the warehouse but the table."""
    root = root_of(table)
    warehouse = root.parent.parent
    return {
        str(path): path.read_bytes() if path.is_file() else b""
        for path in warehouse.rglob("*")
        if not path.is_relative_to(root)
    }


def verbs(table: Table) -> Iterator[Callable[[], object]]:
    """What reads metadata, and what deletes and writes by it; deletions come last."""
    yield lambda: table.history.delete_consumer("reader")
    yield lambda: table.history.run(table.history.plan_delete_branch("side", grace_ms=0))
    yield lambda: table.history.run(table.history.plan_delete_tags("kept", grace_ms=0))
    yield lambda: list(
        table.upkeep.expire_in_steps(retain_min=1, retain_max=1, time_retained_ms=0, max_deletes=4)
    )
    yield table.read
    yield lambda: table.inspect.table("files")
    yield lambda: table.write(rows(table, events(3, 5)))
    yield lambda: table.upkeep.run(table.upkeep.plan_compact(full=True))
    yield lambda: table.commit_pending("stream")
    yield lambda: table.upkeep.run(table.upkeep.plan_analyze())
    yield lambda: remove_orphans(table)
    yield lambda: table.upkeep.run(
        table.upkeep.plan_remove_orphans(older_than_ms=0, even_recent=True, grace_ms=0)
    )
    yield lambda: table.upkeep.run(table.upkeep.plan_expire_changelogs(every=True, grace_ms=0))
    yield lambda: list(table.upkeep.expire_in_steps(retain_min=1, retain_max=1, time_retained_ms=0))
    yield lambda: table.upkeep.run(table.upkeep.plan_collect(early=True, under_way=True))


def everything_tried(table: Table) -> list[StorageError]:
    """The errors of all verbs; nothing but ours is raised."""
    errors = []
    for verb in verbs(table):
        try:
            verb()
        except StorageError as error:
            errors.append(error)
    return errors


def set_key(key: str, name: str) -> Callable[[Json], object]:
    return lambda data: data.__setitem__(key, name)


def in_snapshots(key: str, *, which: str) -> Callable[[Table, str], None]:
    def change(table: Table, name: str) -> None:
        for path in root_of(table).glob(which):
            if path.is_file():
                change_json(path, set_key(key, name))

    return change


def in_records(pattern: str, change: Callable[[Record, str], object]) -> Callable[..., None]:
    def changed(table: Table, name: str) -> None:
        paths = [each for each in root_of(table).glob(pattern) if each.is_file()]
        assert paths
        for path in paths:
            change_records(path, lambda record: change(record, name))
        # Lists say how many bytes they have, and so do snapshots of them.
        for path in root_of(table).glob("**/snapshot/snapshot-*"):
            change_json(path, without_sizes)

    return changed


def without_sizes(data: Json) -> None:
    for key in [key for key in data if key.endswith("ListSize")]:
        del data[key]


def set_vector(record: Record, name: str) -> None:
    for each in record["_DELETIONS_VECTORS_RANGES"] or ():
        each["f0"] = name


MANIFESTS, LISTS = "manifest/manifest-0*", "manifest/manifest-list-*"
INDEXES = "manifest/index-manifest-*"
FIELDS: dict[str, Callable[[Table, str], None]] = {
    **{
        f"{key} of {which}": in_snapshots(key, which=which)
        # What expires, and what is read.
        for which in ("snapshot/snapshot-[1-4]", "snapshot/snapshot-9", "**/tag/tag-*")
        for key in (
            "baseManifestList",
            "deltaManifestList",
            "changelogManifestList",
            "indexManifest",
            "statistics",
        )
    },
    "manifest list _FILE_NAME": in_records(LISTS, lambda each, n: each.update(_FILE_NAME=n)),
    "manifest _FILE_NAME": in_records(
        MANIFESTS, lambda each, n: each["_FILE"].update(_FILE_NAME=n)
    ),
    "manifest _EXTRA_FILES": in_records(
        MANIFESTS, lambda each, n: each["_FILE"].update(_EXTRA_FILES=[n])
    ),
    "manifest _EXTERNAL_PATH": in_records(
        MANIFESTS, lambda each, n: each["_FILE"].update(_EXTERNAL_PATH=n)
    ),
    "index manifest _FILE_NAME": in_records(INDEXES, lambda each, n: each.update(_FILE_NAME=n)),
    "index manifest _EXTERNAL_PATH": in_records(
        INDEXES, lambda each, n: each.update(_EXTERNAL_PATH=n)
    ),
    "index manifest data file": in_records(INDEXES, set_vector),
}


def names_of() -> list[str]:
    """From the folder of metadata, and from that of a bucket."""
    return [f"../../../{VICTIM}", f"../../../../{VICTIM}"]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("field", list(FIELDS))
def test_no_name_in_metadata_leads_out_of_the_table(
    unchecked_catalog: Catalog, template: Path, victim: Path, field: str
) -> None:
    for number, name in enumerate(names_of()):
        shutil.copytree(template, Path(unchecked_catalog.root, f"db.db/t{number}"))
        table = unchecked_catalog.table(f"db.t{number}")
        FIELDS[field](table, name)
        before = outside(table)
        errors = everything_tried(table)
        assert outside(table) == before, name
        assert errors, f"{name!r} was taken"
        tally("names of files in metadata")


@pytest.mark.parametrize("option", ["partition.default-name", "data-file.prefix"])
@pytest.mark.parametrize("name", ["x/../../../victim/precious", "/tmp/x", "..", "a\0b", "x\\y"])
def test_an_option_that_names_files_elsewhere_is_refused_before_anything_is_written(
    unchecked_catalog: Catalog, victim: Path, option: str, name: str
) -> None:
    table = new_table(unchecked_catalog, partitions=["day"])
    change_json(
        root_of(table) / "schema/schema-0", lambda data: data["options"].update({option: name})
    )
    table = unchecked_catalog.table("db.t")
    before = outside(table)
    with pytest.raises(InvalidOption, match="must not lead to another folder"):
        table.write(rows(table, events(0, 2, day=None)))
    assert outside(table) == before


def test_a_pending_batch_that_names_a_file_elsewhere_is_not_aborted_there(
    unchecked_catalog: Catalog, victim: Path
) -> None:
    table = table_of_everything(unchecked_catalog)
    (batch,) = root_of(table).glob(".lakewright/pending/*/batch-1")
    (staged,) = table.pending_batches()
    (message,) = staged.messages

    def change(data: Json) -> None:
        index = {
            "index_type": "HASH",
            "file_name": f"../../../{VICTIM}",
            "file_size": 1,
            "row_count": 1,
            "deletion_vectors": None,
            "external_path": None,
        }
        data["messages"][0]["new_indexes"] = [index]

    change_json(batch, change)
    before = outside(table)
    for verb in (lambda: table.abort(staged), lambda: table.commit_pending("stream")):
        with pytest.raises(CorruptionError, match="plain file name"):
            verb()
    assert outside(table) == before
    assert message.bucket == 0


@pytest.mark.parametrize("bucket", ["0/../../../../victim", None, 1.5, True, 2**70])
def test_a_commit_message_has_a_number_for_a_bucket(
    unchecked_catalog: Catalog, bucket: object
) -> None:
    table = new_table(unchecked_catalog)
    message = table.stage(rows(table, events(0, 1))).messages[0]
    data = json.loads(encode_message(message))
    with pytest.raises(CorruptionError, match="not a commit message"):
        decode_message(json.dumps({**data, "bucket": bucket}))
    broken = base64.b64encode(b"no manifest").decode()
    with pytest.raises(CorruptionError, match="Avro"):
        decode_message(json.dumps({**data, "new_files": broken}))


NAMES_PEOPLE_GIVE = ["../../victim/precious", "x/../../../victim/precious", "a\0b", "\ud800"]


@pytest.mark.parametrize("name", NAMES_PEOPLE_GIVE)
def test_a_name_that_a_caller_gives_leads_nowhere_else(
    unchecked_catalog: Catalog, victim: Path, name: str
) -> None:
    table = table_of_everything(unchecked_catalog)
    before = outside(table)
    asked: list[Callable[[], object]] = [
        lambda: table.at(tag=name).read(),
        lambda: table.history.at_branch(name),
        lambda: table.history.create_tag(name),
        lambda: table.history.create_branch(name),
        lambda: table.history.plan_delete_tags(name, grace_ms=0),
        lambda: table.history.plan_delete_branch(name, grace_ms=0),
        lambda: table.history.plan_fast_forward(name, grace_ms=0),
        lambda: table.history.plan_rollback(tag=name, grace_ms=0),
        lambda: table.history.set_consumer(name, 3),
        lambda: table.history.delete_consumer(name),
        lambda: table.upkeep.plan_put_back(name),
        lambda: unchecked_catalog.table(f"db.{name}"),
        lambda: unchecked_catalog.table(f"{name}.t"),
        lambda: unchecked_catalog.drop_table(f"db.{name}"),
        lambda: unchecked_catalog.create_database(name),
        lambda: unchecked_catalog.list_tables(name),
        lambda: new_table(unchecked_catalog, name=f"db.{name}"),
    ]
    for verb in asked:
        with pytest.raises(StorageError):
            verb()
    assert outside(table) == before


@pytest.mark.parametrize(
    "path", ["../../victim/precious", "/etc/hosts", "a/./b", "a//b", "manifest/\0", ""]
)
def test_a_plan_that_somebody_wrote_deletes_nothing_elsewhere(
    unchecked_catalog: Catalog, victim: Path, path: str
) -> None:
    table = table_of_everything(unchecked_catalog)
    table.history.delete_consumer("reader")
    plan = table.upkeep.plan_expire_snapshots(
        retain_min=1, retain_max=1, time_retained_ms=0, grace_ms=0
    )
    data = json.loads(plan.to_json())
    data["files"].append({"path": path, "size_bytes": 1})
    before = outside(table)
    with pytest.raises(ValueError, match="not a place below the table"):
        table.upkeep.run(type(plan).from_json(json.dumps(data)))
    assert outside(table) == before
    assert table.table_files.snapshots.ids()[0] == 1


def test_tags_and_branches_of_a_plan_are_names(unchecked_catalog: Catalog, victim: Path) -> None:
    table = table_of_everything(unchecked_catalog)
    (victim.parent / "schema").mkdir()
    (victim.parent / "schema/schema-0").write_bytes(victim.read_bytes())
    before = outside(table)
    tags = table.history.plan_delete_tags("kept", grace_ms=0)
    branch = table.history.plan_delete_branch("side", grace_ms=0)
    crossing = "side/../../../../victim"
    with pytest.raises(StorageError):
        table.history.run(
            type(tags).from_json(tags.to_json().replace('"kept"', f'"kept/../../{VICTIM}"'))
        )
    with pytest.raises(StorageError):
        table.history.run(
            type(branch).from_json(branch.to_json().replace('"side"', f'"{crossing}"'))
        )
    assert outside(table) == before


def test_a_link_in_a_table_is_taken_away_and_not_what_it_leads_to(
    unchecked_catalog: Catalog, victim: Path
) -> None:
    table = new_table(unchecked_catalog)
    table.write(rows(table, events(0, 3)))
    root = root_of(table)
    (root / "bucket-0/data-link").symlink_to(victim)
    (root / "bucket-7").symlink_to(victim.parent)
    (root / "manifest/more").symlink_to(victim.parent)
    before = outside(table)
    was = content(table)
    for grace_ms in (0, 1):
        with suppress(StorageError):
            table.upkeep.remove_orphans(older_than_ms=0, even_recent=True, grace_ms=grace_ms)
            table.upkeep.collect(early=True)
        assert outside(table) == before
    assert content(table) == was
    unchecked_catalog.drop_table("db.t", grace_ms=0)
    assert outside(table) == before


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "/a", "../a", "a\\b", "a\0b", "\ud800", None, 5, ["a"], True]
)
def test_what_is_no_plain_name_is_refused(name: object) -> None:
    with pytest.raises(UnsafeName):
        plain_name(name)
    with pytest.raises(UnsafeName):
        place_below(f"a/../{name}")


@pytest.mark.parametrize("name", ["data-1.parquet", "...", "a b", "ä", "%2e%2e", "~", "-rf", "😀"])
def test_what_stays_in_its_folder_is_a_plain_name(name: str) -> None:
    assert plain_name(name) == name
    assert place_below(f"a/{name}") == f"a/{name}"
