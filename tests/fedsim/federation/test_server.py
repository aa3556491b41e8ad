"""The server of synchronous rounds: what its rows hold, and when it asks for buffers."""

from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from fedsim import RunConfig, run
from fedsim.federation.ledger import digest_of_model
from tests.support.models import normed
from tests.support.runs import rounds


def test_the_last_row_has_the_digest_of_the_model(make_task: Any, tmp_path: Path) -> None:
    run(RunConfig.of(task=make_task().name, method="raw", temporal=6), tmp_path, progress=False)
    digests = rounds(tmp_path)["digest_model"].tolist()
    assert len({*digests}) == 2
    assert digests[-1] == digest_of_model(load_file(tmp_path / "model.safetensors"))


def test_buffers_are_sent_where_the_bits_may_end_the_run(make_task: Any, tmp_path: Path) -> None:
    """Dense rounds of equal bits, of which the ninth is the last within the bits."""
    config = RunConfig.of(
        task=make_task(build=normed).name,
        method="raw",
        temporal=1,
        iterations=40,
        buffers="local",
        evaluate_every=1000,
    )
    run(config, tmp_path / "one", progress=False)
    row = rounds(tmp_path / "one").iloc[1]
    bits = 9.5 * row["up_wire_bits"] / row["clients"]
    run(config.but(stop_at_bits=float(bits)), tmp_path / "bits", progress=False)
    sent = rounds(tmp_path / "bits")["up_buffer_bits"] > 0
    assert sent.iloc[-1] and not sent.iloc[1] and len(sent) < 13
