# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven over its DevTools protocol."""

import base64
import contextlib
import itertools
import json
import re
import shutil
import subprocess
import time
from pathlib import Path

from websockets.sync.client import ClientConnection, connect

BINARY = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE = 60.0
KEYS = {"Enter": 13, "Escape": 27, "PageDown": 34, "PageUp": 33, "ArrowLeft": 37, "ArrowRight": 39}


class Target:
    """One end of the protocol: the browser itself, or a page."""

    def __init__(self, address: str) -> None:
        self._open = contextlib.ExitStack()
        self._socket: ClientConnection = self._open.enter_context(connect(address, max_size=None))
        self._numbers = itertools.count(1)

    def close(self) -> None:
        self._open.close()

    def call(self, method: str, **params: object) -> dict:
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv(timeout=PATIENCE))
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]
            self._notice(message)

    def _notice(self, event: dict) -> None:
        """Takes what comes without having been asked for."""


class Page(Target):
    """A page, and all that it complained of or asked the network for since it was opened."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def _notice(self, event: dict) -> None:
        params = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                self.complaints.append(details.get("exception", details).get("description", details))
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                self.complaints.append(str(params["args"]))
            case "Log.entryAdded" if params["entry"]["level"] == "error":
                self.complaints.append(params["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])

    def run(self, script: str) -> object:
        """The value of an expression in the page."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True,
                           awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait_for(self, script: str) -> None:
        end = time.monotonic() + PATIENCE
        while not self.run(script):
            assert time.monotonic() < end, f"never came: {script}; {self.complaints}"
            time.sleep(0.02)

    def open(self, file: Path, address: str = "") -> float:
        """Seconds until the page is ready."""
        begin = time.monotonic()
        self.call("Page.navigate", url=file.as_uri() + address)
        self.wait_for("document.documentElement?.dataset.ready === 'true'")
        return time.monotonic() - begin

    def place_of(self, selector: str) -> tuple[float, float]:
        """The middle of an element, scrolled into view."""
        box = self.run(
            f"(() => {{ const one = document.querySelector({json.dumps(selector)});"
            "one.scrollIntoView({block: 'center'}); const box = one.getBoundingClientRect();"
            "return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        assert isinstance(box, list)
        return box[0], box[1]

    def hover(self, selector: str) -> None:
        x, y = self.place_of(selector)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, selector: str) -> None:
        self.hover(selector)
        self.click_at(*self.place_of(selector))

    def click_at(self, x: float, y: float) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key: str) -> None:
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        code = KEYS.get(key, ord(key[0].upper()))
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def screenshot(self, path: Path, width: int, height: int, dark: bool = False) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        time.sleep(0.5)
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))


class Browser:
    def __init__(self, profile: Path) -> None:
        assert BINARY is not None
        self._process = subprocess.Popen(
            [BINARY, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--window-size=1400,1000", "--remote-debugging-port=0",
             f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if found := re.search(r"listening on (ws://[^/]+)(/\S+)", line):
                self._host = found[1]
                self._control = Target(found[1] + found[2])
                return
        raise RuntimeError("Chromium ended before it could be spoken to")

    def page(self) -> Page:
        target = self._control.call("Target.createTarget", url="about:blank")["targetId"]
        return Page(f"{self._host}/devtools/page/{target}")

    def close(self) -> None:
        self._control.close()
        self._process.terminate()
        self._process.communicate(timeout=PATIENCE)
