"""Content encodings of request bodies, undone under a bound."""

from __future__ import annotations

import zlib

from collector.errors import GroundwatchError, MalformedPayload

MAX_MEMBERS = 64
"""Streams in a row in one body. Senders write one; each costs a copy of all that follows it."""


class BodyTooLarge(GroundwatchError):
    """A body is larger than `limit` bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"the body is larger than {limit} bytes decompressed; send smaller batches, or raise "
            "receive.max_body_bytes"
        )


class UnknownEncoding(GroundwatchError):
    """A body came in an encoding that is not understood."""


def decompress(body: bytes, encoding: str, limit: int) -> bytes:
    """Undo a Content-Encoding. Never holds more than `limit` bytes, whatever the body claims.

    Args:
        body: the bytes as sent.
        encoding: the Content-Encoding header, "" for none.
        limit: largest allowed size of the result in bytes.

    Raises:
        BodyTooLarge: the result is larger.
        UnknownEncoding: not gzip, deflate or identity.
        MalformedPayload: the bytes are not of that encoding, or cut off.
    """
    name = encoding.strip().lower()
    if name in ("", "identity"):
        if len(body) > limit:
            raise BodyTooLarge(limit)
        return body
    if name not in ("gzip", "x-gzip", "deflate"):
        raise UnknownEncoding(
            "Content-Encoding: only gzip, deflate and identity are understood; set the exporter's "
            "compression to gzip or none"
        )
    if not body:
        return b""  # an empty message that a client "compressed" to nothing
    try:
        if name == "deflate":
            return _inflate(body, _zlib_or_raw(body), limit)
        return _inflate(body, zlib.MAX_WBITS | 16, limit)
    except zlib.error as err:
        raise MalformedPayload(
            f"the body is not {name}, though Content-Encoding says so; compress it or leave the "
            "header out"
        ) from err


def _zlib_or_raw(body: bytes) -> int:
    """Tell RFC 1950 from the bare RFC 1951 stream that some clients send as deflate."""
    has_header = len(body) > 1 and body[0] & 0x0F == 8 and (body[0] << 8 | body[1]) % 31 == 0
    return zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS


def _inflate(body: bytes, wbits: int, limit: int) -> bytes:
    """Inflate all members of a stream."""
    parts: list[bytes] = []
    size = 0
    while body:
        if len(parts) == MAX_MEMBERS:
            raise zlib.error("too many members")
        stream = zlib.decompressobj(wbits)
        part = stream.decompress(body, limit + 1 - size)
        size += len(part)
        if size > limit:
            raise BodyTooLarge(limit)
        if not stream.eof:
            raise zlib.error("cut off")
        parts.append(part)
        body = stream.unused_data
    return b"".join(parts)
