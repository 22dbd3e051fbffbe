"""Options: texts of the environment, or those that came along with work from another process."""

from __future__ import annotations

import threading

import pytest

from pypto import config
from pypto.errors import ConfigError


def test_options_that_were_sent_along(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTO_CACHE", "off")
    monkeypatch.setenv("CFLAGS", "-O1")
    mine = config.settings()
    assert (mine["PYPTO_CACHE"], mine["CFLAGS"]) == ("off", "-O1")
    assert "PYPTO_EMIT_PTO_LOC" not in mine
    seen: list[str] = []
    with config.under({"PYPTO_CACHE": "readonly", "PYPTO_VERIFY_LEVEL": "NONE"}):
        assert (config.CACHE.get(), config.VERIFY_LEVEL.get(), config.CFLAGS.text()) == ("readonly", "none", None)
        assert config.settings() == {"PYPTO_CACHE": "readonly", "PYPTO_VERIFY_LEVEL": "NONE"}
        with config.under(mine):
            assert config.CACHE.get() == "off"
        other = threading.Thread(target=lambda: seen.append(config.CACHE.get()))
        other.start()
        other.join()
    assert seen == [config.CACHE.get()] == ["off"]
    with config.under({"PYPTO_CACHE": "maybe"}), pytest.raises(ConfigError, match="PYPTO_CACHE='maybe'"):
        config.CACHE.get()


@pytest.mark.parametrize(
    ("name", "text"), [("PYPTO_NUM_THREADS", "abc"), ("PYPTO_NUM_THREADS", "-3"), ("PYPTO_EMIT_PTO_LOC", "maybe")]
)
def test_an_option_that_nothing_needs_is_an_error_all_the_same(name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the first call of a kernel, though that uses neither threads nor texts."""
    from pypto.runtime.store import default_store

    default_store()
    monkeypatch.setenv(name, text)
    with pytest.raises(ConfigError, match=f"{name}='{text}'"):
        default_store()
