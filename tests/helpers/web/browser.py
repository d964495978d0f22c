"""A real Chromium for the tests of pages, where one is installed: it loads files, and nothing from a network."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

MISSING = "there is no chromium and chromedriver on PATH: on Debian, apt-get install chromium chromium-driver"
_OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
)  # fmt: skip


def installed() -> bool:
    """Whether a test may ask for a browser."""
    return bool(shutil.which("chromium") and shutil.which("chromedriver"))


@contextmanager
def browser(width: int = 1400, height: int = 1000) -> Iterator[Any]:
    """A driver of a new browser, whose log of errors is kept."""
    from selenium import webdriver

    with TemporaryDirectory(prefix="precast-chromium-") as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or "chromium"
        for option in (*_OPTIONS, f"--window-size={width},{height}", f"--user-data-dir={profile}"):
            options.add_argument(option)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        service = webdriver.ChromeService(executable_path=shutil.which("chromedriver") or "chromedriver")
        driver = webdriver.Chrome(options=options, service=service)
        try:
            yield driver
        finally:
            driver.quit()


def theme(driver: Any, name: str) -> None:
    """Prefer a dark or a light page, as a person's system does."""
    features = [{"name": "prefers-color-scheme", "value": name}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


@contextmanager
def screen(driver: Any, width: int, height: int = 900) -> Iterator[None]:
    """A screen of a size, also one that is narrower than a window can be."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        # The page gets its new size with the next frame.
        driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
        yield
    finally:
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def errors(driver: Any, path: Path) -> list[str]:
    """What the browser complained of in a page."""
    return [entry["message"] for entry in driver.get_log("browser") if path.name in entry["message"]]
