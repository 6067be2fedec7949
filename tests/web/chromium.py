"""A headless Chromium, driven over the pipes of --remote-debugging-pipe: JSON between zero bytes, no WebSocket and no driver needed."""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


class Page:
    """A tab, as large as a phone's."""

    def __init__(self, to: int, answers: int) -> None:
        self.to, self.answers, self.rest = to, answers, b""
        self.numbers = itertools.count(1)
        self.session = ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Emulation.setDeviceMetricsOverride", width=390, height=844, deviceScaleFactor=1, mobile=True)

    def call(self, method: str, **parameters: Any) -> Any:
        number = next(self.numbers)
        session = {"sessionId": self.session} if self.session else {}
        os.write(
            self.to, json.dumps({"id": number, "method": method, "params": parameters, **session}).encode() + b"\0"
        )
        while True:
            message = self._message()
            if message.get("id") == number:
                assert "error" not in message, f"{method}: {message['error']}"
                return message["result"]

    def _message(self) -> Any:
        while b"\0" not in self.rest:
            assert select.select([self.answers], [], [], 120)[0], "Chromium does not answer"
            part = os.read(self.answers, 1 << 20)
            assert part, "Chromium ended"
            self.rest += part
        first, self.rest = self.rest.split(b"\0", 1)
        return json.loads(first)

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)

    def evaluate(self, expression: str) -> Any:
        done = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def wait(self, expression: str, seconds: float = 120) -> None:
        end = time.monotonic() + seconds
        while not self.evaluate(expression):
            assert time.monotonic() < end, (
                f"not so after {seconds} s: {expression}\n{self.evaluate('document.body.innerText')}"
            )
            time.sleep(0.1)

    def choose(self, selector: str, file: Path) -> None:
        """Puts a file into an <input type=file>, as a person does."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=node, files=[str(file)])

    def dark(self, on: bool) -> None:
        self.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": "dark" if on else "light"}],
        )

    def screenshot(self, path: Path) -> None:
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def chromium(profile: Path) -> Iterator[Page]:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("Chromium is not installed (Debian: apt-get install chromium)")
    to_read, to = os.pipe()
    answers, answers_write = os.pipe()

    def as_three_and_four() -> None:  # what the browser expects; by way of high numbers, as 3 and 4 may be taken
        high = os.dup2(to_read, 100), os.dup2(answers_write, 101)
        os.dup2(high[0], 3)
        os.dup2(high[1], 4)

    options = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        f"--user-data-dir={profile}",
        "--remote-debugging-pipe",
    ]
    browser = subprocess.Popen(
        [program, *options], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False,
        preexec_fn=as_three_and_four,
    )  # fmt: skip
    os.close(to_read)
    os.close(answers_write)
    try:
        yield Page(to, answers)
    finally:
        os.close(to)  # it ends when nobody talks to it
        try:
            browser.wait(20)
        except subprocess.TimeoutExpired:
            browser.kill()
        os.close(answers)
