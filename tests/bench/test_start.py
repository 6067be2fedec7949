"""The parts of a start add up to what it took, and a start that was not cold has no numbers of one."""

from __future__ import annotations

from typing import Any

import pytest

from bench import start

FAULTS = {f"{part}_{kind}": 10 for part in ("open", "plan", "first") for kind in ("major", "minor")}


def run(first: float, touch: float, resident: int = -1, opened: float = 0.5) -> dict[str, Any]:
    times = {"open_ms": opened, "session_ms": 0.1, "plan_ms": 0.2, "first_ms": first, "warm_ms": 3.0, "touch_ms": touch}
    return {**times, "map_ms": 0.02, "threads_ms": 0.05, "resident": resident, **FAULTS}


@pytest.mark.parametrize("touch", [0.6, 9.0])  # the second: more than the first run took longer
def test_parts_add_up(touch: float) -> None:
    warm, cold = run(4.5, touch), run(12.0, 11.0, 0, 1.5)
    for times, of in ((start.parts(warm), warm), (start.parts(warm, cold), cold)):
        assert times["all"] == pytest.approx(start.start_ms(of))
        assert sum(times.values()) - times["all"] == pytest.approx(times["all"])
        assert min(times.values()) >= 0
    assert start.parts(warm)["pages"] == pytest.approx(min(touch, 1.45))
    assert start.parts(warm, cold)["pages"] - start.parts(warm)["pages"] == pytest.approx(7.5)
    assert start.parts(warm, cold)["rest"] == start.parts(warm)["rest"]


def test_what_was_not_cold_has_no_numbers() -> None:
    warm = run(4.5, 0.6)
    for resident, words in ((7, "7 pages"), (-1, "does not tell")):
        line = start.lines("m", warm, run(4.6, 0.6, resident))[1]
        assert words in line[2]
        assert not any(line[3:])
        assert len(line) == len(start.HEADER)
    assert start.lines("m", warm, run(12.0, 11.0, 0))[1][-1] == "60"
    assert len(start.lines("m", warm, None)) == 1
