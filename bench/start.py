"""Where the time of a start goes: the numbers of bench/load.c, one process warm and one cold, as rows of a table by part.

Most parts are measured as such. Three are inside the first run, and follow from differences:
    compute  a warm run
    pages    of the weights. Warm: first touch of all pages of the file, measured by itself, but no more than the first run took longer than
             a warm one. Cold: that, and what the first run takes more than the first one of a warm start
    rest     of the first run: first touch of the arena, code and caches that are cold, threads that wake up
"""

from __future__ import annotations

from typing import Any

HEADER = ["ms", "file is", "map", "tables", "session", "plan", "threads", "compute", "pages", "rest", "all", "faults"]


def start_ms(run: dict[str, Any]) -> float:
    """From pen_model_open to the end of the first run."""
    return sum(float(run[f"{part}_ms"]) for part in ("open", "session", "plan", "first"))


def parts(warm: dict[str, Any], cold: dict[str, Any] | None = None) -> dict[str, float]:
    """Of the warm start; of the cold one, if there is one."""
    run = cold or warm
    more = max(warm["first_ms"] - warm["warm_ms"] - warm["threads_ms"], 0.0)
    pages = min(warm["touch_ms"], more)
    rest = more - pages
    if cold:
        pages = max(cold["first_ms"] - warm["warm_ms"] - warm["threads_ms"] - rest, 0.0)
    mapping = min(run["map_ms"], run["open_ms"])
    return {
        "map": mapping,
        "tables": run["open_ms"] - mapping,
        "session": run["session_ms"],
        "plan": run["plan_ms"],
        "threads": warm["threads_ms"],
        "compute": warm["warm_ms"],
        "pages": pages,
        "rest": rest,
        "all": start_ms(run),
    }


def cold_words(run: dict[str, Any]) -> str:
    """Why a start that was to be cold was not; empty where it was."""
    if run["resident"] == 0:
        return ""
    if run["resident"] < 0:
        return "not measured: the system does not tell which pages of the file are in memory"
    return f"not measured: {run['resident']} pages of the file stayed in memory (a file system in memory, or another program maps it)"


def lines(model: str, warm: dict[str, Any], cold: dict[str, Any] | None) -> list[list[str]]:
    made = [_line(model, "warm", parts(warm), warm)]
    if cold and cold_words(cold):
        made.append([model, "cold", cold_words(cold), *[""] * (len(HEADER) - 3)])
    elif cold:
        made.append(_line(model, "cold", parts(warm, cold), cold))
    return made


def _line(model: str, state: str, times: dict[str, float], run: dict[str, Any]) -> list[str]:
    faults = sum(run[f"{part}_{kind}"] for part in ("open", "plan", "first") for kind in ("major", "minor"))
    return [model, state, *[f"{times[name]:.2f}" for name in HEADER[2:-1]], str(faults)]


def cells(result: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Of what `./dev load` writes as JSON."""
    made = []
    for row in result["models"]:
        if "warm_start" in row:
            made += lines(row["model"], row["warm_start"], row.get("cold_start"))
    return HEADER, made
