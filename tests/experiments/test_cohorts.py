"""A thousand clients with dropout and a deadline: what the committed table says."""

import pandas as pd

from tests.support.experiments import experiment
from tests.support.markdown import ROOT

RESULTS = ROOT / "experiments" / "cohorts" / "results"


def rows() -> pd.DataFrame:
    return pd.read_csv(RESULTS / "policies.csv").set_index("name")


def test_a_thousand_clients_fifty_rounds_a_tenth_drops_out() -> None:
    table = rows()
    cells = experiment("cohorts").cells("short")
    assert [cell.name for cell in cells] == [f"{name}-seed0" for name in table.index]
    assert {cell.config.plan.clients for cell in cells} == {1000}
    assert (table["rounds"] == 50).all()
    out = (table["dropped_out"] / table["asked"]).drop("all")
    assert out.between(0.08, 0.12).all() and table["dropped_out"]["all"] == 0


def test_every_update_is_used_late_or_dropped_out() -> None:
    table = rows()
    used = table["updates_per_round"] * table["rounds"]
    told = used + table["dropped_out"] + table["late"]
    assert (told - table["asked"]).drop("count").abs().max() < 1e-6
    counted = told["count"] - table["asked"]["count"]  # late ones that were used after all
    assert 0 < counted <= table["late"]["count"]
    assert (table["lost"] > 0).sum() == 1 and 0 < table["lost"]["drop"] <= table["late"]["drop"]


def test_the_deadline_halves_the_time() -> None:
    table = rows()
    assert (table.loc[["hold", "drop", "count"], "sim_seconds"] <= 50).all()
    assert table["sim_seconds"]["all"] > 2 * table["sim_seconds"]["hold"]
    same = ["accuracy_percent", "updates_per_round", "target_seconds"]
    assert table.loc["hold", same].equals(table.loc["drop", same])  # late once, late always
