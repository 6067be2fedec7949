"""`penlight serve`: a local page that runs a model in the browser that opens it, so that a phone can be tried with no app.

The WebAssembly module is built for this very model (build/library.py) from what lies compiled in the user's cache. The server offers a handful of files
from memory and gets nothing: pictures, results and times stay on the device.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import click
import numpy as np

import penlight
from penlight.build.library import build_library
from penlight.build.model_selection import selection_of_file
from penlight.build.targets import TARGETS
from penlight.file.contents import PenFile
from penlight.file.reader import read
from penlight.ir.containers import flatten
from penlight.ir.types import DTYPES
from penlight.preprocess import Preprocessing
from penlight.tools.bench import interpreted_inputs, noise
from penlight.tools.inspect import example_shapes
from penlight.tools.options import Argument, Shape, ShapeType, argument_option, preprocessing, preprocessing_options
from penlight.tools.run import Interpreted, read_method
from penlight.tools.screen import Stages, in_bytes, screen

WEB = Path(penlight.__file__).parent / "web"
PAGES = {
    "/": "page.html",
    "/page.mjs": "page.mjs",
    "/penlight.mjs": "penlight.mjs",
    "/preprocess.mjs": "preprocess.mjs",
}
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".mjs": "text/javascript",
    ".json": "application/json",
    ".wasm": "application/wasm",
}
LOCAL = "127.0.0.1"
MOST_CONNECTIONS = 32  # at once: a page takes six
PIECE = 1 << 18  # bytes that a client has a minute for: of a whole model, few phones have it in one
BUSY = b"HTTP/1.0 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_NAMES = {np.dtype(numpy_name): name for name, (_, numpy_name) in DTYPES.items() if name != "bf16"}


@click.command("serve")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--host", default=LOCAL, show_default=True, help="Address to listen at; 0.0.0.0: all of this machine's.")
@click.option("--open", "opened", is_flag=True, help="For other devices of this network: --host 0.0.0.0.")
@click.option("--port", default=8020, show_default=True, type=click.IntRange(0, 65535), help="0: any that is free.")
@click.option("--top", default=5, show_default=True, type=click.IntRange(1), help="How many labels to show.")
@click.option("--method", default="forward", show_default=True, help="Which method to run.")
@click.option(
    "--shape", "shapes", type=ShapeType(), multiple=True, metavar="[NAME=]DIMS[:DTYPE]",
    help="Shape of an input whose sizes are free, where no picture is asked for; once per input.",
)  # fmt: skip
@click.option(
    "--wasm", "module", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A module that was built for this model before. [default: builds one]",
)  # fmt: skip
@argument_option
@preprocessing_options
def serve_command(
    file: Path, host: str, opened: bool, port: int, top: int, method: str, shapes: tuple[Shape, ...], module: Path | None,
    given: tuple[Argument, ...], **options: Any,
) -> None:  # fmt: skip
    """A page that runs the model in FILE in the browser: pick or photograph an image, see the result and how long it takes.

    \b
    penlight serve mobilenet_v2.pen             on this machine
    penlight serve mobilenet_v2.pen --open      on a phone of the same network: shows a QR code
    """
    host = "0.0.0.0" if opened else host
    if not _may_be_host(host):
        raise click.UsageError(f"--host: expected an address of this machine, or a name, got {host!r}")
    pen = read(file)
    facts = {**model_facts(file, pen, method, shapes, given, options), "top": top}
    if host != LOCAL:
        _qr_code("")  # says now, not after the build, if it cannot
    with Stages() as stage, TemporaryDirectory() as folder:
        if module is None:
            stage("building the WebAssembly module")
            module = build_library(TARGETS["wasm"], selection_of_file(pen), Path(folder), progress=stage.step).path
        size = module.stat().st_size
        server = make_server(host, port, file, module, facts)
    own = f"http://{_own_address() if host == '0.0.0.0' else host}:{server.server_port}/"
    out = screen()
    if host != LOCAL:
        out.print(_qr_code(own))
        out.print("Anyone in this network can open it.", style="dim")
    out.print(f"{own}   {in_bytes(file.stat().st_size)} model, {in_bytes(size)} WebAssembly; Ctrl-C ends it")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()


def _may_be_host(text: str) -> bool:
    """Nothing at all is a name too, to the system: of all addresses."""
    try:
        return bool(text.strip().encode("idna"))
    except UnicodeError:
        return False


def model_facts(
    file: Path, pen: PenFile, method: str, shapes: tuple[Shape, ...], given: tuple[Argument, ...], options: dict[str, Any]
) -> dict[str, Any]:  # fmt: skip
    """What the page is told: model.json."""
    metadata = pen.metadata
    declared = read_method(file, method, given)
    steps = preprocessing(options, metadata.get("preprocessing"))
    if len(declared.inputs) != 1 or given:
        steps = None  # a picture is one tensor, and nothing else
    labels = metadata.get("labels")
    facts = {
        "name": str(metadata.get("name") or file.stem),
        "bytes": file.stat().st_size,
        "method": method,
        "labels": [str(label) for label in labels] if isinstance(labels, list) else [],
        "scores": str(metadata.get("scores", "")),
        "preprocessing": _filled(steps) if steps else None,
    }
    if steps is None:
        values, where = _inputs(file, method, declared, shapes, given)
        facts |= {"inputs": [_written(v) for v in values], "inputs_from": where}
    return facts


def make_server(host: str, port: int, file: Path, module: Path, facts: dict[str, Any]) -> ThreadingHTTPServer:
    facts = {**facts, "wasm_bytes": module.stat().st_size}
    files = {path: (WEB / name).read_bytes() for path, name in PAGES.items()}
    files |= {
        "/model.json": json.dumps(facts).encode(),
        "/model.pen": file.read_bytes(),
        "/penlight.wasm": module.read_bytes(),
    }
    try:
        return _Server((host, port), functools.partial(_Handler, files, _names_of(host)))
    except OSError as e:
        raise click.UsageError(
            f"cannot listen at {host}, port {port}: {e.strerror}. Another --port, or 0 for any that is free"
        ) from None


def _names_of(host: str) -> frozenset[str]:
    """What this machine is called by who asks for its page, besides its addresses."""
    own = socket.gethostname().lower()
    return frozenset({"localhost", host.lower(), own, f"{own}.local"})


class _Server(ThreadingHTTPServer):
    """Each connection has a thread, and may say nothing for a minute: who opens thousands is told to come back."""

    def __init__(self, *arguments: Any) -> None:
        self.free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        super().__init__(*arguments)

    def process_request(self, request: Any, address: Any) -> None:
        if not self.free.acquire(blocking=False):
            request.setblocking(False)  # nobody else waits for who does not read this
            with contextlib.suppress(OSError):
                request.recv(1 << 16)  # what is not read when it is closed takes the answer with it
            with contextlib.suppress(OSError):
                request.send(BUSY)
            return self.shutdown_request(request)
        try:
            return super().process_request(request, address)
        except BaseException:  # no thread began
            self.free.release()
            raise

    def process_request_thread(self, request: Any, address: Any) -> None:
        try:
            super().process_request_thread(request, address)
        finally:
            self.free.release()

    def handle_error(self, request: Any, address: Any) -> None:
        """A browser that goes away, or says nothing for long, is no mistake of ours to show a traceback for."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, address)


class _Handler(BaseHTTPRequestHandler):
    timeout = 60  # seconds, after which a connection that says nothing gives its thread back

    def __init__(self, files: dict[str, bytes], names: frozenset[str], *arguments: Any) -> None:
        self.files, self.names = files, names
        super().__init__(*arguments)

    def asked_for_us(self) -> bool:
        """Whether the page was asked for by a name or address of this machine. Any other name is one of a stranger's web page, which had it
        point here (DNS rebinding), so that the browser lets it read the model as its own."""
        try:
            host = urlsplit(f"//{self.headers.get('Host', LOCAL)}").hostname or ""
            return host in self.names or bool(ip_address(host.partition("%")[0]))
        except ValueError:
            return False

    def do_GET(self) -> None:
        if not self.asked_for_us():
            return self.send_error(421, explain="expected this machine's address or name, got another's")
        path = self.path.split("?")[0]
        body = self.files.get(path)
        if body is None:
            return self.send_error(404)
        self.send_response(200)
        self.send_header("Content-Type", TYPES.get(Path(PAGES.get(path, path)).suffix, "application/octet-stream"))
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        # A page of its own, that nothing else shares, gets a finer clock.
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("X-Content-Type-Options", "nosniff")  # a model is no page, whatever its bytes look like
        self.end_headers()
        for at in range(0, len(body), PIECE):
            self.wfile.write(memoryview(body)[at : at + PIECE])
        return None

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


def _filled(steps: Preprocessing) -> dict[str, Any]:
    """With all fields, defaults too."""
    return {"resize": None, "crop": None, **steps.to_metadata()}


def _inputs(
    file: Path, method: str, declared: Any, shapes: tuple[Shape, ...], given: tuple[Argument, ...]
) -> tuple[list[Any], str]:
    """Values for a run without a picture, in the order that the ES module takes them; and where they are from."""
    model = penlight.load(file)
    bundled = model.bundled_inputs(method)
    if isinstance(declared, Interpreted):
        if given and not shapes:
            raise click.UsageError(
                "--arg: the inputs bundled with the model are whole; with it, give --shape for each tensor"
            )
        values = interpreted_inputs(declared, model, method, shapes)
        if given:  # in their places among the tensors
            parts = declared.input_spec["kwargs"].values()
            values = [values[part] if isinstance(part, int) else part.get("const") for part in parts]
        return values, "random numbers" if shapes else "the inputs bundled with it"
    if bundled and not shapes:
        return flatten(declared.input_spec, bundled[0].args), "the inputs bundled with it"
    return list(noise(declared, example_shapes(declared, model.metadata, shapes))), "random numbers"


def _written(value: Any) -> Any:
    """A value as JSON, which tells ints from floats and tensors from lists: page.mjs reads it."""
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.ascontiguousarray(value).reshape(np.shape(value))
        data = base64.b64encode(array.tobytes()).decode()
        return {"tensor": {"dtype": _NAMES[array.dtype], "shape": list(array.shape), "base64": data}}
    if isinstance(value, (list, tuple)):
        return {"list": [_written(v) for v in value]}
    if isinstance(value, dict):
        return {"dict": [[_written(k), _written(v)] for k, v in value.items()]}
    if isinstance(value, int) and not isinstance(value, bool):
        return {"int": str(value)}
    return {"float": json.dumps(value)} if isinstance(value, float) else value  # Infinity, as JavaScript has it


def _own_address() -> str:
    """This machine's, as others of its network see it. Nothing is sent: a UDP socket only picks the way."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(("192.0.2.1", 9))
            return str(s.getsockname()[0])
        except OSError:
            return socket.gethostname()


def _qr_code(text: str) -> str:
    try:
        import segno
    except ImportError:
        raise click.UsageError("a QR code of the address needs segno: pip install penlight[serve]") from None
    rows = [list(row) for row in segno.make(text or "-", error="m", micro=False).matrix_iter(border=2)]
    rows += [[0] * len(rows[0])] * (len(rows) % 2)
    # Two rows to a line; light modules are drawn, as most terminals are dark.
    blocks = {(1, 1): " ", (0, 1): "▀", (1, 0): "▄", (0, 0): "█"}
    pairs = zip(rows[::2], rows[1::2], strict=True)
    return "\n".join("".join(blocks[bool(a), bool(b)] for a, b in zip(*pair, strict=True)) for pair in pairs)
