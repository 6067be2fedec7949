"""python -m tests.opinfo [--dtype f32,i64,bool] [--shard I/N] [--json FILE] [NAME…]: torch's samples through Penlight.

NAME is part of an operator's name (=NAME: all of it); without any, all operators. Prints each operator that fails, with the kinds of
failure, then the counts that the docs and release notes give.
"""

from __future__ import annotations

import json
from pathlib import Path

import click

from tests.opinfo import expected
from tests.opinfo.samples import DTYPES, check, operators


@click.command()
@click.argument("names", nargs=-1)
@click.option("--dtype", default="f32", show_default=True, help="comma-separated: f32, i64, bool")
@click.option("--shard", default="0/1", show_default=True, help="every N-th operator, from the I-th on")
@click.option("--json", "path", type=click.Path(dir_okay=False, path_type=Path), help="write the results here")
def main(names: tuple[str, ...], dtype: str, shard: str, path: Path | None) -> None:
    part, parts = map(int, shard.split("/"))
    chosen = [n for n in operators() if not names or any(n == w[1:] if w[0] == "=" else w in n for w in names)]
    records = {}
    for name in chosen[part::parts]:
        for d in dtype.split(","):
            if not operators()[name].supports_dtype(DTYPES[d], "cpu"):
                continue
            listed, why = expected.of(name, d)
            result = check(name, d, alone=listed)
            records[f"{name}:{d}"] = {
                "samples": result.samples, "exported": result.exported, "passed": len(result.passed), "failures": result.failures,
            }  # fmt: skip
            failed = result.failures
            mark = "ok  " if not failed else "fail" if set(failed) - listed else "known"
            print(
                f"{mark} {name}:{d} {len(result.passed)} of {result.exported} ({result.samples} samples) {why}",
                flush=True,
            )
            kinds: dict[str, list[int]] = {}
            for sample, problem in failed.items():
                kinds.setdefault(problem, []).append(sample)
            for problem, samples in list(kinds.items())[:3]:
                print(
                    f"       samples {expected.spans(samples)}: " + problem.replace("\n", "\n       ")[:700], flush=True
                )
    if path:
        path.write_text(json.dumps(records, indent=1))
    summary(records)


def summary(records: dict[str, dict]) -> None:
    for d in DTYPES:
        of = [r for key, r in records.items() if key.endswith(f":{d}")]
        exported = [r for r in of if r["exported"]]
        passed = [r for r in exported if not r["failures"]]
        if of:
            print(
                f"{d}: {len(passed)} of {len(exported)} operators that export pass ({len(of)} in all); "
                f"{sum(r['passed'] for r in of)} of {sum(r['exported'] for r in of)} samples"
            )


if __name__ == "__main__":
    main()
