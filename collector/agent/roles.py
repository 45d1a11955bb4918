"""The roles of an agent. One process has all of them, or several share them out."""

from __future__ import annotations

from typing import Literal, get_args

from collector.config import Config
from collector.errors import ConfigError, UsageError

Role = Literal["receiver", "processor", "judge", "reporter", "review"]
Roles = frozenset[Role]

ROLES: tuple[Role, ...] = get_args(Role)
ALL: Roles = frozenset(ROLES)


def roles_of(words: str) -> Roles:
    """Return the roles named in `words`, separated by commas.

    Raises:
        UsageError: a name that is no role, or none at all.
    """
    named = {word.strip() for word in words.split(",")} - {""}
    if not named or named - ALL:
        wrong = ", ".join(sorted(named - ALL)) or "nothing"
        raise UsageError([f"--roles: {wrong} is no role; choose of {', '.join(ROLES)}"])
    return frozenset(role for role in ALL if role in named)


def check_roles(roles: Roles, config: Config) -> None:
    """See to it that processes with other roles can meet this one.

    Raises:
        ConfigError: journal or store belong to one process, which then has to have all roles.
    """
    if roles == ALL:
        return
    problems = []
    if config.journal.kafka is None:
        problems.append(
            "journal.kafka: needed where --roles leaves roles to other processes, since a journal "
            "in a file belongs to one; name brokers, or leave --roles out"
        )
    if config.store_url.startswith("chdb:"):
        problems.append(
            "store.url: needed where --roles leaves roles to other processes, since the embedded "
            "store belongs to one; name a ClickHouse server, or leave --roles out"
        )
    if problems:
        raise ConfigError(problems)
