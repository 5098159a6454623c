"""Other clients read the ledger as a plain table."""

from __future__ import annotations

import pytest

from lakewright.platform.ledger.action import Action, Verdict
from lakewright.platform.ledger.action_rows import row_of
from lakewright.platform.ledger.ledger import LEDGER, Ledger
from lakewright.platform.upkeep.measures import Benefit, Cost
from lakewright.storage import Catalog
from tests.oracles.client import Oracle

ACTION = Action(
    id="one",
    run="a run",
    table="db.t",
    table_uuid="u",
    verb="compact",
    started_ms=1_704_067_200_000,
    ended_ms=1_704_067_201_500,
    verdict=Verdict.DONE,
    options={"full": True},
    predicted_cost=Cost(bytes=1 << 40),
    benefit=Benefit(files_fewer=2, bytes_fewer=-3),
    condemned=("q",),
    snapshots=(4, 5),
)


@pytest.mark.parametrize("client", ["released_pypaimon", "java_latest"])
def test_another_client_reads_every_column_of_the_ledger(
    catalog: Catalog, request: pytest.FixtureRequest, client: str
) -> None:
    oracle: Oracle = request.getfixturevalue(client)
    ledger = Ledger(catalog)
    ledger.record([ACTION])
    ledger.record(
        [
            Action(
                id="two",
                run="r",
                table="db.t",
                table_uuid="u",
                verb="expire_snapshots",
                started_ms=ACTION.started_ms,
                ended_ms=ACTION.ended_ms,
                verdict=Verdict.FAILED,
                error="no answer",
            )
        ]
    )

    found = {row["id"]: row for row in oracle.read(catalog.root, LEDGER)}

    assert set(found) == {"one", "two"}
    assert {name: found["one"][name] for name in row_of(ACTION)} == row_of(ACTION)
    assert found["two"]["error"] == "no answer"
    assert found["two"]["predicted_cost_bytes"] is None
