"""./dev fuzz: attacks on files, operators and numbers, for as long as you like.

    ./dev fuzz --minutes 10                       all targets, the time shared among them
    ./dev fuzz --target operators --minutes 60    one (may be given several times)
    ./dev fuzz --list                             which there are
    ./dev fuzz --target ptl --replay FILE         a finding again

Exit status 1: something was found. It is in build/fuzzing/findings, as small as it could be made; what was learnt stays in
build/fuzzing/corpus for the next time.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from rich.live import Live
from rich.table import Table

from penlight.tools.screen import error_screen, in_bytes, screen, table
from tests.fuzz.fuzzing import Fuzzing, replay
from tests.fuzz.targets import TARGETS, Target


def shown(fuzzing: Fuzzing, start: float, minutes: float) -> Table:
    gone = time.monotonic() - start
    rows = table(
        f"{gone / 60:.1f} of {minutes:g} minutes", "target", "executions", "a second", "findings", "",
        right=("executions", "a second", "findings"),
    )  # fmt: skip
    for s in fuzzing.states:
        busy = s.seconds or gone
        rows.add_row(
            s.target.name,
            f"{s.executions:,}",
            f"{s.executions / max(busy, 1):,.0f}",
            str(len(s.findings) or "-"),
            s.word,
        )
    rows.add_row(
        "all",
        f"{sum(s.executions for s in fuzzing.states):,}",
        "",
        str(sum(len(s.findings) for s in fuzzing.states) or "-"),
        "",
    )
    return rows


def chosen(names: list[str] | None) -> list[Target]:
    if names:
        return [TARGETS[n] for n in names]
    return [t for t in TARGETS.values() if not t.missing()]


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="./dev fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--target", action="append", choices=[*TARGETS])
    parser.add_argument("--list", action="store_true", help="the targets")
    parser.add_argument("--replay", type=Path, help="run one file of --target")
    parser.add_argument("--seed", type=int, help="the first file's number; by default another one each time")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2, help="targets at once")
    parser.add_argument(
        "--no-corpus", action="store_true", help="neither use nor keep what was learnt: the same files each time"
    )
    given = parser.parse_args(words)
    out = screen()
    if given.list:
        rows = table("", "target", "what", "")
        for t in TARGETS.values():
            rows.add_row(t.name, t.about, t.missing())
        out.print(rows)
        return 0
    targets = chosen(given.target)
    absent = [f"{t.name}: {t.missing()}" for t in targets if t.missing()]
    if absent:
        parser.error("; ".join(absent))
    if given.replay:
        if len(targets) != 1:
            parser.error("--replay needs --target: which one the file is of")
        status, said = replay(targets[0], given.replay)
        out.print(said)
        return 1 if status else 0
    for t in targets:  # built before the clock starts
        if t.make is None:
            error_screen().print(f"[dev] building {t.name} under sanitizers")
            t.program()
    seconds = 60 * given.minutes * min(given.jobs, len(targets)) / len(targets)
    seed = time.time_ns() // 1_000_000 % 10**9 * 1000 if given.seed is None else given.seed
    fuzzing = Fuzzing(targets, seconds, seed, corpus=not given.no_corpus)
    start = time.monotonic()
    try:
        if sys.stdout.isatty():
            with Live(get_renderable=lambda: shown(fuzzing, start, given.minutes), refresh_per_second=2):
                fuzzing.run(given.jobs)
        else:
            fuzzing.run(given.jobs)
    except KeyboardInterrupt:
        error_screen().print("stopped")
    out.print(shown(fuzzing, start, given.minutes))
    findings = [(name, path) for s in fuzzing.states for name, path in s.findings.items()]
    for name, path in findings:
        out.print(f"{name}\n    {path} ({in_bytes(path.stat().st_size)}); what was said is in {path.name}.txt")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
