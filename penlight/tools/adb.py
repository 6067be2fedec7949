"""An Android device behind `adb`: which one, what it is, files onto it, commands on it. What goes wrong on the way (no adb, no device,
two, one that does not trust this computer, a full disk, a cable pulled) is told in words, with what to do.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from penlight.tools.screen import in_bytes

_EXIT = "penlight-exit:"  # older adb does not hand on the exit code of a command: the device prints it
_STATES = {
    "unauthorized": "does not trust this computer yet: unlock it and allow USB debugging in the question that it shows",
    "authorizing": "is about to ask whether it may be debugged: unlock it, answer, and try again",
    "offline": "is offline: plug it in again, or run `adb kill-server`, and try again",
    "no permissions": "may not be used by this user: it needs udev rules, see `adb devices -l`",
    "bootloader": "is in its bootloader: start Android",
    "recovery": "is in recovery mode: start Android",
    "sideload": "is in sideload mode: start Android",
}
# As Android names its ABIs: e_machine in the head of an ELF file.
MACHINES = {"arm64-v8a": 183, "armeabi-v7a": 40, "x86_64": 62, "x86": 3}


def find_adb() -> str:
    """From PATH, or from an Android SDK."""
    beside = [os.environ.get(name, "") for name in ("ANDROID_HOME", "ANDROID_SDK_ROOT")]
    places = [str(Path(sdk) / "platform-tools") for sdk in beside if sdk]
    found = shutil.which("adb") or shutil.which("adb", path=os.pathsep.join(places) or os.devnull)
    if found is None:
        raise click.ClickException(
            "--adb: adb is not installed, or not on PATH: it comes with Debian's package adb and with the platform-tools of the Android SDK"
        )
    return found


@dataclass(frozen=True)
class Device:
    adb: str
    serial: str

    def call(self, *words: str, timeout: float | None = 600) -> subprocess.CompletedProcess[str]:
        return _call([self.adb, "-s", self.serial, *words], timeout)

    def shell(self, command: str, timeout: float | None = 600) -> tuple[int, str]:
        """Exit code and output of a command on the device, both of its streams."""
        done = self.call("shell", f"{{ {command}\n}} 2>&1; echo {_EXIT}$?", timeout=timeout)
        text, found, code = done.stdout.replace("\r\n", "\n").rpartition(_EXIT)
        if not found or not code.strip().isdigit():
            raise click.ClickException(
                f"the connection to {self.serial} is lost: {_said(done) or 'it ended before its command did'}"
            )
        return int(code), text

    def ask(self, command: str) -> str:
        """One line of answer; "" where the command fails."""
        code, text = self.shell(command, timeout=60)
        return text.strip() if code == 0 else ""

    @property
    def abi(self) -> str:
        return self.ask("getprop ro.product.cpu.abi")

    @property
    def cores(self) -> int:
        answer = self.ask("nproc")
        return int(answer) if answer.isdigit() else 1

    @property
    def description(self) -> str:
        model = self.ask("getprop ro.product.model") or "a device"
        return f"{model} ({self.serial}), Android {self.ask('getprop ro.build.version.release') or '?'}, {self.abi}"

    def push(self, file: Path, to: str) -> bool:
        """Copies a file, unless just that file is there already; says whether it did. What stays of a failed copy is removed."""
        if self._sha256(to) == _sha256(file):
            return False
        done = self.call("push", str(file), to, timeout=None)
        size = self.ask(f"wc -c < {shlex.quote(to)}")
        if done.returncode == 0 and size == str(file.stat().st_size):
            return True
        reason = _said(done)
        self.shell(f"rm -f {shlex.quote(to)}")
        folder = to.rpartition("/")[0]
        if "no space left" in reason.lower():
            free = re.search(r"(\d+)\s+\d+%", self.ask(f"df -k {shlex.quote(folder)}"))
            room = f", {in_bytes(1024 * int(free[1]))} are free" if free else ""
            raise click.ClickException(
                f"{file}: the disk of {self.serial} is full: {in_bytes(file.stat().st_size)} are needed in {folder}{room}. Delete something there"
            )
        if done.returncode == 0:
            reason = f"{size or 'no'} bytes arrived"
        raise click.ClickException(f"{file} could not be copied to {self.serial}:{to}: {reason}")

    def _sha256(self, path: str) -> str:
        return self.ask(f"sha256sum {shlex.quote(path)} 2>/dev/null").partition(" ")[0]  # "" before Android 7


def find_device(serial: str | None) -> Device:
    """The device of this serial number; without one, the only device that is ready."""
    adb = find_adb()
    listed = _call([adb, "devices"], 60)
    if listed.returncode != 0:
        raise click.ClickException(f"`adb devices` failed: {_said(listed)}")
    lines = listed.stdout.partition("List of devices attached")[2].splitlines()
    states = dict(line.split(None, 1) for line in lines if len(line.split(None, 1)) == 2)
    serial = serial or os.environ.get("ANDROID_SERIAL") or None
    ready = [name for name, state in states.items() if state.split()[0] == "device"]
    if serial is not None:
        if serial not in states:
            there = f"connected are {', '.join(states)}" if states else "none is connected"
            raise click.ClickException(f"there is no device {serial!r}: {there}")
        if serial not in ready:
            raise click.ClickException(_not_ready(serial, states[serial]))
        return Device(adb, serial)
    if not states:
        raise click.ClickException(
            "no device is connected: plug one in, switch on USB debugging in its developer options, and see `adb devices`"
        )
    if not ready:
        raise click.ClickException("; ".join(_not_ready(name, state) for name, state in states.items()))
    if len(ready) > 1:
        raise click.ClickException(f"{len(ready)} devices are connected: choose one with --serial: {', '.join(ready)}")
    return Device(adb, ready[0])


def check_binary(binary: Path, abi: str) -> None:
    """That a program is one for devices of this ABI: the error that the device would give says less."""
    with open(binary, "rb") as file:
        head = file.read(20)
    machine = int.from_bytes(head[18:20], "little") if head[:4] == b"\x7fELF" else 0
    if abi in MACHINES and machine != MACHINES[abi]:
        is_for = next((name for name, code in MACHINES.items() if code == machine), "no processor that Android runs on")
        raise click.ClickException(f"{binary}: expected a program for {abi}, which the device is, got one for {is_for}")


def _not_ready(serial: str, state: str) -> str:
    known = next((text for name, text in _STATES.items() if state.startswith(name)), f"is not ready: {state}")
    return f"device {serial} {known}"


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _said(done: subprocess.CompletedProcess[str]) -> str:
    """The last line that a program left behind: of its errors, if there are any."""
    lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _call(command: Sequence[str], timeout: float | None) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=timeout
        )
    except subprocess.TimeoutExpired:
        raise click.ClickException(f"no answer in {timeout:g} s: {shlex.join(command)}") from None
    except OSError as e:
        raise click.ClickException(f"{command[0]} cannot be started: {e}") from None
