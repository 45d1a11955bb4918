"""What all sections of the configuration share: how they are checked, and addresses."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict

_ADDRESS = re.compile(r"(?:\[[0-9a-fA-F:]+\]|[A-Za-z0-9_.-]+):([0-9]{1,5})")


def _address(value: str) -> str:
    match = _ADDRESS.fullmatch(value)
    if match is None:
        raise ValueError("must be host:port, such as 127.0.0.1:4317")
    if int(match[1]) > 65535:
        raise ValueError(f"there is no port {match[1]}; the highest is 65535")
    return value


Address = Annotated[str, AfterValidator(_address)]
"""host:port; a port of 0 lets the system choose one."""
MIB = 1024 * 1024


class Section(BaseModel):
    """Keys with defaults; an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
