"""Makes the wheel one of a platform, for any Python 3.

In: the folder that make_wheel.py has laid out. Out: the tag; an error when the programs are not there.
"""

from __future__ import annotations

import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PlatformHook(BuildHookInterface):  # type: ignore[misc]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if not (Path(self.root) / "src/jacserve_server/bin").is_dir():
            raise FileNotFoundError("the programs are not here; `make server-wheel` builds them and then this wheel")
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")
