"""A browser for tests: Chromium without a window, led by its own protocol through two pipes.

`opened` visits a page and gives a `Tab`: clicks are those of a mouse at a place on the screen and keys those of a
keyboard, so that what lies beneath something else cannot be pressed. It keeps what the console said and what was asked
of the network.
"""

import json
import os
import shutil
import subprocess
import time
from contextlib import contextmanager

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome", "Google Chrome")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)
_PATIENCE = 60.0

# Where CI=true the tests run without one, and fail.
needs_browser = pytest.mark.skipif(
    BROWSER is None and os.environ.get("CI") != "true", reason="no Chromium is installed"
)


def command(folder, *more):
    """What starts a browser that asks nobody for anything on its own account, with a profile in `folder`."""
    assert BROWSER, f"CI=true, but none of {', '.join(BROWSERS)} is on the PATH"
    return [
        BROWSER,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        # Whatever is asked for, nothing leaves this machine.
        "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--user-data-dir={folder / 'profile'}",
        *more,
    ]


class Tab:
    """A page in the browser.

    Attributes
    ----------
    console : list of str
        Whatever was written to the console, and exceptions that nobody caught.
    requests : list of str
        Every address that was asked for.
    """

    def __init__(self, write, read):
        self._write, self._read, self._rest = write, read, b""
        self._number, self._session = 0, None
        self.console, self.requests = [], []
        target = self.tell("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.tell("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.tell(f"{domain}.enable")

    def tell(self, method, **params):
        """Send a command and wait for its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def _next(self):
        while b"\0" not in self._rest:
            part = os.read(self._read, 1 << 20)
            assert part, "the browser has gone"
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\0")
        message = json.loads(line)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, method, about):
        if method == "Runtime.consoleAPICalled":
            self.console.append(json.dumps(about["args"]))
        elif method == "Runtime.exceptionThrown":
            self.console.append(json.dumps(about["exceptionDetails"]))
        elif method == "Log.entryAdded":
            self.console.append(about["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])

    def visit(self, address):
        """Open an address and wait until it is there."""
        self.tell("Page.navigate", url="about:blank")
        self.tell("Page.navigate", url=address)
        self.wait(f"document.readyState === 'complete' && location.href !== 'about:blank' && {json.dumps(address)}")

    def value(self, expression):
        """What an expression of JavaScript is, as JSON."""
        result = self.tell("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait(self, expression):
        """Until an expression is true."""
        end = time.monotonic() + _PATIENCE
        while not self.value(f"Boolean({expression})"):
            assert time.monotonic() < end, f"{expression} never came true"
            time.sleep(0.02)

    def click(self, selector):
        """Press the mouse in the middle of an element, which must be what lies on top there."""
        found = json.dumps(selector)
        self.value(f"document.querySelector({found}).scrollIntoView({{block: 'center', behavior: 'instant'}})")
        place = self.value(
            f"(() => {{ const e = document.querySelector({found}); const r = e.getBoundingClientRect();"
            " const [x, y] = [r.x + r.width / 2, r.y + r.height / 2]; const top = document.elementFromPoint(x, y);"
            " return {x, y, on: e === top || e.contains(top)}; })()"
        )
        assert place["on"], f"{selector} is covered"
        for kind in ("mousePressed", "mouseReleased"):
            self.tell("Input.dispatchMouseEvent", type=kind, x=place["x"], y=place["y"], button="left", clickCount=1)

    def key(self, key, text=""):
        """Press a key."""
        code = {"Tab": 9, "Enter": 13}.get(key, 0)
        typed = text or ("\r" if key == "Enter" else "")
        self.tell("Input.dispatchKeyEvent", type="keyDown", key=key, text=typed, windowsVirtualKeyCode=code)
        self.tell("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def type(self, text):
        for letter in text:
            self.key(letter, letter)

    def choose(self, selector, value):
        """Take an entry of a list, as a hand would: the list is given the value and told of it."""
        self.value(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.value = {json.dumps(value)};"
            " e.dispatchEvent(new Event('change', {bubbles: true})); })()"
        )

    def resize(self, width, height=900):
        self.tell(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def prefer(self, scheme, media="screen"):
        """Light or dark, as the system would ask for it, on a screen or in print."""
        self.tell(
            "Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": scheme}]
        )

    def outside(self):
        """What was asked for that is no file of this machine."""
        return [address for address in self.requests if not address.startswith(("file:", "data:", "about:"))]


@contextmanager
def opened(folder, address):
    """A tab with an address; the browser ends with the block."""
    out_read, out_write = os.pipe()
    in_read, in_write = os.pipe()

    def as_three_and_four():
        # The protocol's pipes have these numbers; copies above them first, lest one takes the other's place.
        copies = [os.dup2(number, 64 + n) for n, number in enumerate((out_read, in_write))]
        for number, copy in zip((3, 4), copies, strict=True):
            os.dup2(copy, number)

    process = subprocess.Popen(
        command(folder, "--remote-debugging-pipe"),
        close_fds=False,
        preexec_fn=as_three_and_four,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(out_read)
    os.close(in_write)
    try:
        tab = Tab(out_write, in_read)
        tab.resize(1200)
        tab.visit(address)
        yield tab
    finally:
        os.close(out_write)
        process.terminate()
        process.wait(30)
        os.close(in_read)
