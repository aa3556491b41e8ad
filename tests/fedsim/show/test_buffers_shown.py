"""What the report shows of buffers (BatchNorm's statistics): a part of the bits like any other."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fedsim import SweepConfig, Task, sweep
from fedsim.ground import units
from fedsim.results.load import load_results
from fedsim.show.report import write_page
from fedsim.show.report.messages import message_parts
from tests.support.models import normed
from tests.support.page import Page
from tests.support.runs import make_task

__all__ = ["make_task"]  # the fixture


@pytest.mark.slow
@pytest.mark.parametrize("buffers", ["mean", "local"])
def test_the_bars_sum_to_wire_with_buffers(
    buffers: str, make_task: Callable[..., Task], tmp_path: Path
) -> None:
    task = make_task(build=normed)
    config = SweepConfig.of(
        task=task, method="sbc", temporal=[2], gradient=[0.2], iterations=4, buffers=buffers
    )
    sweep(config, tmp_path)
    runs = load_results(tmp_path).runs
    made = message_parts(runs)
    assert made is not None
    bars = {bar.name: bar for bar in made.marks}
    assert list(bars) == ["header", "position", "value", "side", "buffers"]
    for place, (_, run) in enumerate(runs.iterrows()):
        parts = run[
            [
                "up_header_bits",
                "up_position_bits",
                "up_value_bits",
                "up_side_bits",
                "up_buffer_bits",
            ]
        ]
        assert parts.sum() == run["up_wire_bits"] and parts["up_buffer_bits"] > 0
        for bar, bits in zip(bars.values(), parts, strict=True):
            share = bar.x[place] - bar.start[place]
            assert share == pytest.approx(100 * bits / run["up_wire_bits"])
    last = runs.iloc[-1]
    shown = [units.bits(last[f"up_{name}_bits"]) for name in ("buffer", "wire")]
    share = 100 * last["up_buffer_bits"] / last["up_wire_bits"]
    said = f"buffers: {shown[0]} of {shown[1]}, {share:.1f} %"
    assert bars["buffers"].texts[-1].endswith(said)
    page = Page(write_page(tmp_path).read_text(encoding="utf-8"))
    assert "Buffers: BatchNorm's statistics" in page.text
