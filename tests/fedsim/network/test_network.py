"""Networks as they are typed: presets, settings, files, traces, and what is refused."""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim import Network, RunConfig, UsageError
from fedsim.network import parse
from fedsim.network.quantities import Varying, quantity
from fedsim.network.rates import read_trace
from fedsim.settings.config import from_toml


def test_settings_replace_those_of_a_preset() -> None:
    network = parse("4g, up=lognormal(5Mbit, 1), latency=0.05, compute=2*measured, server-up=1Gbit")
    assert (network.up.kind, network.up.first, network.up.second) == ("lognormal", 5e6, 1.0)
    assert (network.down.first, network.latency.first, network.compute.first) == (9e6, 0.05, 2.0)
    assert network.server_up == 1e9 and network.measured


@pytest.mark.parametrize("rate", [5e6, 5_000_000, np.float64(5e6), np.float32(0.1), 1 / 3, 2e22])
def test_a_rate_that_is_a_number_is_in_bits_per_second(rate: Any) -> None:
    """And its text, which files of settings hold, reads back as the same."""
    made = Network("4g", up=rate, server_down=rate, down=float("inf"))
    network = parse(str(made))
    assert network.up.first == network.server_down == float(rate)
    assert math.isinf(network.down.first)
    assert Network(str(made)) == made
    run = RunConfig.of(network={"preset": "4g", "up": rate, "server_down": rate, "down": "inf"})
    assert run.network == made


def test_a_rate_in_a_file_has_a_unit(tmp_path: Path) -> None:
    told = "up is '5': give a number above 0 with a unit"
    (tmp_path / "net.toml").write_text("up = 5\n")
    with pytest.raises(UsageError, match=told):
        parse(str(tmp_path / "net.toml"))
    (tmp_path / "run.toml").write_text("[network]\nup = 5\n")
    with pytest.raises(UsageError, match=told):
        from_toml(tmp_path / "run.toml")


def test_links_follow_from_the_seed_and_each_quantity_from_its_own_draws() -> None:
    text = "up=lognormal(5Mbit, 1), down=uniform(1Mbit, 2Mbit)"
    first, same = parse(text).links(5, 3, 0.1), parse(text).links(5, 3, 0.1)
    more = parse(text + ", latency=uniform(1ms, 2ms)").links(5, 3, 0.1)
    assert [*first.up, *first.down] == [*same.up, *same.down] == [*more.up, *more.down]
    assert [*first.up] != [*parse(text).links(5, 4, 0.1).up]
    assert first.compute.tolist() == [0.1] * 5
    many = np.array([rate.values[0] for rate in parse(text).links(20_000, 0, 0.1).up])
    assert np.median(many) == pytest.approx(5e6, rel=0.03)
    assert np.log(many).std() == pytest.approx(1, rel=0.03)


def test_a_file_says_each_setting_once(tmp_path: Path) -> None:
    file = tmp_path / "home.toml"
    file.write_text('server_up = "1Mbit"\nserver-up = "2Mbit"\n')
    with pytest.raises(UsageError, match="home.toml: server_up is given twice"):
        parse(str(file))


def test_a_trace_per_client(tmp_path: Path) -> None:
    file = tmp_path / "links.csv"
    file.write_text("client,seconds,up,down\n*,0,10,20\n*,2,5,20\n1,0,1,1\n10,0,3,3\n")
    up, down = read_trace(file).of(3)
    assert [rate.values for rate in up] == [(10.0, 5.0), (1.0,), (10.0, 5.0)]
    assert up[0].period == 4.0 and down[0].values == (20.0,)
    (tmp_path / "net.toml").write_text('trace = "links.csv"')
    assert [*parse(str(tmp_path / "net.toml")).links(2, 0, 0.0).up] == up[:2]


def test_a_name_in_a_trace_is_the_client_s_number(tmp_path: Path) -> None:
    """Clients 1, 2 and 3 of a file are not 0, 1 and 2, nor is one of them everybody."""
    links, there = tmp_path / "links.csv", tmp_path / "there.csv"
    links.write_text("client,seconds,up,down\n2,0,3,1\n10,0,9,1\n1,0,2,1\n0,0,1,1\n")
    assert [rate.at(0) for rate in read_trace(links).of(3)[0]] == [1, 2, 3]
    links.write_text("client,seconds,up,down\n1,0,1,1\n2,0,2,1\n3,0,3,1\n")
    told = "has no row of client 0: clients are 0 to 3, and it names 1, 2, 3; a row with client = *"
    with pytest.raises(UsageError, match=re.escape(told)):
        RunConfig(network=f"trace={links}", clients=4)
    there.write_text("client,seconds,available\n3,0,0\n3,5,1\n")
    known = {"network": "4g, compute=20ms", "availability": str(there), "clients": 4}
    with pytest.raises(UsageError, match="no row of client 0"):
        RunConfig.of(**known)
    there.write_text("client,seconds,available\n3,0,0\n3,5,1\n*,0,1\n")
    availability = RunConfig.of(**known).plan.rules.availability
    assert availability is not None
    now, there = availability.of(4, 0).at(0, 1, 1, 4)
    assert (now, there.tolist()) == (0, [0, 1, 2])


def test_a_factor_of_what_was_measured_may_vary() -> None:
    compute = parse("compute=lognormal(2, 0.5)*measured").compute
    assert (compute.kind, compute.first, compute.second) == ("lognormal", 2, 0.5)
    assert parse("compute=0*measured").compute.first == 0


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ("seconds,up\n0,1\n", "lacks down"),
        ("seconds,up,down\n", "lacks rows"),
        ("seconds,up,down\n1,1,1\n", "begin at 0"),
        ("seconds,up,down\n0,1,1\n0,2,2\n", "rise"),
        ("seconds,up,down\n0,0,1\n", "not all 0"),
        ("seconds,up,down\n0,x,1\n", "could not convert"),
        ("seconds,up,down\n0,0,5,7\n1,3,5,7\n", "a row has more values than there are columns"),
        ("seconds,up,down\n0,0,0,5,7\n1,1,3,5,7\n", "a row has more values"),
        ("seconds,up,down\n0,1,2\n5,1,2,3\n", "Expected 3 fields in line 3, saw 4"),
        ("client,seconds,up,down\na,0,1,1\n", "client is 'a': give a client's number from 0"),
        ("client,seconds,up,down\n1.0,0,1,1\n", "client is '1.0'"),
        ("client,seconds,up,down\n0,0,1,1\n,0,1,1\n", "client is ''"),
    ],
)
def test_a_trace_that_is_none_is_told_in_a_line(rows: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(rows)
    with pytest.raises(UsageError, match=told):
        read_trace(tmp_path / "t.csv")


def test_rows_of_a_trace_may_end_with_a_comma(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("seconds,up,down\n0,1,2,\n5,3,4,\n")
    (up,), (down,) = read_trace(tmp_path / "t.csv").of(1)
    assert (up.times, up.values, down.values) == ((0.0, 5.0), (1.0, 3.0), (2.0, 4.0))


def test_a_run_s_network_is_checked_first_and_names_the_run_only_where_it_is_given() -> None:
    assert RunConfig().plan.network is None and "network" not in RunConfig().identity()
    config = RunConfig(network="4g, compute=10ms")
    assert config.plan.network == parse("4g, compute=10ms")
    assert config.identity()["network"] == "4g, compute=10ms"
    assert config.digest != RunConfig().digest
    with pytest.raises(UsageError, match="--network: unknown network '6g'"):
        RunConfig(network="6g")


def test_a_run_s_network_does_not_change_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "links.csv").write_text("seconds,up,down\n0,10,20\n")
    file = tmp_path / "net.toml"
    file.write_text('trace = "links.csv"\ncompute = "10ms"\n')
    config = RunConfig(network=str(file))
    assert str(config.network) == f"trace={tmp_path / 'links.csv'}, compute=10ms"
    assert config.plan.network is not None and config.plan.network.trace is not None
    file.write_text('preset = "wifi"\nup = "lognormal(5Mbit, 0.5)"\ncompute = "20ms"\n')
    changed, typed = parse(str(file)), parse("wifi, up=lognormal(5Mbit, 0.5), compute=20ms")
    for name in ("up", "down", "latency", "compute", "measured"):
        assert getattr(changed, name) == getattr(typed, name)


@pytest.mark.parametrize("name", ["a, b.csv", "(open.csv", "it's, this.csv", "plain.csv"])
def test_a_trace_s_path_has_commas_and_parentheses(name: str, tmp_path: Path) -> None:
    """In quotes, which a text has where a path without them reads as another one."""
    folder = tmp_path / "x, y"
    folder.mkdir()
    (folder / name).write_text("seconds,up,down\n0,10,20\n")
    file = folder / "net.toml"
    file.write_text(f'trace = "{name}"\ncompute = "5ms"\n')
    network = Network(str(file))
    assert network == Network(str(network)) == Network(trace=folder / name, compute="5ms")
    assert parse(f'compute=5ms, trace="{folder / name}"').trace is not None
    (up,), _ = parse(str(network)).trace.of(1)
    assert up.values == (10.0,) and parse(str(network)).compute.first == 0.005


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("2e6", "bits", 2e6),
        (np.float32(8), "bits", 8),
        ("812 bit", "bits", 812),
        ("5E-1 Gbit", "bits", 5e8),
        ("3Tbit/s", "rate", 3e12),
        ("768 KBIT/s", "rate", 768e3),
        ("inf", "rate", float("inf")),
        ("8us", "delay", 8e-6),
        ("0", "delay", 0.0),
        (".5h", "delay", 1800.0),
        ("1.5h", "time", 5400.0),
        (90, "time", 90.0),
        ("+2 min", "time", 120.0),
    ],
)
def test_one_grammar_reads_every_number_with_a_unit(text: Any, kind: Any, value: float) -> None:
    assert quantity(text, "--it", kind) == value


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1Mbit/s", "bits"),
        ("inf", "bits"),
        ("2 MB", "bits"),
        ("nan", "bits"),
        ("", "bits"),
        (None, "bits"),
        (0, "bits"),
        (-5, "bits"),
        ("inf", "time"),
        ("0", "time"),
        ("0bit", "rate"),
        ("1e999", "rate"),
        ("5 m", "time"),
        ("-1", "delay"),
        ("1..2", "delay"),
        (True, "time"),
    ],
)
def test_what_is_no_such_number_is_refused(text: object, kind: Any) -> None:
    with pytest.raises(UsageError, match=re.escape(f"--it is {text!r}: give a ")):
        quantity(text, "--it", kind)


def test_a_uniform_number_lies_between_its_ends() -> None:
    drawn = Varying("uniform", 1.0, 2.0).draw(np.random.default_rng(0), 1000)
    assert 1 <= drawn.min() < 1.01 and 1.99 < drawn.max() <= 2
