"""A headless Chromium, driven through chromedriver's own HTTP interface (W3C WebDriver)."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
)  # fmt: skip


def missing() -> str | None:
    """What is needed and not there."""
    absent = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"{' and '.join(absent)} not found: apt-get install chromium chromium-driver" if absent else None


class Browser:
    """One session: open, ask the page by JavaScript, read its console, take pictures."""

    def __init__(self, address: str, profile: Path) -> None:
        options = {"binary": shutil.which("chromium"), "args": [*FLAGS, f"--user-data-dir={profile}"]}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        self._address = address
        answer = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"/session/{answer['sessionId']}"

    def open(self, file: Path) -> None:
        self._ask("POST", f"{self._session}/url", {"url": file.resolve().as_uri()})

    def script(self, code: str, *arguments: object) -> object:
        return self._ask("POST", f"{self._session}/execute/sync", {"script": code, "args": list(arguments)})

    def click(self, selector: str) -> None:
        body = {"using": "css selector", "value": selector}
        (found,) = self._ask("POST", f"{self._session}/element", body).values()
        self._ask("POST", f"{self._session}/element/{found}/click", {})

    def console(self) -> list[str]:
        return [entry["message"] for entry in self._ask("POST", f"{self._session}/se/log", {"type": "browser"})]

    def devtools(self, command: str, **parameters: object) -> dict:
        body = {"cmd": command, "params": parameters}
        return self._ask("POST", f"{self._session}/goog/cdp/execute", body)

    def screen(self, width: int, dark: bool = False) -> None:
        """The width of a window, or of a phone, and its colours."""
        self.devtools(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.devtools("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self, file: Path, whole: bool = True) -> None:
        found = self.devtools("Page.captureScreenshot", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(found["data"]))

    def close(self) -> None:
        self._ask("DELETE", self._session)

    def _ask(self, method: str, path: str, body: dict | None = None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self._address + path, data, {"Content-Type": "application/json"}, method=method
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]


@contextmanager
def browser(folder: Path):
    """A fresh browser with a profile of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    driver = subprocess.Popen(
        [str(shutil.which("chromedriver")), f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    address = f"http://127.0.0.1:{port}"
    try:
        _wait(f"{address}/status")
        opened = Browser(address, folder / "profile")
        try:
            yield opened
        finally:
            opened.close()
    finally:
        driver.terminate()
        driver.wait(timeout=20)


def _wait(address: str, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while True:
        try:
            urllib.request.urlopen(address, timeout=5).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
