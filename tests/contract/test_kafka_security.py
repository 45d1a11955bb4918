"""Brokers that want TLS and a login; those who may not enter are told why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import SecretStr

from collector.config import KafkaJournalConfig
from collector.errors import PermanentDependencyError, TransientDependencyError
from collector.journal.kafka import KafkaJournal
from collector.ports import SIGNALS, Entry
from tests.kafka_broker import SecuredKafka

pytestmark = pytest.mark.apache_kafka


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with SecuredKafka(tmp_path_factory.mktemp("secured")) as broker:
        yield broker


async def opened(broker: SecuredKafka, user: str, password: str, **changes: Any) -> KafkaJournal:
    security = {
        "tls_ca": broker.certificate,
        "sasl_mechanism": "PLAIN",
        "sasl_user": user,
        "sasl_password_env": "KAFKA_PASSWORD",
    }
    settings = {
        "brokers": [broker.address],
        "partitions": 1,
        "session_seconds": changes.pop("session_seconds", broker.session_seconds),
        "security": security | changes,
    }
    config = KafkaJournalConfig.model_validate(settings)
    return await KafkaJournal.open(config, max_body_bytes=1 << 20, password=SecretStr(password))


async def test_a_login_over_tls_lets_records_through(secured: SecuredKafka) -> None:
    journal = await opened(secured, "admin", secured.passwords["admin"])
    await journal.append([Entry(SIGNALS, "signals", "s", b"hello")])
    consumer = await journal.consumer(SIGNALS, "g")
    (record,) = await consumer.poll(1, 30)
    assert record.body == b"hello"
    await journal.close()


async def test_a_wrong_password_is_among_what_may_be_wrong_and_never_shown(
    secured: SecuredKafka,
) -> None:
    with pytest.raises(TransientDependencyError, match="password") as refused:
        await opened(secured, "admin", "wrong-secret")
    assert "secret" not in str(refused.value)


async def test_a_user_without_rights_is_told_which_to_grant(secured: SecuredKafka) -> None:
    with pytest.raises(PermanentDependencyError, match="grant"):
        await opened(secured, "guest", secured.passwords["guest"])


async def test_a_session_that_the_brokers_do_not_allow_is_said(secured: SecuredKafka) -> None:
    journal = await opened(secured, "admin", secured.passwords["admin"], session_seconds=1)
    consumer = await journal.consumer(SIGNALS, "short")
    with pytest.raises(PermanentDependencyError, match="session_seconds"):
        await consumer.poll(1, 30)
    await journal.close()


async def test_without_tls_there_is_no_answer(secured: SecuredKafka) -> None:
    with pytest.raises(TransientDependencyError, match="TLS"):
        await opened(secured, "admin", secured.passwords["admin"], tls_ca=None)
