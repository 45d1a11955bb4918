"""The part of the configuration that concerns the store."""

from __future__ import annotations

import re
from typing import Annotated, Literal
from urllib.parse import quote, urlsplit

from pydantic import AfterValidator, Field, SecretStr, field_serializer, model_validator

from collector.config.section import Section


def _store_url(value: str) -> str:
    """Check the form of a store's URL; the message leaves the URL out, it may hold a password."""
    scheme, _, rest = value.partition(":")
    if scheme == "chdb":
        if not re.fullmatch(r"///[^/?][^?]*", rest):
            raise ValueError(
                "chdb needs an absolute folder, with three slashes and without a question mark, "
                "such as chdb:///var/lib/groundwatch"
            )
        return value
    if scheme not in ("http", "https"):
        raise ValueError("must start with chdb:///, http:// or https://")
    try:
        parts = urlsplit(value)
        usable = parts.hostname and parts.port != 0 and not (parts.query or parts.fragment)
    except ValueError:
        usable = False
    if not usable:
        raise ValueError(
            f"must be {scheme}://user:password@host:port/database; write / ? # @ : in a password "
            "as %2F %3F %23 %40 %3A"
        )
    return value


class StoreConfig(Section):
    """Where requests, signals and judgements are kept."""

    url: Annotated[str, AfterValidator(_store_url)] | None = Field(
        None,
        description="chdb:///abs/dir or http(s)://host:port/db; default: data_dir/clickhouse",
        repr=False,
    )
    password_env: str | None = Field(
        None, description="environment variable with the password of the user in url"
    )
    cluster: str | None = Field(
        None,
        min_length=1,
        description="ClickHouse cluster of one shard whose servers all hold the tables, replicated",
    )
    content: Literal["full", "redacted", "none"] = Field(
        "full", description="keep texts as sent, with personal data masked, or not at all"
    )
    late_spans_hours: int = Field(
        48, ge=1, description="how long raw spans are kept so that late ones can be merged"
    )
    retention_weeks: int = Field(13, ge=1, description="whole weeks kept before they are dropped")
    flush_rows: int = Field(500, ge=1, le=10_000, description="requests written in one batch")

    @model_validator(mode="after")
    def _password_has_a_user(self) -> StoreConfig:
        if self.password_env is not None:
            parts = urlsplit(self.url or "")
            if not parts.username or parts.password is not None:
                raise ValueError(
                    "password_env: needs a url with a user and no password, such as "
                    "https://user@host:port/database"
                )
        return self

    @model_validator(mode="after")
    def _cluster_has_a_server(self) -> StoreConfig:
        if self.cluster is not None and not (self.url or "").startswith("http"):
            raise ValueError(
                "cluster: needs a url of a ClickHouse server; the embedded engine has no replicas"
            )
        return self

    def opened_with(self, password: SecretStr) -> StoreConfig:
        """Return the same with the password of the user put into the URL."""
        before, _, after = (self.url or "").partition("@")
        url = f"{before}:{quote(password.get_secret_value(), safe='')}@{after}"
        return self.model_copy(update={"url": url})

    @field_serializer("url")
    def _masked(self, url: str | None) -> str | None:
        """Print the URL without its password."""
        return url and re.sub(r"//([^/@:]*):[^/]*@", r"//\1:***@", url)
