"""A function in a Python process of its own: for what torch does with the code of a file. torch counts no steps, hears no Ctrl-C while it
computes, and ends its process where its own operators are wrong; that process has an end, and this one goes on."""

from __future__ import annotations

import io
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from penlight import limits
from penlight.errors import CaptureError
from penlight.ir.containers import _namedtuple

SECONDS, BYTES_A_SECOND = 60.0, 4 << 20
# Modules are found where they are found here, and not in the folder that a command is called in.
_START = "import sys; sys.path[:] = sys.argv[1:]; from penlight.apart import _answer; _answer()"


class ApartError(CaptureError):
    """The function failed, or its process came to no end of its own."""


def apart(function: Callable[..., Any], *args: Any, work: int = 0) -> Any:
    """What a function of a module's gives, which like its arguments is plain data: arrays, containers, numbers, texts. It has a minute, and more
    for its `work`: bytes that it goes through, a few times each."""
    seconds = SECONDS + work / BYTES_A_SECOND
    if not sys.executable or getattr(sys, "frozen", False):
        raise ApartError("there is no Python to run it in: this program has one of its own")
    try:
        done = subprocess.run(
            [sys.executable, "-c", _START, *sys.path],
            input=_packed((function, args)),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        raise ApartError(f"it came to no end within {seconds:.0f} seconds") from None
    except OSError as e:
        raise ApartError(f"there is no process to run it in: {e}") from None
    if done.returncode != 0 or not done.stdout:
        raise ApartError(f"its process ended with {_words(done.returncode)}")
    fine, result = pickle.loads(done.stdout)
    if not fine:
        raise ApartError(result)
    return result


def _answer() -> None:
    """In the other process: standard input has the call, and standard output gets the result. What code prints goes nowhere."""
    with os.fdopen(os.dup(1), "wb") as out:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)
        _limit_memory()
        try:
            function, args = pickle.load(sys.stdin.buffer)
            answer = _packed((True, function(*args)))
        except Exception as e:  # any: it is told where the call came from
            answer = _packed((False, f"{type(e).__name__}: {str(e).strip().splitlines()[0] if str(e).strip() else ''}"))
        out.write(answer)


def _limit_memory() -> None:
    """To half of what is free, where the system can: the other half is for what goes on meanwhile. No file is left where it dies."""
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    half = limits.free_memory() // 2
    if sys.platform == "linux" and half:  # elsewhere it does not count what is mapped
        most = resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, (half if most < 0 else min(half, most), most))


class _Packer(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        """Named tuples are of classes that no module has, as torch makes them for what TorchScript gives."""
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return _named, (type(value).__name__, tuple(value._fields), tuple(value))
        return NotImplemented


def _named(name: str, fields: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    return _namedtuple(name, fields)(*values)


def _packed(value: Any) -> bytes:
    stream = io.BytesIO()
    _Packer(stream, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return stream.getvalue()


def _words(code: int) -> str:
    try:
        return f"signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"exit status {code}"
    except ValueError:
        return f"signal {-code}"
