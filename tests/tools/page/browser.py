"""A headless Chromium that opens pages, clicks and types like a user.

The tests control it through a pipe with Chromium's DevTools protocol: JSON messages that end with a NUL.
"""

from __future__ import annotations

import json
import os
import subprocess
from fcntl import F_DUPFD, fcntl
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
_SAID = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")


class Browser:
    """A browser with one page at a time; a context manager.

    Attributes:
      said: errors of the page, and what it printed on its console.
    """

    def __init__(self, program: str, home: Path) -> None:
        """Starts the browser; it keeps its files in the folder `home`."""
        ends, self._to = os.pipe()
        self._from, begins = os.pipe()
        # The protocol uses descriptors 3 and 4: bash copies these, which are 10 or more, to them.
        inner = [fcntl(end, F_DUPFD, 10) for end in (ends, begins)]
        flags = [*FLAGS, "--remote-debugging-pipe", f"--user-data-dir={home}"]
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{inner[0]} 4>&{inner[1]}', "bash", program, *flags],
            pass_fds=inner,
            stderr=subprocess.DEVNULL,
        )
        for end in (ends, begins, *inner):
            os.close(end)
        self.said: list[str] = []
        self._count = 0
        self._session: str | None = None
        self._buffer = b""
        target = self._send("Target.createTarget", url="about:blank")["targetId"]
        attached = self._send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._send(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)

    def open(self, page: Path, width: int = 1400, scheme: str = "light", place: str = "") -> None:
        """Opens a page's file at the fragment `place`, in a window of some width; a narrow one is a phone's."""
        self._send(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=850, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._send("Emulation.setEmulatedMedia", features=features)
        self._send("Page.navigate", url="about:blank")  # a new fragment alone loads nothing
        self.said.clear()
        self._send("Page.navigate", url=page.resolve().as_uri() + place)
        self.evaluate(
            "new Promise(done => document.readyState === 'complete' ? done() : window.onload = () => done())"
        )

    def evaluate(self, expression: str) -> Any:
        """Returns the value of an expression in the page; waits for promises."""
        answer = self._send(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def click(self, selector: str) -> None:
        """Clicks on the element that the selector finds; there must be one."""
        self.evaluate(
            f"document.querySelector({json.dumps(selector)})"
            ".dispatchEvent(new MouseEvent('click', {bubbles: true}))"
        )

    def press(self, key: str) -> None:
        """Presses a key in the element that has the focus."""
        self._send("Input.dispatchKeyEvent", type="keyDown", key=key)
        self._send("Input.dispatchKeyEvent", type="keyUp", key=key)

    def texts(self, selector: str) -> list[str]:
        """Returns the texts of all elements that the selector finds."""
        found: list[str] = self.evaluate(
            f"[...document.querySelectorAll({json.dumps(selector)})].map(one => one.textContent)"
        )
        return found

    def _send(self, method: str, **parameters: object) -> dict[str, Any]:
        """Sends a command and returns the answer."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("method") in _SAID:
                self.said.append(json.dumps(answer["params"]))
            if answer.get("id") == self._count:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            read = os.read(self._from, 1 << 16)
            assert read, "Chromium ended"
            self._buffer += read
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message
