"""`penlight serve`: what the page does to a picture, bit by bit against Python; the server; the page itself, in Chromium."""

from __future__ import annotations

import base64
import itertools
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import penlight
from penlight.build.model_selection import selection_of_file
from penlight.file.metadata import with_metadata
from penlight.file.reader import read
from penlight.preprocess import IMAGENET, INTERPOLATIONS, Preprocessing
from penlight.tools import serve
from penlight.tools.run import probabilities, top_labels
from tests.tools.call import Penlight
from tests.web.chromium import Page, chromium
from tests.web.node import HERE, module, node

pillow = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
DOCS = HERE.parents[1] / "docs"
SIZES = [(211, 301), (90, 100), (224, 224), (333, 100), (7, 1)]  # height, width
STEPS: list[dict[str, Any]] = [
    *({"resize": 61, "crop": 54, "interpolation": name} for name in INTERPOLATIONS),
    {"resize": (100, 77), "crop": (99, 160), "mean": (0.5,), "std": (0.25,), "layout": "NHWC"},
    {"crop": 225, "color": "BGR", "mean": IMAGENET.mean, "std": IMAGENET.std},
    {"resize": 33, "color": "L", "scale": 1.0, "interpolation": "bicubic"},
    {},
]


def test_preprocessing_is_pythons() -> None:
    """Not near: equal, so that what the page shows is what Python would."""
    rand = np.random.default_rng(0)
    lines, expected = [], []
    for (height, width), fields in itertools.product(SIZES, STEPS):
        image = rand.integers(0, 256, (height, width, 3), np.uint8)
        image[: height // 2] = np.arange(width)[:, None] % 256  # not noise alone
        steps = Preprocessing(**fields)
        rgba = np.concatenate([image, np.full((height, width, 1), 255, np.uint8)], 2)
        picture = {"width": width, "height": height, "data": base64.b64encode(rgba.tobytes()).decode()}
        lines.append(json.dumps({**picture, "steps": serve._filled(steps)}))
        expected.append((fields, steps(image)))
    for line, (fields, want) in zip(
        node(HERE / "preprocess.mjs", given="\n".join(lines)).split("\n"), expected, strict=True
    ):
        made = json.loads(line)
        assert tuple(made["shape"]) == want.shape, fields
        got = np.frombuffer(base64.b64decode(made["data"]), np.float32).reshape(want.shape)
        np.testing.assert_array_equal(got, want, err_msg=str(fields))


@contextmanager
def served(file: Path, module: Path, method: str = "forward", **options: Any) -> Iterator[str]:
    facts = {**serve.model_facts(file, read(file), method, options.pop("shapes", ()), (), options), "top": 5}
    server = serve.make_server("127.0.0.1", 0, file, module, facts)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


class Two(torch.nn.Module):
    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"masked": ids.float() * mask, "total": mask.sum(), "ids": ids + 1}


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("two") / "two.pen"
    penlight.optimize(Two().eval(), (torch.arange(10).reshape(2, 5), torch.rand(2, 5))).save(file)
    return file


def test_server(two: Path) -> None:
    """Its files, with their kinds, and nothing else of this machine."""
    with served(two, Path(__file__)) as url:
        for path, kind in {
            "": "text/html",
            "page.mjs": "text/javascript",
            "penlight.wasm": "application/wasm",
            "model.json?a=1": "application/json",
        }.items():
            with urllib.request.urlopen(url + path) as answer:
                assert answer.headers["Content-Type"].startswith(kind)
        with urllib.request.urlopen(f"{url}model.pen") as answer:
            assert answer.read() == two.read_bytes()
        for path in ("other", "../serve.py", "%2e%2e/page.html", "/etc/passwd"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(url + path)
        facts = json.loads(urllib.request.urlopen(f"{url}model.json").read())
        port = int(url.rsplit(":", 1)[1].strip("/"))
        with pytest.raises(Exception, match=f"cannot listen at 127.0.0.1, port {port}: .*--port"):
            serve.make_server("127.0.0.1", port, two, two, {})
    assert facts["preprocessing"] is None
    assert facts["inputs_from"] == "random numbers"
    assert [i["tensor"]["shape"] for i in facts["inputs"]] == [[2, 5], [2, 5]]


def test_only_so_many_connections_at_once(two: Path) -> None:
    """Each has a thread for a minute, though it says nothing. One more is told to come back, and may when another went."""
    with served(two, two) as url:
        at = ("127.0.0.1", int(url.rsplit(":", 1)[1].strip("/")))
        with ExitStack() as silent:
            first = socket.create_connection(at, timeout=20)
            for _ in range(serve.MOST_CONNECTIONS - 1):
                silent.enter_context(socket.create_connection(at, timeout=20))
            with socket.create_connection(at, timeout=20) as more:
                assert more.recv(100).startswith(b"HTTP/1.0 503 ")
            first.close()
            for _ in range(200):  # until its thread has seen that
                with socket.create_connection(at, timeout=20) as next_one:
                    next_one.sendall(b"GET /page.mjs HTTP/1.0\r\n\r\n")
                    with suppress(ConnectionError):
                        if next_one.recv(100).startswith(b"HTTP/1.0 200 "):
                            return
                time.sleep(0.05)
            raise AssertionError("a place that was free again is not given away")


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("127.0.0.1", 200), ("localhost:8020", 200), ("LOCALHOST", 200), ("192.168.1.23:8020", 200), ("[::1]:8020", 200), (socket.gethostname(), 200),
        ("elsewhere.example", 421), ("elsewhere.example:8020", 421), ("127.0.0.1.elsewhere.example", 421), ("127.0.0.1@elsewhere.example", 421), ("[::1", 421),
        ("", 421),
    ],
)  # fmt: skip
def test_only_who_asks_for_this_machine_is_answered(two: Path, host: str, code: int) -> None:
    """A stranger's page whose name leads here would be let read the model by the browser."""
    with served(two, two) as url:
        request = urllib.request.Request(f"{url}model.pen", headers={"Host": host})
        if code == 200:
            with urllib.request.urlopen(request) as answer:
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
                assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
                return
        with pytest.raises(urllib.error.HTTPError, match=str(code)) as refused:
            urllib.request.urlopen(request)
        assert b"expected this machine's" in refused.value.read()


def test_who_goes_away_or_says_nothing(
    two: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a traceback nor a thread that waits for ever."""
    monkeypatch.setattr(serve._Handler, "timeout", 0.2)
    with served(two, two) as url:
        where = ("127.0.0.1", int(url.rsplit(":", 1)[1].strip("/")))
        for said in (b"", b"GET /model.pen HTTP/1.0\r\n\r\n"):
            gone = socket.create_connection(where)
            gone.sendall(said)
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            gone.close()  # by a reset
        with socket.create_connection(where) as silent:
            silent.settimeout(20)
            silent.sendall(b"GET /mod")
            assert silent.recv(1) == b""  # closed
        assert urllib.request.urlopen(url).status == 200
    assert capsys.readouterr().err == ""


def test_a_slow_phone_gets_a_large_model(two: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time that a client has is for a piece of it, not for all."""
    monkeypatch.setattr(serve._Handler, "timeout", 1)
    module = tmp_path / "module"
    module.write_bytes(bytes(1 << 24))
    with served(two, module) as url, socket.socket() as phone:
        phone.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        phone.settimeout(20)
        phone.connect(("127.0.0.1", int(url.rsplit(":", 1)[1].strip("/"))))
        phone.sendall(b"GET /penlight.wasm HTTP/1.0\r\n\r\n")
        got = 0
        while piece := phone.recv(1 << 16):
            got += len(piece)
            time.sleep(0.01)
    assert got > 1 << 24


def test_labels_are_text(two: Path, tmp_path: Path) -> None:
    """Whatever they are in the file: Infinity is no JSON to a browser."""
    file = tmp_path / "m.pen"
    image = np.frombuffer(two.read_bytes(), np.uint8)
    file.write_bytes(with_metadata(image, {"labels": [1e999, None, {"a": 1}], "name": ["<b>"]}).tobytes())
    facts = serve.model_facts(file, read(file), "forward", (), (), {})
    assert facts["labels"] == ["inf", "None", "{'a': 1}"]
    assert facts["name"] == "['<b>']"


def test_qr_code() -> None:
    """Drawn, it is the code: read back module by module."""
    segno = pytest.importorskip("segno")
    text = "http://192.168.1.23:8020/"
    lines = serve._qr_code(text).split("\n")
    dark = {" ": (1, 1), "▀": (0, 1), "▄": (1, 0), "█": (0, 0)}
    rows = [[dark[c][half] for c in line] for line in lines for half in (0, 1)]
    expected = [
        [min(cell, 1) for cell in row] for row in segno.make(text, error="m", micro=False).matrix_iter(border=2)
    ]
    assert rows[: len(expected)] == expected


def _hear_interrupts() -> None:
    """What is started in the background, as these tests may be, ignores them, and so would all that it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def killed_in_the_end(process: subprocess.Popen[str]) -> Iterator[None]:
    """Whatever else: a test that fails does not wait for it."""
    try:
        yield
    finally:
        process.kill()


def test_command(
    two: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Says where the page is, until it is interrupted; opened up, with a QR code, and without segno not at all."""
    (tmp_path / "made.wasm").write_bytes(b"a module")
    common = [two, "--port", 0, "--wasm", tmp_path / "made.wasm"]
    for options in ([], ["--open"]):
        command = [sys.executable, "-m", "penlight", "serve", *map(str, [*common, *options])]
        with (
            subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                env={**os.environ, "PYTHONUTF8": "1"},
                preexec_fn=_hear_interrupts,
            ) as server,
            killed_in_the_end(server),
        ):
            assert server.stdout is not None
            lines = [server.stdout.readline()]
            while "http://" not in lines[-1]:
                lines.append(server.stdout.readline())
            url = lines[-1].split()[0]
            assert urllib.request.urlopen(f"{url}penlight.wasm").read() == b"a module"
            server.send_signal(signal.SIGINT)
            server.communicate(timeout=60)
        assert server.returncode == 0
        assert url.startswith("http://127.0.0.1:") != bool(options)
        assert ("▀" in "".join(lines)) == bool(options)
    monkeypatch.setitem(sys.modules, "segno", None)
    called = Penlight(capsys)("serve", *common, "--open")
    assert called.code == 2
    assert "pip install penlight[serve]" in called.err


@pytest.mark.parametrize("host", ["", " ", "a..b", "ü" * 100, "\udc80"])
def test_hosts_that_are_none(two: Path, host: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Of an empty one, as a variable that is not set, the system makes all addresses, and the model is there for the whole network."""
    called = Penlight(capsys)("serve", two, "--port", 0, "--wasm", two, "--host", host)
    assert (called.code, "--host: expected an address" in called.err) == (2, True)


def settled(page: Page) -> str:
    """Waits until the page is at rest, and gives its text."""
    page.wait("['done', 'failed'].includes(document.querySelector('main')?.dataset.state)")
    return str(page.evaluate("document.querySelector('main').innerText"))


@pytest.mark.slow
def test_a_picture(tmp_path: Path) -> None:
    """The page shows what Python gives for the same file: a photograph, turned by its tag too; and says how long it took."""
    from examples.demo import find_photographs, imagenet_labels
    from tests import models

    labels = imagenet_labels()
    steps = Preprocessing(resize=256, crop=224, interpolation="bicubic", mean=(0.498,), std=(0.502,))
    metadata = {
        "name": "EfficientNet-Lite0",
        "labels": labels,
        "preprocessing": steps.to_metadata(),
        "scores": "logits",
    }
    file = tmp_path / "efficientnet_lite0.pen"
    model = penlight.optimize(
        models.build("efficientnet_lite0"), models.example("efficientnet_lite0"), metadata=metadata
    )
    model.save(file)
    built = module("efficientnet_lite0", selection_of_file(read(file)))
    cat = next(p for p in find_photographs() if "chelsea" in p.name)
    turned = tmp_path / "turned.jpg"
    exif = pillow.Exif()
    exif[0x0112] = 6  # the camera was held upright
    pillow.open(cat).save(turned, quality=95, exif=exif)
    with served(file, built) as url, chromium(tmp_path / "profile") as page:
        page.open(url)
        assert "Take a photo" in settled(page)
        assert (
            page.evaluate("document.querySelector('#camera').outerHTML").count('accept="image/*" capture="environment"')
            == 1
        )
        for picture in (turned, cat):
            page.choose("#file", picture)
            page.wait("document.querySelector('main').dataset.state == 'busy'")
            text = settled(page)
            best = top_labels(probabilities(model(steps(picture))[0], "logits"), 5)
            shown = page.evaluate(
                "[...document.querySelectorAll('#classes li')].map((l) => [...l.children].map((c) => c.textContent))"
            )
            assert shown == [[labels[i], f"{100 * p:.2f}%"] for i, p in best]
            assert "one thread" in text
            assert re.search(r"median of \d+ runs \(.+ to .+\), after warm-up", text)
            assert 1 < page.evaluate("Number(document.querySelector('#median').dataset.milliseconds)") < 20_000
        page.screenshot((DOCS if os.environ.get("PENLIGHT_SCREENSHOTS") else tmp_path) / "serve.png")
        page.choose("#file", file)
        page.wait("document.querySelector('main').dataset.state == 'busy'")
        assert "expected an image that this browser can read" in settled(page)


@pytest.mark.slow
def test_without_a_picture(two: Path, tmp_path: Path) -> None:
    with served(two, module("two", selection_of_file(read(two)))) as url, chromium(tmp_path / "profile") as page:
        page.open(url)
        text = settled(page)
        rows = page.evaluate(
            "[...document.querySelectorAll('tr')].map((r) => [...r.children].map((c) => c.textContent))"
        )
    assert "Runs on random numbers." in text
    assert "median of" in text
    assert [row[:3] for row in rows[1:]] == [
        ["output[0]", "f32", "[2, 5]"],
        ["output[1]", "f32", "[]"],
        ["output[2]", "i64", "[2, 5]"],
    ]
    assert rows[3][3:] == ["1", "1", "1"]
