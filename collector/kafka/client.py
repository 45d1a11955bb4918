"""How we speak to Kafka brokers: settings measured and tried, topics, errors in plain words."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.errors import (
    AuthorizationError,
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    IllegalStateError,
    InvalidReplicationFactorError,
    InvalidSessionTimeoutError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    PolicyViolationError,
    SaslAuthenticationFailedError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    UnsupportedSaslMechanismError,
)
from kafka.structs import TopicPartition
from pydantic import SecretStr

from collector.config import KafkaSecurityConfig
from collector.errors import DependencyError, PermanentDependencyError, TransientDependencyError

FETCH_BYTES = 32 * 1024 * 1024
ENVELOPE_BYTES = 64 * 1024
"""Room in a message for what is not its body: key, headers, framing."""

_COMPRESSES = 4
"""How much smaller text gets, at the least: our own records may be larger than any body."""

_BATCH_BYTES = 1024 * 1024
_CONNECT_MS = 5_000
_REQUEST_MS = 5_000
_DELIVERY_MS = 10_000
_METADATA_MS = 30_000

_SILENT = (KafkaTimeoutError, KafkaConnectionError)
_LOGIN_REFUSED = (SaslAuthenticationFailedError, UnsupportedSaslMechanismError)
_NOT_ALLOWED = (
    AuthorizationError,
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
)

# The client logs an error for every lost connection; what matters comes to us as an exception.
logging.getLogger("kafka").setLevel(logging.CRITICAL)


class Brokers:
    """Where the brokers are and how to log in; makes clients. Every method blocks.

    Args:
        addresses: host:port of some brokers.
        security: TLS and login.
        password: of the login.
    """

    def __init__(
        self, addresses: Sequence[str], security: KafkaSecurityConfig, password: SecretStr | None
    ) -> None:
        self.addresses = ", ".join(addresses)
        protocol = "SASL_" if security.sasl_mechanism else ""
        self._common: dict[str, Any] = {
            "bootstrap_servers": list(addresses),
            "client_id": "groundwatch",
            "security_protocol": protocol + ("SSL" if security.encrypts else "PLAINTEXT"),
            "ssl_cafile": None if security.tls_ca is None else str(security.tls_ca),
            "sasl_mechanism": security.sasl_mechanism,
            "sasl_plain_username": security.sasl_user,
            "sasl_plain_password": password and password.get_secret_value(),
            "bootstrap_timeout_ms": _CONNECT_MS,
            "request_timeout_ms": _REQUEST_MS,
            "reconnect_backoff_max_ms": 2_000,
        }

    def producer(self, max_body_bytes: int) -> Any:
        """Connect a producer whose appends are durable on all in-sync replicas.

        Raises:
            DependencyError: see `explain`.
        """
        try:
            return KafkaProducer(
                **self._common,
                metrics_enabled=False,
                acks="all",
                enable_idempotence=True,
                compression_type="zstd",
                batch_size=_BATCH_BYTES,
                linger_ms=5,
                # Before compression; after it the topic's own bound counts.
                max_request_size=_COMPRESSES * max_body_bytes + ENVELOPE_BYTES,
                max_block_ms=_REQUEST_MS,
                delivery_timeout_ms=_DELIVERY_MS,
            )
        except KafkaError as err:
            raise self.explain(err) from err

    def consumer(
        self,
        topic: str,
        group: str,
        session_seconds: float,
        rebalance_seconds: float,
        listener: Any,
    ) -> Any:
        """Connect a member of a consumer group; it joins when it is first polled.

        Partitions that stay with a member are not interrupted when others move.

        Raises:
            DependencyError: see `explain`.
        """
        try:
            consumer = KafkaConsumer(
                **self._common,
                metrics_enabled=False,
                group_id=group,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                partition_assignment_strategy=(CooperativeStickyAssignor,),
                session_timeout_ms=round(session_seconds * 1000),
                heartbeat_interval_ms=round(session_seconds * 1000 / 6),
                max_poll_interval_ms=round(rebalance_seconds * 1000) + 30_000,
                fetch_max_bytes=FETCH_BYTES,
                max_partition_fetch_bytes=FETCH_BYTES // 8,
                receive_message_max_bytes=4 * FETCH_BYTES,
                allow_auto_create_topics=False,
                metadata_max_age_ms=_METADATA_MS,
            )
            consumer.subscribe([topic], listener=listener)
            # A member that joins before it knows the partitions shares out none of them, and it
            # takes minutes until that is put right.
            consumer.partitions_for_topic(topic)
        except KafkaError as err:
            raise self.explain(err) from err
        return consumer

    def all_in(self, topic: str) -> Iterator[Any]:
        """Yield the messages that a topic holds now, oldest first; none where it is missing.

        Raises:
            DependencyError: see `explain`.
        """
        try:
            consumer = KafkaConsumer(
                **self._common,
                metrics_enabled=False,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                fetch_max_bytes=FETCH_BYTES,
                receive_message_max_bytes=4 * FETCH_BYTES,
                allow_auto_create_topics=False,
            )
        except KafkaError as err:
            raise self.explain(err) from err
        try:
            numbers = consumer.partitions_for_topic(topic) or ()
            ends = consumer.end_offsets([TopicPartition(topic, number) for number in numbers])
            consumer.assign(list(ends))
            while any(consumer.position(one) < end for one, end in ends.items()):
                polled = consumer.poll(_REQUEST_MS)
                if not polled:
                    raise TransientDependencyError(f"kafka at {self.addresses}: no answer in time")
                for messages in polled.values():
                    yield from messages
        except KafkaError as err:
            raise self.explain(err) from err
        finally:
            consumer.close()

    def topics(self) -> set[str]:
        """Return the names of the topics there are.

        Raises:
            DependencyError: see `explain`.
        """
        admin = self._admin()
        try:
            return set(admin.list_topics())
        except KafkaError as err:
            raise self.explain(err) from err
        finally:
            admin.close()

    def make_topics(
        self,
        names: Iterable[str],
        *,
        partitions: int,
        replication: int | None,
        settings: Mapping[str, str],
    ) -> None:
        """Make those of the topics that are missing; those that exist stay as they are.

        Raises:
            DependencyError: see `explain`.
        """
        admin = self._admin()
        try:
            missing = sorted(set(names) - set(admin.list_topics()))
            options = {
                "num_partitions": partitions,
                "replication_factor": replication or -1,
                "configs": dict(settings),
            }
            for name in missing:
                try:
                    admin.create_topics({name: options}, wait_for_metadata=True)
                except TopicAlreadyExistsError:
                    continue  # another process was quicker
                except KafkaError as err:
                    raise self.explain(err, f"topic {name} cannot be made: ") from err
        except KafkaError as err:
            raise self.explain(err) from err
        finally:
            admin.close()

    def _admin(self) -> Any:
        try:
            return KafkaAdminClient(**self._common)
        except KafkaError as err:
            raise self.explain(err) from err

    def explain(self, err: BaseException, what: str = "") -> DependencyError:
        """Return an error of the client as one of ours, with the cure where waiting is none."""
        name = f"kafka at {self.addresses}: {what}"
        if isinstance(err, _LOGIN_REFUSED):
            return PermanentDependencyError(
                f"{name}the login was refused; check security.sasl_mechanism, sasl_user and the "
                "password"
            )
        if isinstance(err, _NOT_ALLOWED):
            return PermanentDependencyError(
                f"{name}the user may not do this ({type(err).__name__}); grant Read, Write, "
                "Describe and Create on the topics and Read on the groups of its prefix"
            )
        if isinstance(err, InvalidReplicationFactorError):
            return PermanentDependencyError(
                f"{name}there are fewer brokers than copies asked for; lower replication"
            )
        if isinstance(err, PolicyViolationError):
            return PermanentDependencyError(
                f"{name}a policy of the brokers forbids its settings; make it yourself"
            )
        if isinstance(err, InvalidSessionTimeoutError):
            return PermanentDependencyError(
                f"{name}session_seconds is not within group.min.session.timeout.ms and "
                "group.max.session.timeout.ms of the brokers"
            )
        if isinstance(err, _SILENT):
            # The client tries on where a login is refused, and tells a time-out in the end.
            return TransientDependencyError(
                f"{name}no answer in time; are address, TLS, user and password right?"
            )
        return TransientDependencyError(f"{name}{type(err).__name__}")


def positions_of(client: Any) -> dict[int, int]:
    """Return where a consumer reads each partition on, of those where that is known."""
    found: dict[int, int] = {}
    for place in client.assignment():
        with suppress(IllegalStateError, KeyError):  # it went in between
            if (offset := client.position(place, timeout_ms=0)) is not None:
                found[place.partition] = offset
    return found
