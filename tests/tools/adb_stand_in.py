"""A stand-in for adb, run as a program: devices as ADB_DEVICES lists them ("SERIAL STATE" between commas), whose disk is the folder
ADB_ROOT with room for ADB_ROOM bytes. `shell` runs sh on it with Android's `getprop`; arm64 programs that were pushed run under qemu.
Every call is noted in ADB_ROOT/calls. ADB_OLD: as before Android 7, no exit codes, lines end in CR LF, no sha256sum. ADB_LOST: no shell
command is answered once the program was started.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(os.environ["ADB_ROOT"])
OLD = "ADB_OLD" in os.environ
TMP = "/data/local/tmp"
PROPERTIES = {"ro.product.cpu.abi": os.environ.get("ADB_ABI", "arm64-v8a"), "ro.product.model": "Stand-in", "ro.build.version.release": "14"}  # fmt: skip


def push(local: str, remote: str) -> int:
    data, to = Path(local).read_bytes(), ROOT / remote.lstrip("/")
    used = sum(p.stat().st_size for p in (ROOT / "data").rglob("*") if p.is_file() and p != to)
    room = int(os.environ.get("ADB_ROOM", 1 << 40)) - used
    to.write_bytes(data[: max(room, 0)])
    if len(data) > room:
        sys.stderr.write(
            f"adb: error: failed to copy '{local}' to '{remote}': remote write failed: No space left on device\n"
        )
        return 1
    print(f"{local}: 1 file pushed, 0 skipped. 40.1 MB/s ({len(data)} bytes in 0.1s)")
    return 0


def shell(command: str) -> int:
    if "ADB_LOST" in os.environ and "--json" in command:
        sys.stderr.write("error: device 'PHONE' not found\n")
        return 1
    answers = "".join(f"  {name}) echo {value};;\n" for name, value in PROPERTIES.items())
    prelude = f"getprop() {{ case $1 in\n{answers} esac; }}\n" + ("sha256sum() { return 127; }\n" if OLD else "")
    command = re.sub(rf"({TMP}/penlight/speed_benchmark_torch) --", r"test -x \1 && qemu-aarch64-static \1 --", command)
    done = subprocess.run(["sh", "-c", prelude + command.replace(TMP, f"{ROOT}{TMP}")], capture_output=True, text=True)
    sys.stdout.write(done.stdout.replace("\n", "\r\n") if OLD else done.stdout)
    sys.stderr.write(done.stderr)
    return 0 if OLD else done.returncode


def main(words: list[str]) -> int:
    with open(ROOT / "calls", "a") as notes:
        notes.write(" ".join(words) + "\n")
    devices = [d.split(" ", 1) for d in os.environ.get("ADB_DEVICES", "PHONE device").split(",") if d]
    if words == ["devices"]:
        print(
            "* daemon started successfully\nList of devices attached\n"
            + "\n".join("\t".join(d) for d in devices)
            + "\n"
        )
        return 0
    if words[0] != "-s" or [words[1], "device"] not in devices:
        sys.stderr.write("adb: error: no such device\n")
        return 1
    return {"push": push, "shell": shell}[words[2]](*words[3:])


sys.exit(main(sys.argv[1:]))
